//! Processes and threads over the run: each by its id and its start, so that an id used again is another one.
//!
//! Bounded: when there are too many, of those that have ended the one that used least CPU time goes; where all live, new ones
//! are counted and not kept.

use super::axis::{Axis, Track};
use super::group::{Axes, Budget, Group};
use super::series::Growth;
use crate::limits::{PROCESSES_MAX, THREADS_MAX};
use crate::usage::{grown, processes, threads_of};
use model::Snapshot;
use model::metrics::Kind;
use model::snapshot::{ProcessSample, Role, ThreadSample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process: its id and its start, in clock ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its id.
    pub pid: u32,
    /// Its start.
    pub start_ticks: u64,
}

/// One process over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Whose it is.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// When it was last seen, nanoseconds of the run.
    pub last_ns: i64,
    pub(super) group: Group,
    used_ns: f64,
}

/// One thread over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its process's name.
    pub process: String,
    /// Whose it is.
    pub role: Role,
    /// When it was first and last seen, nanoseconds of the run.
    pub seen_ns: (i64, i64),
    /// Time on a CPU, nanoseconds.
    pub run: Track<Growth>,
    /// Time runnable and without a CPU, nanoseconds.
    pub wait: Track<Growth>,
    /// How often it left a CPU of its own accord.
    pub voluntary: Track<Growth>,
    /// How often it was taken off.
    pub involuntary: Track<Growth>,
    used_ns: f64,
}

impl Thread {
    fn tracks(&mut self) -> [&mut Track<Growth>; 4] {
        [&mut self.run, &mut self.wait, &mut self.voluntary, &mut self.involuntary]
    }
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Tasks {
    /// Processes.
    pub processes: BTreeMap<ProcessId, Process>,
    /// Threads, by process and id.
    pub threads: BTreeMap<(ProcessId, u32), Thread>,
    /// All processes of the target together, and all of the generator.
    pub together: [Group; 2],
    /// Readings of processes and threads beyond the bounds.
    pub lost: u64,
}

/// Which of two a role is.
pub fn of_role(role: Role) -> usize {
    match role {
        Role::Target => 0,
        Role::Generator => 1,
    }
}

/// The process of a sample.
pub fn id_of(sample: &ProcessSample) -> ProcessId {
    ProcessId { pid: sample.pid, start_ticks: sample.start_ticks }
}

/// Figures of a control group are the same of each process in it.
fn is_shared(name: &str) -> bool {
    name.starts_with("cgroup_")
}

impl Tasks {
    /// Takes in what a snapshot says, and what grew since the one before.
    pub fn take(&mut self, now: &Axes<'_>, budget: &mut Budget, before: Option<&Snapshot>, snapshot: &Snapshot) {
        for sample in &snapshot.processes {
            self.process(now, budget, sample);
        }
        for role in [Role::Target, Role::Generator] {
            self.sum_levels(now, budget, snapshot, role);
            let Some(before) = before else { continue };
            for (earlier, sample) in processes(before, snapshot, role) {
                self.sum_growth(now, budget, before.at_ns, earlier, sample);
                for (thread, earlier) in threads_of(earlier, sample) {
                    self.thread(now, before.at_ns, sample, thread, earlier);
                }
            }
        }
    }

    fn process(&mut self, now: &Axes<'_>, budget: &mut Budget, sample: &ProcessSample) {
        let id = id_of(sample);
        if !self.processes.contains_key(&id) && self.processes.len() >= PROCESSES_MAX {
            let ended = self.processes.iter().filter(|(_, process)| process.last_ns < now.at_ns);
            let least = ended.min_by(|a, b| a.1.used_ns.total_cmp(&b.1.used_ns)).map(|(id, _)| *id);
            let Some(process) = least.and_then(|least| self.processes.remove(&least)) else {
                self.lost += 1;
                return;
            };
            budget.kept -= process.group.len().min(budget.kept);
        }
        let process = self.processes.entry(id).or_insert_with(|| Process {
            role: sample.role,
            name: String::new(),
            last_ns: now.at_ns,
            group: Group::default(),
            used_ns: 0.0,
        });
        if process.name != sample.name {
            process.name.clone_from(&sample.name);
        }
        process.last_ns = now.at_ns;
        process.used_ns = sample.cpu_ns().map_or(process.used_ns, |ns| ns as f64);
        let group = &mut process.group;
        group.take(now, budget, &sample.metrics);
        for (name, value) in counters(sample) {
            group.set(now, budget, name, Kind::Counter, value);
        }
        for (name, value) in gauges(sample) {
            group.set(now, budget, name, Kind::Gauge, value);
        }
    }

    /// The levels of all processes of a role together, of each metric that any of them has.
    fn sum_levels(&mut self, now: &Axes<'_>, budget: &mut Budget, snapshot: &Snapshot, role: Role) {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for sample in snapshot.processes.iter().filter(|sample| sample.role == role) {
            let named = sample
                .metrics
                .iter()
                .filter(|(name, _)| !is_shared(name) && model::metrics::kind_of(name) == Some(Kind::Gauge));
            let fixed = gauges(sample).into_iter().filter_map(|(name, value)| Some((name, value?)));
            for (name, value) in named.chain(fixed) {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(value);
            }
        }
        let group = &mut self.together[of_role(role)];
        for (name, sum) in sums {
            group.set(now, budget, name, Kind::Gauge, Some(sum));
        }
    }

    fn sum_growth(
        &mut self,
        now: &Axes<'_>,
        budget: &mut Budget,
        since_ns: i64,
        earlier: &ProcessSample,
        sample: &ProcessSample,
    ) {
        let group = &mut self.together[of_role(sample.role)];
        let named = sample
            .metrics
            .iter()
            .filter(|(name, _)| !is_shared(name) && model::metrics::kind_of(name) == Some(Kind::Counter));
        let named = named.map(|(name, value)| (name, earlier.metrics.of(name), Some(value)));
        let fixed = counters(earlier).into_iter().zip(counters(sample));
        let fixed = fixed.map(|((name, before), (_, after))| (name, before, after));
        for (name, before, after) in named.chain(fixed) {
            let (Some(before), Some(after)) = (before, after) else { continue };
            if after >= before {
                group.grew_together(now, budget, name, since_ns, (after - before) as f64);
            }
        }
    }

    fn thread(
        &mut self,
        now: &Axes<'_>,
        since_ns: i64,
        sample: &ProcessSample,
        thread: &ThreadSample,
        earlier: Option<&ThreadSample>,
    ) {
        let key = (id_of(sample), thread.tid);
        if !self.threads.contains_key(&key) && self.threads.len() >= THREADS_MAX {
            let ended = self.threads.iter().filter(|(_, thread)| thread.seen_ns.1 < now.at_ns);
            let least = ended.min_by(|a, b| a.1.used_ns.total_cmp(&b.1.used_ns)).map(|(key, _)| *key);
            let Some(least) = least else {
                self.lost += 1;
                return;
            };
            self.threads.remove(&least);
        }
        let known = self.threads.entry(key).or_insert_with(|| Thread {
            name: String::new(),
            process: String::new(),
            role: sample.role,
            seen_ns: (since_ns, now.at_ns),
            run: Track::default(),
            wait: Track::default(),
            voluntary: Track::default(),
            involuntary: Track::default(),
            used_ns: 0.0,
        });
        for (kept, name) in [(&mut known.name, &thread.name), (&mut known.process, &sample.name)] {
            if kept != name {
                kept.clone_from(name);
            }
        }
        known.seen_ns.1 = now.at_ns;
        let run_ns = grown(thread, earlier, |t| t.run_ns);
        known.used_ns += run_ns.unwrap_or(0.0);
        let all = [
            run_ns,
            grown(thread, earlier, |t| t.wait_ns),
            grown(thread, earlier, |t| t.switches.map(|s| s.voluntary)),
            grown(thread, earlier, |t| t.switches.map(|s| s.involuntary)),
        ];
        for (track, grown) in known.tracks().into_iter().zip(all) {
            if let Some(grown) = grown {
                track.grew(now.axis, now.at, since_ns, grown);
            }
        }
    }

    /// The threads of a role that were seen in a window.
    pub fn threads_in(&self, role: Role, from_ns: i64, to_ns: i64) -> impl Iterator<Item = (ProcessId, u32, &Thread)> {
        let all = self
            .threads
            .iter()
            .filter(move |(_, thread)| thread.role == role && thread.seen_ns.1 > from_ns && thread.seen_ns.0 < to_ns);
        all.map(|((process, tid), thread)| (*process, *tid, thread))
    }

    /// Merges as the axis did.
    pub fn halve(&mut self) {
        self.processes.values_mut().for_each(|process| process.group.each(super::series::Series::halve));
        self.together.iter_mut().for_each(|group| group.each(super::series::Series::halve));
        self.threads.values_mut().flat_map(Thread::tracks).for_each(Track::halve);
    }
}

/// What of a process grows and is no metric by name.
fn counters(sample: &ProcessSample) -> [(&'static str, Option<u64>); 2] {
    [("user_ns", sample.user_ns), ("system_ns", sample.system_ns)]
}

/// What of a process is as it is.
fn gauges(sample: &ProcessSample) -> [(&'static str, Option<u64>); 3] {
    let threads = Some(u64::from(sample.threads_total));
    [("rss_bytes", sample.rss_bytes), ("descriptors", sample.descriptors), ("threads_total", threads)]
}

impl Group {
    /// Several may have grown in one stretch: it is covered once.
    fn grew_together(&mut self, now: &Axes<'_>, budget: &mut Budget, name: &str, since_ns: i64, by: f64) {
        let Some(super::series::Series::Counter(track, last)) =
            self.series(budget, &mut 0, name, || Some(Kind::Counter))
        else {
            return;
        };
        // The moment of the last growth says whether this stretch is covered already.
        if last.replace((now.at_ns, 0)).is_none_or(|(at_ns, _)| at_ns < now.at_ns) {
            track.grew(now.axis, now.at, since_ns, by);
        } else {
            track.grew_too(now.axis, now.at, by);
        }
    }
}

impl Track<Growth> {
    /// Adds what grew in the stretch `at`, of which something has grown already.
    fn grew_too(&mut self, axis: &Axis, at: usize, grown: f64) {
        debug_assert!(at < axis.ends_ns().len());
        if let Some(cell) = self.cell(at) {
            cell.grown += grown;
        }
    }
}
