//! How many requests a plan's open pace has due between two moments: the integral of its rate profile.
//!
//! Exact for the profile's straight pieces; after the last one its end rate holds, as in the engine.

use model::Plan;
use model::plan::Pace;

/// Requests due between two moments of the run; `None` for a closed pace.
pub(super) fn due(plan: &Plan, from_ns: u64, to_ns: u64) -> Option<f64> {
    let Pace::Open { profile, .. } = &plan.pace else { return None };
    let (mut start_ns, mut requests) = (0u64, 0.0);
    for segment in profile {
        let end_ns = start_ns.saturating_add(segment.for_ns);
        let (low_ns, high_ns) = (from_ns.max(start_ns), to_ns.min(end_ns));
        if high_ns > low_ns && segment.for_ns > 0 {
            let slope = (segment.to_per_s - segment.from_per_s) / segment.for_ns as f64;
            let at = |ns: u64| segment.from_per_s + slope * (ns - start_ns) as f64;
            requests += (at(low_ns) + at(high_ns)) / 2.0 * (high_ns - low_ns) as f64 / 1e9;
        }
        start_ns = end_ns;
    }
    if let Some(last) = profile.last() {
        requests += last.to_per_s * to_ns.saturating_sub(from_ns.max(start_ns)) as f64 / 1e9;
    }
    requests.is_finite().then_some(requests.max(0.0))
}

/// Whether the rate is the same at every moment between two.
pub(super) fn is_constant(plan: &Plan, from_ns: u64, to_ns: u64) -> bool {
    let Pace::Open { profile, .. } = &plan.pace else { return true };
    let mut rates = Vec::new();
    let mut start_ns = 0u64;
    for segment in profile {
        let end_ns = start_ns.saturating_add(segment.for_ns);
        if start_ns < to_ns && end_ns > from_ns {
            rates.extend([segment.from_per_s, segment.to_per_s]);
        }
        start_ns = end_ns;
    }
    if start_ns < to_ns {
        rates.extend(profile.last().map(|last| last.to_per_s));
    }
    rates.windows(2).all(|pair| pair[0] == pair[1])
}
