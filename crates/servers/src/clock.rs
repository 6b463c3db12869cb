//! The clocks the servers use: monotonic nanoseconds for timers, thread CPU time for `/cpu`.
//!
//! Both cannot fail for these clock ids on Linux. Monotonic time is a vDSO call (tens of ns);
//! thread CPU time is a system call (a few hundred ns).

use rustix::time::{ClockId, clock_gettime};

/// Monotonic time, in nanoseconds since boot.
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Processor time this thread has used, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Seconds since 1970-01-01 UTC, as the coarse clock has them (enough for a `Date` header).
pub(crate) fn unix_seconds() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// Uses the processor for `us` microseconds of this thread's CPU time: being preempted does not count.
pub(crate) fn burn_us(us: u64) {
    let end_ns = thread_cpu_ns().saturating_add(us.saturating_mul(1000));
    let mut state = us | 1;
    while thread_cpu_ns() < end_ns {
        // About half a microsecond of arithmetic between looks at the clock, so that most of the
        // time burnt is user time, as a real handler's would be.
        for _ in 0..256 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17));
        }
    }
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
    fn burning_uses_at_least_the_stated_cpu_time() {
        let before_ns = thread_cpu_ns();
        burn_us(3000);
        assert!(thread_cpu_ns() - before_ns >= 3_000_000);
    }
}
