//! Differences between the kernel's clocks, each read inside a bracket of two readings of CLOCK_MONOTONIC.
//!
//! The middle of the bracket stands for the moment of the reading, so the error is at most half its width: well below
//! a microsecond unless the thread was taken off its CPU in between, against which the narrowest of three is kept.

use rustix::time::{ClockId, clock_gettime};

/// Attempts, of which the narrowest bracket counts.
const ATTEMPTS: u32 = 3;

/// CLOCK_REALTIME, nanoseconds since 1970.
pub(crate) fn realtime_ns() -> i128 {
    now_ns(ClockId::Realtime)
}

/// CLOCK_MONOTONIC, nanoseconds: the clock of the load and of the kernel's probes (`bpf_ktime_get_ns`).
pub(crate) fn monotonic_ns() -> i64 {
    i64::try_from(now_ns(ClockId::Monotonic)).unwrap_or(i64::MAX)
}

/// CLOCK_BOOTTIME, nanoseconds since boot, suspended time included.
pub(crate) fn boottime_ns() -> i128 {
    now_ns(ClockId::Boottime)
}

/// CPU time of the calling thread, nanoseconds.
pub(crate) fn thread_cpu_ns() -> i64 {
    i64::try_from(now_ns(ClockId::ThreadCPUTime)).unwrap_or(i64::MAX)
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn wall_offset_ns() -> i128 {
    offset_ns(ClockId::Realtime)
}

/// CLOCK_BOOTTIME minus CLOCK_MONOTONIC, nanoseconds: the time the machine was suspended.
pub(crate) fn suspended_ns() -> u64 {
    u64::try_from(offset_ns(ClockId::Boottime).max(0)).unwrap_or(u64::MAX)
}

fn offset_ns(clock: ClockId) -> i128 {
    let (mut width_ns, mut offset) = (i128::MAX, 0);
    for _ in 0..ATTEMPTS {
        let before_ns = now_ns(ClockId::Monotonic);
        let there_ns = now_ns(clock);
        let after_ns = now_ns(ClockId::Monotonic);
        if after_ns - before_ns < width_ns {
            width_ns = after_ns - before_ns;
            offset = there_ns - (before_ns + after_ns) / 2;
        }
    }
    offset
}

fn now_ns(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}
