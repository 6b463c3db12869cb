//! What held connections came to: how many, who closed them, what each costs, how many would fit.
//!
//! Absent from the report of any other run.

use super::Paint;
use super::page::Page;
use crate::protocols;
use crate::words::{counted, grouped, listed, of_kind};
use model::finding::{Diagnosis, HeldLine, MemorySlopes};
use model::recording::Recording;
use model::units::show_bytes;
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes the lines.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording, diagnosis: &Diagnosis) -> io::Result<()> {
    let Some(held) = &diagnosis.held else { return Ok(()) };
    page.gap()?;
    let wanted = u64::from(recording.plan.connections);
    let mut counts = vec![
        format!("{} of {} established at most", grouped(held.established_max), grouped(wanted)),
        format!("{} at the end", grouped(held.established_at_end)),
    ];
    if let Some(made_in_s) = held.made_in_s {
        let asked_s = recording.plan.ramp_ns() as f64 / 1e9;
        counts.push(match made_in_s <= 1.1 * asked_s + 0.1 {
            true => format!("made in {made_in_s:.1} s"),
            false => format!("made in {made_in_s:.1} s, asked {asked_s:.1} s"),
        });
    }
    let lost = [
        (held.connects_failed, "could not be made"),
        (held.closed_by_peer, "closed or reset by the peer"),
        (held.closed_by_us, "closed by us"),
    ];
    counts.extend(lost.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))));
    if lost.iter().all(|(n, _)| *n == 0) {
        counts.push("none lost".to_owned());
    }
    let paint = if held.established_at_end < held.established_max { Paint::Warn } else { Paint::Strong };
    page.wrapped(INDENT, (Paint::Heading, "Held".to_owned()), paint, &listed(&counts))?;
    if let (Some(from_s), Some(until_s)) = (held.lost_from_s, held.lost_until_s) {
        let ends = protocols::of(&recording.plan.workload).ends(&recording.totals.sum.outcomes);
        let how = if ends.is_empty() { String::new() } else { format!(": {}", listed(&ends)) };
        let text = format!("lost between {from_s:.1} s and {until_s:.1} s of the run{how}");
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, &text)?;
    }
    gave(page, held)?;
    memory(page, &held.memory)?;
    if let Some(fits) = held.fits_in_memory {
        let text = format!("the memory available at the start holds {} of them", grouped(fits));
        page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Dim, &text)?;
    }
    Ok(())
}

fn gave<W: Write>(page: &mut Page<'_, W>, held: &HeldLine) -> io::Result<()> {
    let (Some(kind), Some(at_s)) = (held.first_to_give, held.gave_at_s) else { return Ok(()) };
    let held = held_words(held.held_when_it_gave, held.limit_that_gave.as_deref());
    let text = format!("first to give: {} ({}) at {at_s:.1} s{held}", kind.name(), of_kind(kind));
    page.wrapped(INDENT, (Paint::Plain, String::new()), Paint::Warn, &text)
}

/// How many stood when something gave, and which limit it was.
fn held_words(held: Option<u64>, limit: Option<&str>) -> String {
    let held = held.map_or(String::new(), |n| format!(", with {} held", counted(n, "connection")));
    limit.map_or(held.clone(), |limit| format!("{held}: the limit is {limit}"))
}

fn memory<W: Write>(page: &mut Page<'_, W>, slopes: &MemorySlopes) -> io::Result<()> {
    let ends = if slopes.is_both_ends { " (both ends)" } else { "" };
    let parts = [
        (slopes.generator_bytes, "generator", ""),
        (slopes.target_bytes, "target", ""),
        (slopes.slab_bytes, "kernel slab", ends),
        (slopes.socket_bytes, "socket buffers", ends),
    ];
    let shown: Vec<String> = parts
        .iter()
        .filter_map(|(bytes, what, ends)| Some(format!("{what} {}{ends}", show_bytes(bytes.as_ref()?.max(0.0)))))
        .collect();
    if shown.is_empty() {
        return Ok(());
    }
    page.wrapped(
        INDENT,
        (Paint::Plain, String::new()),
        Paint::Plain,
        &format!("memory of each connection: {}", listed(&shown)),
    )
}
