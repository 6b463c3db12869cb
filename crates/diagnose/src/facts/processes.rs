//! What rules need to know of the CPUs: how much the target wanted to run, what was left to it, who else ran.
//!
//! The sums and shares themselves are made in [`crate::usage`]. Processes that live shorter than a tick, and threads beyond
//! the sampler's bound, are in no sample: the kernel's own sum of the target's time has them.

use crate::usage::{HostTime, ThreadUse, cores_used, grown, pairs, processes, threads_of};
use model::Snapshot;
use model::snapshot::{CpuTimes, Neighbour, Role, SummedCpu, ThreadSample};

/// The stretch between two neighbouring snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// From, nanoseconds since the run's start.
    pub from_ns: i64,
    /// To, nanoseconds since the run's start.
    pub to_ns: i64,
    /// How much the target wanted to run; `None` where it was not read.
    pub target_demand: Option<Demand>,
    /// CPU time of the generator's machine; `None` where it was not read.
    pub generator_host: Option<HostTime>,
}

/// How much the target wanted to run, 0..=1, between two bounds: its busiest thread's time on a CPU or waiting for one,
/// or all its threads' over all cores, whichever is more. The bounds differ where processes came and went unseen between
/// two readings: what the kernel sums of them may have been one after the other, or many at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Another process that used CPU time on the generator's machine.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighbourUse<'r> {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: &'r str,
    /// Cores it used on average over the measured window.
    pub cores: f64,
}

/// What a host did over the measured window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// CPUs that stood idle, on average.
    pub idle_cores: f64,
    /// Cores there are.
    pub cores: f64,
    /// Share of CPU time taken by the hypervisor.
    pub steal: f64,
}

/// The snapshots that bound and fill a window. Those of the window's ends come a little late: two hundredths of the
/// window are forgiven, so that the drain's snapshot does not count as the load's.
pub(super) fn in_window(snapshots: &[Snapshot], start_ns: u64, end_ns: u64) -> &[Snapshot] {
    let slack_ns = (end_ns.saturating_sub(start_ns) / 50).max(5_000_000);
    let to_i64 = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let (start_ns, end_ns) = (to_i64(start_ns.saturating_add(slack_ns)), to_i64(end_ns.saturating_add(slack_ns)));
    let first = snapshots.iter().rposition(|s| s.at_ns <= start_ns).unwrap_or(0);
    let after = snapshots.iter().rposition(|s| s.at_ns <= end_ns).map_or(0, |last| last + 1);
    snapshots.get(first..after).unwrap_or(&[])
}

pub(super) fn spans(snapshots: &[Snapshot]) -> Vec<Span> {
    pairs(snapshots)
        .map(|(a, b, passed_ns)| Span {
            from_ns: a.at_ns,
            to_ns: b.at_ns,
            target_demand: demand(a, b, passed_ns),
            generator_host: a.generator_cpu().zip(b.generator_cpu()).map(|(a, b)| HostTime::between(a, b)),
        })
        .collect()
}

/// What the summed time must have beyond that of the threads that were seen, cores: less is the clock tick's rounding.
const UNSEEN_CORES_MIN: f64 = 0.1;
/// The least that was left for the target is taken to be this share of the machine: of next to nothing, all is soon used.
const LEFT_SHARE_MIN: f64 = 0.25;

fn demand(a: &Snapshot, b: &Snapshot, passed_ns: f64) -> Option<Demand> {
    let cores = b.cores.len().max(1) as f64;
    let (mut busiest, mut all, mut run, mut seen) = (0.0f64, 0.0, 0.0, false);
    for (before, after) in processes(a, b, Role::Target) {
        for (thread, earlier) in threads_of(before, after) {
            let Some(run_ns) = grown(thread, earlier, ThreadSample::cpu_ns) else { continue };
            let wait_ns = grown(thread, earlier, |t| t.wait_ns).unwrap_or(0.0);
            let demand = (run_ns + wait_ns) / passed_ns;
            busiest = busiest.max(demand);
            all += demand;
            run += run_ns / passed_ns;
            seen = true;
        }
    }
    let of_threads = busiest.max(all / cores).min(1.0);
    let Some(summed) = summed_cores(a, b, passed_ns) else {
        return seen.then_some(Demand { low: of_threads, high: of_threads });
    };
    let unseen = summed - run;
    if seen && unseen < UNSEEN_CORES_MIN {
        return Some(Demand { low: of_threads, high: of_threads });
    }
    // What it used of what others left to it: that is all that can be said of processes nobody saw wait.
    let idle = a.cpu.as_ref().zip(b.cpu.as_ref()).map(|(a, b)| HostTime::between(a, b).idle_ns / passed_ns);
    let left = idle.map_or(cores, |idle| (summed + idle).min(cores)).max(LEFT_SHARE_MIN * cores);
    let low = of_threads.max((summed / left).min(1.0));
    Some(Demand { low, high: low.max(unseen.clamp(0.0, 1.0)) })
}

/// Cores that the whole target used, as the kernel sums it.
fn summed_cores(a: &Snapshot, b: &Snapshot, passed_ns: f64) -> Option<f64> {
    let (a, b) = (a.target_cpu?, b.target_cpu?);
    let of = |cpu: &SummedCpu| cpu.user_ns.saturating_add(cpu.system_ns);
    if a.source == b.source { cores_used(of(&a), of(&b), passed_ns) } else { None }
}

/// Cores that the target used over some snapshots: as the kernel sums it, else by its threads.
pub(super) fn target_cores(snapshots: &[Snapshot], threads: &[ThreadUse<'_>]) -> Option<f64> {
    let read: Vec<&Snapshot> = snapshots.iter().filter(|s| s.target_cpu.is_some()).collect();
    let summed = read.first().zip(read.last()).and_then(|(first, last)| {
        let passed_ns = last.at_ns.saturating_sub(first.at_ns) as f64;
        summed_cores(first, last, passed_ns)
    });
    summed.or_else(|| threads.iter().filter_map(|t| t.run).reduce(|a, b| a + b))
}

/// The other processes of the generator's machine over some snapshots, the one that used most first.
pub(super) fn neighbours(snapshots: &[Snapshot]) -> Vec<NeighbourUse<'_>> {
    let (Some(first), Some(last)) = (snapshots.first(), snapshots.last()) else { return Vec::new() };
    let passed_ns = last.at_ns.saturating_sub(first.at_ns) as f64;
    let mut uses: Vec<NeighbourUse<'_>> = last
        .neighbours
        .iter()
        .filter_map(|after| {
            // One that was not among the first then had used less than those that were.
            let is_same = |n: &&Neighbour| n.pid == after.pid && n.start_ticks == after.start_ticks;
            let before_ns = first.neighbours.iter().find(is_same).map_or(0, |before| before.cpu_ns);
            let cores = cores_used(before_ns, after.cpu_ns, passed_ns)?;
            Some(NeighbourUse { pid: after.pid, name: &after.name, cores })
        })
        .collect();
    uses.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    uses
}

/// The share of the time in which a CPU quota held the generator; `None` where none was read.
pub(super) fn throttled(snapshots: &[Snapshot]) -> Option<f64> {
    let read = || snapshots.iter().filter_map(|s| Some((s.at_ns, s.generator_quota?)));
    let ((from_ns, before), (to_ns, after)) = (read().next()?, read().next_back()?);
    let passed_ns = to_ns.saturating_sub(from_ns) as f64;
    let held_ns = after.throttled_ns.saturating_sub(before.throttled_ns) as f64;
    (passed_ns > 0.0).then(|| (held_ns / passed_ns).min(1.0))
}

/// A machine by its CPU time, all cores together and each.
pub(super) fn host(
    snapshots: &[Snapshot],
    cpu: impl Fn(&Snapshot) -> Option<&CpuTimes>,
    cores: impl Fn(&Snapshot) -> &[CpuTimes],
) -> Option<Host> {
    let mut read = snapshots.iter().filter_map(|s| cpu(s).map(|cpu| (s, cpu)));
    let (first, before) = read.next()?;
    let (last, after) = read.next_back()?;
    let passed_ns = last.at_ns.saturating_sub(first.at_ns) as f64;
    let time = HostTime::between(before, after);
    (passed_ns > 0.0 && time.total_ns > 0.0).then(|| Host {
        idle_cores: time.idle_ns / passed_ns,
        cores: if cores(last).is_empty() { time.total_ns / passed_ns } else { cores(last).len() as f64 },
        steal: time.steal_ns / time.total_ns,
    })
}
