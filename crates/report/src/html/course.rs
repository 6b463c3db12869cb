//! What was read of the machine and the target over time: a line a reading, a point a snapshot.
//!
//! It is shown every snapshot of a recording, as it is read; more than 4,096 are merged in pairs (of rates the mean, of
//! levels the larger), so its memory has a bound. Counters become rates since the last snapshot that had them. A reading that
//! is missing leaves a gap, and is no zero.

use super::unit::Unit;
use diagnose::usage::HostTime;
use model::Snapshot;
use model::metrics::Metrics;
use model::snapshot::{ProcessSample, Role};
use model::threads::STATES;
use std::collections::BTreeMap;

/// Points of a line at most.
const POINTS_MAX: usize = 4096;
/// Threads of which there is a line: those that ran longest.
const THREADS_SHOWN: usize = 6;
/// Threads that are followed.
const THREADS_MAX: usize = 256;
/// Places of waits of which there is a line: those that were waited at longest.
const WAITS_SHOWN: usize = 8;
/// Places of waits that are followed.
const WAITS_MAX: usize = 256;

/// Which chart a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Processors used, and waited for.
    Cpu,
    /// Memory by kind.
    Memory,
    /// The kernel's.
    KernelMemory,
    /// Sockets and descriptors.
    Sockets,
    /// Connections that wait to be accepted.
    Queue,
    /// Bytes that wait in sockets.
    QueueBytes,
    /// What was lost, sent again or refused.
    Losses,
    /// Time that somebody waited for a resource (PSI), throttling.
    Pressure,
    /// How the target's threads spent the windows of the probes.
    States,
    /// At what they waited there.
    Waits,
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Its chart.
    pub group: Group,
    /// Its name.
    pub name: String,
    /// A point a snapshot that is kept.
    pub values: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: Group,
    place: usize,
    /// Process and thread; 0 of all others.
    id: (u32, u32),
}

#[derive(Debug, Clone, Default)]
struct Kept {
    name: String,
    values: Vec<Option<f64>>,
    is_level: bool,
    /// The counter when it was last read.
    before: Option<(f64, i64)>,
    sum: f64,
}

/// All lines.
#[derive(Debug, Clone, Default)]
pub struct Course {
    at_ns: Vec<i64>,
    lines: BTreeMap<Key, Kept>,
    before: Option<Snapshot>,
    windows: Windows,
    stride: u64,
    seen: u64,
}

/// What threads had spent when they were last looked at, nanoseconds.
#[derive(Debug, Clone, Default)]
struct Windows {
    alive_ns: u64,
    states: BTreeMap<String, u64>,
    waits: BTreeMap<String, u64>,
    /// Numbers of places, by their names.
    places: BTreeMap<String, usize>,
}

impl Group {
    /// In what its lines are counted.
    pub fn unit(self) -> Unit {
        match self {
            Group::Cpu => Unit::Cpus,
            Group::Memory | Group::KernelMemory | Group::QueueBytes => Unit::Bytes,
            Group::Sockets | Group::Queue => Unit::Count,
            Group::Losses => Unit::PerS,
            Group::Pressure | Group::States | Group::Waits => Unit::Share,
        }
    }
}

/// Counters of the network that are losses, with their words.
const LOSSES: [(&str, &str); 8] = [
    ("tcp_retransmits", "segments sent again"),
    ("listen_drops", "connections dropped before they were accepted"),
    ("syn_queue_full_drops", "SYNs dropped"),
    ("tcp_out_resets", "resets sent"),
    ("tcp_attempt_fails", "connects that failed"),
    ("tcp_memory_drops", "segments dropped for want of memory"),
    ("tcp_backlog_drops", "segments dropped at a full backlog"),
    ("tcp_zero_window_drops", "segments dropped at a closed window"),
];

impl Course {
    /// Takes a snapshot in.
    pub fn push(&mut self, snapshot: &Snapshot) {
        self.stride = self.stride.max(1);
        let is_kept = self.seen.is_multiple_of(self.stride) && self.at_ns.last().is_none_or(|at| *at < snapshot.at_ns);
        self.seen += 1;
        if !is_kept {
            return;
        }
        if self.at_ns.len() >= POINTS_MAX {
            self.halve();
        }
        self.at_ns.push(snapshot.at_ns);
        self.cpu(snapshot);
        self.memory(snapshot);
        self.network(snapshot);
        self.pressure(snapshot);
        self.threads(snapshot);
        let points = self.at_ns.len();
        self.lines.values_mut().for_each(|line| line.values.resize(points, None));
        self.before = Some(Snapshot {
            at_ns: snapshot.at_ns,
            cpu: snapshot.cpu,
            cores: snapshot.cores.clone(),
            ..Snapshot::default()
        });
    }

    /// When each point is, nanoseconds since the run's start.
    pub fn at_ns(&self) -> &[i64] {
        &self.at_ns
    }

    /// The lines that have at least one point, those of a chart together; of losses only those that were.
    pub fn readings(&self) -> Vec<Reading> {
        let mut threads: Vec<(&Key, f64)> =
            self.lines.iter().filter(|(key, _)| key.id.1 != 0).map(|(key, line)| (key, line.sum)).collect();
        threads.sort_by(|a, b| b.1.total_cmp(&a.1));
        threads.truncate(THREADS_SHOWN);
        let mut waits: Vec<(&Key, f64)> =
            self.lines.iter().filter(|(key, _)| key.group == Group::Waits).map(|(key, line)| (key, line.sum)).collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        waits.truncate(WAITS_SHOWN);
        let is_shown = |key: &Key, line: &Kept| {
            let has_any = line.values.iter().flatten().next().is_some();
            let is_silent = matches!(key.group, Group::Losses | Group::States | Group::Waits);
            let is_news = !is_silent || line.sum > 0.0;
            let is_first = key.id.1 == 0 || (line.sum > 0.0 && threads.iter().any(|(thread, _)| *thread == key));
            let is_wait = key.group != Group::Waits || waits.iter().any(|(wait, _)| *wait == key);
            has_any && is_news && is_first && is_wait
        };
        let reading = |(key, line): (&Key, &Kept)| Reading {
            group: key.group,
            name: line.name.clone(),
            values: line.values.clone(),
        };
        self.lines.iter().filter(|(key, line)| is_shown(key, line)).map(reading).collect()
    }

    fn halve(&mut self) {
        // The later moment of two: a rate is of the time before it.
        let halved = |i: usize, len: usize| if i + 1 < len { i + 1 } else { i };
        let len = self.at_ns.len();
        self.at_ns = (0..len).step_by(2).map(|i| self.at_ns[halved(i, len)]).collect();
        for line in self.lines.values_mut() {
            let merged = |i: usize| {
                let pair = [line.values.get(i).copied().flatten(), line.values.get(i + 1).copied().flatten()];
                let known: Vec<f64> = pair.into_iter().flatten().collect();
                match known.len() {
                    0 => None,
                    _ if line.is_level => known.into_iter().reduce(f64::max),
                    n => Some(known.iter().sum::<f64>() / n as f64),
                }
            };
            line.values = (0..len).step_by(2).map(merged).collect();
        }
        self.stride *= 2;
    }

    fn line(&mut self, group: Group, place: usize, id: (u32, u32), name: &str) -> Option<(&mut Kept, i64, usize)> {
        let at = self.at_ns.len().checked_sub(1)?;
        let now = self.at_ns[at];
        let line = self.lines.entry(Key { group, place, id }).or_default();
        if line.name.is_empty() {
            line.name = name.to_owned();
        }
        line.values.resize(at, None);
        Some((line, now, at))
    }

    fn level(&mut self, group: Group, place: usize, name: &str, value: Option<f64>) {
        let Some(value) = value else { return };
        if let Some((line, ..)) = self.line(group, place, (0, 0), name) {
            line.is_level = true;
            line.sum += value;
            line.values.push(Some(value));
        }
    }

    /// A counter, as what it grew a second times `scale`.
    fn rate(&mut self, group: Group, place: usize, id: (u32, u32), name: &str, value: Option<u64>, scale: f64) {
        let Some(value) = value.map(|value| value as f64) else { return };
        let Some((line, now, _)) = self.line(group, place, id, name) else { return };
        let before = line.before.replace((value, now));
        // One that fell began anew: no rate is known of it.
        if let Some((then, at_ns)) = before.filter(|(then, at_ns)| *then <= value && *at_ns < now) {
            let rate = (value - then) * scale / ((now - at_ns) as f64 / 1e9);
            line.sum += rate;
            line.values.push(Some(rate));
        }
    }

    fn cpu(&mut self, snapshot: &Snapshot) {
        let used = self.before.as_ref().and_then(|before| HostTime::between(&before.cpu?, &snapshot.cpu?).shares());
        let cores = snapshot.cores.len() as f64;
        if let Some(used) = used.filter(|_| cores > 0.0) {
            self.level(Group::Cpu, 0, "machine", Some(used.busy * cores));
            if used.steal > 0.0 || self.lines.contains_key(&Key { group: Group::Cpu, place: 5, id: (0, 0) }) {
                self.level(Group::Cpu, 5, "stolen by the hypervisor", Some(used.steal * cores));
            }
        }
        let of = |role: Role, of: &dyn Fn(&ProcessSample) -> Option<u64>| {
            snapshot.processes.iter().filter(|p| p.role == role).filter_map(of).reduce(u64::saturating_add)
        };
        let target = snapshot.target_cpu.map(|cpu| cpu.user_ns.saturating_add(cpu.system_ns));
        let target = target.or_else(|| of(Role::Target, &ProcessSample::cpu_ns));
        self.rate(Group::Cpu, 1, (0, 0), "target", target, 1e-9);
        self.rate(Group::Cpu, 2, (0, 0), "generator", of(Role::Generator, &ProcessSample::cpu_ns), 1e-9);
        let wait = |process: &ProcessSample| {
            process.threads.iter().filter_map(|thread| thread.wait_ns).reduce(u64::saturating_add)
        };
        let has_new = self.lines.keys().filter(|key| key.id.1 != 0).count() < THREADS_MAX;
        self.rate(Group::Cpu, 4, (0, 0), "target’s threads, waiting for a CPU", of(Role::Target, &wait), 1e-9);
        for process in snapshot.processes.iter().filter(|process| process.role == Role::Target) {
            for thread in &process.threads {
                let id = (process.pid, thread.tid);
                if has_new || self.lines.contains_key(&Key { group: Group::Cpu, place: 3, id }) {
                    let name = format!("thread {} ({})", thread.name, thread.tid);
                    self.rate(Group::Cpu, 3, id, &name, thread.cpu_ns(), 1e-9);
                }
            }
        }
    }

    /// Shares of the time that threads lived in windows since the last snapshot; without a window there is no point.
    fn threads(&mut self, snapshot: &Snapshot) {
        let Some(seen) = snapshot.bpf.as_ref().and_then(|bpf| bpf.threads.as_ref()) else { return };
        let (mut alive_ns, mut states, mut waits) = (0u64, BTreeMap::new(), BTreeMap::new());
        for thread in seen.threads.iter().chain(&seen.others) {
            alive_ns = alive_ns.saturating_add(thread.alive_ns);
            for (state, ns) in &thread.ns {
                let sum: &mut u64 = states.entry(state.clone()).or_default();
                *sum = sum.saturating_add(*ns);
            }
            for wait in &thread.waits {
                let name = match (&*wait.call, wait.remote.as_deref().unwrap_or(&wait.at)) {
                    ("none", _) => format!("{}, in no call", wait.state),
                    (call, "none") => format!("{}, in {call}", wait.state),
                    (call, at) => format!("{}, in {call} at {at}", wait.state),
                };
                let sum: &mut u64 = waits.entry(name).or_default();
                *sum = sum.saturating_add(wait.ns);
            }
        }
        let before = std::mem::take(&mut self.windows);
        let places = before.places;
        self.windows = Windows { alive_ns, states, waits, places };
        let passed_ns = alive_ns.saturating_sub(before.alive_ns);
        if passed_ns == 0 {
            return;
        }
        let share = |now: u64, then: Option<&u64>| {
            (now.saturating_sub(then.copied().unwrap_or(0)) as f64 / passed_ns as f64).min(1.0)
        };
        for (place, state) in STATES.iter().enumerate() {
            let value = share(self.windows.states.get(*state).copied().unwrap_or(0), before.states.get(*state));
            self.part(Group::States, place, state, value);
        }
        for (name, ns) in std::mem::take(&mut self.windows.waits) {
            let value = share(ns, before.waits.get(&name));
            let next = self.windows.places.len();
            let known = self.windows.places.get(&name).copied();
            if let Some(place) = known.or((next < WAITS_MAX).then_some(next)) {
                self.windows.places.insert(name.clone(), place);
                self.part(Group::Waits, place, &name, value);
            }
            self.windows.waits.insert(name, ns);
        }
    }

    /// A share of a time.
    fn part(&mut self, group: Group, place: usize, name: &str, value: f64) {
        if let Some((line, ..)) = self.line(group, place, (0, 0), name) {
            line.sum += value;
            line.values.push(Some(value));
        }
    }

    fn memory(&mut self, snapshot: &Snapshot) {
        let of = |of: &dyn Fn(&ProcessSample) -> Option<u64>| {
            let target = snapshot.processes.iter().filter(|process| process.role == Role::Target);
            target.filter_map(of).reduce(u64::saturating_add).map(|bytes| bytes as f64)
        };
        self.level(Group::Memory, 0, "target, resident", of(&|p| p.rss_bytes));
        for (place, name, words) in [
            (1, "rss_anonymous_bytes", "of that, anonymous"),
            (2, "rss_file_bytes", "of that, of files"),
            (3, "rss_shared_bytes", "of that, shared"),
            (4, "swapped_bytes", "target, swapped out"),
        ] {
            self.level(Group::Memory, place, words, of(&|p| p.metrics.of(name)));
        }
        self.level(Group::KernelMemory, 0, "socket buffers", snapshot.socket_memory_bytes.map(|bytes| bytes as f64));
        self.level(Group::KernelMemory, 1, "slab", snapshot.slab_bytes.map(|bytes| bytes as f64));
        self.level(Group::Sockets, 3, "target’s descriptors", of(&|p| p.descriptors));
    }

    fn network(&mut self, snapshot: &Snapshot) {
        let of = |name: &str| snapshot.network.of(name).map(|n| n as f64);
        self.level(Group::Sockets, 0, "established", of("tcp_established"));
        self.level(Group::Sockets, 1, "TIME_WAIT", snapshot.time_wait.map(|n| n as f64));
        self.level(Group::Sockets, 2, "CLOSE_WAIT", of("connections_close_wait"));
        self.level(Group::Sockets, 4, "SYN_RECEIVED", of("connections_syn_received"));
        let waiting = snapshot.listeners.iter().map(|listener| listener.waiting).max();
        self.level(Group::Queue, 0, "connections waiting to be accepted", waiting.map(f64::from));
        let room = snapshot.listeners.iter().max_by_key(|listener| listener.waiting).map(|listener| listener.backlog);
        self.level(Group::Queue, 1, "as many may wait", room.map(f64::from));
        self.level(Group::QueueBytes, 0, "received, not read by the target", of("receive_queue_bytes"));
        self.level(Group::QueueBytes, 1, "sent, not acknowledged", of("send_queue_bytes"));
        for (place, (name, words)) in LOSSES.into_iter().enumerate() {
            self.rate(Group::Losses, place, (0, 0), words, snapshot.network.of(name), 1.0);
        }
    }

    fn pressure(&mut self, snapshot: &Snapshot) {
        let of = |metrics: &Metrics, name: &str| metrics.of(name);
        for (place, name, words) in [
            (0, "pressure_cpu_some_ns", "somebody waited for a CPU"),
            (1, "pressure_memory_some_ns", "somebody waited for memory"),
            (2, "pressure_io_some_ns", "somebody waited for I/O"),
        ] {
            self.rate(Group::Pressure, place, (0, 0), words, of(&snapshot.host, name), 1e-9);
        }
        let target = snapshot.processes.iter().find(|process| process.role == Role::Target);
        let throttled = target.and_then(|process| of(&process.metrics, "cgroup_cpu_throttled_ns"));
        self.rate(Group::Pressure, 3, (0, 0), "target held by its CPU quota", throttled, 1e-9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::bpf::BpfSample;
    use model::threads::{ThreadStates, ThreadTime, WaitPlace};
    use testkit::recordings::{SECOND_NS, process, thread};

    fn snapshot(at_s: i64, run_ms: u64, resident: u64) -> Snapshot {
        let mut one = thread(7, "worker");
        one.run_ns = Some(run_ms * 1_000_000);
        let mut of = process(Role::Target, 5, "server", vec![one]);
        of.rss_bytes = Some(resident);
        let mut snapshot = Snapshot { at_ns: at_s * SECOND_NS as i64, processes: vec![of], ..Snapshot::default() };
        snapshot.network.set_if("tcp_retransmits", Some(0));
        snapshot
    }

    #[test]
    fn counters_are_rates_levels_are_levels_and_no_loss_is_no_line() {
        let mut course = Course::default();
        [(0, 100, 10), (1, 600, 20), (3, 600, 30)]
            .into_iter()
            .for_each(|(at, run, rss)| course.push(&snapshot(at, run, rss)));
        let readings = course.readings();
        let of = |name: &str| readings.iter().find(|reading| reading.name == name).map(|reading| &reading.values[..]);
        assert_eq!(of("thread worker (7)"), Some(&[None, Some(0.5), Some(0.0)][..]));
        assert_eq!(of("target, resident"), Some(&[Some(10.0), Some(20.0), Some(30.0)][..]));
        assert!(readings.iter().all(|reading| reading.group != Group::Losses), "{readings:?}");
    }

    #[test]
    fn what_threads_waited_for_is_a_share_of_the_windows_since_the_last_snapshot() {
        let spent = |alive_ns: u64, futex_ns: u64| ThreadTime {
            threads: 1,
            alive_ns,
            ns: [("futex".to_owned(), futex_ns), ("on-cpu".to_owned(), alive_ns - futex_ns)].into(),
            waits: vec![WaitPlace {
                state: "futex".to_owned(),
                call: "futex".to_owned(),
                at: "none".to_owned(),
                ns: futex_ns,
                ..WaitPlace::default()
            }],
            ..ThreadTime::default()
        };
        let mut course = Course::default();
        // The third has had no window since the second.
        for (at, time) in [(0, spent(0, 0)), (1, spent(100, 20)), (2, spent(100, 20)), (3, spent(300, 120))] {
            let mut snapshot = snapshot(at, 0, 10);
            let threads = ThreadStates { threads: vec![time], ..ThreadStates::default() };
            snapshot.bpf = Some(BpfSample { threads: Some(threads), ..BpfSample::default() });
            course.push(&snapshot);
        }
        let readings = course.readings();
        let of = |group, name: &str| {
            let is_it = |reading: &&Reading| reading.group == group && reading.name == name;
            readings.iter().find(is_it).map(|reading| &reading.values[..])
        };
        assert_eq!(of(Group::States, "futex"), Some(&[None, Some(0.2), None, Some(0.5)][..]));
        assert_eq!(of(Group::Waits, "futex, in futex"), Some(&[None, Some(0.2), None, Some(0.5)][..]));
        assert!(of(Group::States, "disk").is_none(), "what was never so is no line");
    }

    #[test]
    fn a_long_course_keeps_its_bound_and_its_largest_level() {
        let mut course = Course::default();
        let points = 3 * POINTS_MAX as i64;
        (0..points).for_each(|at| course.push(&snapshot(at, at as u64 * 250, if at == 100 { 999 } else { 5 })));
        assert!(course.at_ns().len() <= POINTS_MAX);
        let readings = course.readings();
        let of = |name: &str| readings.iter().find(|reading| reading.name == name).unwrap();
        assert!(of("target, resident").values.contains(&Some(999.0)));
        assert!(readings.iter().all(|reading| reading.values.len() == course.at_ns().len()));
        let cpu = &of("thread worker (7)").values;
        assert!(cpu.iter().flatten().all(|cpus| (cpus - 0.25).abs() < 1e-9), "{cpu:?}");
    }
}
