//! What ended the waits of the target's threads in futex, in the windows of the probes: another of them that had
//! waited there itself, or a timer.
//!
//! Threads that hand a lock on wake each other, each of them from a futex: whatever the lock is made of. A mutex of the C
//! library has one address for all who wait; monitors of the JVM and channels of other runtimes park each thread at an
//! address of its own. Whoever hands out work wakes, and is not woken so itself. A wait that its own time limit ends is a
//! sleep, though it is a futex to the kernel (Ruby's, Java's and Python's sleeps are).

use super::stands::{is_in_poll, stand};
use super::{Facts, Stand};
use crate::history::ProcessId;
use model::limits::THREAD_EDGES_KEPT;
use model::threads::{ThreadStates, ThreadTime};
use std::collections::{BTreeMap, BTreeSet};

/// Threads that take turns at something: who waits for it in futex, and who, of those that wait there at other times, is elsewhere and not without work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Held {
    /// Of the readings with one that waits, those with one that is elsewhere, 0..=1.
    pub share: f64,
    /// How many are elsewhere at a time, on average.
    pub elsewhere: f64,
}

/// Fewer readings of waits in futex say nothing of what ends them.
const READINGS_MIN: usize = 3;

/// Waits of threads that wake each other.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Handovers {
    /// Threads that wake each other.
    pub threads: usize,
    /// How long those lived in the windows, less what they waited for any of several descriptors, nanoseconds.
    pub whole_ns: f64,
    /// Of that, waits in futex that another of them ended, nanoseconds.
    pub handed_on_ns: f64,
    /// How often.
    pub count: u64,
    /// How many of them waited so at a time, on average.
    pub waiting: f64,
}

/// A thread's time but for what it waited for any of several descriptors, nanoseconds.
pub(super) fn busy_ns(thread: &ThreadTime) -> f64 {
    thread.alive_ns.saturating_sub(thread.ns.get("poll").copied().unwrap_or(0)) as f64
}

/// Of some threads' waits in futex, nanoseconds: those of which it is told what ended them, and all.
fn waits_told(states: &ThreadStates, of: &BTreeSet<u32>) -> (f64, f64) {
    let told = states.wakes.iter().filter(|wake| wake.state == "futex" && of.contains(&wake.tid));
    let all = states.threads.iter().filter(|thread| of.contains(&thread.tid));
    let all_ns: f64 = all.filter_map(|thread| thread.ns.get("futex")).map(|ns| *ns as f64).sum();
    (told.map(|wake| wake.ns as f64).sum(), all_ns)
}

impl Facts<'_> {
    /// Who of the target's threads wakes whom. Of all, not of those alone that worked most: who waits for a lock hardly runs.
    pub fn handovers(&self) -> Option<Handovers> {
        let states = self.thread_states()?;
        let wakes = || {
            states.wakes.iter().filter(|wake| {
                wake.state == "futex" && wake.by == "thread" && wake.waker_tid != 0 && wake.tid != wake.waker_tid
            })
        };
        let woken: BTreeSet<u32> = wakes().map(|wake| wake.tid).collect();
        let both: BTreeSet<u32> = wakes().map(|wake| wake.waker_tid).filter(|tid| woken.contains(tid)).collect();
        let mut all = Handovers { threads: both.len(), ..Handovers::default() };
        for wake in wakes().filter(|wake| both.contains(&wake.tid) && both.contains(&wake.waker_tid)) {
            all.handed_on_ns += wake.ns as f64;
            all.count = all.count.saturating_add(wake.count);
        }
        // With twenty threads four hundred pairs wake each other, of which a reading tells the longest: the other waits of the same
        // threads ended alike.
        let (told_ns, waited_ns) = waits_told(states, &both);
        if states.wakes.len() >= THREAD_EDGES_KEPT && told_ns > 0.0 && waited_ns > told_ns {
            all.handed_on_ns *= waited_ns / told_ns;
            all.count = (all.count as f64 * waited_ns / told_ns) as u64;
        }
        all.whole_ns = states.threads.iter().filter(|thread| both.contains(&thread.tid)).map(busy_ns).sum();
        all.waiting = all.handed_on_ns / states.window_ns as f64;
        Some(all)
    }

    /// The time that working threads had something to do in the windows, nanoseconds: all but what they waited for any of
    /// several descriptors; `None`: it was not looked at.
    pub fn busy_ns(&self) -> Option<f64> {
        let working: BTreeSet<u32> = self.working().iter().map(|(_, tid)| *tid).collect();
        let own = self.thread_states()?.threads.iter().filter(|thread| working.contains(&thread.tid));
        Some(own.map(busy_ns).sum()).filter(|ns: &f64| *ns > 0.0)
    }

    /// The working threads whose waits in futex their own time limit ended, by so much of their time: they sleep there. Where the
    /// probes had no window for it, those that stood there alone and with a limit in so many of their readings.
    pub fn sleepers_in_futex(&self, share_min: f64) -> BTreeSet<(ProcessId, u32)> {
        let Some(states) = self.thread_states() else {
            let sleeps = |thread: &(ProcessId, u32)| {
                let (mut in_futex, mut asleep) = (0, 0);
                self.each_stand(&[*thread].into(), |_, _, thread, stands| {
                    if stand(thread) == Some(Stand::Futex) {
                        in_futex += 1;
                        asleep += usize::from(stands.sleeps);
                    }
                });
                in_futex >= READINGS_MIN && asleep as f64 >= share_min * in_futex as f64
            };
            return self.working().into_iter().filter(sleeps).collect();
        };
        let waited = |tid: u32, by: &str| -> f64 {
            let waits = states.wakes.iter().filter(|wake| wake.state == "futex" && wake.tid == tid);
            waits.filter(|wake| by.is_empty() || wake.by == by).map(|wake| wake.ns as f64).sum()
        };
        let sleeps =
            |tid: u32| Some(waited(tid, "")).filter(|all| *all > 0.0).map(|all| waited(tid, "interrupt") / all);
        self.working().into_iter().filter(|(_, tid)| sleeps(*tid).is_some_and(|share| share >= share_min)).collect()
    }

    /// The share of the working threads' waits in futex that their own time limit ended, by their time; `None`: they were
    /// not looked at, or there were none.
    pub fn slept_in_futex(&self) -> Option<f64> {
        let states = self.thread_states()?;
        let working: BTreeSet<u32> = self.working().iter().map(|(_, tid)| *tid).collect();
        let waits = || states.wakes.iter().filter(|wake| wake.state == "futex" && working.contains(&wake.tid));
        let of =
            |by: &str| waits().filter(|wake| by.is_empty() || wake.by == by).map(|wake| wake.ns as f64).sum::<f64>();
        let all = of("");
        (all > 0.0).then(|| of("interrupt") / all)
    }

    /// Whether one of some threads has what the others wait for in futex. Where each request `has_a_thread` of its own, one that stands in
    /// poll(2) sleeps there, as Ruby's do, or waits for whom it asks: an event loop's, which has no work, stands in epoll(7). `None`: too few
    /// readings.
    pub fn held(&self, of: &BTreeSet<(ProcessId, u32)>, has_a_thread: bool) -> Option<Held> {
        struct Read {
            thread: (ProcessId, u32),
            waits: bool,
            is_idle: bool,
        }
        let mut at: BTreeMap<i64, Vec<Read>> = BTreeMap::new();
        self.each_stand(of, |snapshot, process, thread, stands| {
            if let Some(stand) = stand(thread) {
                let waits = stand == Stand::Futex && !stands.sleeps;
                let is_idle = stand == Stand::Events && !(has_a_thread && is_in_poll(stands));
                let read = Read { thread: (process, thread.tid), waits, is_idle };
                at.entry(snapshot.at_ns).or_default().push(read);
            }
        });
        let in_turn: BTreeSet<(ProcessId, u32)> =
            at.values().flatten().filter(|read| read.waits).map(|read| read.thread).collect();
        let has_it = |read: &&Read| !read.waits && !read.is_idle && in_turn.contains(&read.thread);
        let readings = at.values().filter(|reading| reading.iter().any(|read| read.waits));
        let holders: Vec<usize> = readings.map(|reading| reading.iter().filter(has_it).count()).collect();
        let of_readings = |n: usize| n as f64 / holders.len() as f64;
        (holders.len() >= READINGS_MIN).then(|| Held {
            share: of_readings(holders.iter().filter(|holders| **holders > 0).count()),
            elsewhere: of_readings(holders.iter().sum()),
        })
    }
}
