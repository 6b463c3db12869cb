//! Which intervals something kept the generator from running in, and whether what is left of the run is enough.
//!
//! By the generator's own signals only: its workers' run-queue wait, how late their turns were, what the hypervisor took of
//! its machine, how a CPU quota held it. Never by a latency: whoever leaves out slow intervals measures a faster target
//! than there is. The quiet part is an answer where it is [`SHARE_MIN`] of the measured time, [`INTERVALS_MIN`] intervals and
//! [`SUCCESSES_MIN`] successes; the report gives both figures.

use crate::facts::{Facts, Scope};
use model::finding::Quiet;
use model::quantile::{self, Permille};
use model::recording::{Disturbance, Row};
use model::{Histogram, LatencyKind, LatencySet, Snapshot};

/// Share of an interval that a worker may wait for a CPU. A healthy thread on a shared machine waits for up to 4 % of what
/// it wants to run; beside three busy loops on its core it is 67 %.
pub const WAITED_SHARE_MAX: f64 = 0.05;
/// Share of an interval by which a worker's turns may be late: as many requests meet it, and a hundredth of them is where
/// the 99th percentile begins.
pub const LATE_SHARE_MAX: f64 = 0.01;
/// Share of the machine's CPU time that the hypervisor may take. `/proc/stat` counts in hundredths of a second, so that
/// one or two of them in an interval of a second are rounding.
pub const STOLEN_SHARE_MAX: f64 = 0.02;
/// CPU time the hypervisor must have taken at the least, nanoseconds: three of those hundredths, whatever the interval.
pub const STOLEN_NS_MIN: f64 = 30e6;
/// Share of an interval in which a CPU quota may hold the generator: as of late turns.
pub const THROTTLED_SHARE_MAX: f64 = 0.01;

/// Share of the measured time that must be quiet.
pub const SHARE_MIN: f64 = 0.3;
/// Quiet intervals there must be.
pub const INTERVALS_MIN: u64 = 3;
/// Successes there must be in them: as many as a 99th percentile needs.
pub const SUCCESSES_MIN: u64 = 1000;

/// What kept the generator from running in an interval, by the row itself, the one before it, and the snapshots around it
/// (`before` at its start or earlier, `after` at its end or a little later; where one is missing, steal and quota are not
/// looked at). An interval after a disturbed one only follows: requests that were under way then may have ended in it.
pub fn disturbance(
    row: &Row,
    previous: Option<&Row>,
    before: Option<&Snapshot>,
    after: Option<&Snapshot>,
) -> Disturbance {
    let around = before.zip(after);
    let stolen = around.is_some_and(|(before, after)| is_stolen(before, after));
    let throttled = around.is_some_and(|(before, after)| is_throttled(before, after));
    let (wait, late) = (row.worker_wait_max, row.worker_late_max);
    let is_late = late > LATE_SHARE_MAX;
    // Turns that are late because the worker waited for its CPU are no second reason.
    let waited = wait > WAITED_SHARE_MAX || (is_late && wait > late / 2.0);
    let own =
        Disturbance { waited, late: is_late && !waited && !stolen && !throttled, stolen, throttled, follows: false };
    let follows = !own.is_own() && previous.is_some_and(|previous| previous.disturbance.is_own());
    Disturbance { follows, ..own }
}

fn is_stolen(before: &Snapshot, after: &Snapshot) -> bool {
    let Some((a, b)) = before.generator_cpu().zip(after.generator_cpu()) else { return false };
    let stolen_ns = b.steal_ns.saturating_sub(a.steal_ns) as f64;
    let total_ns = b.total_ns().saturating_sub(a.total_ns()) as f64;
    stolen_ns >= STOLEN_NS_MIN && stolen_ns > STOLEN_SHARE_MAX * total_ns
}

fn is_throttled(before: &Snapshot, after: &Snapshot) -> bool {
    let Some((a, b)) = before.generator_quota.zip(after.generator_quota) else { return false };
    let passed_ns = after.at_ns.saturating_sub(before.at_ns) as f64;
    b.throttled_ns.saturating_sub(a.throttled_ns) as f64 > THROTTLED_SHARE_MAX * passed_ns
}

/// The quiet part's figures; `None` where nothing was disturbed, or no time is left. Whether they are used is decided by
/// who judges them.
pub(crate) fn quiet(facts: &Facts<'_>) -> Option<Quiet> {
    let scope = facts.quiet.as_ref()?;
    let totals = &facts.recording.totals;
    let disturbed = totals.disturbed.as_deref()?;
    let latency = &scope.latency;
    let mut at_least = Vec::new();
    let mut of = |name: &str, permille| {
        let figure = quantile::shown(latency, LatencyKind::Response, Permille(permille))?;
        if figure.is_bound {
            at_least.push(name.to_owned());
        }
        Some(figure.ns as f64 / 1e3)
    };
    let (p50, p90) = (of("response_p50_us", 500), of("response_p90_us", 900));
    let (p99, p999) = (of("response_p99_us", 990), of("response_p999_us", 999));
    let max = latency.max(LatencyKind::Response);
    if max.is_some_and(|max| max.is_bound) {
        at_least.push("response_max_us".to_owned());
    }
    Some(Quiet {
        share: scope.measured_ns as f64 / totals.measured_ns.max(1) as f64,
        intervals: intervals(facts).saturating_sub(disturbed.intervals),
        disturbed_intervals: disturbed.intervals,
        disturbed_by: disturbed_by(facts),
        measured_s: scope.measured_ns as f64 / 1e9,
        rate_per_s: scope.requests_per_s(),
        count: successes(latency).len(),
        response_p50_us: p50,
        response_p90_us: p90,
        response_p99_us: p99,
        response_p999_us: p999,
        response_max_us: max.map(|max| max.ns as f64 / 1e3),
        at_least,
        is_used: false,
    })
}

/// Whether so much is quiet that it can stand for the run.
pub(crate) fn is_enough(quiet: &Quiet) -> bool {
    quiet.share >= SHARE_MIN && quiet.intervals >= INTERVALS_MIN && quiet.count >= SUCCESSES_MIN
}

/// Intervals of the measured time. Rows may stand for several each, so they are counted by their length.
fn intervals(facts: &Facts<'_>) -> u64 {
    let tick_ns = facts.recording.plan.tick_ns.max(1);
    facts.recording.totals.measured_ns.div_ceil(tick_ns)
}

fn successes(latency: &LatencySet<u64>) -> &Histogram<u64> {
    latency.of(LatencyKind::Response)
}

/// What disturbed the rows, in words.
fn disturbed_by(facts: &Facts<'_>) -> Vec<String> {
    let any = |of: fn(&Disturbance) -> bool| facts.rows.iter().any(|row| of(&row.disturbance));
    [
        (any(|d| d.waited), "the generator waited for a CPU"),
        (any(|d| d.late), "the generator was stopped"),
        (any(|d| d.stolen), "the hypervisor took CPU time"),
        (any(|d| d.throttled), "a CPU quota held the generator"),
    ]
    .into_iter()
    .filter(|(is_so, _)| *is_so)
    .map(|(_, words)| words.to_owned())
    .collect()
}

/// The rows of a scope that were disturbed themselves.
pub(crate) fn disturbed_rows(scope: &Scope<'_>) -> usize {
    scope.rows.iter().filter(|row| row.disturbance.is_own()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::snapshot::{CpuTimes, Quota};

    fn row(wait: f64, late: f64) -> Row {
        Row { end_ns: 1_000_000_000, worker_wait_max: wait, worker_late_max: late, ..Row::default() }
    }

    fn snapshot(at_s: i64, steal_ms: u64, throttled_ms: u64) -> Snapshot {
        let ns = 1_000_000;
        Snapshot {
            at_ns: at_s * 1_000_000_000,
            cpu: Some(CpuTimes { user_ns: at_s as u64 * 1000 * ns, steal_ns: steal_ms * ns, ..CpuTimes::default() }),
            generator_quota: Some(Quota { throttled_ns: throttled_ms * ns, ..Quota::default() }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_interval_is_disturbed_by_the_generators_signals() {
        let none = Disturbance::default();
        assert_eq!(disturbance(&row(0.04, 0.005), None, None, None), none);
        assert_eq!(disturbance(&row(0.3, 0.2), None, None, None), Disturbance { waited: true, ..none });
        assert_eq!(disturbance(&row(0.03, 0.04), None, None, None), Disturbance { waited: true, ..none });
        assert_eq!(disturbance(&row(0.01, 0.9), None, None, None), Disturbance { late: true, ..none });
        let of = |steal_ms, throttled_ms| {
            disturbance(&row(0.0, 0.0), None, Some(&snapshot(0, 0, 0)), Some(&snapshot(1, steal_ms, throttled_ms)))
        };
        assert_eq!(of(20, 5), none);
        assert_eq!(of(80, 0), Disturbance { stolen: true, ..none });
        assert_eq!(of(0, 100), Disturbance { throttled: true, ..none });
        // A latency is no signal.
        let slow = Row { response_p99_ns: Some(u64::MAX), ..row(0.0, 0.0) };
        assert_eq!(disturbance(&slow, None, None, None), none);
    }

    #[test]
    fn the_interval_after_a_disturbed_one_follows_it_and_no_further_one_does() {
        let mut rows = [row(0.5, 0.0), row(0.0, 0.0), row(0.0, 0.0)];
        for i in 0..rows.len() {
            let previous = i.checked_sub(1).map(|i| rows[i]);
            rows[i].disturbance = disturbance(&rows[i], previous.as_ref(), None, None);
        }
        assert!(rows[0].disturbance.is_own());
        assert!(rows[1].disturbance.follows && !rows[1].disturbance.is_own());
        assert!(!rows[2].disturbance.is_any());
    }
}
