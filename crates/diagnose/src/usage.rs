//! CPU use between readings: of a machine, of threads. The one place where counters of CPU time become
//! shares and cores; rules, reports and runs that compare targets take them from here.
//!
//! Counters only grow; one that went back counts as not grown. Shares are of one CPU: a thread that never slept has 1. What
//! comes or goes between two readings is counted for the time it was seen.

use model::Snapshot;
use model::snapshot::{CpuTimes, ProcessSample, Role, ThreadSample};
use std::collections::BTreeMap;

/// CPU time of a machine over a stretch, all cores together, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostTime {
    /// Worked.
    pub busy_ns: f64,
    /// Had nothing to do.
    pub idle_ns: f64,
    /// Taken by the hypervisor.
    pub steal_ns: f64,
    /// All of it.
    pub total_ns: f64,
}

impl HostTime {
    /// What passed between two readings.
    pub fn between(a: &CpuTimes, b: &CpuTimes) -> Self {
        let more = |of: &dyn Fn(&CpuTimes) -> u64| of(b).saturating_sub(of(a)) as f64;
        let (busy_ns, steal_ns) = (more(&CpuTimes::busy_ns), more(&|t| t.steal_ns));
        // The kernel's idle time may go back by a tick.
        let idle = |t: &CpuTimes| t.idle_ns as f64 + t.iowait_ns as f64;
        let idle_ns = (idle(b) - idle(a)).max(0.0);
        HostTime { busy_ns, idle_ns, steal_ns, total_ns: busy_ns + steal_ns + idle_ns }
    }

    /// The same as shares; `None` where no time passed.
    pub fn shares(self) -> Option<HostUse> {
        (self.total_ns > 0.0)
            .then(|| HostUse { busy: self.busy_ns / self.total_ns, steal: self.steal_ns / self.total_ns })
    }
}

/// What a machine did, as shares of all its cores' time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostUse {
    /// Share that was worked, 0..=1.
    pub busy: f64,
    /// Share taken by the hypervisor, 0..=1.
    pub steal: f64,
}

/// The target's host between the first and the last snapshot that could read it; `None` unless two could.
pub fn host_use(snapshots: &[Snapshot]) -> Option<HostUse> {
    use_of(snapshots.iter().filter_map(|s| s.cpu.as_ref()))
}

/// The same of the generator's machine, which may be another than the target's.
pub fn generator_host_use(snapshots: &[Snapshot]) -> Option<HostUse> {
    use_of(snapshots.iter().filter_map(Snapshot::generator_cpu))
}

fn use_of<'r>(mut read: impl DoubleEndedIterator<Item = &'r CpuTimes>) -> Option<HostUse> {
    let first = read.next()?;
    HostTime::between(first, read.next_back()?).shares()
}

/// CPUs that were used on average, by a counter of CPU time at either end of a stretch; `None` where no time passed.
pub fn cores_used(before_ns: u64, after_ns: u64, passed_ns: f64) -> Option<f64> {
    (passed_ns > 0.0).then(|| after_ns.saturating_sub(before_ns) as f64 / passed_ns)
}

/// The processes of a role that are in both snapshots, earlier and later reading.
pub fn processes<'r>(
    a: &'r Snapshot,
    b: &'r Snapshot,
    role: Role,
) -> impl Iterator<Item = (&'r ProcessSample, &'r ProcessSample)> {
    b.processes
        .iter()
        .filter(move |p| p.role == role)
        .filter_map(|after| a.processes.iter().find(|before| before.is_same(after)).map(|before| (before, after)))
}

/// Every pair of neighbouring snapshots with time between them, and that time, nanoseconds.
pub(crate) fn pairs(snapshots: &[Snapshot]) -> impl Iterator<Item = (&Snapshot, &Snapshot, f64)> {
    snapshots.windows(2).filter_map(|pair| {
        let passed_ns = pair[1].at_ns.saturating_sub(pair[0].at_ns);
        (passed_ns > 0).then_some((&pair[0], &pair[1], passed_ns as f64))
    })
}

/// Each thread of the later reading with itself in the earlier one; a thread that was born in between has none, and
/// counts from zero. One that may only have been beyond the sampler's bound before is left out.
pub(crate) fn threads_of<'r>(
    before: &'r ProcessSample,
    after: &'r ProcessSample,
) -> impl Iterator<Item = (&'r ThreadSample, Option<&'r ThreadSample>)> {
    let is_whole = before.threads.len() >= before.threads_total as usize;
    after.threads.iter().filter_map(move |thread| {
        let earlier = before.threads.iter().find(|t| t.tid == thread.tid);
        (earlier.is_some() || is_whole).then_some((thread, earlier))
    })
}

/// How much a counter of a thread grew, nanoseconds; `None` where it was not read.
pub(crate) fn grown(
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

/// What a thread did over a window.
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

/// The threads of a role over some snapshots, the busiest first.
pub fn threads(snapshots: &[Snapshot], role: Role) -> Vec<ThreadUse<'_>> {
    let (sums, total_ns) = sums(snapshots, role);
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

/// Time that all threads of a role had on CPUs over some snapshots, nanoseconds; `None` where schedstat was never read.
pub fn run_ns(snapshots: &[Snapshot], role: Role) -> Option<f64> {
    sums(snapshots, role).0.into_values().filter_map(|sum| sum.run_ns).reduce(|a, b| a + b)
}

/// A thread by its process's id, its process's start and its own id.
type Thread = (u32, u64, u32);

/// What every thread did, and the time that passed, nanoseconds.
fn sums(snapshots: &[Snapshot], role: Role) -> (BTreeMap<Thread, Sum<'_>>, f64) {
    let mut sums: BTreeMap<Thread, Sum<'_>> = BTreeMap::new();
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
    (sums, total_ns)
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

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::recordings::{process, thread};

    fn seen(at_ns: i64, pid: u32, threads: &[(u32, u64)]) -> Snapshot {
        let thread = |&(tid, run_ns): &(u32, u64)| ThreadSample { run_ns: Some(run_ns), ..thread(tid, "t") };
        let half_ns = at_ns as u64 / 2;
        let threads = threads.iter().map(thread).collect();
        let process = ProcessSample {
            user_ns: Some(half_ns),
            system_ns: Some(0),
            ..process(Role::Target, pid, "server", threads)
        };
        Snapshot { at_ns, processes: vec![process], ..Snapshot::default() }
    }

    #[test]
    fn threads_and_processes_are_counted_for_the_time_they_were_seen() {
        // Thread 2 is born after the first reading and counts from nothing; of process 8 nothing is known before its first.
        let snapshots = [
            seen(0, 7, &[(1, 50)]),
            seen(100, 7, &[(1, 90), (2, 20)]),
            seen(200, 8, &[(9, 30)]),
            seen(300, 8, &[(9, 40)]),
        ];
        assert_eq!(run_ns(&snapshots, Role::Target), Some(40.0 + 20.0 + 10.0));
        assert_eq!(run_ns(&snapshots, Role::Generator), None);
        let busiest = &threads(&snapshots, Role::Target)[0];
        assert_eq!((busiest.tid, busiest.run), (1, Some(40.0 / 300.0)));
    }

    #[test]
    fn a_machine_whose_idle_time_goes_back_has_no_negative_share() {
        let at = |busy, idle, steal| CpuTimes { user_ns: busy, idle_ns: idle, steal_ns: steal, ..CpuTimes::default() };
        let time = HostTime::between(&at(10, 100, 0), &at(40, 99, 10));
        assert_eq!(time, HostTime { busy_ns: 30.0, idle_ns: 0.0, steal_ns: 10.0, total_ns: 40.0 });
        assert_eq!(time.shares(), Some(HostUse { busy: 0.75, steal: 0.25 }));
        assert_eq!(HostTime::between(&at(1, 1, 1), &at(1, 1, 1)).shares(), None);
    }
}
