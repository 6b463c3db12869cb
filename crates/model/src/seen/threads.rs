//! How the target's threads spent the windows of the probes: by state, at what they waited, who woke them, who held what
//! they waited for, their stalls, and the pauses of all of them together.
//!
//! Each moment of a thread's life in a window is in exactly one state, so the states of a row add up to
//! [`ThreadTime::alive_ns`]. States, in the words of [`STATES`]: `on-cpu`; `runnable`, without a CPU; `throttled`, its
//! control group's quota is used up; `disk`, for I/O of a file or a disk, which no signal ends; `uninterruptible`, the same
//! without I/O that the kernel tells of, as for locks of the kernel; `futex`; `socket`; `poll`, for any of several
//! descriptors; `pipe`; `sleep`, for a time to pass; `stopped`; `other`.

use crate::bpf::rows_since;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Every state of a thread.
pub const STATES: [&str; 12] = [
    "on-cpu",
    "runnable",
    "throttled",
    "disk",
    "uninterruptible",
    "futex",
    "socket",
    "poll",
    "pipe",
    "sleep",
    "stopped",
    "other",
];

/// What a descriptor is: `none` where a call names none; `backend` a connection that the target made, of TCP or to a unix socket with a
/// name, `client` one of TCP that came to it; `log` a file that is only appended to; `epoll` an epoll instance or a ring of io_uring; `event` an eventfd,
/// timer and the like; `socket` one of another kind, or one of which that is not known; `unknown` one that is closed by now.
pub const DESCRIPTORS: [&str; 12] =
    ["none", "listener", "client", "backend", "socket", "file", "log", "pipe", "epoll", "event", "device", "unknown"];

/// All windows so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadStates {
    /// Their length together, as far as threads were looked at, nanoseconds.
    pub window_ns: u64,
    /// Threads, those that were on a CPU longest first.
    pub threads: Vec<ThreadTime>,
    /// All others together, those that ended in a window too.
    pub others: Option<ThreadTime>,
    /// Who woke whom, those that were waited for longest first.
    pub wakes: Vec<Wake>,
    /// Who held the futexes that others waited for, the longest waits first.
    pub holders: Vec<FutexHolder>,
    /// Stalls of 5 ms and more, the longest first.
    pub stalls: Vec<Stall>,
    /// Pauses of all threads together of 5 ms and more, the longest first. Those in which all waited for something to do
    /// are only counted (`threads.idle_pauses`).
    pub pauses: Vec<Pause>,
}

/// One thread, or several together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadTime {
    /// How many threads these are.
    pub threads: u64,
    /// The process; 0: of several.
    pub pid: u32,
    /// The thread; 0: several.
    pub tid: u32,
    /// Its name; empty where it has ended.
    pub name: String,
    /// How long it lived in the windows, nanoseconds.
    pub alive_ns: u64,
    /// Of that, nanoseconds by state ([`STATES`]); those that it was never in are left out.
    pub ns: BTreeMap<String, u64>,
    /// Where it waited, longest first. Waits that had not ended when a window did are only in `ns`.
    pub waits: Vec<WaitPlace>,
}

/// Waits of a thread in one call at one kind of descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitPlace {
    /// Its state meanwhile.
    pub state: String,
    /// The system call; `none`: in none, as for a page of memory.
    pub call: String,
    /// The kind of descriptor, of [`DESCRIPTORS`].
    pub at: String,
    /// Waits that ended.
    pub count: u64,
    /// Their time, nanoseconds.
    pub ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
    /// The descriptor of that; `None`: the call names none.
    pub descriptor: Option<u32>,
    /// The other end of that, where it is a TCP connection.
    pub remote: Option<String>,
}

/// Who woke a thread from a state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Wake {
    /// Who waited.
    pub tid: u32,
    /// How.
    pub state: String,
    /// `thread`, `kernel-thread` or `interrupt` (a timer's end, or what comes from outside). An interrupt that came while
    /// a thread was in a call that can wake others is taken for that thread.
    pub by: String,
    /// The thread that woke it; 0: an interrupt, or a thread that has no id here.
    pub waker_tid: u32,
    /// Its name.
    pub waker_name: String,
    /// How many times.
    pub count: u64,
    /// Time waited until then, nanoseconds.
    pub ns: u64,
}

/// Who held a futex while another thread of its process waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FutexHolder {
    /// The process.
    pub pid: u32,
    /// The futex' address in it.
    pub address: u64,
    /// That address as `file+offset`, or as itself.
    pub place: String,
    /// The thread that held it when the wait began (`owner`), or that ended the wait (`releaser`).
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// How that is known: `owner`, as the mutex itself says (a pthread mutex of glibc); `releaser`, it let waiters go: of
    /// a lock, that is who held it last; of a condition, who signalled it.
    pub known_by: String,
    /// Waits that ended.
    pub waits: u64,
    /// Their time, nanoseconds.
    pub ns: u64,
    /// How much of that the holder was on a CPU, nanoseconds; of a releaser, and of an owner that had no event before: at
    /// the least.
    pub ran_ns: u64,
}

/// A stretch in which a thread could not go on, though it had something to do: without a CPU, at a disk, stopped, at a
/// connection that the target made, in a send, at a mutex that somebody held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stall {
    /// The thread.
    pub tid: u32,
    /// Its beginning, nanoseconds since the run's start.
    pub from_ns: i64,
    /// How long, nanoseconds.
    pub ns: u64,
    /// Its state.
    pub state: String,
    /// The system call that it waited in; `none`: in none.
    pub call: String,
    /// At which kind of descriptor.
    pub at: String,
}

/// A stretch in which no thread of the target was on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pause {
    /// Its beginning, nanoseconds since the run's start.
    pub from_ns: i64,
    /// How long, nanoseconds.
    pub ns: u64,
    /// The thread that ended it; 0: it had not ended when the window did.
    pub ended_by: u32,
    /// How many threads were in which state at its end.
    pub threads: BTreeMap<String, u64>,
}

impl ThreadTime {
    fn is_same(&self, other: &ThreadTime) -> bool {
        (self.pid, self.tid) == (other.pid, other.tid)
    }

    fn since(&self, then: &ThreadTime) -> ThreadTime {
        let less = u64::saturating_sub;
        let ns = |(state, ns): (&String, &u64)| (state.clone(), less(*ns, then.ns.get(state).copied().unwrap_or(0)));
        ThreadTime {
            alive_ns: less(self.alive_ns, then.alive_ns),
            ns: self.ns.iter().map(ns).filter(|(_, ns)| *ns > 0).collect(),
            waits: rows_since(
                &self.waits,
                &then.waits,
                |a, b| (&a.state, &a.call, &a.at) == (&b.state, &b.call, &b.at),
                |a, b| WaitPlace { count: less(a.count, b.count), ns: less(a.ns, b.ns), ..a.clone() },
                |wait| wait.ns,
            ),
            ..self.clone()
        }
    }
}

impl Pause {
    /// The state that all threads were in; `None`: not all in the same.
    pub fn state(&self) -> Option<&str> {
        match self.threads.len() {
            1 => self.threads.keys().next().map(String::as_str),
            _ => None,
        }
    }
}

impl ThreadStates {
    /// What came after an earlier sample of the same observation. Of the longest wait at a place, that of all time.
    pub fn since(&self, then: &ThreadStates) -> ThreadStates {
        let less = u64::saturating_sub;
        ThreadStates {
            window_ns: less(self.window_ns, then.window_ns),
            threads: rows_since(&self.threads, &then.threads, ThreadTime::is_same, ThreadTime::since, |row| {
                row.alive_ns
            }),
            others: self.others.as_ref().map(|now| then.others.as_ref().map_or(now.clone(), |old| now.since(old))),
            wakes: rows_since(
                &self.wakes,
                &then.wakes,
                |a, b| (a.tid, &a.state, &a.by, a.waker_tid) == (b.tid, &b.state, &b.by, b.waker_tid),
                |a, b| Wake { count: less(a.count, b.count), ns: less(a.ns, b.ns), ..a.clone() },
                |wake| wake.ns,
            ),
            holders: rows_since(
                &self.holders,
                &then.holders,
                |a, b| (a.pid, a.address, a.tid, &a.known_by) == (b.pid, b.address, b.tid, &b.known_by),
                |a, b| FutexHolder {
                    waits: less(a.waits, b.waits),
                    ns: less(a.ns, b.ns),
                    ran_ns: less(a.ran_ns, b.ran_ns),
                    ..a.clone()
                },
                |holder| holder.ns,
            ),
            stalls: self.stalls.iter().filter(|stall| !then.stalls.contains(stall)).cloned().collect(),
            pauses: self.pauses.iter().filter(|pause| !then.pauses.contains(pause)).cloned().collect(),
        }
    }

    /// What a thread's waits go back to, longest wait first at each step: who woke it, who woke that one, and so on, until
    /// an interrupt, a thread of somebody else's, or one that was there already.
    pub fn chain(&self, tid: u32) -> Vec<&Wake> {
        let (mut chain, mut seen, mut at) = (Vec::new(), BTreeSet::from([tid]), tid);
        while let Some(wake) = self.wakes.iter().filter(|wake| wake.tid == at).max_by_key(|wake| wake.ns) {
            chain.push(wake);
            at = wake.waker_tid;
            if at == 0 || !seen.insert(at) {
                break;
            }
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_follows_the_longest_wait_and_ends() {
        let wake = |tid, waker_tid, ns| Wake { tid, waker_tid, ns, ..Wake::default() };
        let states = ThreadStates {
            wakes: vec![wake(1, 2, 50), wake(1, 3, 90), wake(3, 4, 10), wake(4, 1, 7), wake(5, 0, 1)],
            ..ThreadStates::default()
        };
        let of = |tid| states.chain(tid).iter().map(|wake| wake.waker_tid).collect::<Vec<_>>();
        assert_eq!(of(1), [3, 4, 1]);
        assert_eq!((of(5), of(2)), (vec![0], vec![]));
    }

    #[test]
    fn what_a_thread_did_since_is_the_difference_of_two_samples() {
        let place = |count, ns| WaitPlace { call: "fsync".to_owned(), count, ns, ..WaitPlace::default() };
        let row = |tid, run_ns, waits: Vec<WaitPlace>| ThreadTime {
            tid,
            alive_ns: 2 * run_ns,
            ns: [("on-cpu".to_owned(), run_ns)].into(),
            waits,
            ..ThreadTime::default()
        };
        let stall = |from_ns| Stall { from_ns, ..Stall::default() };
        let then = ThreadStates {
            window_ns: 50,
            threads: vec![row(1, 20, vec![])],
            stalls: vec![stall(1)],
            ..Default::default()
        };
        let now = ThreadStates {
            window_ns: 90,
            threads: vec![row(1, 50, vec![place(3, 9)]), row(2, 7, vec![])],
            stalls: vec![stall(1), stall(2)],
            ..Default::default()
        };
        let since = now.since(&then);
        assert_eq!((since.window_ns, since.stalls), (40, vec![stall(2)]));
        assert_eq!(since.threads, [row(1, 30, vec![place(3, 9)]), row(2, 7, vec![])]);
    }
}
