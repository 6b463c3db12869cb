//! The report of an import: where the readings are from, how long they are, what the machine did, what was not read.
//!
//! There was no load, so nothing of one is shown, not even as zero.

use super::Paint;
use super::page::Page;
use crate::figures::{host_use, rfc3339};
use crate::observed::Readings;
use crate::words::{counted, length, percent};
use model::import::Import;
use model::recording::{End, Recording};
use model::units::show_bytes;
use std::io::{self, Write};

const INDENT: usize = 13;
/// Names of a list that are shown; JSON has all.
const NAMES_MAX: usize = 24;

/// Writes where they are from and what they say.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording, import: &Import) -> io::Result<()> {
    page.line(&[(Paint::Strong, import.name())])?;
    let of = [import.host.as_str(), import.kernel.as_str()].into_iter().filter(|text| !text.is_empty());
    let mut of: Vec<String> = of.map(str::to_owned).collect();
    of.extend(import.cores.map(|cores| counted(cores.into(), "core")));
    let what = if of.is_empty() { import.what.clone() } else { format!("{} of {}", import.what, of.join(", ")) };
    page.wrapped(0, (Paint::Plain, String::new()), Paint::Dim, &what)?;
    page.gap()?;
    let mut part =
        |label: &str, paint, text: &str| page.wrapped(INDENT, (Paint::Dim, format!("  {label}")), paint, text);
    let started_ns = recording.capsule.started_at_unix_ns;
    let when = match import.is_dated {
        true => format!("{} to {}", rfc3339(started_ns), rfc3339(started_ns.saturating_add(import.span_ns))),
        false => "no time of day in the text".to_owned(),
    };
    // Of a log, whose lines come as they come, the most frequent distance says nothing.
    let is_regular = import.interval_ns.saturating_mul(import.samples.saturating_sub(1)) >= import.span_ns / 2;
    let every = match import.samples > 1 && is_regular {
        true => format!(", every {}", length(import.interval_ns)),
        false => String::new(),
    };
    let samples = counted(import.samples, "moment");
    part("when", Paint::Plain, &format!("{when}: {}, {samples}{every}", length(import.span_ns)))?;
    let did = did(recording);
    if !did.is_empty() {
        part("what", Paint::Strong, &did.join(", "))?;
    }
    part("taken", Paint::Plain, &names(&import.metrics))?;
    if !import.not_taken.is_empty() {
        part("not taken", Paint::Dim, &names(&import.not_taken))?;
    }
    for note in &import.notes {
        part("note", Paint::Dim, note)?;
    }
    match (import.why_partial(), recording.end) {
        (Some(why), _) => part("partial", Paint::Warn, &why)?,
        (None, End::Partial) => part("partial", Paint::Warn, "the recording stops in the middle")?,
        (None, _) => {
            part("whole", Paint::Good, &format!("all of its {} were understood", counted(import.lines, "line")))?
        }
    }
    if !recording.events.is_empty() {
        page.gap()?;
        page.line(&[(Paint::Heading, "Events".to_owned())])?;
    }
    for event in &recording.events {
        let at = format!("{:>8.1} s  ", event.at_ns as f64 / 1e9);
        page.wrapped(at.len(), (Paint::Dim, at), Paint::Plain, &format!("{}: {}", event.kind, event.text))?;
    }
    Ok(())
}

/// What the machine did, in a few figures.
fn did(recording: &Recording) -> Vec<String> {
    let snapshots = &recording.snapshots;
    let mut did = Vec::new();
    if let Some(host) = host_use(snapshots) {
        did.push(format!("CPU {} busy", percent(100.0 * host.busy)));
        if host.steal >= 0.001 {
            did.push(format!("{} stolen", percent(100.0 * host.steal)));
        }
    }
    let readings = Readings::of(&recording.courses);
    let course = |name: &str| readings.host.get(name).or_else(|| readings.network.get(name));
    if let Some(memory) = course("memory_available_bytes") {
        did.push(format!("at least {} of memory available", show_bytes(memory.min as f64)));
    } else if let Some(memory) = course("memory_free_bytes") {
        did.push(format!("at least {} of memory free", show_bytes(memory.min as f64)));
    }
    if let Some(load) = course("load_1m_hundredths") {
        did.push(format!("load average up to {:.2}", load.max as f64 / 100.0));
    }
    for (name, what) in [("swap_in_pages", "swapped in"), ("swap_out_pages", "swapped out")] {
        let pages = course(name).map_or(0, |course| u64::try_from(course.delta).unwrap_or(0));
        if pages > 0 {
            did.push(format!("{} {what}", counted(pages, "page")));
        }
    }
    did
}

fn names(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more (--json names them)", shown.join(", ")),
    }
}
