//! Which quantiles mean something: those with at least ten samples beyond them.
//!
//! So q is shown from 10 / (1 − q) samples on: p50 from 20, p90 from 100, p99 from 1,000, p99.9 from 10,000. Below that it
//! is absent, never guessed. The one exception is the course of a run ([`crate::recording::Row`]): a second in which the
//! target stood still has few samples and is what one looks for, so a row keeps its quantiles beside its counts.

use crate::latency::{AtLeast, Kind, LatencySet};
use hdrhistogram::Counter;

/// Samples a quantile must have beyond it to be shown.
const BEYOND_MIN: u64 = 10;

/// A quantile in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permille(pub u64);

impl Permille {
    /// Samples from which on it is shown.
    pub fn samples_needed(self) -> u64 {
        (BEYOND_MIN * 1000).div_ceil(1000 - self.0)
    }

    /// As a share, 0..=1.
    pub fn share(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// A quantile of a kind of latency, a lower bound where what had not ended is at or below it; `None` with too few samples,
/// those that had not ended included.
pub fn shown<C: Counter>(latency: &LatencySet<C>, kind: Kind, q: Permille) -> Option<AtLeast> {
    (latency.count(kind) >= q.samples_needed()).then(|| latency.quantile(kind, q.share())).flatten()
}

/// The quantile, 0..=1, that stands for the tail of so many samples: p99, or the highest one with enough beyond it where
/// there are fewer than a thousand. `None` where there are too few for a median.
pub fn tail_of(samples: u64) -> Option<f64> {
    (samples >= Permille(500).samples_needed())
        .then(|| (1.0 - BEYOND_MIN as f64 / samples as f64).min(Permille(990).share()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_shown_from_ten_samples_beyond_it_on() {
        let needed: Vec<u64> = [500, 750, 900, 950, 990, 999].map(|p| Permille(p).samples_needed()).to_vec();
        assert_eq!(needed, [20, 40, 100, 200, 1000, 10_000]);
        let mut latency = LatencySet::<u64>::new();
        let p99 = |latency: &LatencySet<u64>| shown(latency, Kind::Response, Permille(990));
        latency.record_n(Kind::Response, 5, 999);
        assert_eq!(p99(&latency), None);
        latency.record(Kind::Response, 5);
        assert_eq!(p99(&latency), Some(AtLeast { ns: 5, is_bound: false }));
        latency.record_n(Kind::ResponseCensored, 9, 50);
        assert_eq!(p99(&latency), Some(AtLeast { ns: 9, is_bound: true }));
    }

    #[test]
    fn the_tail_is_the_highest_quantile_with_enough_beyond_it() {
        assert_eq!([19, 20, 100, 1000, 1_000_000].map(tail_of), [None, Some(0.5), Some(0.9), Some(0.99), Some(0.99)]);
    }
}
