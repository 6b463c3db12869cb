//! What a plan's load records, and memory for it, taken before it begins.

use model::plan::{Pace, Plan, Think};
use model::{Histogram, Interval, LatencyKind};

/// An empty histogram whose memory is taken.
pub(super) fn reserved() -> Histogram<u32> {
    let mut histogram = Histogram::new();
    histogram.reserve();
    histogram
}

/// Whether requests have a moment to be late for.
pub(super) fn can_be_late(plan: &Plan) -> bool {
    !matches!(plan.pace, Pace::Closed { think: Think::None })
}

/// Takes the memory that a plan's load records in, before it begins.
pub fn reserve(interval: &mut Interval, plan: &Plan) {
    interval.latency.reserve(&recorded(plan));
    interval.outcomes.reserve(plan.workload.protocol().outcomes());
    interval.entries.reserve(plan.workload.protocol().entries());
    interval.requests.reserve();
}

/// The kinds of latency that a plan's load records.
pub fn recorded(plan: &Plan) -> Vec<LatencyKind> {
    use LatencyKind::*;
    let mut kinds = vec![Response, Service, FirstByte, Failed, Connect, Queue];
    if can_be_late(plan) {
        kinds.extend([Lag, Undelayed]);
    }
    if plan.tls.is_some() {
        kinds.push(Tls);
    }
    kinds
}
