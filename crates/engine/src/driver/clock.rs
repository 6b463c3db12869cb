//! The clock of the drivers that do real I/O: CLOCK_MONOTONIC, read through the vDSO (tens of ns), and a sleep on it.

use super::alarm::timespec;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC now, nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps for so long, or until a signal: the worker looks at the clock again anyway.
pub(super) fn sleep_ns(ns: u64) {
    if ns > 0 {
        let _ = rustix::thread::nanosleep(&timespec(ns));
    }
}
