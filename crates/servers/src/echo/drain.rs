//! The end of a server with blocking calls, as all its threads and processes see it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::limits;

/// Whether the server ends, and until when what is in flight may go on: 0 before the stop, then monotonic time.
#[derive(Debug)]
pub(super) struct Drain(AtomicU64);

impl Drain {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins draining. The time to drain counts from the first call.
    pub(super) fn begin(&self) {
        let until_ns = clock::monotonic_ns().saturating_add(limits::DRAIN.as_nanos() as u64);
        // It fails if draining has begun already, which changes nothing.
        let _ = self.0.compare_exchange(0, until_ns, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    pub(super) fn is_over(&self) -> bool {
        let until_ns = self.0.load(Ordering::SeqCst);
        until_ns != 0 && clock::monotonic_ns() >= until_ns
    }
}
