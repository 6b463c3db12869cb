//! What was done to the target or its host meanwhile, and when: a line a fault, in the order in which they were asked for.

use crate::json::{Fault, FaultState};
use crate::text::Paint;
use crate::text::page::Page;
use model::recording::Recording;
use std::io::{self, Write};

const INDENT: usize = 13;

/// Writes the lines.
pub fn write<W: Write>(page: &mut Page<'_, W>, recording: &Recording) -> io::Result<()> {
    let faults = Fault::all_of(recording);
    if faults.is_empty() {
        return Ok(());
    }
    page.gap()?;
    for (at, fault) in faults.iter().enumerate() {
        let label = if at == 0 { "Faults" } else { "" };
        let (paint, text) = words(fault);
        page.wrapped(INDENT, (Paint::Heading, label.to_owned()), paint, &text)?;
    }
    Ok(())
}

fn words(fault: &Fault) -> (Paint, String) {
    let at = fault.at_s.unwrap_or(fault.asked_at_s);
    let said = |n: usize| fault.said.get(n).map_or("", String::as_str);
    match (fault.state, fault.undone_at_s) {
        (FaultState::NotReached, _) => {
            (Paint::Warn, format!("{}: the load ended before its moment at {at:.3} s", fault.fault))
        }
        (FaultState::Refused, _) => (Paint::Bad, format!("{at:.3} s: {}", said(0))),
        (FaultState::Done, _) => (Paint::Plain, format!("{at:.3} s: {}", said(0))),
        (FaultState::Undone, Some(undone)) => {
            (Paint::Plain, format!("{at:.3} s: {}; undone at {undone:.3} s", said(0)))
        }
        (FaultState::Undone | FaultState::NotUndone, _) => {
            (Paint::Bad, format!("{at:.3} s: {}", fault.said.join("; ")))
        }
    }
}
