//! Where the target's threads stood when they were looked at: what a serving thread waits for, by the kernel function it
//! sleeps in.
//!
//! Each reading is one moment, so shares of readings are estimates: with n readings of a thread a share p is known to about
//! ± √(p(1 − p)/n). How much of their time threads had a CPU, or wanted one, is not estimated: the kernel counts it. Readings say
//! more of it than there is, as was measured; the likely reason is that whoever looks takes a CPU to do so, and threads that are
//! woken there meanwhile are found about to run. Functions are the kernel's own names (fs/eventpoll.c, kernel/futex,
//! net/socket.c …), the same on every architecture; of another kernel's names a stand is [`Stand::Other`], never one of the rest.
//! A thread that did nothing over the measured time serves nothing, and is left out.

use super::Facts;
use crate::history::Metric;
use crate::history::{ProcessId, Subject, Window};
use model::snapshot::{Role, Runtime, Snapshot, ThreadSample};
use std::collections::{BTreeMap, BTreeSet};

/// What a thread did at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stand {
    /// On a CPU, or about to be.
    Running,
    /// Waits for any of its descriptors: epoll, poll, select, io_uring.
    Events,
    /// Waits for another thread: futex(2).
    Futex,
    /// Waits for the lock of a file: flock(2), fcntl(2).
    FileLock,
    /// Waits in a receive on one TCP connection.
    Receive,
    /// Waits for a connection to accept.
    Accept,
    /// Sleeps for a time of its own.
    Sleep,
    /// Waits for room in a pipe.
    PipeWrite,
    /// Waits for a process that it has started: wait4(2), waitid(2).
    Child,
    /// Waits for a disk (state D, or a function of the block layer).
    Disk,
    /// Something else.
    Other,
}

pub(super) fn stand(thread: &ThreadSample) -> Option<Stand> {
    let stands = thread.stands.as_ref()?;
    if thread.state == 'D' {
        return Some(Stand::Disk);
    }
    if stands.is_running {
        return Some(Stand::Running);
    }
    // The name's end may be the compiler's: `poll_schedule_timeout.constprop.0`.
    let Some(function) = stands.wchan.as_deref().and_then(|name| name.split('.').next()) else {
        // In a call, and asleep nowhere: it was woken while it was looked at.
        let is_woken = thread.state == 'R' || stands.syscall.is_some();
        return Some(if is_woken { Stand::Running } else { Stand::Other });
    };
    let begins = |all: &[&str]| all.iter().any(|name| function.starts_with(name));
    Some(
        if begins(&["do_epoll_wait", "ep_poll", "poll_schedule_timeout", "do_select", "do_sys_poll", "io_cqring_wait"])
        {
            Stand::Events
        } else if begins(&["futex_"]) {
            Stand::Futex
        } else if begins(&["locks_lock_inode_wait", "fcntl_setlk", "do_lock_file_wait"]) {
            Stand::FileLock
        } else if begins(&["wait_woken", "sk_wait_data", "tcp_recvmsg"]) {
            Stand::Receive
        } else if begins(&["inet_csk_accept", "inet_csk_wait_for_connect"]) {
            Stand::Accept
        } else if begins(&["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]) {
            Stand::Sleep
        } else if begins(&["anon_pipe_write", "pipe_write"]) {
            Stand::PipeWrite
        } else if begins(&["do_wait"]) {
            Stand::Child
        } else if begins(&["folio_wait", "submit_bio_wait", "io_schedule", "jbd2_log_wait", "blk_", "rq_qos_wait"]) {
            Stand::Disk
        } else {
            Stand::Other
        },
    )
}

/// Kernel functions in which poll(2) and select(2) wait, and epoll(7) does not.
const POLLS: [&str; 3] = ["poll_schedule_timeout", "do_select", "do_sys_poll"];

/// Whether a thread waits in poll(2) or select(2).
pub(super) fn is_in_poll(stands: &model::snapshot::Stands) -> bool {
    stands.wchan.as_deref().is_some_and(|name| POLLS.iter().any(|poll| name.starts_with(poll)))
}

/// Where the serving threads stood, over all readings of the measured time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stands {
    /// For each reading, the serving threads by what they did.
    pub readings: Vec<Vec<Stand>>,
    /// Threads that did anything.
    pub threads: usize,
    /// The share of their time in which they had a CPU or waited for one, by the kernel's count, 0..=1; `None`: it was not read.
    pub wanted_cpu: Option<f64>,
}

/// A wait that the same number of threads is in, while all others queue for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Places {
    /// What those in it wait for.
    pub wait: Stand,
    /// How many there are at a time.
    pub count: usize,
    /// The share of all that were seen that queued for one of them.
    pub queued: f64,
}

/// Waits for somebody else than a client or another thread of the target.
const WAITS: [Stand; 6] = [Stand::Sleep, Stand::Receive, Stand::PipeWrite, Stand::Child, Stand::Disk, Stand::Other];
/// More threads than these are no few places.
const WAITERS_MAX: usize = 256;
/// A request makes a worker wait once, less what was under way at either end.
const WAITS_A_REQUEST: f64 = 0.8;

/// So often must as many be in it as mostly are, of those readings in which somebody queued.
const SAME_MIN: f64 = 0.7;
/// Of so many places and more one may be missed, or counted twice.
const MANY_PLACES: usize = 4;
/// Fewer readings of a queue show no number that stays.
const QUEUES_MIN: usize = 3;
/// Fewer readings of threads that wait do not say for what they do.
const ASLEEP_MIN: usize = 3;

impl Stands {
    /// Whether threads queue in futex for a few places, in each of which one waits: a lock has one, a pool has several, and their
    /// number stays. `None`: they do not.
    pub fn places(&self) -> Option<Places> {
        let queue = |reading: &&Vec<Stand>| reading.contains(&Stand::Futex);
        let readings: Vec<&Vec<Stand>> = self.readings.iter().filter(queue).collect();
        let of = |wait: Stand| {
            let mut counts: Vec<usize> =
                readings.iter().map(|reading| reading.iter().filter(|stand| **stand == wait).count()).collect();
            counts.sort_unstable();
            let count = *counts.get(counts.len() / 2)?;
            // Threads are read one after the other: of many places one may be seen twice, or be handed on meanwhile.
            let skew = usize::from(count >= MANY_PLACES);
            let same = counts.iter().filter(|n| n.abs_diff(count) <= skew).count() as f64 / counts.len() as f64;
            (count > 0 && counts.len() >= QUEUES_MIN && same >= SAME_MIN).then_some((wait, count))
        };
        let (wait, count) = WAITS.into_iter().filter_map(of).max_by_key(|(_, count)| *count)?;
        Some(Places { wait, count, queued: self.share(Stand::Futex)? })
    }

    /// The share of the readings in which any stood so, 0..=1.
    pub fn share_of_readings(&self, of: Stand) -> f64 {
        let there = self.readings.iter().filter(|reading| reading.contains(&of)).count();
        there as f64 / self.readings.len().max(1) as f64
    }

    /// How many stood so at a time, on average.
    pub fn at_a_time(&self, of: Stand) -> f64 {
        let so = self.readings.iter().flatten().filter(|stand| **stand == of).count();
        so as f64 / self.readings.len().max(1) as f64
    }

    /// The share of their time in which they stood so, 0..=1; `None` where none was seen.
    pub fn share(&self, of: Stand) -> Option<f64> {
        let count = |of| self.readings.iter().flatten().filter(|stand| **stand == of).count();
        let (all, running) = (self.readings.iter().flatten().count(), count(Stand::Running));
        match self.wanted_cpu.filter(|_| all >= running + ASLEEP_MIN) {
            Some(wanted) if of == Stand::Running => Some(wanted),
            wanted => share_of_time(count(of), all, running, wanted),
        }
    }
}

/// The share of their time in which threads stood in a wait, 0..=1: of the time in which they neither had a CPU nor wanted one, as many as of
/// the readings that found them so. Where that time was not counted, or fewer than [`ASLEEP_MIN`] found them so, of all readings; `None`
/// without one.
fn share_of_time(there: usize, all: usize, running: usize, wanted_cpu: Option<f64>) -> Option<f64> {
    let asleep = all.saturating_sub(running);
    match wanted_cpu.filter(|_| asleep >= ASLEEP_MIN) {
        Some(wanted) => Some((1.0 - wanted) * there as f64 / asleep as f64),
        None => (all > 0).then(|| there as f64 / all as f64),
    }
}

/// A thread that ran for less of the time serves nothing, unless it left a CPU more often than [`SWITCHES_MIN`] a second.
const RUN_MIN: f64 = 0.0005;
const SWITCHES_MIN: f64 = 1.0;
/// A thread that ran for less than this share of what the busiest did helps, and does not serve: a collector's, a timer's.
const WORKING_SHARE: f64 = 0.1;

impl Facts<'_> {
    /// The snapshots of the measured time.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.recording.snapshots.iter().filter(|snapshot| self.is_measured(snapshot.at_ns))
    }

    /// Whether a moment lies in the measured time.
    pub fn is_measured(&self, at_ns: i64) -> bool {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        at_ns > signed(self.start_ns) && at_ns <= signed(self.end_ns)
    }

    /// Whether a process of the target is of such a runtime.
    pub fn is_of(&self, runtime: Runtime) -> bool {
        let mut processes = self.snapshots().flat_map(|snapshot| &snapshot.processes);
        processes.any(|process| process.role == Role::Target && process.runtime == Some(runtime))
    }

    /// All threads of the target that were seen in the measured time.
    pub fn all_threads(&self) -> BTreeSet<(ProcessId, u32)> {
        self.threads_that(|_, _, _| true)
    }

    /// Those that do the work: each ran at least a tenth of what the busiest did.
    pub fn working(&self) -> BTreeSet<(ProcessId, u32)> {
        let is_working = |run: f64, switches: f64, most: f64| {
            run >= WORKING_SHARE * most && (run >= RUN_MIN || switches >= SWITCHES_MIN)
        };
        self.threads_that(is_working)
    }

    /// Threads that hardly run, and that stood in the same wait for others in nearly all readings: what they wait for, and how
    /// many they are, where they left a CPU as often as requests ended, as each request then made one of them wait. `None`: there
    /// are no two of them.
    pub fn waiters(&self) -> Option<(Stand, BTreeSet<(ProcessId, u32)>)> {
        let all = self.threads_that(|_, switches, _| switches >= SWITCHES_MIN);
        if all.len() > WAITERS_MAX {
            return None;
        }
        let mut of: BTreeMap<Stand, BTreeSet<(ProcessId, u32)>> = BTreeMap::new();
        for thread in all {
            let stands = self.stands(&[thread].into());
            let in_most = |wait: &Stand| stands.share(*wait).is_some_and(|share| share >= SAME_MIN);
            if let Some(wait) = WAITS.into_iter().find(in_most).filter(|_| stands.readings.len() >= QUEUES_MIN) {
                of.entry(wait).or_default().insert(thread);
            }
        }
        let (wait, threads) = of.into_iter().max_by_key(|(_, threads)| threads.len())?;
        let left_per_s = threads.iter().filter_map(|thread| self.left_cpu_per_s(*thread)).sum::<f64>();
        let is_each = left_per_s >= WAITS_A_REQUEST * self.whole.requests_per_s();
        (threads.len() > 1 && is_each).then_some((wait, threads))
    }

    /// How often a second a thread left its CPU of its own accord, to wait; `None`: that was not read.
    pub fn left_cpu_per_s(&self, (process, tid): (ProcessId, u32)) -> Option<f64> {
        let metric = Metric::new(Subject::Thread(process, tid), "switches.voluntary");
        Some(self.history.rate(metric, self.read_window()?).ok()?.value)
    }

    /// Of what the working threads do, how much is a wait that takes such a share of their time, 0..=1: the rest is the time that they run. What a
    /// request waits behind others is made of what they do; the time in which they have nothing to do is nobody's wait.
    pub fn of_what_is_done(&self, waited: f64) -> f64 {
        let ran = self.target_cores.unwrap_or(0.0) / self.working().len().max(1) as f64;
        if waited > 0.0 { waited / (waited + ran) } else { 0.0 }
    }

    /// Threads by the share of the time they ran, how often a second they left a CPU of their own accord, and the most that any
    /// ran.
    fn threads_that(&self, is_one: impl Fn(f64, f64, f64) -> bool) -> BTreeSet<(ProcessId, u32)> {
        let Some(window) = self.read_window() else { return BTreeSet::new() };
        let rate = |process, tid, name| {
            self.history.rate(Metric::new(Subject::Thread(process, tid), name), window).map_or(0.0, |rate| rate.value)
        };
        let all: Vec<((ProcessId, u32), f64, f64)> = self
            .history
            .threads(Role::Target, window)
            .map(|(process, tid, _)| {
                ((process, tid), rate(process, tid, "run_ns") / 1e9, rate(process, tid, "switches.voluntary"))
            })
            .collect();
        let most = all.iter().map(|(_, run, _)| *run).fold(0.0, f64::max);
        all.into_iter()
            .filter(|(_, run, switches)| is_one(*run, *switches, most))
            .map(|(thread, _, _)| thread)
            .collect()
    }

    /// Where some threads stood.
    pub fn stands(&self, of: &BTreeSet<(ProcessId, u32)>) -> Stands {
        let readings = self.snapshots().map(|snapshot| self.stands_at(snapshot, of));
        let readings = readings.filter(|reading| !reading.is_empty()).collect();
        Stands { threads: of.len(), readings, wanted_cpu: self.wanted_cpu(of) }
    }

    /// The share of their time in which some threads had a CPU or waited for one, 0..=1; `None`: that was not read of each of them.
    pub fn wanted_cpu(&self, of: &BTreeSet<(ProcessId, u32)>) -> Option<f64> {
        let window = self.read_window()?;
        let (mut wanted_ns, mut lived_ns) = (0.0, 0.0);
        for (process, tid) in of {
            let grown = |name| self.history.growth(Metric::new(Subject::Thread(*process, *tid), name), window).ok();
            let (run, wait) = grown("run_ns").zip(grown("wait_ns"))?;
            wanted_ns += run.value + wait.value;
            lived_ns += run.covered_ns as f64;
        }
        (lived_ns > 0.0).then(|| (wanted_ns / lived_ns).min(1.0))
    }

    /// The share of their time in which some threads waited at a descriptor of a kind (`log`, `pipe`, `backend` …), 0..=1;
    /// `None`: none of them was read.
    pub fn share_standing_at(&self, of: &BTreeSet<(ProcessId, u32)>, kind: &str) -> Option<f64> {
        self.share_that(of, |_, _, stands| !stands.is_running && stands.at.as_deref() == Some(kind))
    }

    /// The share of their time in which some threads stood in poll(2) or select(2) while connections waited to be accepted, 0..=1;
    /// `None`: none of them was read.
    ///
    /// Whoever waits for a connection there is woken by one: it waits for something else. Ruby sleeps so in a program's first thread.
    /// Where an address has several listeners they must wait at each: a worker looks at its own.
    pub fn share_polling_beside_a_queue(&self, of: &BTreeSet<(ProcessId, u32)>) -> Option<f64> {
        self.share_that(of, |snapshot, thread, stands| {
            let is_in_poll = is_in_poll(stands) && thread.state == 'S';
            let waits_at_all = |address: &str| {
                snapshot.listeners.iter().filter(|listener| listener.address == address).all(|one| one.waiting > 0)
            };
            is_in_poll && snapshot.listeners.iter().any(|listener| waits_at_all(&listener.address))
        })
    }

    fn share_that(
        &self,
        of: &BTreeSet<(ProcessId, u32)>,
        is_so: impl Fn(&Snapshot, &ThreadSample, &model::snapshot::Stands) -> bool,
    ) -> Option<f64> {
        let (mut all, mut running, mut there) = (0_usize, 0_usize, 0_usize);
        self.each_stand(of, |snapshot, _, thread, stands| {
            all += 1;
            let is_running = stand(thread) == Some(Stand::Running);
            running += usize::from(is_running);
            there += usize::from(!is_running && is_so(snapshot, thread, stands));
        });
        share_of_time(there, all, running, self.wanted_cpu(of))
    }

    /// Calls with each reading of where some threads stood.
    pub(super) fn each_stand(
        &self,
        of: &BTreeSet<(ProcessId, u32)>,
        mut take: impl FnMut(&Snapshot, ProcessId, &ThreadSample, &model::snapshot::Stands),
    ) {
        for snapshot in self.snapshots() {
            for process in snapshot.processes.iter().filter(|process| process.role == Role::Target) {
                let id = ProcessId { pid: process.pid, start_ticks: process.start_ticks };
                for thread in process.threads.iter().filter(|thread| of.contains(&(id, thread.tid))) {
                    if let Some(stands) = &thread.stands {
                        take(snapshot, id, thread, stands);
                    }
                }
            }
        }
    }

    /// Where those of them stood that a snapshot looked at.
    pub fn stands_at(&self, snapshot: &Snapshot, of: &BTreeSet<(ProcessId, u32)>) -> Vec<Stand> {
        let mut reading = Vec::new();
        for process in snapshot.processes.iter().filter(|process| process.role == Role::Target) {
            let id = ProcessId { pid: process.pid, start_ticks: process.start_ticks };
            let threads = process.threads.iter().filter(|thread| of.contains(&(id, thread.tid)));
            reading.extend(threads.filter_map(stand));
        }
        reading
    }

    /// The measured time, as far as it was read.
    pub fn read_window(&self) -> Option<Window> {
        self.history.window(self.start_ns, self.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::snapshot::Stands as Read;
    use testkit::recordings::thread;

    fn of(state: char, wchan: Option<&str>, is_running: bool) -> Option<Stand> {
        let stands = Read { wchan: wchan.map(str::to_owned), syscall: None, is_running, ..Read::default() };
        stand(&ThreadSample { state, stands: Some(stands), ..thread(1, "x") })
    }

    #[test]
    fn who_is_woken_while_it_is_looked_at_runs() {
        let of = |state, syscall| {
            let stands = Read { syscall, ..Read::default() };
            stand(&ThreadSample { state, stands: Some(stands), ..thread(1, "x") })
        };
        assert_eq!(of('S', Some(45)), Some(Stand::Running));
        assert_eq!(of('R', None), Some(Stand::Running));
        assert_eq!(of('S', None), Some(Stand::Other), "the kernel does not say");
    }

    #[test]
    fn how_long_threads_ran_is_counted_and_only_the_rest_is_estimated() {
        use Stand::{Events, Running, Sleep};
        let share = |asleep: usize, wanted_cpu| {
            let readings = vec![vec![Sleep, Running]; asleep].into_iter().chain([vec![Events, Running]]).collect();
            let stands = Stands { readings, threads: 2, wanted_cpu };
            [Sleep, Events, Running].map(|stand| (stands.share(stand).unwrap() * 1000.0).round() as u32)
        };
        assert_eq!(
            share(3, Some(0.2)),
            [600, 200, 200],
            "found about to run in half of the readings, they were so for a fifth of the time"
        );
        assert_eq!(share(3, None), [375, 125, 500], "it was not counted");
        assert_eq!(share(1, Some(0.2)), [250, 250, 500], "two readings do not say for what they wait");
        assert_eq!(Stands::default().share(Sleep), None);
    }

    #[test]
    fn a_pool_has_places_whose_number_stays() {
        use Stand::{Events, Futex, Sleep};
        let stands = |readings: &[&[Stand]]| Stands {
            readings: readings.iter().map(|reading| reading.to_vec()).collect(),
            threads: 4,
            wanted_cpu: None,
        };
        let pool =
            stands(&[&[Sleep, Sleep, Futex, Futex], &[Futex, Sleep, Sleep, Futex], &[Sleep, Futex, Futex, Sleep]]);
        assert_eq!(pool.places(), Some(Places { wait: Sleep, count: 2, queued: 0.5 }));
        let lock =
            stands(&[&[Sleep, Futex, Futex, Futex], &[Futex, Sleep, Futex, Futex], &[Futex, Futex, Futex, Sleep]]);
        assert_eq!(lock.places().map(|places| places.count), Some(1));
        let any =
            stands(&[&[Sleep, Sleep, Sleep, Futex], &[Futex, Sleep, Futex, Futex], &[Futex, Sleep, Sleep, Futex]]);
        assert_eq!(any.places(), None, "their number does not stay");
        let of_eight = |asleep: usize| [vec![Sleep; asleep], vec![Futex; 8 - asleep]].concat();
        let five = [5, 4, 5, 6].map(of_eight);
        assert_eq!(
            stands(&five.each_ref().map(|one| &**one)).places().map(|places| places.count),
            Some(5),
            "give or take one"
        );
        let any = [5, 2, 5, 7].map(of_eight);
        assert_eq!(stands(&any.each_ref().map(|one| &**one)).places(), None);
        let idle = stands(&[&[Events, Events, Sleep, Sleep], &[Events, Events, Sleep, Sleep]]);
        assert_eq!(idle.places(), None, "nobody queues");
    }

    #[test]
    fn what_a_thread_waits_for_is_known_by_the_kernels_function() {
        assert_eq!(of('S', Some("do_epoll_wait"), false), Some(Stand::Events));
        assert_eq!(of('S', Some("poll_schedule_timeout.constprop.0"), false), Some(Stand::Events));
        assert_eq!(of('S', Some("futex_do_wait"), false), Some(Stand::Futex));
        assert_eq!(of('S', Some("futex_wait_queue"), false), Some(Stand::Futex));
        assert_eq!(of('S', Some("wait_woken"), false), Some(Stand::Receive));
        assert_eq!(of('S', Some("anon_pipe_write"), false), Some(Stand::PipeWrite));
        assert_eq!(of('S', Some("do_wait"), false), Some(Stand::Child));
        assert_eq!(of('D', None, true), Some(Stand::Disk));
        assert_eq!(of('R', None, true), Some(Stand::Running));
        assert_eq!(of('S', Some("a_function_of_tomorrow"), false), Some(Stand::Other));
        assert_eq!(stand(&thread(1, "x")), None);
    }
}
