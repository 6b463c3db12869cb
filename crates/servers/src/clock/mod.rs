//! The clock the servers use, monotonic nanoseconds, and how they use up processor time (`burn`).
//!
//! Reading it cannot fail on Linux, and is a vDSO call (tens of ns) where the machine's clock source allows that.

mod burn;

use burn::Pace;
use rustix::time::{ClockId, clock_gettime};

/// How fast this machine computes, shared by all threads.
static PACE: Pace = Pace::new();

/// Monotonic time, in nanoseconds since boot.
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Seconds since 1970-01-01 UTC, as the coarse clock has them (enough for a `Date` header).
pub(crate) fn unix_seconds() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// Uses the processor for `us` microseconds of this thread's time, as a handler does that computes: by arithmetic, without a
/// system call. Being preempted does not count.
pub(crate) fn burn_us(us: u64) {
    burn::burn_ns(us.saturating_mul(1000), &PACE, monotonic_ns, burn::compute);
}

/// Learns how fast this machine computes, so that the first [`burn_us`] need not.
pub(crate) fn calibrate() {
    PACE.calibrate(&mut { monotonic_ns }, &mut { burn::compute });
}

fn read_ns(id: ClockId) -> u64 {
    let at = clock_gettime(id);
    let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
    let ns = u64::try_from(at.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_uses_the_processor() {
        let before_ns = read_ns(ClockId::ThreadCPUTime);
        burn_us(20_000);
        let used_ns = read_ns(ClockId::ThreadCPUTime) - before_ns;
        // Less than all of it where the machine took away a little in many slices, each too little to be told.
        assert!(used_ns >= 15_000_000, "{used_ns} ns");
    }
}
