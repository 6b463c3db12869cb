//! Figures that more than one form of report shows, computed once: quantiles, rates, what was asked for, what was seen.
//!
//! A quantile needs enough samples beyond it to mean something: at least ten. So q is shown from 10 / (1 − q) samples
//! on: p50 from 20, p90 from 100, p99 from 1,000, p99.9 from 10,000. Below that it is absent, never guessed.

use hdrhistogram::Counter;
use model::latency::AtLeast;
use model::plan::{Pace, Plan};
use model::recording::{Recording, Row};
use model::snapshot::{CpuTimes, ProcessSample, Role, Snapshot};
use model::{LatencyKind, LatencySet};

/// Samples a quantile must have beyond it to be shown.
const BEYOND_MIN: u64 = 10;

/// A quantile in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permille(pub u64);

impl Permille {
    /// Samples from which on it is shown.
    pub fn samples_needed(self) -> u64 {
        (BEYOND_MIN * 1000).div_ceil(1000 - self.0)
    }
}

/// A quantile of a kind of latency, a lower bound where what had not ended is at or below it; `None` with too few samples,
/// those that had not ended included.
pub fn quantile<C: Counter>(latency: &LatencySet<C>, kind: LatencyKind, q: Permille) -> Option<AtLeast> {
    (latency.count(kind) >= q.samples_needed()).then(|| latency.quantile(kind, q.0 as f64 / 1000.0)).flatten()
}

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

/// Sockets in TIME_WAIT over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWaitUse {
    /// At the first reading.
    pub start: u64,
    /// The most at any.
    pub max: u64,
    /// At the last.
    pub end: u64,
}

/// Sockets in TIME_WAIT over a run; `None` where they were never read.
pub fn time_wait_use(snapshots: &[Snapshot]) -> Option<TimeWaitUse> {
    let mut read = snapshots.iter().filter_map(Snapshot::generator_time_wait);
    let start = read.next()?;
    Some(read.fold(TimeWaitUse { start, max: start, end: start }, |so_far, now| TimeWaitUse {
        max: so_far.max.max(now),
        end: now,
        ..so_far
    }))
}

/// The mean rate the plan asks for over the measured time, requests a second; `None` for a closed pace.
pub fn requested_per_s(recording: &Recording) -> Option<f64> {
    let from_ns = recording.plan.warmup_ns.max(recording.totals.measured_from_ns);
    mean_rate_per_s(&recording.plan, from_ns, from_ns.saturating_add(recording.totals.measured_ns))
}

/// The integral of a rate profile, which is linear between its corners, over its length.
fn mean_rate_per_s(plan: &Plan, from_ns: u64, to_ns: u64) -> Option<f64> {
    let Pace::Open { profile, .. } = &plan.pace else {
        return None;
    };
    let mut arrivals = 0.0;
    let mut start_ns = 0u64;
    let mut covered_ns = 0u64;
    for segment in profile {
        let end_ns = start_ns.saturating_add(segment.for_ns);
        let (low, high) = (start_ns.max(from_ns), end_ns.min(to_ns));
        if low < high {
            let rate_at = |at_ns: u64| {
                let share = (at_ns - start_ns) as f64 / segment.for_ns as f64;
                segment.from_per_s + (segment.to_per_s - segment.from_per_s) * share
            };
            arrivals += (rate_at(low) + rate_at(high)) / 2.0 * (high - low) as f64;
            covered_ns += high - low;
        }
        start_ns = end_ns;
    }
    // After the last segment its end rate holds.
    let length_ns = to_ns.saturating_sub(from_ns);
    let last_per_s = profile.last()?.to_per_s;
    if length_ns == 0 {
        return plan.rate_at_ns(from_ns);
    }
    Some((arrivals + last_per_s * length_ns.saturating_sub(covered_ns) as f64) / length_ns as f64)
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

/// What the machine did between the first and the last snapshot that could read it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostUse {
    /// Share of all cores' time that was worked, 0..=1.
    pub busy: f64,
    /// Share taken by the hypervisor, 0..=1.
    pub steal: f64,
}

/// The host's CPU use; `None` unless two snapshots could read it.
pub fn host_use(snapshots: &[Snapshot]) -> Option<HostUse> {
    use_of(snapshots.iter().filter_map(|s| s.cpu.as_ref()))
}

/// The same of the generator's machine, which may be another than the target's.
pub fn generator_host_use(snapshots: &[Snapshot]) -> Option<HostUse> {
    use_of(snapshots.iter().filter_map(Snapshot::generator_cpu))
}

fn use_of<'r>(mut read: impl DoubleEndedIterator<Item = &'r CpuTimes>) -> Option<HostUse> {
    let first = read.next()?;
    let last = read.next_back()?;
    let grown = |of: fn(&CpuTimes) -> u64| of(last).saturating_sub(of(first)) as f64;
    let total = grown(CpuTimes::total_ns);
    (total > 0.0).then(|| HostUse { busy: grown(CpuTimes::busy_ns) / total, steal: grown(|t| t.steal_ns) / total })
}

/// What one process did between its first and last snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUse<'r> {
    /// Its last reading.
    pub last: &'r ProcessSample,
    /// CPUs it used on average.
    pub cpus: Option<f64>,
    /// The thread that used most CPU: its name and its share of one CPU, 0..=1.
    pub busiest_thread: Option<(&'r str, f64)>,
    /// Highest resident memory, bytes.
    pub rss_bytes_max: Option<u64>,
    /// Most descriptors open.
    pub descriptors_max: Option<u64>,
}

/// A process between its first and its last snapshot.
struct Seen<'r> {
    first: &'r ProcessSample,
    first_ns: i64,
    last: &'r ProcessSample,
    last_ns: i64,
    rss_bytes_max: Option<u64>,
    descriptors_max: Option<u64>,
}

/// The processes of one role, in the order they were first seen.
pub fn process_use(snapshots: &[Snapshot], role: Role) -> Vec<ProcessUse<'_>> {
    let mut processes: Vec<Seen<'_>> = Vec::new();
    for snapshot in snapshots {
        for sample in snapshot.processes.iter().filter(|p| p.role == role) {
            // By its id and start: an id that was used again is another process.
            let same =
                |seen: &&mut Seen<'_>| seen.first.pid == sample.pid && seen.first.start_ticks == sample.start_ticks;
            match processes.iter_mut().find(same) {
                Some(seen) => {
                    (seen.last, seen.last_ns) = (sample, snapshot.at_ns);
                    seen.rss_bytes_max = seen.rss_bytes_max.max(sample.rss_bytes);
                    seen.descriptors_max = seen.descriptors_max.max(sample.descriptors);
                }
                None => processes.push(Seen {
                    first: sample,
                    first_ns: snapshot.at_ns,
                    last: sample,
                    last_ns: snapshot.at_ns,
                    rss_bytes_max: sample.rss_bytes,
                    descriptors_max: sample.descriptors,
                }),
            }
        }
    }
    processes.into_iter().map(Seen::used).collect()
}

impl<'r> Seen<'r> {
    fn used(self) -> ProcessUse<'r> {
        let (first, last) = (self.first, self.last);
        let length_ns = self.last_ns.saturating_sub(self.first_ns) as f64;
        let grown = |from: Option<u64>, to: Option<u64>| {
            (length_ns > 0.0).then_some(to?.saturating_sub(from?) as f64 / length_ns)
        };
        let busiest_thread = last
            .threads
            .iter()
            .filter_map(|thread| {
                let before = first.threads.iter().find(|t| t.tid == thread.tid)?;
                Some((thread.name.as_str(), grown(before.run_ns, thread.run_ns)?))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1));
        ProcessUse {
            last,
            cpus: grown(first.user_ns, last.user_ns)
                .zip(grown(first.system_ns, last.system_ns))
                .map(|(user, system)| user + system),
            busiest_thread,
            rss_bytes_max: self.rss_bytes_max,
            descriptors_max: self.descriptors_max,
        }
    }
}

/// RFC 3339 of a wall clock in nanoseconds since 1970, to the millisecond, UTC.
pub fn rfc3339(unix_ns: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(unix_ns);
    humantime::format_rfc3339_millis(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::Segment;

    #[test]
    fn a_quantile_is_shown_from_ten_samples_beyond_it_on() {
        let needed: Vec<u64> = [500, 750, 900, 950, 990, 999].map(|p| Permille(p).samples_needed()).to_vec();
        assert_eq!(needed, [20, 40, 100, 200, 1000, 10_000]);
        let mut latency = LatencySet::<u64>::new();
        let p99 = |latency: &LatencySet<u64>| quantile(latency, LatencyKind::Response, Permille(990));
        latency.record_n(LatencyKind::Response, 5, 999);
        assert_eq!(p99(&latency), None);
        latency.record(LatencyKind::Response, 5);
        assert_eq!(p99(&latency), Some(AtLeast { ns: 5, is_bound: false }));
        latency.record_n(LatencyKind::ResponseCensored, 9, 50);
        assert_eq!(p99(&latency), Some(AtLeast { ns: 9, is_bound: true }));
    }

    #[test]
    fn the_requested_rate_is_the_mean_over_the_measured_time() {
        let segment = |from_per_s, to_per_s, for_ns| Segment { from_per_s, to_per_s, for_ns };
        let mut plan: Plan = serde_json::from_str(include_str!("../tests/plan.json")).unwrap();
        assert_eq!(mean_rate_per_s(&plan, 0, 10), None);
        let arrivals = model::plan::Arrivals::Constant;
        plan.pace = Pace::Open { profile: vec![segment(0.0, 100.0, 10), segment(200.0, 200.0, 10)], arrivals };
        assert_eq!(mean_rate_per_s(&plan, 0, 10), Some(50.0));
        assert_eq!(mean_rate_per_s(&plan, 5, 10), Some(75.0));
        assert_eq!(mean_rate_per_s(&plan, 5, 15), Some(137.5));
        assert_eq!(mean_rate_per_s(&plan, 15, 100), Some(200.0));
        assert_eq!(mean_rate_per_s(&plan, 0, 40), Some(162.5));
        assert_eq!(mean_rate_per_s(&plan, 5, 5), Some(50.0));
        plan.pace = Pace::Open { profile: vec![segment(7.0, 7.0, 0)], arrivals };
        assert_eq!(mean_rate_per_s(&plan, 0, 40), Some(7.0));
    }
}
