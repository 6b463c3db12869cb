//! How the target's threads spent the probes' windows, as rules ask it: by state, at what, who held what they waited for.
//!
//! What the probes sum grows from window to window, so the last sample that has it has all. Where no window ended, or the
//! probe did not run, there is none, and nothing is said.

use super::{Facts, duration, handovers, percent};
use crate::history::ProcessId;
use model::finding::Evidence;
use model::threads::{FutexHolder, ThreadStates, ThreadTime, WaitPlace};
use std::collections::BTreeSet;

/// Windows shorter than this say nothing of a thread, nanoseconds.
const WINDOW_NS_MIN: u64 = 100_000_000;

/// Kinds of descriptors at which a thread waits for somebody else, and not for work, and how one says them.
const WAITED_AT: [(&str, &str); 5] = [
    ("backend", "connections that the target made"),
    ("log", "a file that it only appends to"),
    ("file", "files"),
    ("pipe", "a pipe"),
    ("socket", "sockets of another kind"),
];
/// Less of their time is not told.
const WAITED_MIN: f64 = 0.05;

/// Who let a futex go, or held it, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holder<'r> {
    /// The thread's name.
    pub name: &'r str,
    /// Its id.
    pub tid: u32,
    /// The share of the waits' time in which it held it, 0..=1.
    pub of_waits: f64,
    /// How much of that time it was on a CPU, 0..=1: at the least where it is known only who let it go.
    pub ran: f64,
    /// Whether the mutex itself says who held it.
    pub is_owner: bool,
}

impl Facts<'_> {
    /// How threads spent all windows of the probes together; `None`: it was not looked at. Only a sample that follows a window has
    /// it.
    pub fn thread_states(&self) -> Option<&ThreadStates> {
        let states = self.recording.snapshots.iter().rev().find_map(|snapshot| snapshot.bpf.as_ref()?.threads.as_ref());
        states.filter(|states| !states.threads.is_empty() && states.window_ns >= WINDOW_NS_MIN)
    }

    /// Some threads' rows of it.
    fn rows_of<'a>(&'a self, threads: &'a BTreeSet<(ProcessId, u32)>) -> impl Iterator<Item = &'a ThreadTime> {
        let states = self.thread_states().into_iter().flat_map(|states| &states.threads);
        states.filter(|row| threads.iter().any(|(process, tid)| (process.pid, *tid) == (row.pid, row.tid)))
    }

    /// The share of some threads' life in the windows that they spent in a state (`model::threads::STATES`), 0..=1.
    pub fn share_in_state(&self, threads: &BTreeSet<(ProcessId, u32)>, state: &str) -> Option<f64> {
        let of = |row: &ThreadTime| (row.ns.get(state).copied().unwrap_or(0) as f64, row.alive_ns as f64);
        let (ns, alive_ns) = self.rows_of(threads).map(of).reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
        (alive_ns > 0.0).then(|| (ns / alive_ns).min(1.0))
    }

    /// The share of some threads' life in the windows that they waited at a kind of descriptor (`model::threads::DESCRIPTORS`),
    /// 0..=1; waits that had not ended when a window did are missing in it.
    pub fn share_at(&self, threads: &BTreeSet<(ProcessId, u32)>, descriptor: &str) -> Option<f64> {
        self.share_of_waits(threads, |wait| wait.at == descriptor)
    }

    /// The share of some threads' life in the windows that they waited in calls of these names at these kinds of descriptor, 0..=1; `None`:
    /// they were not looked at. A call that works all the while, as one that copies much to a socket, waits for nothing.
    pub fn share_waiting_at(
        &self,
        threads: &BTreeSet<(ProcessId, u32)>,
        calls: &[&str],
        kinds: &[&str],
    ) -> Option<f64> {
        self.share_of_waits(threads, |wait| calls.contains(&&*wait.call) && kinds.contains(&&*wait.at))
    }

    /// The same of waits that are such.
    fn share_of_waits(
        &self,
        threads: &BTreeSet<(ProcessId, u32)>,
        is_such: impl Fn(&WaitPlace) -> bool,
    ) -> Option<f64> {
        let of = |row: &ThreadTime| {
            let waits = row.waits.iter().filter(|wait| is_such(wait));
            (waits.map(|wait| wait.ns as f64).sum::<f64>(), row.alive_ns as f64)
        };
        let (ns, alive_ns) = self.rows_of(threads).map(of).reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
        (alive_ns > 0.0).then(|| (ns / alive_ns).min(1.0))
    }

    /// The share of some threads' life in the windows, less what they waited for any of several descriptors, that they waited in calls of
    /// these names, 0..=1, and the longest wait, nanoseconds; `None`: they were not looked at.
    pub fn share_waiting_in(&self, threads: &BTreeSet<(ProcessId, u32)>, calls: &[&str]) -> Option<(f64, u64)> {
        let (mut of_it_ns, mut busy_ns, mut longest_ns) = (0.0, 0.0, 0);
        for row in self.rows_of(threads) {
            busy_ns += handovers::busy_ns(row);
            for wait in row.waits.iter().filter(|wait| calls.contains(&&*wait.call)) {
                of_it_ns += wait.ns as f64;
                longest_ns = longest_ns.max(wait.longest_ns);
            }
        }
        (busy_ns > 0.0).then(|| ((of_it_ns / busy_ns).min(1.0), longest_ns))
    }

    /// At which kind of descriptor some threads waited most, by the probes' windows; none where they waited at no descriptor.
    pub fn waits_at(&self, threads: &BTreeSet<(ProcessId, u32)>) -> Option<Evidence> {
        let said = |at: &str| WAITED_AT.iter().find(|(kind, _)| *kind == at).map(|(_, said)| *said);
        let of = |(at, _): &(&'static str, &'static str)| Some((*at, self.share_at(threads, at)?));
        let (at, share) = WAITED_AT.iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1))?;
        if share < WAITED_MIN {
            return None;
        }
        let wait =
            self.rows_of(threads).flat_map(|row| &row.waits).filter(|wait| wait.at == at).max_by_key(|w| w.ns)?;
        let to = wait.remote.as_deref().map_or(String::new(), |remote| format!(", the longest to {remote}"));
        let text = format!(
            "they spent {} of the probes' windows at {}, in {}{to}, up to {}",
            percent(share),
            said(at)?,
            wait.call,
            duration(wait.longest_ns as f64)
        );
        Some(self.evidence(text, "threads.waited_at", share, "ratio"))
    }

    /// Who held the futex at an address of a process while others waited there, who held it longest first.
    pub fn holders(&self, pid: u32, address: u64) -> Vec<Holder<'_>> {
        let rows = self.thread_states().into_iter().flat_map(|states| &states.holders);
        let mut of: Vec<&FutexHolder> =
            rows.filter(|holder| (holder.pid, holder.address) == (pid, address) && holder.ns > 0).collect();
        of.sort_by_key(|holder| std::cmp::Reverse(holder.ns));
        let all: f64 = of.iter().map(|holder| holder.ns as f64).sum();
        of.into_iter()
            .map(|holder| Holder {
                name: &holder.name,
                tid: holder.tid,
                of_waits: holder.ns as f64 / all,
                ran: (holder.ran_ns as f64 / holder.ns as f64).min(1.0),
                is_owner: holder.known_by == "owner",
            })
            .collect()
    }

    /// How long others of its process waited, all of them together, for futexes that a thread held or let go, over the length of
    /// the windows: 2 says that two waited for it at any time. `None`: nobody did, or it was not seen.
    pub fn waited_for(&self, pid: u32, tid: u32) -> Option<f64> {
        let states = self.thread_states()?;
        let of_it = states.holders.iter().filter(|holder| (holder.pid, holder.tid) == (pid, tid));
        let ns = of_it.map(|holder| holder.ns).reduce(u64::saturating_add)?;
        Some(ns as f64 / states.window_ns as f64)
    }

    /// Whether a futex is a lock, by who let waiters go: those that wait for a lock hold it in turn, where a place at which work
    /// is handed over has one side that waits and another that wakes it. `None`: who let them go was not seen.
    pub fn is_lock(&self, pid: u32, address: u64) -> Option<bool> {
        let holders = self.holders(pid, address);
        if holders.iter().any(|holder| holder.is_owner) {
            return Some(true);
        }
        let states = self.thread_states()?;
        let waits_too = |tid: u32| {
            let row = states.threads.iter().find(|row| (row.pid, row.tid) == (pid, tid));
            row.is_some_and(|row| row.ns.get("futex").copied().unwrap_or(0) > row.alive_ns / HOLDER_WAITS_TOO)
        };
        let in_turn: Vec<&Holder<'_>> = holders.iter().filter(|holder| waits_too(holder.tid)).collect();
        let of_waits: f64 = in_turn.iter().map(|holder| holder.of_waits).sum();
        let most = in_turn.iter().map(|holder| holder.of_waits).fold(0.0, f64::max);
        (!holders.is_empty()).then_some(in_turn.len() >= 2 && of_waits >= IN_TURN_MIN && most <= ONE_MAX)
    }
}

/// One that holds a lock in turn waits for it, too, for so much of its time: a fiftieth.
const HOLDER_WAITS_TOO: u64 = 50;
/// So much of the waits must be ended by those that wait there in turn, and at most so much by a single one of them.
const IN_TURN_MIN: f64 = 0.7;
const ONE_MAX: f64 = 0.9;
