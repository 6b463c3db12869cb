//! How busy the target's threads are between two readings, and what each did at the later one.

use model::plain::plain;
use model::snapshot::{ProcessSample, Role, Snapshot, ThreadSample};
use std::collections::BTreeMap;

/// Readings that are closer are not set against each other: a clock tick more or less would be seen as load, nanoseconds.
const APART_NS: i64 = 200_000_000;

/// A thread: process, its start, thread.
type Id = (u32, u64, u32);

/// The target's threads as last read.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    at_ns: i64,
    before: BTreeMap<Id, u64>,
    /// Those that ran, the busiest first.
    pub busiest: Vec<Use>,
    /// CPUs that all of them used together; `None`: not read twice.
    pub cpus: Option<f64>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Use {
    /// Its name, made plain.
    pub name: String,
    /// Its process's.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// The share of the time that it was on a CPU, 0..=1.
    pub share: f64,
    /// What it did when it was read.
    pub state: &'static str,
    /// The kernel function that it slept in.
    pub sleeps_in: Option<String>,
}

impl Threads {
    /// Takes a reading in; one without threads of the target changes nothing.
    pub fn read(&mut self, snapshot: &Snapshot) {
        let passed_ns = snapshot.at_ns.saturating_sub(self.at_ns);
        let is_first = self.before.is_empty();
        if !is_first && passed_ns < APART_NS {
            return;
        }
        let of_target = snapshot.processes.iter().filter(|process| process.role == Role::Target);
        let threads: Vec<(&ProcessSample, &ThreadSample, u64)> = of_target
            .flat_map(|process| process.threads.iter().map(move |thread| (process, thread)))
            .filter_map(|(process, thread)| thread.cpu_ns().map(|cpu_ns| (process, thread, cpu_ns)))
            .collect();
        if threads.is_empty() {
            return;
        }
        if !is_first {
            let shares = threads.iter().filter_map(|(process, thread, cpu_ns)| {
                let before_ns = self.before.get(&id(process, thread))?;
                Some(used(process, thread, cpu_ns.saturating_sub(*before_ns) as f64 / passed_ns as f64))
            });
            self.busiest = shares.collect();
            self.busiest.sort_by(|a, b| b.share.total_cmp(&a.share));
            self.cpus = Some(self.busiest.iter().map(|thread| thread.share).sum());
            self.busiest.truncate(super::limits::THREADS_MAX);
        }
        self.at_ns = snapshot.at_ns;
        self.before = threads.iter().map(|(process, thread, cpu_ns)| (id(process, thread), *cpu_ns)).collect();
    }
}

fn id(process: &ProcessSample, thread: &ThreadSample) -> Id {
    (process.pid, process.start_ticks, thread.tid)
}

fn used(process: &ProcessSample, thread: &ThreadSample, share: f64) -> Use {
    Use {
        name: plain(&thread.name).into_owned(),
        pid: process.pid,
        tid: thread.tid,
        share: share.min(1.0),
        state: state(thread.state),
        sleeps_in: thread.stands.as_ref().and_then(|stands| stands.wchan.as_deref()).map(|at| plain(at).into_owned()),
    }
}

/// A state of proc_pid_stat(5) in a word.
fn state(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' | 'I' => "sleeping",
        'D' => "uninterruptible",
        'T' | 't' => "stopped",
        'Z' | 'X' | 'x' => "ended",
        _ => "in an unknown state",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::recordings;

    fn snapshot(at_ns: i64, threads: &[(u32, u64)]) -> Snapshot {
        let threads = threads.iter().map(|(tid, run_ns)| ThreadSample {
            run_ns: Some(*run_ns),
            ..recordings::thread(*tid, &format!("worker\u{1b}{tid}"))
        });
        let process = recordings::process(Role::Target, 7, "server", threads.collect());
        Snapshot { at_ns, processes: vec![process], ..Snapshot::default() }
    }

    #[test]
    fn the_busiest_is_first_and_what_began_between_has_no_share() {
        let mut threads = Threads::default();
        threads.read(&snapshot(0, &[(1, 100), (2, 100)]));
        assert!(threads.busiest.is_empty() && threads.cpus.is_none(), "one reading is no share");
        threads.read(&snapshot(100_000_000, &[(1, 100), (2, 90_000_100)]));
        assert!(threads.busiest.is_empty(), "too close");
        threads.read(&snapshot(1_000_000_000, &[(1, 250_000_100), (2, 750_000_100), (3, 5)]));
        threads.read(&Snapshot { at_ns: 2_000_000_000, ..Snapshot::default() });
        let seen: Vec<_> = threads.busiest.iter().map(|one| (&*one.name, one.share, one.state)).collect();
        assert_eq!(seen, [("worker?2", 0.75, "running"), ("worker?1", 0.25, "running")]);
        assert_eq!(threads.cpus, Some(1.0));
    }
}
