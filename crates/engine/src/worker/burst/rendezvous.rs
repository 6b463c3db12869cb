//! Where the workers of a burst meet: the last to arrive says when all are released. Where workers of other processes belong to the
//! burst too, the last to arrive here says so, and when all are released comes from outside.
//!
//! The only thing workers share. It is touched between rounds, never while requests are under way.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Hears that all workers of this process are ready for a round; asked on a worker's thread, so it must not wait.
type Met = Box<dyn Fn(u32) + Send + Sync>;

/// See the file's head.
pub struct Rendezvous {
    workers: u32,
    arrived: AtomicU32,
    /// Rounds whose moment is known.
    released: AtomicU32,
    release_ns: AtomicU64,
    is_left: AtomicBool,
    /// Who is told, where others are to meet too.
    met: Option<Met>,
}

impl std::fmt::Debug for Rendezvous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (arrived, released) = (self.arrived.load(Ordering::Relaxed), self.released.load(Ordering::Relaxed));
        f.debug_struct("Rendezvous")
            .field("workers", &self.workers)
            .field("arrived", &arrived)
            .field("released", &released)
            .field("is_among_others", &self.met.is_some())
            .finish_non_exhaustive()
    }
}

impl Rendezvous {
    /// For so many workers, which are all.
    pub fn new(workers: u16) -> Self {
        Rendezvous {
            workers: u32::from(workers),
            arrived: AtomicU32::new(0),
            released: AtomicU32::new(0),
            release_ns: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
            met: None,
        }
    }

    /// For so many workers beside those of other processes. `met` hears of each round, from 0 on, for which all of these are ready; it is
    /// called on a worker's thread and must not wait. [`Rendezvous::release`] is to follow.
    pub fn among_others(workers: u16, met: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Rendezvous { met: Some(Box::new(met)), ..Self::new(workers) }
    }

    /// A worker is ready for a round; the last one's moment is that of all, where there are no others. Each worker arrives once a round.
    pub fn arrive(&self, round: u32, release_ns: u64) {
        let arrived = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        if arrived == (round + 1) * self.workers {
            match &self.met {
                Some(met) => met(round),
                None => self.set(round, release_ns),
            }
        }
    }

    /// From outside, once all are ready everywhere: when a round is released, nanoseconds since the run's start. `false`: the workers here
    /// do not wait for that, and nothing changes.
    pub fn release(&self, round: u32, release_ns: u64) -> bool {
        let have_met = self.arrived.load(Ordering::Acquire) == round.saturating_add(1).saturating_mul(self.workers);
        let is_next = self.met.is_some() && have_met && self.released.load(Ordering::Acquire) == round;
        if is_next {
            self.set(round, release_ns);
        }
        is_next
    }

    fn set(&self, round: u32, release_ns: u64) {
        self.release_ns.store(release_ns, Ordering::Relaxed);
        self.released.store(round + 1, Ordering::Release);
    }

    /// The moment of a round, once all have arrived.
    pub fn release_of(&self, round: u32) -> Option<u64> {
        // It is not overwritten before this worker arrives for the next round.
        (self.released.load(Ordering::Acquire) > round).then(|| self.release_ns.load(Ordering::Relaxed))
    }

    /// A worker has ended and will not come again.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
    }

    /// Whether one has.
    pub fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_arrive_says_when() {
        let meeting = Rendezvous::new(2);
        meeting.arrive(0, 10);
        assert_eq!(meeting.release_of(0), None);
        meeting.arrive(0, 20);
        assert_eq!((meeting.release_of(0), meeting.release_of(1)), (Some(20), None));
        meeting.arrive(1, 30);
        meeting.arrive(1, 40);
        assert_eq!(meeting.release_of(1), Some(40));
        assert!(!meeting.is_left());
        meeting.leave();
        assert!(meeting.is_left());
    }

    #[test]
    fn among_others_the_moment_comes_from_outside() {
        let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let telling = std::sync::Arc::clone(&told);
        let meeting = Rendezvous::among_others(2, move |round| telling.lock().unwrap().push(round));
        meeting.arrive(0, 10);
        assert!(!meeting.release(0, 99), "one of them is not ready");
        meeting.arrive(0, 20);
        assert_eq!((meeting.release_of(0), told.lock().unwrap().clone()), (None, vec![0]));
        assert!(!meeting.release(1, 99), "nobody waits for the second round");
        assert!(meeting.release(0, 70) && !meeting.release(0, 99), "a moment is not changed");
        assert_eq!((meeting.release_of(0), meeting.release_of(1)), (Some(70), None));
        meeting.arrive(1, 30);
        meeting.arrive(1, 40);
        assert!(meeting.release(1, 80));
        assert_eq!((meeting.release_of(1), told.lock().unwrap().clone()), (Some(80), vec![0, 1]));
        // Where there are no others nothing comes from outside.
        assert!(!Rendezvous::new(1).release(0, 99));
    }
}
