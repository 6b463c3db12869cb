//! Counters that can be read while a server runs, also where its workers are processes.
//!
//! [`SharedMemory`] is seen by child processes, too; each worker owns one [`Published`] of it and stores its counters
//! there before it sleeps: some twenty relaxed stores a turn of its loop, no lock, no system call. A reader waits until
//! each worker has slept since it began, so it sees all that was done before: who has its echo and then asks finds it
//! counted.
//! Not here: who reads (`control`).

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Counters;
use crate::error::ServeError;

/// Pause between two looks at a worker that is awake.
const LOOK_AGAIN: Duration = Duration::from_micros(200);
/// Looks at counters that are being written, between two such pauses.
const LOOKS: usize = 100;

/// What a server counts, to be read while it runs; clones read the same server.
#[derive(Clone, Default)]
pub struct Live {
    memory: Arc<Mutex<Option<Arc<SharedMemory>>>>,
}

/// What [`Live::read`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Sums over all workers.
    pub counters: Counters,
    /// Whether they hold all that was done before the reading began. Not so where a worker was awake all the time.
    pub settled: bool,
}

impl Live {
    /// The counters so far, zero before the start. Waits at most so long for workers that are awake.
    #[must_use]
    pub fn read(&self, at_most: Duration) -> Reading {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match memory {
            Some(memory) => memory.read(Instant::now() + at_most),
            None => Reading { counters: Counters::default(), settled: true },
        }
    }

    /// One [`Published`] for each of `workers`, in place of those of a server before.
    pub(crate) fn open(&self, workers: usize) -> Result<Vec<Published>, ServeError> {
        let memory = SharedMemory::new(workers)
            .map_err(|error| ServeError::Worker { doing: "map its counters", source: error.into() })?;
        let memory = Arc::new(memory);
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&memory));
        Ok((0..workers).map(|index| Published { memory: Arc::clone(&memory), index }).collect())
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

/// One worker's counters in shared memory. Only their owner writes to them.
pub(crate) struct Published {
    memory: Arc<SharedMemory>,
    index: usize,
}

impl Published {
    /// Publishes `counters` and says that the worker sleeps: it counts nothing more before [`Self::wake`].
    pub(crate) fn sleep(&self, counters: &Counters) {
        let slot = self.memory.slot(self.index);
        // Already odd if the previous owner was killed while it wrote.
        let writing = slot.writing.load(Ordering::Relaxed) | 1;
        slot.writing.store(writing, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, (_, value)) in slot.values.iter().zip(counters.rows()) {
            to.store(value, Ordering::Relaxed);
        }
        slot.writing.store(writing + 1, Ordering::Release);
        let turn = slot.turn.load(Ordering::Relaxed);
        slot.turn.store((turn | 1) + 1, Ordering::Release);
    }

    /// Says that the worker is awake: it may count from here on, and what was published may be out of date.
    pub(crate) fn wake(&self) {
        let slot = self.memory.slot(self.index);
        let turn = slot.turn.load(Ordering::Relaxed);
        slot.turn.store(turn | 1, Ordering::SeqCst);
    }

    /// What was published last; a worker that takes over from another goes on from it.
    pub(crate) fn counters(&self) -> Counters {
        self.memory.slot(self.index).counters()
    }
}

/// What a worker writes; by itself on its cache lines.
#[repr(align(64))]
struct Slot {
    /// Odd while the worker is awake.
    turn: AtomicU64,
    /// Odd while `values` are being stored.
    writing: AtomicU64,
    values: [AtomicU64; Counters::NUMBER],
}

impl Slot {
    fn counters(&self) -> Counters {
        Counters::from_values(std::array::from_fn(|at| self.values[at].load(Ordering::Relaxed)))
    }

    /// Counters that were all published at one moment; `None` if the worker was writing until then.
    fn consistent(&self, until: Instant) -> Option<Counters> {
        for look in 1.. {
            let before = self.writing.load(Ordering::Acquire);
            let counters = self.counters();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.writing.load(Ordering::Relaxed) == before {
                return Some(counters);
            }
            std::hint::spin_loop();
            if look % LOOKS == 0 {
                // The worker lost the CPU, or was killed, while it wrote.
                if Instant::now() >= until {
                    break;
                }
                thread::sleep(LOOK_AGAIN);
            }
        }
        None
    }
}

/// The counters of all workers of a server, in pages that child processes share. Untouched ones take no memory.
struct SharedMemory {
    start: NonNull<Slot>,
    slots: usize,
}

// SAFETY: all that is in the memory is atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    fn new(slots: usize) -> rustix::io::Result<Self> {
        let slots = slots.max(1);
        let bytes = slots * size_of::<Slot>();
        // SAFETY: new memory at a place the kernel chooses, which nothing else refers to.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)? };
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { start, slots })
    }

    fn slot(&self, index: usize) -> &Slot {
        // SAFETY: the memory holds `slots` of them, zeroed pages are valid ones, and it lives as long as the memory.
        unsafe { self.start.add(index.min(self.slots - 1)).as_ref() }
    }

    fn read(&self, until: Instant) -> Reading {
        let mut reading = Reading { counters: Counters::default(), settled: true };
        // Every worker's turn is looked at before the first is waited for: they need not all sleep at one moment.
        let turns: Vec<_> = (0..self.slots).map(|index| self.slot(index).turn.load(Ordering::SeqCst)).collect();
        for (index, turn) in turns.into_iter().enumerate() {
            let slot = self.slot(index);
            while !turn.is_multiple_of(2) && slot.turn.load(Ordering::Acquire) == turn {
                if Instant::now() >= until {
                    reading.settled = false;
                    break;
                }
                thread::sleep(LOOK_AGAIN);
            }
            let counters = slot.consistent(until);
            reading.settled &= counters.is_some();
            reading.counters.add(&counters.unwrap_or_else(|| slot.counters()));
        }
        reading
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing refers to it any more. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.slots * size_of::<Slot>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_before_the_reading_is_in_it() {
        let live = Live::default();
        let read = || live.read(Duration::from_secs(20));
        assert_eq!(read().counters, Counters::default());
        let [first, second] = &live.open(2).unwrap()[..] else { panic!("two workers") };
        first.sleep(&Counters { accepted: 3, bytes_in: 7, ..Counters::default() });
        second.sleep(&Counters { accepted: 1, closed: 1, ..Counters::default() });
        let reading = read();
        assert_eq!((reading.counters.accepted, reading.counters.open(), reading.settled), (4, 3, true));
        // A worker that is awake is waited for.
        second.wake();
        assert!(!live.read(Duration::ZERO).settled);
        thread::scope(|scope| {
            let reader = scope.spawn(read);
            thread::sleep(Duration::from_millis(20));
            second.sleep(&Counters { accepted: 10, ..Counters::default() });
            assert_eq!(reader.join().unwrap().counters.accepted, 13);
        });
        assert_eq!(second.counters().accepted, 10);
    }

    #[test]
    fn a_reading_is_never_torn() {
        let live = Live::default();
        let published = live.open(1).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..2_000 {
                    published[0].wake();
                    published[0].sleep(&Counters { recv: n, send: n, bytes_out: n, ..Counters::default() });
                    // As a turn's work would.
                    (0..1000).for_each(|_| std::hint::spin_loop());
                }
            });
            while !writer.is_finished() {
                let counters = live.read(Duration::from_secs(20)).counters;
                assert_eq!((counters.recv, counters.recv), (counters.send, counters.bytes_out), "{counters:?}");
            }
        });
    }
}
