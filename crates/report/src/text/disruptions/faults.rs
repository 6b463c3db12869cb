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
            (Paint::Plain, format!("{at:.3} s: {}; undone at {undone:.3} s{}", said(0), counts(said(1))))
        }
        (FaultState::Undone | FaultState::NotUndone, _) => {
            (Paint::Bad, format!("{at:.3} s: {}", fault.said.join("; ")))
        }
    }
}

/// What the undoing of a fault says that it had come to: all but that things are as they were, which the line says.
fn counts(said: &str) -> String {
    let parts = said.split_once(" is undone: ").map_or("", |(_, parts)| parts).split("; ");
    let told: Vec<&str> = parts.filter(|part| !part.is_empty() && !part.ends_with(" again")).collect();
    if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fault_came_to_is_said_and_not_that_it_is_undone() {
        let said = "fault port-delay 80 1ms is undone: 7 packets seen; the latest let go 2.00 ms after its time; packets to port 80 \
                    (loopback): as they are again; a process that packets are given to: not running again";
        assert_eq!(counts(said), ": 7 packets seen; the latest let go 2.00 ms after its time");
        assert_eq!(counts("fault stop 12 is undone: process 12 (sleep): running again"), "");
        assert_eq!(counts("fault stop 12 is over: there was nothing to undo"), "");
    }
}
