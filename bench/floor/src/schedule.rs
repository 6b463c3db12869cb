//! When requests are due, and by how much they were released late: evenly spaced from a start.
//! Due times are computed from the index, never added up, so no rounding error accumulates.
//! Cost: four bytes a request, all taken before the run.

/// Most requests one schedule holds: bounds the memory of the release errors at 400 MB.
pub const REQUESTS_MAX: u64 = 100_000_000;

/// Evenly spaced due times and the errors of releasing them.
#[derive(Debug)]
pub struct Schedule {
    start_ns: u64,
    rate_per_s: f64,
    total: u64,
    released: u64,
    errors_ns: Vec<u32>,
}

impl Schedule {
    /// `rate_per_s` × `seconds` requests from `start_ns` (CLOCK_MONOTONIC) on.
    #[must_use]
    pub fn new(start_ns: u64, rate_per_s: f64, seconds: f64) -> Self {
        let total = ((rate_per_s * seconds).round() as u64).min(REQUESTS_MAX);
        Self {
            start_ns,
            rate_per_s,
            total,
            released: 0,
            errors_ns: Vec::with_capacity(usize::try_from(total).unwrap_or(0)),
        }
    }

    /// When the next request is due, or none when all were released.
    #[inline]
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        (self.released < self.total).then(|| self.start_ns + (self.released as f64 * 1e9 / self.rate_per_s) as u64)
    }

    /// Takes the next request if it is due at `now_ns`, noting how late that is.
    #[inline]
    pub fn release(&mut self, now_ns: u64) -> bool {
        match self.next_due_ns() {
            Some(due_ns) if due_ns <= now_ns => {
                self.errors_ns.push(u32::try_from(now_ns - due_ns).unwrap_or(u32::MAX));
                self.released += 1;
                true
            }
            _ => false,
        }
    }

    /// All requests of the schedule.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The 99th percentile of the release errors, in µs (nearest rank); none before any release.
    #[must_use]
    pub fn error_p99_us(&mut self) -> Option<f64> {
        let count = self.errors_ns.len();
        if count == 0 {
            return None;
        }
        let rank = (count * 99).div_ceil(100).clamp(1, count) - 1;
        let (_, error_ns, _) = self.errors_ns.select_nth_unstable(rank);
        Some(f64::from(*error_ns) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_do_not_drift() {
        let mut schedule = Schedule::new(1_000, 3.0, 1_000_000.0);
        schedule.released = 2_999_999;
        // 2,999,999 thirds of a second: whatever is lost is below one float step of 1e15 ns.
        let exact_ns = 1_000 + 2_999_999_u64 * 1_000_000_000 / 3;
        assert!(schedule.next_due_ns().unwrap().abs_diff(exact_ns) <= 1);
    }

    #[test]
    fn each_request_is_released_once_and_not_early() {
        let mut schedule = Schedule::new(0, 1000.0, 0.003);
        assert_eq!(schedule.total(), 3);
        assert!(schedule.release(0));
        assert!(!schedule.release(999_999));
        assert!(schedule.release(2_500_000));
        assert!(schedule.release(2_500_000));
        assert!(!schedule.release(u64::MAX));
        assert_eq!(schedule.next_due_ns(), None);
    }

    #[test]
    fn p99_is_the_nearest_rank() {
        let mut schedule = Schedule::new(0, 1.0, 200.0);
        assert_eq!(schedule.error_p99_us(), None);
        for index in 0..200 {
            // Errors of 0, 1000, 2000 … 199000 ns.
            assert!(schedule.release(index * 1_000_000_000 + index * 1_000));
        }
        assert_eq!(schedule.error_p99_us(), Some(197.0));
    }
}
