//! All that was read over a run, in bounded memory, so that any fact can be asked for of any window of time.
//!
//! A history takes every snapshot, as it comes in a live run or as it is read from a recording, and is the same either way.
//! What a recording keeps in memory is thinned and serves for drawing; what rules need of time is asked of this. It has at
//! most [`crate::limits::STRETCHES_MAX`] stretches of time: of a run of ten minutes the true seconds, of one of a day less
//! than three minutes each. Identity is part of what is kept: a process is its id and its start, and each network namespace
//! has its own figures. Cost: under 30 µs a snapshot, and of a long run on a small machine some 5 MB
//! (`crates/store/examples/long_recording.rs`).

mod ask;
mod axis;
mod group;
mod machine;
mod saved;
mod series;
mod tasks;

pub use ask::{Answer, Level, Measured, Metric, NoAnswer, Subject};
pub use axis::Window;
pub use tasks::{Process, ProcessId, Thread};

use axis::{Axis, Track};
use group::{Axes, Budget, Group};
pub(crate) use machine::Cpus;
use model::Snapshot;
use model::metrics::Kind;
use model::remote::GeneratorHost;
use model::snapshot::{CpuSource, CpuTimes, Role};
use serde::{Deserialize, Serialize};
use series::{Growth, Series};
use std::collections::BTreeMap;
use tasks::Tasks;

use crate::facts::Span;
use crate::limits::PROCESSES_MAX;

/// Clock ticks by which the kernel's idle time may go back without the machine having been started anew, nanoseconds.
const IDLE_BACK_NS: u64 = 1_000_000_000;

/// See the module's head.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    axis: Axis,
    cpus: Track<Cpus>,
    machine: Group,
    generator_machine: Group,
    generator_network: Elsewhere,
    cores: Vec<Group>,
    disks: BTreeMap<String, Group>,
    networks: BTreeMap<Option<u32>, Elsewhere>,
    listeners: BTreeMap<String, Group>,
    probes: Group,
    tasks: Tasks,
    neighbours: BTreeMap<ProcessId, NeighbourSeen>,
    budget: Budget,
    /// Cores of the target's machine, and of the generator's, as last read.
    core_counts: [usize; 2],
    clock: Clock,
    /// The network namespace that was read last.
    last_network: Option<Option<u32>>,
    /// What of the last snapshot the next is compared with.
    #[serde(with = "saved::as_document")]
    before: Option<Box<Snapshot>>,
    started_anew: u32,
}

/// What the wall clock did beside the monotonic one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Clock {
    last: Option<(i64, i128)>,
    largest: Option<ClockChange>,
}

/// The wall clock's offset changed between two readings that follow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockChange {
    /// By how much, nanoseconds; negative: it was set back.
    pub by_ns: f64,
    /// Between these moments.
    pub window: Window,
}

impl Clock {
    fn read(&mut self, snapshot: &Snapshot) {
        let Some(offset_ns) = snapshot.wall_offset_ns else { return };
        let Some((from_ns, before_ns)) = self.last.replace((snapshot.at_ns, offset_ns)) else { return };
        let by_ns = offset_ns.saturating_sub(before_ns) as f64;
        if self.largest.is_none_or(|largest| by_ns.abs() >= largest.by_ns.abs()) {
            self.largest = Some(ClockChange { by_ns, window: Window::new(from_ns, snapshot.at_ns) });
        }
    }
}

/// A network namespace's figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Elsewhere {
    own: Group,
    interfaces: BTreeMap<String, Group>,
}

/// Another process over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NeighbourSeen {
    pub(crate) name: String,
    cpu: Track<Growth>,
    last: (i64, u64),
    /// The target had connections to it.
    #[serde(default)]
    pub(crate) is_backend: bool,
    /// It is another generator of the run.
    #[serde(default)]
    pub(crate) is_generator: bool,
}

impl History {
    /// Of snapshots that are all there.
    pub fn of(snapshots: &[Snapshot]) -> Self {
        let mut history = History::default();
        snapshots.iter().for_each(|snapshot| history.push(snapshot));
        history
    }

    /// Takes a snapshot in. One that is not later than the last is left out: between such nothing can be said. So is one of
    /// after the load (`load --after`): the history is of the load, and those stand in `Recording::after`.
    pub fn push(&mut self, snapshot: &Snapshot) {
        if snapshot.is_after_load {
            return;
        }
        let Some(step) = self.axis.push(snapshot.at_ns) else { return };
        if step.halved {
            self.halve();
        }
        let before = self.before.take();
        if before.as_deref().is_some_and(|before| is_started_anew(before, snapshot)) {
            self.begin_anew(step.at);
        }
        let now = &Axes { axis: &self.axis, at: step.at, at_ns: snapshot.at_ns };
        let budget = &mut self.budget;
        self.machine.take(now, budget, &snapshot.host);
        machine(&mut self.machine, now, budget, snapshot);
        if let Some(host) = &snapshot.generator_host {
            generator_machine(&mut self.generator_machine, now, budget, host);
            let network = &mut self.generator_network;
            network.own.take(now, budget, &host.network);
            each(&mut network.interfaces, &host.interfaces, |group, metrics| group.take(now, budget, metrics));
        }
        if self.cores.len() < snapshot.cores.len() {
            self.cores.resize_with(snapshot.cores.len().min(crate::limits::SERIES_MAX), Group::default);
        }
        for (group, times) in self.cores.iter_mut().zip(&snapshot.cores) {
            cpu(
                group,
                now,
                budget,
                ["user_ns", "system_ns", "idle_ns", "iowait_ns", "irq_ns", "softirq_ns", "steal_ns"],
                times,
            );
        }
        each(&mut self.disks, &snapshot.disks, |group, metrics| group.take(now, budget, metrics));
        if !snapshot.network.is_empty() || !snapshot.interfaces.is_empty() {
            let network = self.networks.entry(snapshot.network_pid).or_default();
            // What it was in the meantime nobody looked at.
            if self.last_network != Some(snapshot.network_pid) {
                let groups = std::iter::once(&mut network.own).chain(network.interfaces.values_mut());
                groups.for_each(|group| group.each(Series::forget));
                self.last_network = Some(snapshot.network_pid);
            }
            network.own.take(now, budget, &snapshot.network);
            each(&mut network.interfaces, &snapshot.interfaces, |group, metrics| group.take(now, budget, metrics));
        }
        for listener in &snapshot.listeners {
            let group = self.listeners.entry(listener.address.clone()).or_default();
            group.set(now, budget, "waiting", Kind::Gauge, Some(u64::from(listener.waiting)));
            group.set(now, budget, "backlog", Kind::Gauge, Some(u64::from(listener.backlog)));
        }
        probes(&mut self.probes, now, budget, snapshot);
        self.tasks.take(now, budget, before.as_deref(), snapshot);
        if let Some(before) = before.as_deref() {
            let passed_ns = Window::new(before.at_ns, snapshot.at_ns).length_ns() as f64;
            if let Some(cell) = self.cpus.cell(step.at) {
                axis::Cell::merge(cell, &Cpus::between(before, snapshot, passed_ns));
            }
        }
        self.clock.read(snapshot);
        let first_ns = self.axis.stretch(0).map_or(snapshot.at_ns, |first| first.from_ns);
        self.neighbours(first_ns, step.at, snapshot);
        let count = |now: usize, before: usize| if now == 0 { before } else { now };
        let [targets, generators] = self.core_counts;
        self.core_counts = [count(snapshot.cores.len(), targets), count(snapshot.generator_cores().len(), generators)];
        self.before = Some(Box::new(slim(snapshot)));
    }

    /// Their CPU time counts from the beginning of the observation. One that comes into the list late has used it at any time
    /// since.
    fn neighbours(&mut self, first_ns: i64, at: usize, snapshot: &Snapshot) {
        for neighbour in &snapshot.neighbours {
            let id = ProcessId { pid: neighbour.pid, start_ticks: neighbour.start_ticks };
            if !self.neighbours.contains_key(&id) && self.neighbours.len() >= PROCESSES_MAX {
                let ended = self.neighbours.iter().filter(|(_, seen)| seen.last.0 < snapshot.at_ns);
                let Some(least) = ended.min_by_key(|(_, seen)| seen.last.1).map(|(id, _)| *id) else { continue };
                self.neighbours.remove(&least);
            }
            let at_first = (first_ns, if snapshot.at_ns > first_ns { 0 } else { neighbour.cpu_ns });
            let seen = self.neighbours.entry(id).or_insert_with(|| NeighbourSeen {
                name: neighbour.name.clone(),
                cpu: Track::default(),
                last: at_first,
                is_backend: false,
                is_generator: false,
            });
            let (since_ns, before_ns) = seen.last;
            if since_ns < snapshot.at_ns {
                let grown = neighbour.cpu_ns.saturating_sub(before_ns) as f64;
                seen.cpu.grew(&self.axis, at, since_ns, grown);
            }
            seen.last = (snapshot.at_ns, neighbour.cpu_ns);
            seen.is_backend |= neighbour.is_backend;
            seen.is_generator |= neighbour.is_generator;
            if seen.name != neighbour.name {
                seen.name.clone_from(&neighbour.name);
            }
        }
    }

    /// The machine was started anew: no counter of it goes on.
    fn begin_anew(&mut self, at: usize) {
        self.started_anew = self.started_anew.saturating_add(1);
        self.before = None;
        let begin = |series: &mut Series| series.begin_anew(at);
        let groups = [&mut self.machine, &mut self.probes].into_iter().chain(&mut self.cores);
        let networks = self.networks.values_mut();
        let of_networks =
            networks.flat_map(|network| std::iter::once(&mut network.own).chain(network.interfaces.values_mut()));
        groups.chain(self.disks.values_mut()).chain(of_networks).for_each(|group| group.each(begin));
    }

    fn halve(&mut self) {
        self.cpus.halve();
        let groups =
            [&mut self.machine, &mut self.generator_machine, &mut self.probes].into_iter().chain(&mut self.cores);
        let networks = self.networks.values_mut().chain(std::iter::once(&mut self.generator_network));
        let of_networks =
            networks.flat_map(|network| std::iter::once(&mut network.own).chain(network.interfaces.values_mut()));
        let groups = groups.chain(self.disks.values_mut()).chain(of_networks).chain(self.listeners.values_mut());
        groups.for_each(|group| group.each(Series::halve));
        self.tasks.halve();
        self.neighbours.values_mut().for_each(|seen| seen.cpu.halve());
    }

    /// The whole of what was read; `None` without two snapshots.
    pub fn whole(&self) -> Option<Window> {
        let (from_ns, to_ns) = (self.axis.stretch(0)?.from_ns, *self.axis.ends_ns().last()?);
        (from_ns < to_ns).then(|| Window::new(from_ns, to_ns))
    }

    /// The snapshots that bound a window of the run: the last one before it, and the last one in it. Those of its ends come a
    /// little late: two hundredths of the window are forgiven, so that the drain's does not count as the load's. `None`
    /// without two.
    pub fn window(&self, start_ns: u64, end_ns: u64) -> Option<Window> {
        let slack_ns = (end_ns.saturating_sub(start_ns) / 50).max(5_000_000);
        let to_i64 = |ns: u64| i64::try_from(ns.saturating_add(slack_ns)).unwrap_or(i64::MAX);
        let ends_ns = self.axis.ends_ns();
        let last_by = |by_ns: i64| ends_ns[..ends_ns.partition_point(|end_ns| *end_ns <= by_ns)].last().copied();
        let from_ns = last_by(to_i64(start_ns)).or(self.axis.stretch(0).map(|first| first.from_ns))?;
        let to_ns = last_by(to_i64(end_ns))?;
        (from_ns < to_ns).then(|| Window::new(from_ns, to_ns))
    }

    /// The processes of a role, in the order of their ids.
    pub fn processes(&self, role: Role) -> impl Iterator<Item = (ProcessId, &Process)> {
        self.tasks.processes.iter().filter(move |(_, process)| process.role == role).map(|(id, process)| (*id, process))
    }

    /// The threads of a role that were seen in a window.
    pub fn threads(&self, role: Role, window: Window) -> impl Iterator<Item = (ProcessId, u32, &Thread)> {
        self.tasks.threads_in(role, window.from_ns, window.to_ns)
    }

    /// The other processes of the generator's machine.
    pub(crate) fn other_processes(&self) -> impl Iterator<Item = (ProcessId, &NeighbourSeen)> {
        self.neighbours.iter().map(|(id, seen)| (*id, seen))
    }

    /// The generator's machine: the target's, or one of its own.
    pub fn generators(&self) -> Subject<'static> {
        if self.generator_machine.len() > 0 { Subject::GeneratorMachine } else { Subject::Machine }
    }

    /// The largest change of the wall clock's offset between two readings; `None` without two.
    pub fn clock_change(&self) -> Option<ClockChange> {
        self.clock.largest
    }

    /// How often the target's machine was started anew.
    pub fn started_anew(&self) -> u32 {
        self.started_anew
    }

    /// The stretches of a window, with what they say of the CPUs.
    pub(crate) fn spans(&self, window: Window) -> Vec<Span> {
        let inside = self.axis.touched(window).filter_map(|at| Some((at, self.axis.stretch(at)?)));
        let inside = inside.filter(|(_, stretch)| stretch.length_ns() > 0 && stretch.overlap(window) == *stretch);
        inside
            .map(|(at, stretch)| {
                let cpus = self.cpus.of(at).copied().unwrap_or_default();
                Span {
                    from_ns: stretch.from_ns,
                    to_ns: stretch.to_ns,
                    target_demand: cpus.demand.map(|(demand, ns)| demand.over(ns)),
                    generator_host: cpus.generator_host.map(|(time, _)| time),
                }
            })
            .collect()
    }

    /// What of the CPUs is known of a window of whole stretches.
    pub(crate) fn cpus(&self, window: Window) -> Cpus {
        let mut sum = Cpus::default();
        for at in self.axis.touched(window) {
            let is_inside = |stretch: Window| stretch.length_ns() > 0 && stretch.overlap(window) == stretch;
            if self.axis.stretch(at).is_some_and(is_inside)
                && let Some(cell) = self.cpus.of(at)
            {
                axis::Cell::merge(&mut sum, cell);
            }
        }
        sum
    }

    /// Cores of the target's machine and of the generator's, as last read.
    pub(crate) fn core_counts(&self) -> [usize; 2] {
        self.core_counts
    }
}

/// What of a snapshot the next one is compared with.
fn slim(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        at_ns: snapshot.at_ns,
        cpu: snapshot.cpu,
        cores: snapshot.cores.clone(),
        processes: snapshot.processes.clone(),
        target_cpu: snapshot.target_cpu,
        generator_quota: snapshot.generator_quota,
        generator_host: snapshot.generator_host.as_deref().map(|host| {
            Box::new(GeneratorHost { cpu: host.cpu, cores: host.cores.clone(), ..GeneratorHost::default() })
        }),
        ..Snapshot::default()
    }
}

fn is_started_anew(before: &Snapshot, snapshot: &Snapshot) -> bool {
    before.cpu.zip(snapshot.cpu).is_some_and(|(a, b)| b.total_ns().saturating_add(IDLE_BACK_NS) < a.total_ns())
}

fn each<T>(groups: &mut BTreeMap<String, Group>, of: &BTreeMap<String, T>, mut take: impl FnMut(&mut Group, &T)) {
    for (name, metrics) in of {
        match groups.get_mut(name) {
            Some(group) => take(group, metrics),
            None => take(groups.entry(name.clone()).or_default(), metrics),
        }
    }
}

fn cpu(group: &mut Group, now: &Axes<'_>, budget: &mut Budget, names: [&str; 7], t: &CpuTimes) {
    let all = [t.user_ns, t.system_ns, t.idle_ns, t.iowait_ns, t.irq_ns, t.softirq_ns, t.steal_ns];
    for (name, ns) in names.into_iter().zip(all) {
        group.set(now, budget, name, Kind::Counter, Some(ns));
    }
}

const CPU_NAMES: [&str; 7] =
    ["cpu.user_ns", "cpu.system_ns", "cpu.idle_ns", "cpu.iowait_ns", "cpu.irq_ns", "cpu.softirq_ns", "cpu.steal_ns"];

/// What of the machine is no metric by name.
fn machine(group: &mut Group, now: &Axes<'_>, budget: &mut Budget, s: &Snapshot) {
    if let Some(times) = &s.cpu {
        cpu(group, now, budget, CPU_NAMES, times);
    }
    for (name, value) in [
        ("memory_available_bytes", s.memory_available_bytes),
        ("slab_bytes", s.slab_bytes),
        ("socket_memory_bytes", s.socket_memory_bytes),
        ("time_wait", s.time_wait),
    ] {
        group.set(now, budget, name, Kind::Gauge, value);
    }
    if let Some(cpu) = s.target_cpu {
        // Two sources are two counters.
        let [user, system] = match cpu.source {
            CpuSource::Processes => ["target_cpu.user_ns", "target_cpu.system_ns"],
            CpuSource::ControlGroup => ["target_cpu.group.user_ns", "target_cpu.group.system_ns"],
        };
        group.set(now, budget, user, Kind::Counter, Some(cpu.user_ns));
        group.set(now, budget, system, Kind::Counter, Some(cpu.system_ns));
    }
    group.set(now, budget, "generator_quota.throttled", Kind::Counter, s.generator_quota.map(|quota| quota.throttled));
    let throttled_ns = s.generator_quota.map(|quota| quota.throttled_ns);
    group.set(now, budget, "generator_quota.throttled_ns", Kind::Counter, throttled_ns);
    group.set(now, budget, "suspended_ns", Kind::Counter, s.suspended_ns);
}

fn generator_machine(group: &mut Group, now: &Axes<'_>, budget: &mut Budget, host: &GeneratorHost) {
    group.take(now, budget, &host.host);
    if let Some(times) = &host.cpu {
        cpu(group, now, budget, CPU_NAMES, times);
    }
    for (name, value) in [
        ("memory_available_bytes", host.memory_available_bytes),
        ("slab_bytes", host.slab_bytes),
        ("socket_memory_bytes", host.socket_memory_bytes),
        ("time_wait", host.time_wait),
    ] {
        group.set(now, budget, name, Kind::Gauge, value);
    }
}

/// Everything that the probes count grows from the start of the observation.
fn probes(group: &mut Group, now: &Axes<'_>, budget: &mut Budget, snapshot: &Snapshot) {
    let Some(bpf) = &snapshot.bpf else { return };
    let mut near = 0;
    let fixed = [
        ("windows", bpf.windows),
        ("window_ns", bpf.window_ns),
        ("calls_window_ns", bpf.calls_window_ns),
        ("window_replies", bpf.window_replies),
    ];
    for (name, value) in fixed.into_iter().chain(bpf.counts.iter().map(|(name, value)| (&**name, *value))) {
        if let Some(series) = group.series(budget, &mut near, name, || Some(Kind::Counter)) {
            series.read(now, value);
        }
    }
    for (reason, count) in &bpf.drops {
        group.set(now, budget, &format!("drops.{reason}"), Kind::Counter, Some(*count));
    }
    for (name, histogram) in &bpf.histograms {
        let count = histogram.buckets.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        group.set(now, budget, &format!("{name}.count"), Kind::Counter, Some(count));
        group.set(now, budget, &format!("{name}.sum"), Kind::Counter, Some(histogram.sum));
    }
}
