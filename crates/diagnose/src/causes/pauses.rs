//! What the rules on pauses have in common: spans in which no request ended though some were under way at every worker of the
//! generator, and that were not the generator's own.

use crate::facts::Facts;
use crate::thresholds::{PAUSED_SHARE, PAUSE_NS, PAUSE_TIMES};
use model::latency::Kind;
use model::request::Gap;

/// The pauses of the measured time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pauses {
    /// Each, in the order of time, long enough to count.
    pub(super) all: Vec<Gap>,
    /// The share of the measured time they took, 0..=1.
    pub(super) share: f64,
    /// The median of their lengths, nanoseconds.
    pub(super) median_ns: f64,
    /// From the beginning of one to the next: standard deviation over mean; `None` of fewer than four.
    pub(super) scatter: Option<f64>,
    /// The mean of those times, nanoseconds.
    pub(super) every_ns: f64,
}

/// Fewer are chance.
const PAUSES_MIN: usize = 4;
/// A pause of which more than this share can be the generator's own doing is none of the target's.
const OWN_MAX: f64 = 0.5;

/// The pauses; `None` where there are too few, or they take too little of the time.
pub(super) fn pauses(facts: &Facts<'_>) -> Option<Pauses> {
    let response = facts.latency(Kind::Service);
    if response.is_empty() {
        return None;
    }
    let usual_ns = response.value_at_quantile(0.5) as f64;
    let least_ns = (PAUSE_TIMES.value * usual_ns).max(PAUSE_NS.value);
    let is_pause = |gap: &Gap| {
        let length_ns = gap.length_ns() as f64;
        let is_in = gap.from_ns >= facts.start_ns && gap.to_ns <= facts.end_ns;
        is_in && length_ns >= least_ns && gap.own_ns_max as f64 <= OWN_MAX * length_ns && gap.in_flight >= 2
    };
    let workers = u16::try_from(facts.recording.plan.threads).unwrap_or(u16::MAX);
    let mut all: Vec<Gap> = facts.recording.requests.common_gaps(workers.max(1)).into_iter().filter(is_pause).collect();
    all.sort_by_key(|gap| gap.from_ns);
    let total_ns: f64 = all.iter().map(|gap| gap.length_ns() as f64).sum();
    let share = total_ns / 1e9 / facts.measured_s().max(1e-9);
    if all.len() < PAUSES_MIN || share < PAUSED_SHARE.value {
        return None;
    }
    let mut lengths: Vec<u64> = all.iter().map(Gap::length_ns).collect();
    lengths.sort_unstable();
    let median_ns = lengths[lengths.len() / 2] as f64;
    let between: Vec<f64> = all.windows(2).map(|pair| pair[1].from_ns.saturating_sub(pair[0].from_ns) as f64).collect();
    let every_ns = between.iter().sum::<f64>() / between.len().max(1) as f64;
    let variance = between.iter().map(|ns| (ns - every_ns).powi(2)).sum::<f64>() / between.len().max(1) as f64;
    let scatter = (between.len() >= 3 && every_ns > 0.0).then(|| variance.sqrt() / every_ns);
    Some(Pauses { all, share: share.min(1.0), median_ns, scatter, every_ns })
}
