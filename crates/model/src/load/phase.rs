//! Phases: an open pace in named parts, one after another on the run's own clock, each with figures and expectations of its own.
//!
//! A phase asks for a rate, or goes from one to another; the pace's profile is made of them. The boundaries lie on those of
//! intervals, so that a phase's figures are sums of whole intervals. A request belongs to the phase in which it ended: one
//! that was sent at the end of a phase and answered after it is the next one's, as its connection and its server were busy there.

use crate::expectation::Expectation;
use crate::plan::Segment;
use crate::recording::Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most phases of a run.
pub const PHASES_MAX: usize = 64;

/// A phase as it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseAsked {
    /// Its name; no two have the same.
    pub name: String,
    /// The rate that it asks for.
    pub segment: Segment,
    /// Bounds on its figures; each entry a list.
    #[serde(default)]
    pub expect: Vec<String>,
}

/// A phase of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPhase {
    /// Its name.
    pub name: String,
    /// When it begins, nanoseconds since the run's start.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// What is expected of its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
}

/// Which phase an interval belongs to; what is waited for after the load belongs to the last. `None`: warm-up, or there are
/// no phases.
pub fn phase_of(phases: &[LoadPhase], row: &Row) -> Option<usize> {
    let last = phases.len().checked_sub(1)?;
    if row.end_ns <= phases[0].start_ns {
        return None;
    }
    Some(phases.iter().position(|phase| row.end_ns <= phase.end_ns).unwrap_or(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_of_the_phase_it_ends_in() {
        let phase = |start_ns, end_ns| LoadPhase { name: String::new(), start_ns, end_ns, expectations: Vec::new() };
        let phases = [phase(10, 20), phase(20, 40)];
        let of = |end_ns| phase_of(&phases, &Row { end_ns, ..Row::default() });
        assert_eq!([5, 10, 15, 20, 21, 40, 90].map(of), [None, None, Some(0), Some(0), Some(1), Some(1), Some(1)]);
        assert_eq!(phase_of(&[], &Row::default()), None);
    }
}
