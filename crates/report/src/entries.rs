//! Figures of each entry of a workload, where it has several: URLs, commands, named requests.
//!
//! Names are those of the plan, without secrets. Times are of good replies alone, from when a request was due; what had
//! not ended is in the run's own figures. A recording that was cut off has the counts and not all times: then none is shown.

use crate::figures::{Permille, quantile};
use crate::json::document::Quantiles;
use crate::text::Paint;
use crate::text::page::Page;
use crate::words::{bounded, grouped, listed};
use model::entries::{ENTRIES_MAX, EntryFigures};
use model::recording::Recording;
use model::{LatencyKind, LatencySet};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Entries that the text shows; the document has all.
const SHOWN_MAX: usize = 12;
/// Columns of a name in the text at most.
const NAME_WIDTH: usize = 40;

/// What became of one entry's requests.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its name: a request's own, method and target, or a command.
    pub name: String,
    /// Ended.
    pub requests: u64,
    /// With the reply that was due.
    pub ok: u64,
    /// Without.
    pub failed: u64,
    /// Failures by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// done − intended of good replies; null where the recording was cut off and has not all of them.
    pub response: Option<Quantiles>,
}

/// Each entry's figures, in the order of the plan; empty where there is one entry.
pub(crate) fn of(recording: &Recording) -> Vec<Entry> {
    let entry = |(place, figures): (usize, &EntryFigures<u64>)| Entry {
        name: name(recording, place),
        requests: figures.requests(),
        ok: figures.ok,
        failed: figures.errors.total(),
        errors: figures.errors.seen().map(|(kind, n)| (kind.name(), n)).collect(),
        response: times(figures).map(|times| Quantiles::of(&times, LatencyKind::Response)),
    };
    recording.totals.sum.entries.iter().enumerate().map(entry).collect()
}

/// The response times of an entry as a set, where all are there.
fn times(figures: &EntryFigures<u64>) -> Option<LatencySet<u64>> {
    (figures.response.len() == figures.ok).then(|| {
        let mut times = LatencySet::new();
        times.of_mut(LatencyKind::Response).add(&figures.response);
        times
    })
}

fn name(recording: &Recording, place: usize) -> String {
    let protocol = recording.plan.workload.protocol();
    if place >= ENTRIES_MAX {
        return format!("{} further entries", protocol.entries().saturating_sub(ENTRIES_MAX));
    }
    let name = u16::try_from(place).ok().and_then(|entry| protocol.entry_name(entry));
    name.unwrap_or_else(|| format!("entry {}", place + 1))
}

/// Writes the table.
pub(crate) fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let entries = &recording.totals.sum.entries;
    if entries.iter().all(|entry| entry.requests() == 0) {
        return Ok(());
    }
    let all: Vec<(String, &EntryFigures<u64>)> =
        entries.iter().enumerate().map(|(place, figures)| (name(recording, place), figures)).collect();
    let width = all.iter().take(SHOWN_MAX).map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = width.clamp(11, NAME_WIDTH.min(page.style().width.saturating_sub(48)).max(11));
    page.gap()?;
    let columns = format!("{:>12}{:>10}{:>11}{:>11}", "requests", "failed", "p50", "p99");
    page.line(&[(Paint::Heading, format!("{:w$}", "By entry", w = width + 2)), (Paint::Dim, columns)])?;
    for (name, figures) in all.iter().take(SHOWN_MAX) {
        let times = times(figures).unwrap_or_default();
        let shown = |q| {
            let figure = quantile(&times, LatencyKind::Response, Permille(q));
            format!("{:>11}", figure.map_or("–".to_owned(), bounded))
        };
        let failed = figures.errors.total();
        page.line(&[
            (Paint::Plain, format!("  {:width$}", shortened(name, width))),
            (Paint::Plain, format!("{:>12}", grouped(figures.requests()))),
            (if failed > 0 { Paint::Bad } else { Paint::Plain }, format!("{:>10}", grouped(failed))),
            (Paint::Plain, shown(500) + &shown(990)),
        ])?;
        let kinds: Vec<String> =
            figures.errors.seen().map(|(kind, n)| format!("{} ×{}", kind.name(), grouped(n))).collect();
        if !kinds.is_empty() {
            page.wrapped(4, (Paint::Plain, String::new()), Paint::Dim, &listed(&kinds))?;
        }
    }
    if let Some(more) = all.len().checked_sub(SHOWN_MAX + 1) {
        let text = format!("and {} more (--json has all)", more + 1);
        page.wrapped(2, (Paint::Plain, String::new()), Paint::Dim, &text)?;
    }
    Ok(())
}

/// The end of a long name is what tells it from others.
fn shortened(name: &str, width: usize) -> String {
    match name.chars().count().checked_sub(width) {
        None | Some(0) => name.to_owned(),
        Some(over) => format!("…{}", name.chars().skip(over + 1).collect::<String>()),
    }
}
