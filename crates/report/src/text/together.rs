//! The report of several loads that were put on together: one verdict, a line for each, then a section for each.
//!
//! The first section is the main load's and has all that a report has. The others leave out what was read of the machine, for
//! that is the same, and causes that the first one has shown already.

use super::page::Page;
use super::{Options, Paint, Style, headline, write_part};
use crate::answer::canary::Canary;
use crate::figures::{Permille, quantile};
use crate::words::{bounded, figure, grouped};
use model::LatencyKind;
use model::finding::{Diagnosis, ExpectationState, Status, ValidityState};
use model::recording::{LoadRole, Recording};
use std::io::{self, Write};

/// Columns of a load's name at most.
const NAME_WIDTH: usize = 24;

/// A load, as it is shown.
pub struct LoadShown<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it is among the others.
    pub role: LoadRole,
    /// What was measured.
    pub recording: &'a Recording,
    /// What is made of it.
    pub diagnosis: &'a Diagnosis,
    /// How its section is drawn, and where its recording is.
    pub options: Options<'a>,
}

/// Writes the report of all; the main load is the first.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut impl Write, loads: &[LoadShown<'_>], style: Style) -> io::Result<()> {
    let Some(main) = loads.first() else { return Ok(()) };
    let page = &mut Page::new(to, style);
    let count = loads.iter().filter(|load| load.role != LoadRole::Canary).count();
    let and = if count < loads.len() { " and a canary" } else { "" };
    let title = match count {
        1 => format!("Load '{}'{and}, put on together", main.name),
        _ => format!("{count} loads{and}, put on together; the main one is '{}'", main.name),
    };
    page.line(&[(Paint::Strong, title)])?;
    headline::gives(page, main.diagnosis, &main.options)?;
    verdict(page, loads)?;
    page.gap()?;
    table(page, loads)?;
    for (at, load) in loads.iter().enumerate() {
        if load.role == LoadRole::Canary {
            continue;
        }
        page.gap()?;
        page.line(&[(Paint::Heading, format!("Load '{}'", load.name))])?;
        if at == 0 {
            write_part(page, load.recording, load.diagnosis, &load.options, false)?;
            continue;
        }
        let is_shown = |id: &str| main.diagnosis.findings.iter().any(|f| f.status == Status::Supported && f.id == id);
        let mut own = load.diagnosis.clone();
        own.findings.retain(|finding| finding.status == Status::Supported && !is_shown(&finding.id));
        write_part(page, load.recording, &own, &load.options, true)?;
    }
    if let Some(canary) = loads.iter().find(|load| load.role == LoadRole::Canary) {
        page.gap()?;
        let seen = Canary::of(canary.recording);
        let paint = if seen.is_well() { Paint::Good } else { Paint::Bad };
        page.wrapped(11, (Paint::Heading, "Canary".to_owned()), paint, &seen.words(canary.recording))?;
        for judgement in canary.diagnosis.expectations.iter().filter(|judgement| judgement.is_stated) {
            let text = format!("{}: {}: {}", judgement.expected, how(judgement.state), judgement.got);
            page.wrapped(11, (Paint::Plain, String::new()), paint_of(judgement.state), &text)?;
        }
        if let Some(kept) = canary.options.kept {
            page.row(&[(Paint::Dim, format!("{:11}{}", "", kept.path))])?;
        }
    }
    Ok(())
}

/// One verdict on all of them: what was not met or may not be believed, each with its load's name.
pub(crate) fn verdict<W: Write>(page: &mut Page<'_, W>, loads: &[LoadShown<'_>]) -> io::Result<()> {
    let mut said = false;
    for load in loads {
        let is_canary = load.role == LoadRole::Canary;
        let mut say = |page: &mut Page<'_, W>, paint, text: String| {
            said = true;
            page.wrapped(0, (Paint::Plain, String::new()), paint, &format!("{}: {text}", load.name))
        };
        if load.diagnosis.validity.state == ValidityState::NotValid && !is_canary {
            say(page, Paint::Bad, "not valid: its figures are not a result".to_owned())?;
        }
        let stated = load.diagnosis.expectations.iter().filter(|one| one.is_stated || !is_canary);
        for judgement in stated.filter(|one| one.state != ExpectationState::Met) {
            let text = format!("{}: {}: {}", how(judgement.state), judgement.expected, judgement.got);
            say(page, paint_of(judgement.state), text)?;
        }
    }
    if said {
        return Ok(());
    }
    let has_stated = loads.iter().any(|load| load.diagnosis.expectations.iter().any(|one| one.is_stated));
    let text = if has_stated { "Every load met what was expected of it" } else { "Nothing speaks against any load" };
    page.wrapped(0, (Paint::Plain, String::new()), Paint::Good, text)
}

pub(crate) fn how(state: ExpectationState) -> &'static str {
    match state {
        ExpectationState::Met => "met",
        ExpectationState::NotMet => "not met",
        ExpectationState::Undetermined => "undetermined",
    }
}

pub(crate) fn paint_of(state: ExpectationState) -> Paint {
    match state {
        ExpectationState::Met => Paint::Good,
        ExpectationState::NotMet => Paint::Bad,
        ExpectationState::Undetermined => Paint::Warn,
    }
}

/// A line for each load.
fn table<W: Write>(page: &mut Page<'_, W>, loads: &[LoadShown<'_>]) -> io::Result<()> {
    let widest = loads.iter().map(|load| load.name.chars().count()).max().unwrap_or(0);
    let width = widest.clamp(4, NAME_WIDTH);
    let head = format!(
        "  {:width$}  {:>10}  {:>10}  {:>10}  {:>9}  {:>10}",
        "load", "a second", "p50", "p99", "failed", "unfinished"
    );
    page.row(&[(Paint::Dim, head)])?;
    for load in loads {
        let totals = &load.recording.totals;
        let of = |q| {
            let figure = quantile(&totals.sum.latency, LatencyKind::Response, Permille(q));
            figure.map_or_else(|| "–".to_owned(), bounded)
        };
        let name: String = load.name.chars().take(width).collect();
        let failed = totals.sum.counts.failed;
        let line =
            format!("  {name:width$}  {:>10}  {:>10}  {:>10}  ", figure(totals.requests_per_s()), of(500), of(990));
        let paint = if failed > 0 { Paint::Bad } else { Paint::Plain };
        let unfinished = format!("  {:>10}", grouped(totals.in_flight_at_end));
        page.row(&[(Paint::Plain, line), (paint, format!("{:>9}", grouped(failed))), (Paint::Plain, unfinished)])?;
    }
    Ok(())
}
