//! How much the generator, and what its machine was given, can have done to the figures.
//!
//! What matters is not how often something happened, but what it can have added to a time or taken from a rate. Each
//! bound here is derived from readings of the generator alone, so that it holds whatever the target did:
//!
//! - **lag** (open pace): the quantile of the response time less that of the same requests from the moment they were taken
//!   up ([`Kind::Undelayed`]). Requests never taken up count as longer than any other: they push the quantile up.
//! - **late turns**: while a worker's turn is late for a share l of the time, at most that share of the requests met it, so
//!   without it the quantile q would have been at least the recorded quantile q − l, and less by no more than a reply
//!   may have lain there (reap delay).
//! - **kept from running**: a closed loop's worker that was kept from running a share w of the time made its N requests
//!   in 1 − w of it. With all of it, it would have made at most N / (1 − w): at most w of the throughput that could have
//!   been is missing, and by Little's law (L = λW, L fixed) at most w of the mean response time was added.
//! - **steal**: where the hypervisor takes a share s, work on a CPU takes 1 / (1 − s) as long: s / (1 − s) more. Where no CPU
//!   is full, only that part of a request's time is stretched that is work: the machine's busy time for each request over
//!   the mean response time. Where one is full, what waits in line waits that much longer too: all of it is stretched.
//!   Pieces of steal that are long and hit few requests show as lateness of the generator, and are judged as that.
//!
//! A bound decides where it is more than [`SHARE_MAX`] of the figure, and of a quantile where it is also beyond the
//! quantile's own confidence interval, and longer than a thread's wake-up. Time in which the target wanted all the CPU
//! there was does not count as kept from running: whoever gets the CPU then, the target is what limits.

use crate::facts::{Facts, Scope, Span};
use model::LatencyKind as Kind;
use model::interval::LATE_NS_MIN;
use model::recording::Row;

/// What may be added to a time, or taken from a rate, as a share of it, before the figure is the generator's.
pub const SHARE_MAX: f64 = 0.1;
/// A worker, or the target, this busy has no room left.
pub const BUSY: f64 = 0.9;
/// Lag below this is a wake-up, nanoseconds: what a sleeping thread on two busy cores keeps to at p99. A target that
/// answers in 100 µs must not be called unmeasurable for 20 µs of it.
pub const WAKE_UP_NS: f64 = 200e3;
/// Requests due and never taken up that may be missing from a rate, as a share of those due.
pub const NEVER_TAKEN_UP_MAX: f64 = 0.02;
/// The normal distribution's quantile for 95 %, two-sided.
const Z_95: f64 = 1.96;

/// What can have been added to a quantile of a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// The quantile, 0..=1.
    pub quantile: f64,
    /// The figure, nanoseconds.
    pub figure_ns: f64,
    /// The most that can have been added, nanoseconds; infinite where nothing bounds it.
    pub added_ns: f64,
    /// Whether that makes the figure the generator's.
    pub is_decisive: bool,
}

impl Added {
    /// The added part over the figure, 0..=1.
    pub fn share(&self) -> f64 {
        if self.added_ns <= 0.0 { 0.0 } else { (self.added_ns / self.figure_ns.max(1.0)).min(1.0) }
    }

    fn of(scope: &Scope<'_>, kind: Kind, quantile: f64, figure_ns: f64, added_ns: f64, floor_ns: f64) -> Self {
        let low_ns = low_end(scope, kind, quantile);
        let is_decisive = added_ns > floor_ns && added_ns > SHARE_MAX * figure_ns && figure_ns - added_ns < low_ns;
        Added { quantile, figure_ns, added_ns, is_decisive }
    }
}

/// The lower end of a quantile's 95 % confidence interval, whatever the distribution: how many of n samples lie below the
/// true quantile is binomial (H. A. David, "Order Statistics", 2.5), here by its normal approximation.
fn low_end(scope: &Scope<'_>, kind: Kind, quantile: f64) -> f64 {
    let count = (scope.latency.count(kind) as f64).max(1.0);
    let margin = Z_95 * (quantile * (1.0 - quantile) / count).sqrt();
    figure_ns(scope, kind, (quantile - margin).clamp(0.0, 1.0))
}

/// The quantile of a time, nanoseconds: requests that had not ended are in it at their age, as in every figure.
fn figure_ns(scope: &Scope<'_>, kind: Kind, quantile: f64) -> f64 {
    scope.latency.quantile(kind, quantile).map_or(0.0, |figure| figure.ns as f64)
}

/// The worse of two: what decides, else what adds the larger share.
fn worse(a: Option<Added>, b: Option<Added>) -> Option<Added> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let rank = |added: &Added| (added.is_decisive, added.share());
            Some(if rank(&a).partial_cmp(&rank(&b)).is_some_and(std::cmp::Ordering::is_ge) { a } else { b })
        }
        (a, b) => a.or(b),
    }
}

/// The share of the requests due that were never taken up, 0..=1.
pub fn never_taken_up(scope: &Scope<'_>) -> f64 {
    let never = scope.counts.never_taken_up as f64;
    if never <= 0.0 { 0.0 } else { never / (scope.arrived() + never) }
}

/// What lag added to the response time: at its median or its tail, whichever is worse. `None` where no request can be late,
/// or there are too few.
pub fn lag(facts: &Facts<'_>, scope: &Scope<'_>) -> Option<Added> {
    if facts.is_saturating() {
        return None;
    }
    worse(scope.tail(Kind::Response).and_then(|tail| lag_at(scope, tail)), lag_at(scope, 0.5))
}

/// The same at one quantile.
pub fn lag_at(scope: &Scope<'_>, quantile: f64) -> Option<Added> {
    if scope.latency.count(Kind::Response) < 20 {
        return None;
    }
    // With requests that are longer than any other, the quantile is one of higher rank among those that were taken up.
    let rank = quantile / (1.0 - never_taken_up(scope)).max(f64::MIN_POSITIVE);
    if rank > 1.0 {
        let figure_ns = figure_ns(scope, Kind::Response, quantile);
        return Some(Added { quantile, figure_ns, added_ns: f64::INFINITY, is_decisive: true });
    }
    let figure = figure_ns(scope, Kind::Response, rank);
    let (ended, undelayed) = (scope.latency.of(Kind::Response).len(), scope.latency.of(Kind::Undelayed).len());
    let without_ns = if undelayed as f64 >= 0.99 * ended as f64 {
        // Those that had not ended are as old either way, but for their own lag.
        let without = scope.latency.quantile_with(Kind::Undelayed, Kind::Response.censored(), quantile);
        without.map_or(0.0, |figure| figure.ns as f64)
    } else {
        // A recording from before it was kept: no quantile can have more of it than lag has itself.
        figure_ns(scope, Kind::Response, quantile) - figure_ns(scope, Kind::Lag, quantile)
    };
    Some(Added::of(scope, Kind::Response, quantile, figure, (figure - without_ns).max(0.0), WAKE_UP_NS))
}

/// What late turns of the workers' loops added to the times of one kind, at the median or the tail.
pub fn late(facts: &Facts<'_>, scope: &Scope<'_>, kind: Kind) -> Option<Added> {
    let share = scope.mean_over_rows(|row| counted(scope, row, late_share(facts, row)));
    let longest_ns = scope.rows.iter().map(|row| row.gauges.reap_delay_ns_max).max().unwrap_or(0);
    let at = |quantile: f64| {
        let figure = figure_ns(scope, kind, quantile);
        let without_ns = figure_ns(scope, kind, (quantile - share).max(0.0));
        let most_ns = if longest_ns > 0 { longest_ns as f64 } else { f64::INFINITY };
        let added_ns = if share > 0.0 { (figure - without_ns).min(most_ns) } else { 0.0 };
        Added::of(scope, kind, quantile, figure, added_ns, LATE_NS_MIN as f64)
    };
    let tail = scope.tail(kind)?;
    worse(Some(at(tail)), Some(at(0.5)))
}

/// The share of the time that the workers were kept from running, on average over them, while the target was not busy.
pub fn kept(facts: &Facts<'_>, scope: &Scope<'_>) -> f64 {
    scope.mean_over_rows(|row| counted(scope, row, wait_share(facts, row).max(late_share(facts, row)))).clamp(0.0, 1.0)
}

/// Nothing of a row in which the target wanted all it could get.
fn counted(scope: &Scope<'_>, row: &Row, share: f64) -> f64 {
    let is_target_busy = scope.span_of(row).and_then(|span| span.target_demand).is_some_and(|d| d.low >= BUSY);
    if is_target_busy { 0.0 } else { share }
}

/// The share of a row that its workers waited for a CPU, on average.
pub fn wait_share(facts: &Facts<'_>, row: &Row) -> f64 {
    of_workers(facts, row, row.counts.cpu_wait_ns, row.worker_wait_max)
}

/// The share of a row by which its workers' turns were late, on average.
pub fn late_share(facts: &Facts<'_>, row: &Row) -> f64 {
    of_workers(facts, row, row.counts.late_ns, row.worker_late_max)
}

/// Of what is summed over the workers, the mean; where only the largest is known, that of one worker.
fn of_workers(facts: &Facts<'_>, row: &Row, summed_ns: u64, most: f64) -> f64 {
    let workers = f64::from(facts.recording.plan.threads.max(1));
    let length_ns = row.end_ns.saturating_sub(row.start_ns) as f64;
    let mean = if length_ns > 0.0 { summed_ns as f64 / (workers * length_ns) } else { 0.0 };
    let mean = if summed_ns > 0 { mean } else { unit(most) / workers };
    mean.min(1.0)
}

/// The share of the worker that was worst off. A row that stands for several ticks has the worst of them: over its whole
/// length no worker can have had more than all had together.
fn of_worst(row: &Row, summed_ns: u64, most: f64) -> f64 {
    let length_ns = row.end_ns.saturating_sub(row.start_ns) as f64;
    let all = if summed_ns > 0 && length_ns > 0.0 { summed_ns as f64 / length_ns } else { 1.0 };
    unit(most).min(all)
}

/// The largest share of a row that a worker waited for a CPU.
pub fn worst_wait(row: &Row) -> f64 {
    of_worst(row, row.counts.cpu_wait_ns, row.worker_wait_max)
}

/// The largest share of a row by which a worker's turns were late.
pub fn worst_late(row: &Row) -> f64 {
    of_worst(row, row.counts.late_ns, row.worker_late_max)
}

/// The largest share of a row that a worker was on a CPU.
pub fn worst_busy(row: &Row) -> f64 {
    let cpu_ns = row.counts.cpu_user_ns.saturating_add(row.counts.cpu_system_ns);
    of_worst(row, cpu_ns, row.worker_busy_max)
}

fn unit(share: f64) -> f64 {
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// What the hypervisor took, and what that can have done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stolen {
    /// Share of the CPU time of the generator's machine.
    pub share: f64,
    /// Whether a CPU, a worker or the target was full: then all of a request's time is stretched.
    pub is_full: bool,
    /// CPU time of the machine for each request, nanoseconds.
    pub work_ns: f64,
    /// Mean response time, nanoseconds.
    pub response_ns: f64,
    /// The most that can have been added to the response time, as a share of it.
    pub added_share: f64,
}

impl Stolen {
    /// Whether that makes the figures the hypervisor's.
    pub fn is_decisive(&self) -> bool {
        self.added_share > SHARE_MAX
    }
}

/// What was stolen of the generator's machine; `None` where nobody could read it.
pub fn stolen(scope: &Scope<'_>) -> Option<Stolen> {
    let read = || scope.spans.iter().filter_map(|span| span.generator_host);
    let sum = |of: fn(&crate::usage::HostTime) -> f64| read().map(|time| of(&time)).sum::<f64>();
    let (busy_ns, steal_ns, total_ns) = (sum(|t| t.busy_ns), sum(|t| t.steal_ns), sum(|t| t.total_ns));
    if total_ns <= 0.0 || !total_ns.is_finite() {
        return None;
    }
    let share = (steal_ns / total_ns).clamp(0.0, 1.0);
    let demand = scope.spans.iter().filter_map(|span| span.target_demand).map(|d| d.low);
    let demands: Vec<f64> = demand.collect();
    let target = demands.iter().sum::<f64>() / demands.len().max(1) as f64;
    let worker = scope.mean_over_rows(worst_busy);
    let is_full = target >= BUSY || (busy_ns + steal_ns) / total_ns >= BUSY || worker >= BUSY;
    let times = scope.latency.of(Kind::Response);
    let response_ns = if times.is_empty() { 0.0 } else { times.mean() };
    let passed_ns: f64 = scope.spans.iter().filter(|s| s.generator_host.is_some()).map(length_ns).sum();
    let requests = scope.requests_per_s() * passed_ns / 1e9;
    let work_ns = if requests > 0.0 { busy_ns / requests } else { f64::INFINITY };
    let work_share = if is_full || response_ns <= 0.0 { 1.0 } else { (work_ns / response_ns).min(1.0) };
    // More than all of what was stolen it cannot be.
    let added_share = (work_share * share / (1.0 - share).max(f64::MIN_POSITIVE)).min(share);
    Some(Stolen { share, is_full, work_ns, response_ns, added_share })
}

fn length_ns(span: &Span) -> f64 {
    span.to_ns.saturating_sub(span.from_ns) as f64
}

/// Who kept the workers from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// Other processes.
    Neighbour,
    /// The target itself, on the same CPUs.
    Target,
    /// A CPU quota.
    Quota,
    /// The hypervisor.
    Hypervisor,
    /// Something stopped them: they did not run, and were not waiting for a CPU.
    Stopped,
}

/// What kept the workers from running, as shares of the time of the one that was worst off.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Taken {
    /// On a CPU.
    pub run: f64,
    /// Runnable, and not given a CPU.
    pub wait: f64,
    /// Of that, held by a CPU quota.
    pub quota: f64,
    /// CPU time taken by the hypervisor.
    pub stolen: f64,
    /// Turns late by neither of these.
    pub stopped: f64,
}

/// Less than this kept nobody from anything: the 99th percentile begins beyond it.
const TAKEN_MIN: f64 = 0.01;
/// So many times what all neighbours take the target takes where it, and not they, is told to be moved.
const TARGET_OVER_NEIGHBOURS: f64 = 4.0;
/// So much of what it wants to run a healthy thread waits on a shared machine.
const HEALTHY_WAIT: f64 = 0.04;

impl Taken {
    /// Of a part of the run.
    pub fn of(facts: &Facts<'_>, scope: &Scope<'_>) -> Self {
        let wait = scope.mean_over_rows(worst_wait);
        let late = scope.mean_over_rows(worst_late);
        let stolen = stolen(scope).map_or(0.0, |stolen| stolen.share);
        let quota = facts.throttled.unwrap_or(0.0);
        let run = scope.mean_over_rows(worst_busy);
        Taken { run, wait, quota, stolen, stopped: (late - wait.max(quota) - stolen).max(0.0) }
    }

    /// Who took most; `None` where nobody took enough to matter.
    pub fn by(&self, facts: &Facts<'_>) -> Option<Taker> {
        let others = (self.wait - self.quota - HEALTHY_WAIT * (self.run + self.wait)).max(0.0);
        let (most, taker) = [
            (others, Taker::Neighbour),
            (self.quota, Taker::Quota),
            (self.stolen, Taker::Hypervisor),
            (self.stopped, Taker::Stopped),
        ]
        .into_iter()
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
        if most < TAKEN_MIN {
            return None;
        }
        let neighbours: f64 = facts.neighbours.iter().map(|n| n.cores).sum();
        // The target is there to run: it is the one to be moved only where nobody else takes much.
        let is_targets = |cores: f64| cores > TARGET_OVER_NEIGHBOURS * neighbours;
        let is_targets = !facts.is_target_elsewhere() && facts.target_cores.is_some_and(is_targets);
        Some(if taker == Taker::Neighbour && is_targets { Taker::Target } else { taker })
    }
}

/// All that a measurement of the generator says against the figures of a part of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harm {
    /// What lag added to the response time.
    pub lag: Option<Added>,
    /// What late turns added to the response time.
    pub late: Option<Added>,
    /// What late turns added to the service time.
    pub service: Option<Added>,
    /// Share of the time kept from running; of a closed pace, else it is lag.
    pub kept: f64,
    /// What the hypervisor took.
    pub stolen: Option<Stolen>,
    /// Share of the requests due that were never taken up.
    pub never: f64,
}

impl Harm {
    /// Of a part of the run.
    pub fn of(facts: &Facts<'_>, scope: &Scope<'_>) -> Self {
        Harm {
            lag: lag(facts, scope),
            late: late(facts, scope, Kind::Response),
            service: late(facts, scope, Kind::Service),
            kept: if facts.is_open() { 0.0 } else { kept(facts, scope) },
            stolen: stolen(scope),
            never: never_taken_up(scope),
        }
    }

    /// Whether the workers' not running, for whatever reason, decides about a figure.
    pub fn is_by_not_running(&self) -> bool {
        let decides = |added: Option<Added>| added.is_some_and(|added| added.is_decisive);
        decides(self.lag)
            || decides(self.late)
            || decides(self.service)
            || self.kept > SHARE_MAX
            || self.never > NEVER_TAKEN_UP_MAX
    }

    /// Whether the hypervisor's share decides by itself.
    pub fn is_by_steal(&self) -> bool {
        self.stolen.is_some_and(|stolen| stolen.is_decisive())
    }
}
