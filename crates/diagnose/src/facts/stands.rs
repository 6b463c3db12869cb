//! Where the target's threads stood when they were looked at: what a serving thread waits for, by the kernel function it
//! sleeps in.
//!
//! Each reading is one moment, so shares of readings are estimates: with n readings of a thread a share p is known to about
//! ± √(p(1 − p)/n). Functions are the kernel's own names (fs/eventpoll.c, kernel/futex, net/socket.c …), the same on every
//! architecture; of another kernel's names a stand is [`Stand::Other`], never one of the rest. A thread that did nothing
//! over the measured time serves nothing, and is left out.

use super::Facts;
use crate::history::Metric;
use crate::history::{ProcessId, Subject, Window};
use model::snapshot::{Role, Snapshot, ThreadSample};
use std::collections::BTreeSet;

/// What a thread did at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stand {
    /// On a CPU, or about to be.
    Running,
    /// Waits for any of its descriptors: epoll, poll, select, io_uring.
    Events,
    /// Waits for another thread: futex(2).
    Futex,
    /// Waits in a receive on one TCP connection.
    Receive,
    /// Waits for a connection to accept.
    Accept,
    /// Sleeps for a time of its own.
    Sleep,
    /// Waits for room in a pipe.
    PipeWrite,
    /// Waits for a disk (state D, or a function of the block layer).
    Disk,
    /// Something else.
    Other,
}

fn stand(thread: &ThreadSample) -> Option<Stand> {
    let stands = thread.stands.as_ref()?;
    if thread.state == 'D' {
        return Some(Stand::Disk);
    }
    if stands.is_running {
        return Some(Stand::Running);
    }
    // The name's end may be the compiler's: `poll_schedule_timeout.constprop.0`.
    let Some(function) = stands.wchan.as_deref().and_then(|name| name.split('.').next()) else {
        return Some(if thread.state == 'R' { Stand::Running } else { Stand::Other });
    };
    let begins = |all: &[&str]| all.iter().any(|name| function.starts_with(name));
    Some(
        if begins(&["do_epoll_wait", "ep_poll", "poll_schedule_timeout", "do_select", "do_sys_poll", "io_cqring_wait"])
        {
            Stand::Events
        } else if begins(&["futex_"]) {
            Stand::Futex
        } else if begins(&["wait_woken", "sk_wait_data", "tcp_recvmsg"]) {
            Stand::Receive
        } else if begins(&["inet_csk_accept", "inet_csk_wait_for_connect"]) {
            Stand::Accept
        } else if begins(&["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]) {
            Stand::Sleep
        } else if begins(&["anon_pipe_write", "pipe_write"]) {
            Stand::PipeWrite
        } else if begins(&["folio_wait", "submit_bio_wait", "io_schedule", "jbd2_log_wait", "blk_", "rq_qos_wait"]) {
            Stand::Disk
        } else {
            Stand::Other
        },
    )
}

/// Where the serving threads stood, over all readings of the measured time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stands {
    /// For each reading, the serving threads by what they did.
    pub readings: Vec<Vec<Stand>>,
    /// Threads that did anything.
    pub threads: usize,
}

impl Stands {
    /// The share of all that were seen that stood so; `None` without one.
    pub fn share(&self, of: Stand) -> Option<f64> {
        let all = self.readings.iter().flatten().count();
        let so = self.readings.iter().flatten().filter(|stand| **stand == of).count();
        (all > 0).then(|| so as f64 / all as f64)
    }

    /// The share of readings for which something is so; `None` without one.
    pub fn readings_that(&self, is_so: impl Fn(&[Stand]) -> bool) -> Option<f64> {
        let so = self.readings.iter().filter(|reading| is_so(reading)).count();
        (!self.readings.is_empty()).then(|| so as f64 / self.readings.len() as f64)
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
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let (from_ns, to_ns) = (signed(self.start_ns), signed(self.end_ns));
        self.recording.snapshots.iter().filter(move |snapshot| snapshot.at_ns > from_ns && snapshot.at_ns <= to_ns)
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
        Stands { threads: of.len(), readings: readings.filter(|reading| !reading.is_empty()).collect() }
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
    fn what_a_thread_waits_for_is_known_by_the_kernels_function() {
        assert_eq!(of('S', Some("do_epoll_wait"), false), Some(Stand::Events));
        assert_eq!(of('S', Some("poll_schedule_timeout.constprop.0"), false), Some(Stand::Events));
        assert_eq!(of('S', Some("futex_do_wait"), false), Some(Stand::Futex));
        assert_eq!(of('S', Some("futex_wait_queue"), false), Some(Stand::Futex));
        assert_eq!(of('S', Some("wait_woken"), false), Some(Stand::Receive));
        assert_eq!(of('S', Some("anon_pipe_write"), false), Some(Stand::PipeWrite));
        assert_eq!(of('D', None, true), Some(Stand::Disk));
        assert_eq!(of('R', None, true), Some(Stand::Running));
        assert_eq!(of('S', Some("a_function_of_tomorrow"), false), Some(Stand::Other));
        assert_eq!(stand(&thread(1, "x")), None);
    }
}
