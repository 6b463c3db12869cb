//! CPU use of threads, processes and host between snapshots.
//!
//! Differences are summed over neighbouring snapshots, so threads that come or go in the middle are counted for the
//! time they were seen. Shares are of one CPU: a thread that never slept has 1. Processes that live shorter than a
//! tick, and threads beyond the sampler's bound, are in no sample: the kernel's own sum of the target's time has them.

use model::Snapshot;
use model::snapshot::{CpuTimes, Neighbour, ProcessSample, Role, SummedCpu, ThreadSample};
use std::collections::BTreeMap;

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

/// CPU time of a machine over a stretch, all cores together, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostTime {
    /// Worked.
    pub busy_ns: f64,
    /// Taken by the hypervisor.
    pub steal_ns: f64,
    /// All of it.
    pub total_ns: f64,
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

/// What a thread did over the measured window.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadUse<'r> {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub name: &'r str,
    /// Its process's name.
    pub process: &'r str,
    /// Time on a CPU over time passed; `None` where schedstat was not read.
    pub run: Option<f64>,
    /// Time runnable and waiting for a CPU over time passed; `None` where schedstat was not read.
    pub wait: Option<f64>,
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

/// Every pair of neighbours with time between them.
fn pairs(snapshots: &[Snapshot]) -> impl Iterator<Item = (&Snapshot, &Snapshot, f64)> {
    snapshots.windows(2).filter_map(|pair| {
        let passed_ns = pair[1].at_ns.saturating_sub(pair[0].at_ns);
        (passed_ns > 0).then_some((&pair[0], &pair[1], passed_ns as f64))
    })
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
            let Some(run_ns) = grown(thread, earlier, cpu_ns) else { continue };
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
    let idle = a.cpu.as_ref().zip(b.cpu.as_ref()).map(|(a, b)| idle_ns(a, b) / passed_ns);
    let left = idle.map_or(cores, |idle| (summed + idle).min(cores)).max(LEFT_SHARE_MIN * cores);
    let low = of_threads.max((summed / left).min(1.0));
    Some(Demand { low, high: low.max(unseen.clamp(0.0, 1.0)) })
}

/// Cores that the whole target used, as the kernel sums it.
fn summed_cores(a: &Snapshot, b: &Snapshot, passed_ns: f64) -> Option<f64> {
    let (a, b) = (a.target_cpu?, b.target_cpu?);
    let of = |cpu: &SummedCpu| cpu.user_ns.saturating_add(cpu.system_ns);
    (a.source == b.source && passed_ns > 0.0).then(|| of(&b).saturating_sub(of(&a)) as f64 / passed_ns)
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
    if passed_ns <= 0.0 {
        return Vec::new();
    }
    let mut uses: Vec<NeighbourUse<'_>> = last
        .neighbours
        .iter()
        .map(|after| {
            // One that was not among the first then had used less than those that were.
            let is_same = |n: &&Neighbour| n.pid == after.pid && n.start_ticks == after.start_ticks;
            let before_ns = first.neighbours.iter().find(is_same).map_or(0, |before| before.cpu_ns);
            let cores = after.cpu_ns.saturating_sub(before_ns) as f64 / passed_ns;
            NeighbourUse { pid: after.pid, name: &after.name, cores }
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

fn idle_ns(a: &CpuTimes, b: &CpuTimes) -> f64 {
    // The kernel's idle time may go back by a tick.
    let idle = |t: &CpuTimes| t.idle_ns as f64 + t.iowait_ns as f64;
    (idle(b) - idle(a)).max(0.0)
}

impl HostTime {
    fn between(a: &CpuTimes, b: &CpuTimes) -> Self {
        let more = |of: &dyn Fn(&CpuTimes) -> u64| of(b).saturating_sub(of(a)) as f64;
        let (busy_ns, steal_ns) = (more(&CpuTimes::busy_ns), more(&|t| t.steal_ns));
        HostTime { busy_ns, steal_ns, total_ns: busy_ns + steal_ns + idle_ns(a, b) }
    }
}

pub(super) fn threads(snapshots: &[Snapshot], role: Role) -> Vec<ThreadUse<'_>> {
    let mut sums: BTreeMap<(u32, u64, u32), Sum<'_>> = BTreeMap::new();
    let mut total_ns = 0.0;
    for (a, b, passed_ns) in pairs(snapshots) {
        total_ns += passed_ns;
        for (before, after) in processes(a, b, role) {
            for (thread, earlier) in threads_of(before, after) {
                let sum = sums.entry((after.pid, after.start_ticks, thread.tid)).or_default();
                (sum.name, sum.process) = (&thread.name, &after.name);
                sum.add(grown(thread, earlier, |t| t.run_ns), grown(thread, earlier, |t| t.wait_ns));
            }
        }
    }
    let mut uses: Vec<ThreadUse<'_>> = sums
        .into_iter()
        .map(|((pid, _, tid), sum)| ThreadUse {
            pid,
            tid,
            name: sum.name,
            process: sum.process,
            run: sum.run_ns.map(|ns| ns / total_ns),
            wait: sum.wait_ns.map(|ns| ns / total_ns),
        })
        .collect();
    uses.sort_by(|a, b| b.run.unwrap_or(-1.0).total_cmp(&a.run.unwrap_or(-1.0)));
    uses
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
        idle_cores: idle_ns(before, after) / passed_ns,
        cores: if cores(last).is_empty() { time.total_ns / passed_ns } else { cores(last).len() as f64 },
        steal: time.steal_ns / time.total_ns,
    })
}

/// The processes of a role that are in both snapshots: the same id, the same start.
fn processes<'r>(
    a: &'r Snapshot,
    b: &'r Snapshot,
    role: Role,
) -> impl Iterator<Item = (&'r ProcessSample, &'r ProcessSample)> {
    b.processes.iter().filter(move |p| p.role == role).filter_map(move |after| {
        let same = |p: &&ProcessSample| p.role == role && p.pid == after.pid && p.start_ticks == after.start_ticks;
        a.processes.iter().find(same).map(|before| (before, after))
    })
}

/// Each thread of the later reading with itself in the earlier one; a thread that was born in between has none, and
/// counts from zero. One that may only have been beyond the sampler's bound before is left out.
fn threads_of<'r>(
    before: &'r ProcessSample,
    after: &'r ProcessSample,
) -> impl Iterator<Item = (&'r ThreadSample, Option<&'r ThreadSample>)> {
    let is_whole = before.threads.len() >= before.threads_total as usize;
    after.threads.iter().filter_map(move |thread| {
        let earlier = before.threads.iter().find(|t| t.tid == thread.tid);
        (earlier.is_some() || is_whole).then_some((thread, earlier))
    })
}

/// How much a counter grew, nanoseconds; `None` where it was not read.
fn grown(
    thread: &ThreadSample,
    earlier: Option<&ThreadSample>,
    of: impl Fn(&ThreadSample) -> Option<u64>,
) -> Option<f64> {
    let before = match earlier {
        Some(earlier) => of(earlier)?,
        None => 0,
    };
    Some(of(thread)?.saturating_sub(before) as f64)
}

/// Time on a CPU: exact where schedstat was read, else by clock ticks.
fn cpu_ns(thread: &ThreadSample) -> Option<u64> {
    thread.run_ns.or_else(|| Some(thread.user_ns?.saturating_add(thread.system_ns?)))
}

#[derive(Default)]
struct Sum<'r> {
    name: &'r str,
    process: &'r str,
    run_ns: Option<f64>,
    wait_ns: Option<f64>,
}

impl Sum<'_> {
    fn add(&mut self, run_ns: Option<f64>, wait_ns: Option<f64>) {
        let plus = |sum: Option<f64>, more: Option<f64>| more.map_or(sum, |more| Some(sum.unwrap_or(0.0) + more));
        self.run_ns = plus(self.run_ns, run_ns);
        self.wait_ns = plus(self.wait_ns, wait_ns);
    }
}
