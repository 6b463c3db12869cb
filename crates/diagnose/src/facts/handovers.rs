//! What ended the waits of the target's threads in futex, in the windows of the probes: another of them that had
//! waited there itself, or a timer.
//!
//! Threads that hand a lock on wake each other, each of them from a futex: whatever the lock is made of. A mutex of the C
//! library has one address for all who wait; monitors of the JVM and channels of other runtimes park each thread at an
//! address of its own. Whoever hands out work wakes, and is not woken so itself. A wait that its own time limit ends is a
//! sleep, though it is a futex to the kernel (Ruby's, Java's and Python's sleeps are).

use super::Facts;
use model::threads::ThreadTime;
use std::collections::BTreeSet;

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
fn busy_ns(thread: &ThreadTime) -> f64 {
    thread.alive_ns.saturating_sub(thread.ns.get("poll").copied().unwrap_or(0)) as f64
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
}
