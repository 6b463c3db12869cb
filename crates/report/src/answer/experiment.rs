//! What experiments decided, as text and as Markdown: the sentence, then each experiment's decision, its doses on request.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::capitalized;
use diagnose::experiment::{Decision, Record, Response};
use model::finding::Status;
use model::plain::plain;
use model::units::{show_duration_ns, show_figure};
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes it as text; with `all` every dose of every experiment, else of those that found something.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, record: &Record, all: bool, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    page.line(&[(Paint::Strong, record.target.clone()), (Paint::Dim, format!("  {}", how(record)))])?;
    let is_found = record.decisions.iter().any(|decision| decision.status == Status::Supported);
    let paint = if is_found { Paint::Bad } else { Paint::Plain };
    page.wrapped(0, (Paint::Plain, String::new()), paint, &capitalized(&record.sentence))?;
    for decision in &record.decisions {
        page.gap()?;
        let (paint, word) = match decision.status {
            Status::Supported => (Paint::Warn, ""),
            Status::NotObservable => (Paint::Dim, "undecided: "),
            Status::Refuted | Status::NotApplicable => (Paint::Good, ""),
        };
        let label = (Paint::Heading, decision.experiment.name().to_owned());
        page.wrapped(INDENT, label, paint, &format!("{word}{}{}", decision.text, causes(decision)))?;
        if all || decision.status == Status::Supported {
            for response in &decision.responses {
                page.wrapped(INDENT, (Paint::Dim, "  dose".to_owned()), Paint::Plain, &shown(response))?;
            }
        }
        if !decision.remedy.is_empty() {
            page.wrapped(INDENT, (Paint::Dim, "  remedy".to_owned()), Paint::Plain, &decision.remedy)?;
        }
        if !decision.check_yourself.is_empty() {
            page.row(&[
                (Paint::Dim, format!("{:INDENT$}", "  check")),
                (Paint::Plain, decision.check_yourself.clone()),
            ])?;
        }
    }
    Ok(())
}

/// Writes it as Markdown.
///
/// # Errors
/// Those of the writer.
pub fn write_markdown(to: &mut impl Write, record: &Record) -> io::Result<()> {
    writeln!(
        to,
        "## {}\n\n`{}`, {}\n",
        super::escaped(&capitalized(&record.sentence)),
        plain(&record.target),
        how(record)
    )?;
    writeln!(to, "| experiment | decided | doses |\n|---|---|---|")?;
    for decision in &record.decisions {
        let doses: Vec<String> = decision.responses.iter().map(shown).collect();
        let text = format!("{}{}", decision.text, causes(decision));
        let status = if decision.status == Status::NotObservable { "undecided: " } else { "" };
        writeln!(
            to,
            "| {} | {status}{} | {} |",
            decision.experiment.name(),
            super::escaped(&text),
            super::escaped(&doses.join("; "))
        )?;
    }
    Ok(())
}

/// How much was tried.
fn how(record: &Record) -> String {
    let end = super::ended(record.end);
    format!("{} steps in {} rounds, {:.0} s{end}", record.steps.len(), record.rounds, record.took_s)
}

fn causes(decision: &Decision) -> String {
    match (&decision.finding, decision.points_to.as_slice()) {
        (Some(id), _) => format!(" [{id}]"),
        (None, []) => String::new(),
        (None, ids) => format!(" [{}]", ids.join(" or ")),
    }
}

/// A dose and what came of it, with its interval.
fn shown(response: &Response) -> String {
    let figure = |value: f64| match &*response.unit {
        "us" => show_duration_ns(value.max(0.0) * 1e3),
        "1/s" => format!("{}/s", show_figure(value.max(0.0))),
        "ratio" => format!("{:.0} %", 100.0 * value.clamp(0.0, 1.0)),
        unit => format!("{} {unit}", show_figure(value)),
    };
    let what = match &*response.metric {
        "lost_share" => " lost",
        "connect_max_us" => " to connect at the longest",
        "response_p50_us" => " at the median",
        "response_mean_us" => " on average",
        _ => "",
    };
    match response.value {
        None => format!("{}: nothing was answered", response.label),
        Some(estimate) => {
            let interval = match (estimate.low, estimate.high) {
                (Some(low), Some(high)) => format!(" ({} to {})", figure(low), figure(high)),
                _ => " (one round)".to_owned(),
            };
            format!("{}: {}{what}{interval}", response.label, figure(estimate.value))
        }
    }
}
