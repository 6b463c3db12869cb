//! Moments at which something about a connection is due, earliest first.
//!
//! A binary heap with a stated capacity. Timeouts are lazy: a connection has one entry, moved when it comes up, so a
//! request that is answered in time costs the heap nothing.

use crate::driver::Slot;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Connect (again).
    Connect,
    /// Look whether the connection's deadline has passed.
    Deadline,
    /// A user has thought long enough.
    Think,
    /// A request that failed is to be tried again; in the place of a connection stands that of the request.
    Retry,
}

/// The timers of one worker.
#[derive(Debug)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, Slot, Timer)>>,
}

impl Timers {
    /// No timers, memory for `capacity` of them.
    pub fn with_capacity(capacity: usize) -> Self {
        Timers { heap: BinaryHeap::with_capacity(capacity) }
    }

    /// Adds one.
    pub fn push(&mut self, due_ns: u64, slot: Slot, timer: Timer) {
        self.heap.push(Reverse((due_ns, slot, timer)));
    }

    /// When the earliest is due; `u64::MAX` when there is none.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((due_ns, ..))| *due_ns)
    }

    /// Takes one that is due.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u64, Slot, Timer)> {
        if self.next_ns() <= now_ns { self.heap.pop().map(|Reverse(entry)| entry) } else { None }
    }
}
