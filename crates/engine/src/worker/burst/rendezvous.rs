//! Where the workers of a burst meet: the last to arrive says when all are released.
//!
//! The only thing workers share. It is touched between rounds, never while requests are under way.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// See the file's head.
#[derive(Debug)]
pub struct Rendezvous {
    workers: u32,
    arrived: AtomicU32,
    /// Rounds whose moment is known.
    released: AtomicU32,
    release_ns: AtomicU64,
    is_left: AtomicBool,
}

impl Rendezvous {
    /// For so many workers.
    pub fn new(workers: u16) -> Self {
        Rendezvous {
            workers: u32::from(workers),
            arrived: AtomicU32::new(0),
            released: AtomicU32::new(0),
            release_ns: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
        }
    }

    /// A worker is ready for a round; the last one's moment is that of all. Each worker arrives once a round.
    pub fn arrive(&self, round: u32, release_ns: u64) {
        let arrived = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        if arrived == (round + 1) * self.workers {
            self.release_ns.store(release_ns, Ordering::Relaxed);
            self.released.store(round + 1, Ordering::Release);
        }
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
}
