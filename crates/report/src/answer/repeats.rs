//! A run that was repeated, as text: each figure's middle and interval over the runs, which expectations held in how many.
//!
//! The document is `diagnose::repeats::Repeats` itself.

use crate::text::page::Page;
use crate::text::{Paint, Style};
use crate::words::counted;
use diagnose::comparison::{shown_figure, words};
use diagnose::repeats::{RepeatedExpectation, RepeatedFigure, RepeatedLoad, Repeats};
use std::io::{self, Write};

const INDENT: usize = 16;

/// Writes it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, repeats: &Repeats, style: Style) -> io::Result<()> {
    let mut page = Page::new(to, style);
    let (text, paint) = verdict(repeats);
    page.wrapped(0, (Paint::Plain, String::new()), paint, &text)?;
    for load in &repeats.loads {
        page.gap()?;
        if let Some(name) = &load.name {
            page.line(&[(Paint::Heading, format!("Load '{name}'"))])?;
        }
        figures(&mut page, load)?;
        expectations(&mut page, repeats, load)?;
        let found = load.findings.iter().map(|finding| format!("{} in {}", finding.id, of_runs(finding.runs, repeats)));
        let found: Vec<String> = found.collect();
        if !found.is_empty() {
            page.wrapped(INDENT, (Paint::Dim, "  found".to_owned()), Paint::Plain, &found.join(", "))?;
        }
        let mut label = "  left out";
        for (at, run) in load.runs.iter().enumerate() {
            if let Some(why) = &run.left_out {
                let text = format!("run {}: {why}", at + 1);
                page.wrapped(INDENT, (Paint::Dim, label.to_owned()), Paint::Warn, &text)?;
                label = "";
            }
        }
        let mut label = "  recordings";
        for path in load.runs.iter().filter_map(|run| run.recording.as_ref()) {
            page.row(&[(Paint::Dim, format!("{label:INDENT$} {path}"))])?;
            label = "";
        }
    }
    Ok(())
}

/// A run that has ended, as a line.
pub fn run(number: u32, repeats: &Repeats) -> String {
    let of_load = |load: &RepeatedLoad| {
        let run = load.runs.last()?;
        let shown: Vec<String> = run
            .figures
            .0
            .iter()
            .map(|(quantity, figure)| format!("{} {}", words(*quantity), shown_figure(*quantity, *figure)))
            .collect();
        let name = load.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        Some(format!("{name}{}", shown.join(", ")))
    };
    let all: Vec<String> = repeats.loads.iter().filter_map(of_load).collect();
    format!("run {number} of {}: {}", repeats.asked, all.join("; "))
}

fn of_runs(runs: u32, repeats: &Repeats) -> String {
    format!("{runs} of {}", counted(u64::from(repeats.made), "run"))
}

fn verdict(repeats: &Repeats) -> (String, Paint) {
    let all = || repeats.loads.iter().flat_map(|load| &load.expectations);
    let failed = all().filter(|one| one.not_met > 0).count();
    let open = all().filter(|one| one.undetermined > 0).count();
    let made = counted(u64::from(repeats.made), "run");
    let made = if repeats.made == repeats.asked { made } else { format!("{} of {} asked for", made, repeats.asked) };
    let ended = super::ended(repeats.end);
    let is_stated = all().any(|one| one.is_stated);
    let (text, paint) = match (failed, open) {
        (0, 0) if is_stated => ("every expectation was met in each", Paint::Good),
        (0, 0) => ("nothing was expected", Paint::Plain),
        (0, _) => ("some expectations could not be told", Paint::Warn),
        (_, _) => ("not every expectation was met in each", Paint::Bad),
    };
    (format!("{made}{ended}: {text}"), paint)
}

fn figures<W: Write>(page: &mut Page<'_, W>, load: &RepeatedLoad) -> io::Result<()> {
    for figure in &load.figures {
        let RepeatedFigure { quantity, median, low, high, confidence, least, most, runs } = *figure;
        let shown = |value: f64| shown_figure(quantity, value);
        let spread = match (low, high, confidence) {
            (Some(low), Some(high), Some(confidence)) => {
                format!("{} to {} at {} %", shown(low), shown(high), (100.0 * confidence).round())
            }
            _ => format!("{} to {} in all, too few for an interval", shown(least), shown(most)),
        };
        let text = format!("{} ({spread}; {})", shown(median), counted(u64::from(runs), "run"));
        page.wrapped(INDENT, (Paint::Dim, format!("  {}", words(quantity))), Paint::Strong, &text)?;
    }
    Ok(())
}

fn expectations<W: Write>(page: &mut Page<'_, W>, repeats: &Repeats, load: &RepeatedLoad) -> io::Result<()> {
    let mut label = "  expected";
    for RepeatedExpectation { expected, met, not_met, undetermined, .. } in &load.expectations {
        // What goes without saying is judged only where it is not so.
        let (paint, text) = match (*not_met, *undetermined) {
            (0, 0) => (Paint::Good, format!("{expected}: met in {}", of_runs(*met, repeats))),
            (0, open) => {
                (Paint::Warn, format!("{expected}: met in {}, undetermined in {open}", of_runs(*met, repeats)))
            }
            (failed, _) => (Paint::Bad, format!("{expected}: not met in {}", of_runs(failed, repeats))),
        };
        page.wrapped(INDENT, (Paint::Dim, label.to_owned()), paint, &text)?;
        label = "";
    }
    Ok(())
}
