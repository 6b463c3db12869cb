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

/// How far CLOCK_REALTIME may be from true time, nanoseconds, by the kernel's own account (`maxerror`, adjtimex(2)), which grows by
/// 500 ppm from one correction to the next; `None`: nobody synchronises it.
pub(crate) fn wall_error_ns() -> Option<u64> {
    // SAFETY: an integer-only structure of the kernel's, for which all zeros is a value: no mode, so nothing is changed.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, exclusively borrowed structure, which the call only fills in.
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    let is_synchronised = state >= 0 && state != libc::TIME_ERROR && asked.status & libc::STA_UNSYNC == 0;
    is_synchronised.then(|| u64::try_from(asked.maxerror).unwrap_or(u64::MAX).saturating_mul(1000))
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
