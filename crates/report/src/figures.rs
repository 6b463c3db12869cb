//! Figures that more than one form of report shows, computed once: rates, what was asked for, what was seen. Quantiles and
//! CPU use are those that rules judge by.

pub use diagnose::usage::{generator_host_use, host_use};
use model::latency::AtLeast;
use model::plan::Pace;
pub use model::quantile::{Permille, shown as quantile};
use model::recording::{Recording, Row};
use model::{Gap, LatencyKind, LatencySet};

/// The figures without the intervals that a window of the observer's probes lay in; `None` where none did, or nothing
/// is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutWindows {
    /// Share of the measured time that is left, 0..=1.
    pub share: f64,
    /// Completed requests a second of that time.
    pub rate_per_s: f64,
    /// Response time, median.
    pub p50: Option<AtLeast>,
    /// Response time, 99th percentile.
    pub p99: Option<AtLeast>,
    /// Whether they differ from those of the whole run by more than the windows are known to cost.
    pub is_beyond_cost: bool,
}

/// What a window may cost a rate: the upper end of what was measured (`docs/decisions/2026-11-21-probes.md`: CPU a request
/// 1.035 of a run without, 95 % up to 1.054).
const WINDOW_RATE_COST: f64 = 0.054;
/// What it may cost a 99th percentile: 1.068 there, 95 % up to 1.121.
const WINDOW_P99_COST: f64 = 0.121;

/// See [`WithoutWindows`].
pub fn without_windows(recording: &Recording) -> Option<WithoutWindows> {
    let totals = &recording.totals;
    let rest = totals.without_windows()?;
    let of = |latency: &LatencySet<u64>, q| quantile(latency, LatencyKind::Response, Permille(q));
    let (p50, p99) = (of(&rest.sum.latency, 500), of(&rest.sum.latency, 990));
    let (rate_per_s, whole_per_s) = (rest.requests_per_s(), totals.requests_per_s());
    let differs = |rest: f64, whole: f64, cost: f64| (rest - whole).abs() > cost * whole;
    // A rate that was asked for does not follow what a request costs.
    let is_closed = matches!(recording.plan.pace, Pace::Closed { .. });
    let p99_differs = p99
        .zip(of(&totals.sum.latency, 990))
        .is_some_and(|(rest, whole)| differs(rest.ns as f64, whole.ns as f64, WINDOW_P99_COST));
    Some(WithoutWindows {
        share: rest.measured_ns as f64 / totals.measured_ns.max(1) as f64,
        rate_per_s,
        p50,
        p99,
        is_beyond_cost: p99_differs || (is_closed && differs(rate_per_s, whole_per_s, WINDOW_RATE_COST)),
    })
}

/// Something a second; 0 when no time has passed.
pub fn per_s(amount: u64, over_ns: u64) -> f64 {
    if over_ns == 0 { 0.0 } else { amount as f64 * 1e9 / over_ns as f64 }
}

/// The mean rate the plan asks for over the measured time, requests a second; `None` for a closed pace.
pub fn requested_per_s(recording: &Recording) -> Option<f64> {
    let from_ns = recording.plan.warmup_ns.max(recording.totals.measured_from_ns);
    recording.plan.mean_rate_per_s(from_ns, from_ns.saturating_add(recording.totals.measured_ns))
}

/// The rows that count: those of warm-up and drain show less load than was put on.
pub fn measured_rows(recording: &Recording) -> impl Iterator<Item = &Row> {
    let from_ns = recording.plan.warmup_ns.max(recording.totals.measured_from_ns);
    recording.timeline.rows().iter().filter(move |row| row.end_ns > from_ns && !row.is_drain)
}

/// The longest a completion may have waited before a worker looked, over the run, nanoseconds.
pub fn reap_delay_ns_max(recording: &Recording) -> u64 {
    recording.timeline.rows().iter().map(|row| row.gauges.reap_delay_ns_max).max().unwrap_or(0)
}

/// The CPU share of the busiest worker in any row, 0..=1.
pub fn worker_busy_max(recording: &Recording) -> f64 {
    recording.timeline.rows().iter().map(|row| row.worker_busy_max).fold(0.0, f64::max)
}

/// The largest share of the time that a worker waited for a CPU in any row, 0..=1.
pub fn worker_wait_max(recording: &Recording) -> f64 {
    recording.timeline.rows().iter().map(|row| row.worker_wait_max).fold(0.0, f64::max)
}

/// Requests the generator carried for each second of CPU it used; `None` where its CPU time is not known.
pub fn requests_per_cpu_second(recording: &Recording) -> Option<f64> {
    let cpu_ns = recording.totals.cpu_user_ns.saturating_add(recording.totals.cpu_system_ns);
    (cpu_ns > 0).then(|| recording.totals.sum.counts.arrived() as f64 * 1e9 / cpu_ns as f64)
}

/// RFC 3339 of a wall clock in nanoseconds since 1970, to the millisecond, UTC.
pub fn rfc3339(unix_ns: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(unix_ns);
    humantime::format_rfc3339_millis(at).to_string()
}

/// Pauses of all workers, the longest first.
pub fn common_gaps(recording: &Recording) -> Vec<Gap> {
    recording.requests.common_gaps(recording.plan.threads)
}

/// Nanoseconds as seconds.
pub fn s(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Nanoseconds as microseconds.
pub fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::Segment;

    #[test]
    fn the_requested_rate_is_the_mean_over_the_measured_time() {
        let segment = |from_per_s, to_per_s, for_ns| Segment { from_per_s, to_per_s, for_ns };
        let mut plan = testkit::recordings::any_plan();
        assert_eq!(plan.mean_rate_per_s(0, 10), None);
        let arrivals = model::plan::Arrivals::Constant;
        plan.pace = Pace::Open { profile: vec![segment(0.0, 100.0, 10), segment(200.0, 200.0, 10)], arrivals };
        assert_eq!(plan.mean_rate_per_s(0, 10), Some(50.0));
        assert_eq!(plan.mean_rate_per_s(5, 10), Some(75.0));
        assert_eq!(plan.mean_rate_per_s(5, 15), Some(137.5));
        assert_eq!(plan.mean_rate_per_s(15, 100), Some(200.0));
        assert_eq!(plan.mean_rate_per_s(0, 40), Some(162.5));
        assert_eq!(plan.mean_rate_per_s(5, 5), Some(50.0));
        plan.pace = Pace::Open { profile: vec![segment(7.0, 7.0, 0)], arrivals };
        assert_eq!(plan.mean_rate_per_s(0, 40), Some(7.0));
    }
}
