//! On which CPUs clocks beat: on those where there is something to see.
//!
//! A beat wakes a CPU that idles, which a virtual machine pays dearly, and a generator's CPU often idles. So the clock beats where a thread
//! of the target that ran since the last reading may run, and everywhere until that is known. What a thread that idled does in the first
//! moments after it was woken may then not be seen, until the next reading.

use crate::source::{bpf::clock_events, clock, schedule};
use model::snapshot::ProcessSample;
use std::collections::{BTreeMap, BTreeSet};

/// The least share of the time since the last reading that a thread has run to be looked for: with a hundredth, a sample a second.
const SHARE_MIN: f64 = 0.01;

/// What is kept from reading to reading.
#[derive(Debug, Default)]
pub(in crate::samplers::bpf) struct Beats {
    /// How long each thread of the target had run at the last reading, nanoseconds, and when that was.
    ran_ns: BTreeMap<u32, u64>,
    at_ns: Option<i64>,
}

impl Beats {
    /// The CPUs from now on; `None`: as before, no threads were read.
    pub(in crate::samplers::bpf) fn cpus<'a>(
        &mut self,
        target: impl Iterator<Item = &'a ProcessSample> + Clone,
    ) -> Option<BTreeSet<i32>> {
        let threads = target.clone().flat_map(|process| &process.threads);
        let ran_ns = threads.filter_map(|thread| Some((thread.tid, thread.run_ns?))).collect();
        let are_all = target.clone().all(|process| process.threads.len() >= process.threads_total as usize);
        self.cpus_of(ran_ns, are_all)
    }

    /// The same of what threads have run, which may not be all there are.
    fn cpus_of(&mut self, ran_ns: BTreeMap<u32, u64>, are_all: bool) -> Option<BTreeSet<i32>> {
        if ran_ns.is_empty() {
            return None;
        }
        let now_ns = clock::monotonic_ns();
        let online = clock_events::online();
        let before = std::mem::replace(&mut self.ran_ns, ran_ns);
        let at_ns = self.at_ns.replace(now_ns);
        let Some(at_ns) = at_ns.filter(|_| are_all) else { return Some(online) };
        let enough_ns = now_ns.saturating_sub(at_ns) as f64 * SHARE_MIN;
        let has_run = |(thread, ran_ns): (&u32, &u64)| {
            let in_between_ns = before.get(thread).map(|before_ns| ran_ns.saturating_sub(*before_ns) as f64);
            in_between_ns.is_none_or(|ns| ns >= enough_ns).then_some(*thread)
        };
        let cpus = schedule::cpus_of(self.ran_ns.iter().filter_map(has_run), &online);
        // None has run: whichever will.
        Some(if cpus.is_empty() { schedule::cpus_of(self.ran_ns.keys().copied(), &online) } else { cpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::CpuSet;

    /// A thread that sleeps, kept on the first CPU; its id. It ends with the sender.
    fn kept() -> (u32, std::sync::mpsc::Sender<()>) {
        let (done, until) = std::sync::mpsc::channel::<()>();
        let (told, id) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut first = CpuSet::new();
            first.set(0);
            rustix::thread::sched_setaffinity(None, &first).unwrap();
            told.send(u32::try_from(schedule::thread_id()).unwrap()).unwrap();
            let _ = until.recv();
        });
        (id.recv().unwrap(), done)
    }

    #[test]
    fn clocks_beat_where_a_thread_that_ran_may_run() {
        let online = clock_events::online();
        let (first, free) = (BTreeSet::from([0]), u32::try_from(schedule::thread_id()).unwrap());
        let (kept, _done) = kept();
        let mut beats = Beats::default();
        let mut cpus = |threads: &[(u32, u64)], total| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            beats.cpus_of(threads.iter().copied().collect(), threads.len() == total)
        };
        // Nothing is known, then which of both ran; a second of it is much of two milliseconds.
        assert_eq!(cpus(&[(kept, 0), (free, 5)], 2), Some(online.clone()));
        assert_eq!(cpus(&[(kept, 1_000_000_000), (free, 5)], 2), Some(first.clone()));
        assert_eq!(cpus(&[(kept, 1_000_000_000), (free, 1_000_000_005)], 2), Some(online.clone()));
        // None did; one came; of one nothing is known; none was read.
        assert_eq!(cpus(&[(kept, 1_000_000_000)], 1), Some(first.clone()));
        assert_eq!(cpus(&[(kept, 1_000_000_000), (free, 0)], 2), Some(online.clone()));
        assert_eq!(cpus(&[(kept, 2_000_000_000)], 1), Some(first));
        assert_eq!(cpus(&[(kept, 3_000_000_000)], 2), Some(online));
        assert_eq!(cpus(&[], 2), None);
    }
}
