//! What rules need to know of the CPUs: how much the target wanted to run, what was left to it, who else ran.
//!
//! The sums and shares themselves are made in [`crate::usage`]. Processes that live shorter than a tick, and threads beyond
//! the sampler's bound, are in no sample: the kernel's own sum of the target's time has them.

use crate::history::{Cpus, History, Metric, NeighbourSeen, Subject, Window};
use crate::thresholds::MACHINE_BUSY;
use crate::usage::{HostTime, ThreadUse, cores_used, grown, processes, threads_of};
use model::Snapshot;
use model::snapshot::{Role, SummedCpu, ThreadSample};

/// The stretch between two neighbouring snapshots; of a long run, between several ([`crate::history`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// From, nanoseconds since the run's start.
    pub from_ns: i64,
    /// To, nanoseconds since the run's start.
    pub to_ns: i64,
    /// How much the target wanted to run, on average; `None` where it was not read.
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

impl Demand {
    /// Of two sums the means.
    pub(crate) fn over(self, length_ns: f64) -> Self {
        Demand { low: self.low / length_ns, high: self.high / length_ns }
    }
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
    /// The target has connections to it: what it uses, it uses for the target.
    pub is_backend: bool,
    /// It is another generator of the same run.
    pub is_generator: bool,
}

impl NeighbourUse<'_> {
    /// Its name and its id, for whoever is to look at it.
    pub fn named(&self) -> String {
        let of_run = if self.is_generator { "another generator of this run, " } else { "" };
        format!("{of_run}{} (pid {})", self.name, self.pid)
    }
}

impl<'r> super::Facts<'r> {
    /// The neighbours that have nothing to do with the run: what a backend uses is the target's own load, and ends with it, as
    /// does what the run's other generators use.
    pub fn strangers(&self) -> impl Iterator<Item = &NeighbourUse<'r>> {
        self.neighbours.iter().filter(|neighbour| !neighbour.is_backend && !neighbour.is_generator)
    }
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

impl Host {
    /// Whether hardly a core is left to anybody.
    pub fn is_full(&self) -> bool {
        self.idle_cores < (1.0 - MACHINE_BUSY.value) * self.cores
    }
}

/// What the CPUs did over a window, by the whole stretches in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'r> {
    /// The stretches between snapshots.
    pub spans: Vec<Span>,
    /// The other processes of the generator's machine, the one that used most CPU first.
    pub neighbours: Vec<NeighbourUse<'r>>,
    /// Cores that the whole target used; `None` where it was not read.
    pub target_cores: Option<f64>,
    /// Share of the time in which a CPU quota held the generator; `None` where it has none, or nobody looked.
    pub throttled: Option<f64>,
    /// The target's threads, the busiest first.
    pub target_threads: Vec<ThreadUse<'r>>,
    /// The generator's own threads, the busiest first.
    pub generator_threads: Vec<ThreadUse<'r>>,
    /// The target's host; `None` unless two snapshots read it.
    pub host: Option<Host>,
    /// The generator's: the same one, unless the target was observed on another machine.
    pub generator_host: Option<Host>,
}

impl<'r> Part<'r> {
    pub(super) fn of(history: &'r History, window: Window) -> Self {
        let cpus = history.cpus(window);
        let [cores, generator_cores] = history.core_counts();
        let target_threads = threads(history, Role::Target, window);
        Part {
            spans: history.spans(window),
            neighbours: neighbours(history, window),
            target_cores: target_cores(&cpus, &target_threads),
            throttled: throttled(&cpus),
            target_threads,
            generator_threads: threads(history, Role::Generator, window),
            host: host(cpus.host, cores),
            generator_host: host(cpus.generator_host, generator_cores),
        }
    }
}

/// What the summed time must have beyond that of the threads that were seen, cores: less is the clock tick's rounding.
const UNSEEN_CORES_MIN: f64 = 0.1;
/// The least that was left for the target is taken to be this share of the machine: of next to nothing, all is soon used.
const LEFT_SHARE_MIN: f64 = 0.25;

pub(crate) fn demand(a: &Snapshot, b: &Snapshot, passed_ns: f64) -> Option<Demand> {
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
pub(crate) fn summed_cores(a: &Snapshot, b: &Snapshot, passed_ns: f64) -> Option<f64> {
    let (a, b) = (a.target_cpu?, b.target_cpu?);
    let of = |cpu: &SummedCpu| cpu.user_ns.saturating_add(cpu.system_ns);
    if a.source == b.source { cores_used(of(&a), of(&b), passed_ns) } else { None }
}

/// The threads of a role over a window, the busiest first.
fn threads(history: &History, role: Role, window: Window) -> Vec<ThreadUse<'_>> {
    let passed_ns = window.length_ns() as f64;
    let share = |process, tid, name| {
        let grown = history.growth(Metric::new(Subject::Thread(process, tid), name), window);
        grown.ok().map(|grown| grown.value / passed_ns)
    };
    let mut uses: Vec<ThreadUse<'_>> = history
        .threads(role, window)
        .map(|(process, tid, thread)| ThreadUse {
            pid: process.pid,
            tid,
            name: &thread.name,
            process: &thread.process,
            run: share(process, tid, "run_ns"),
            wait: share(process, tid, "wait_ns"),
        })
        .collect();
    uses.sort_by(|a, b| b.run.unwrap_or(-1.0).total_cmp(&a.run.unwrap_or(-1.0)));
    uses
}

/// Cores that the target used over a window: as the kernel sums it, else by its threads.
fn target_cores(cpus: &Cpus, threads: &[ThreadUse<'_>]) -> Option<f64> {
    let summed = cpus.target.map(|(used_ns, passed_ns)| used_ns / passed_ns);
    summed.or_else(|| threads.iter().filter_map(|t| t.run).reduce(|a, b| a + b))
}

/// The other processes of the generator's machine over a window, the one that used most first.
fn neighbours(history: &History, window: Window) -> Vec<NeighbourUse<'_>> {
    let passed_ns = window.length_ns() as f64;
    let mut uses: Vec<NeighbourUse<'_>> = history
        .other_processes()
        .filter_map(|(id, seen)| {
            let used = history.growth(Metric::new(Subject::Neighbour(id), "cpu_ns"), window).ok()?;
            let cores = used.value / passed_ns;
            let NeighbourSeen { name, is_backend, is_generator, .. } = seen;
            Some(NeighbourUse { pid: id.pid, name, cores, is_backend: *is_backend, is_generator: *is_generator })
        })
        .collect();
    uses.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    uses
}

/// The share of the time in which a CPU quota held the generator; `None` where none was read.
fn throttled(cpus: &Cpus) -> Option<f64> {
    cpus.held.map(|(held_ns, passed_ns)| (held_ns / passed_ns).min(1.0))
}

/// A machine by its CPU time, all cores together, for so long; `cores` are those that were counted.
fn host(time: Option<(HostTime, f64)>, cores: usize) -> Option<Host> {
    let (time, passed_ns) = time?;
    Some(Host {
        idle_cores: time.idle_ns / passed_ns,
        cores: if cores == 0 { time.total_ns / passed_ns } else { cores as f64 },
        steal: time.steal_ns / time.total_ns,
    })
}
