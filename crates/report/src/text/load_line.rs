//! A search for the load line: each step as it ends, and at the end where the line lies, what gives first, whether it is valid.

use crate::figures::{Permille, quantile};
use crate::text::page::Page;
use crate::text::{Paint, Style};
use model::finding::{Diagnosis, Finding};
use model::units::{show_count, show_duration_ns, show_figure};
use model::{LatencyKind, Recording};
use std::io::{self, Write};
use std::path::Path;

/// Characters before what a line says.
const INDENT: usize = 12;

/// One step of the search.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The rate asked for, requests a second.
    pub rate_per_s: f64,
    /// Its run.
    pub recording: &'a Recording,
    /// What was made of it.
    pub diagnosis: &'a Diagnosis,
    /// Where it is recorded.
    pub recorded_at: Option<&'a Path>,
}

/// What a search found.
#[derive(Debug, Clone, Copy)]
pub struct LoadLine<'a> {
    /// The highest rate that met the objective, requests a second.
    pub met_per_s: Option<f64>,
    /// The lowest above it that did not.
    pub missed_per_s: Option<f64>,
    /// The objective, in words.
    pub objective: &'a str,
    /// Steps run.
    pub steps: u32,
    /// The highest step that met the objective.
    pub met: Option<Step<'a>>,
    /// The lowest step that missed it: the one that shows what gives first.
    pub missed: Option<Step<'a>>,
    /// A step that could not be measured: the search ended there.
    pub disturbed: Option<Step<'a>>,
    /// Who was last seen to disturb a step.
    pub seen_busy: Option<&'a str>,
}

/// A step that has ended, as a line.
pub fn step(rate_per_s: f64, recording: &Recording, is_met: bool) -> String {
    let p99 = quantile(&recording.totals.sum.latency, LatencyKind::Response, Permille(990));
    let verdict = if is_met { "holds" } else { "gives" };
    let shown = p99.map_or("–".to_owned(), |p99| show_duration_ns(p99.ns as f64));
    format!("  {:>7}/s  p99 {shown:>9}  {verdict}", show_figure(rate_per_s.round()))
}

/// A step that was disturbed, as a line.
pub fn disturbed(rate_per_s: f64, why: &str) -> String {
    format!("  {:>7}/s  disturbed, once more: {why}", show_figure(rate_per_s.round()))
}

/// What speaks against a step, in a sentence.
pub fn first_reason(diagnosis: &Diagnosis) -> String {
    diagnosis.validity.reasons.first().map_or_else(|| "it was disturbed".to_owned(), |reason| reason.text.clone())
}

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, found: &LoadLine<'_>, style: Style) -> io::Result<()> {
    let page = &mut Page::new(to, style);
    row(page, Paint::Heading, "Load line", &line(found))?;
    row(page, Paint::Plain, "Objective", &format!("{}, open loop, {} steps", found.objective, found.steps))?;
    // What gives first shows where it gave.
    let shows = found.missed.as_ref().or(found.met.as_ref());
    match shows.and_then(|step| step.diagnosis.first_to_give()) {
        Some(finding) => write_finding(page, finding)?,
        None => row(page, Paint::Plain, "Gives first", "not known: no rule found its evidence in this run")?,
    }
    let verdicts: Vec<&Step<'_>> = found.met.iter().chain(&found.missed).collect();
    if let Some(busy) = verdicts.iter().find_map(|step| diagnose::busy(step.recording)) {
        row(page, Paint::Plain, "Busy", &format!("{busy}: the line is that of what is left of it"))?;
    }
    let verdict = match &found.disturbed {
        None => format!("valid: the generator kept up, {}", lag(&verdicts)),
        Some(step) => {
            let busy = diagnose::busy(step.recording).or_else(|| found.seen_busy.map(str::to_owned));
            let why = busy.unwrap_or_else(|| first_reason(step.diagnosis));
            let state = step.diagnosis.validity.state.name();
            format!("{state}: {why}; {}/s could not be measured", show_figure(step.rate_per_s.round()))
        }
    };
    row(page, Paint::Plain, "Verdict", &verdict)?;
    for (what, step) in [("at the line", &found.met), ("beyond it", &found.missed)] {
        if let Some(path) = step.as_ref().and_then(|step| step.recorded_at) {
            row(page, Paint::Plain, "Report", &format!("{what}: plimsoll report {}", path.display()))?;
        }
    }
    Ok(())
}

fn line(found: &LoadLine<'_>) -> String {
    match (found.met_per_s, found.missed_per_s) {
        (Some(met), Some(missed)) => {
            format!(
                "{} requests/s ({} holds, {} does not)",
                show_figure(met.round()),
                show_count(met),
                show_count(missed)
            )
        }
        (Some(met), None) => format!("at least {} requests/s: no step went beyond it", show_figure(met.round())),
        (None, Some(missed)) if found.disturbed.is_some() => {
            format!("below {} requests/s", show_figure(missed.round()))
        }
        (None, None) if found.disturbed.is_some() => "not found".to_owned(),
        (None, _) => "none: not even the lowest rate tried met the objective".to_owned(),
    }
}

fn write_finding<W: Write>(page: &mut Page<'_, W>, finding: &Finding) -> io::Result<()> {
    row(page, Paint::Heading, "Gives first", &format!("{} ({})", finding.title, finding.id))?;
    for evidence in &finding.because {
        row(page, Paint::Plain, "", &format!("- {}", evidence.text))?;
    }
    row(page, Paint::Plain, "  remedy", &finding.remedy)?;
    row(page, Paint::Plain, "  check", &finding.check_yourself)
}

fn row<W: Write>(page: &mut Page<'_, W>, paint: Paint, label: &str, text: &str) -> io::Result<()> {
    let gap = " ".repeat(INDENT.saturating_sub(label.chars().count()));
    page.row(&[(paint, label.to_owned()), (Paint::Plain, format!("{gap}{text}"))])
}

fn lag(steps: &[&Step<'_>]) -> String {
    let of = |step: &&Step<'_>| quantile(&step.recording.totals.sum.latency, LatencyKind::Lag, Permille(990));
    let lag = steps.iter().filter_map(of).map(|p99| p99.ns).max();
    format!("lag p99 {}", lag.map_or("–".to_owned(), |ns| show_duration_ns(ns as f64)))
}
