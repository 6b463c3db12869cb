//! Parts of a run in the document: its phases, what lies outside the observer's windows, loads put on beside it.

use super::document::{Document, Quantiles};
use crate::answer::canary::Canary;
use model::LatencyKind;
use model::recording::{LoadRole, Recording};
use schemars::JsonSchema;
use serde::Serialize;

/// What was measured in a phase: of the requests that ended in it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseFigures {
    /// Its name.
    pub name: String,
    /// When it begins, seconds since the run's start.
    pub from_s: f64,
    /// When it ends.
    pub to_s: f64,
    /// Whether the run came to it.
    pub is_reached: bool,
    /// Requests that ended.
    pub requests: u64,
    /// Those without a good reply.
    pub failed: u64,
    /// Requests that were due and not sent, as no connection was free.
    pub dropped: u64,
    /// Requests that ended, a second.
    pub requests_per_s: f64,
    /// Response time.
    pub response: Quantiles,
}

/// The figures without the intervals in which a window of the observer's probes lay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WithoutWindows {
    /// Share of the measured time that is left, 0..=1.
    pub share: f64,
    /// Requests that ended, a second of that time.
    pub rate_per_s: f64,
    /// Response time, microseconds.
    pub response_p50_us: Option<f64>,
    /// Response time, microseconds.
    pub response_p99_us: Option<f64>,
    /// Whether they differ from the whole run's by more than windows are known to cost.
    pub is_beyond_cost: bool,
}

impl PhaseFigures {
    /// Those of every phase of the plan, in order.
    pub fn of(recording: &Recording) -> Vec<Self> {
        let empty = model::recording::Part::default();
        let one = |(at, phase): (usize, &model::phase::LoadPhase)| {
            let part = recording.totals.phases.get(at).unwrap_or(&empty);
            let counts = &part.sum.counts;
            PhaseFigures {
                name: phase.name.clone(),
                from_s: phase.start_ns as f64 / 1e9,
                to_s: phase.end_ns as f64 / 1e9,
                is_reached: part.is_reached(recording.plan.tick_ns),
                requests: counts.requests(),
                failed: counts.failed,
                dropped: counts.dropped,
                requests_per_s: part.requests_per_s(),
                response: Quantiles::of(&part.sum.latency, LatencyKind::Response),
            }
        };
        recording.plan.phases.iter().enumerate().map(one).collect()
    }
}

/// A load that was put on together with the main one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LoadBeside {
    /// What it is called.
    pub name: String,
    /// What it is among the others.
    pub role: LoadRole,
    /// What the canary came to; null of any other load.
    pub canary: Option<Canary>,
    /// Its report.
    pub report: Document,
}
