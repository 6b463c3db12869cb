//! The offset between two machines' monotonic clocks, with its bound, by exchanges of stamps.
//!
//! Four stamps as in NTP (RFC 5905, section 8): sent here, received there, sent there, received here. Whatever the
//! delays of both ways were, the true offset is no further from ((t2 − t1) + (t3 − t4)) / 2 than half the round trip; of
//! the last few exchanges the one with the smallest bound counts, to which is added what the clocks may have drifted
//! since. Wall clocks are not looked at.

use super::limits::{DRIFT_PPM, EXCHANGES_KEPT};
use std::collections::VecDeque;

/// The four stamps of an exchange, nanoseconds of CLOCK_MONOTONIC of the machine each was taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Sent here.
    pub sent_ns: i64,
    /// Received there.
    pub there_received_ns: i64,
    /// Answered there.
    pub there_sent_ns: i64,
    /// The answer received here.
    pub received_ns: i64,
}

/// What an exchange says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The clock there less the clock here, nanoseconds.
    pub offset_ns: i64,
    /// The true offset is at most so far from it, nanoseconds.
    pub bound_ns: u64,
}

impl Exchange {
    /// The offset and its bound; `None` where the stamps cannot be: time went back on one side, or they overflow.
    pub fn estimate(&self) -> Option<Estimate> {
        let [t1, t2, t3, t4] =
            [self.sent_ns, self.there_received_ns, self.there_sent_ns, self.received_ns].map(i128::from);
        let round_ns = (t4 - t1) - (t3 - t2);
        if t3 < t2 || round_ns < 0 {
            return None;
        }
        let offset_ns = i64::try_from(((t2 - t1) + (t3 - t4)).div_euclid(2)).ok()?;
        // Rounded up, and the offset down: one half nanosecond each.
        Some(Estimate { offset_ns, bound_ns: u64::try_from(round_ns / 2 + 1).ok()? })
    }
}

/// The last exchanges of a link.
#[derive(Debug, Default)]
pub struct Clock {
    kept: VecDeque<(Estimate, i64)>,
    exchanges: u64,
}

impl Clock {
    /// Takes an exchange in; stamps that cannot be are passed over.
    pub fn push(&mut self, exchange: Exchange) {
        let Some(estimate) = exchange.estimate() else { return };
        if self.kept.len() >= EXCHANGES_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((estimate, exchange.received_ns));
        self.exchanges += 1;
    }

    /// The best estimate at a moment of the clock here; `None` before the first exchange.
    pub fn at(&self, now_ns: i64) -> Option<Estimate> {
        let aged = |(estimate, at_ns): &(Estimate, i64)| {
            let age_ns = now_ns.saturating_sub(*at_ns).max(0).unsigned_abs();
            let drift_ns = age_ns / 1_000_000 * DRIFT_PPM + age_ns % 1_000_000 * DRIFT_PPM / 1_000_000;
            Estimate { bound_ns: estimate.bound_ns.saturating_add(drift_ns), ..*estimate }
        };
        self.kept.iter().map(aged).min_by_key(|estimate| estimate.bound_ns)
    }

    /// How many exchanges there were.
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// The link was made again: the other machine may have started anew, so what was kept says nothing of it.
    pub fn forget(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange over a path with two delays and a pause there, with the clock there so far ahead.
    fn exchange(at_ns: i64, offset_ns: i64, out_ns: i64, pause_ns: i64, back_ns: i64) -> Exchange {
        let there_received_ns = at_ns + out_ns + offset_ns;
        Exchange {
            sent_ns: at_ns,
            there_received_ns,
            there_sent_ns: there_received_ns + pause_ns,
            received_ns: at_ns + out_ns + pause_ns + back_ns,
        }
    }

    #[test]
    fn the_bound_holds_however_unequal_the_delays_are() {
        for offset_ns in [0, 1, -1, 123_456_789, -86_400_000_000_000, 1 << 60] {
            for (out_ns, back_ns) in [(0, 0), (1, 0), (0, 1), (50_000, 50_000), (3, 9_999_999), (80_000_000, 7)] {
                for pause_ns in [0, 5, 20_000_000] {
                    let estimate = exchange(1_000, offset_ns, out_ns, pause_ns, back_ns).estimate().unwrap();
                    let wrong_ns = (estimate.offset_ns - offset_ns).unsigned_abs();
                    assert!(wrong_ns <= estimate.bound_ns, "{offset_ns} {out_ns} {back_ns} {pause_ns}: {estimate:?}");
                    assert_eq!(estimate.bound_ns, (out_ns + back_ns).unsigned_abs() / 2 + 1, "the pause is not in it");
                }
            }
        }
    }

    #[test]
    fn the_shortest_round_trip_counts_until_it_is_too_old() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(0), None);
        clock.push(exchange(0, 500, 900_000, 0, 100_000));
        clock.push(exchange(10_000_000, 500, 20_000, 0, 10_000));
        clock.push(exchange(20_000_000, 500, 5_000_000, 0, 0));
        let best = clock.at(20_000_000).unwrap();
        assert_eq!(best.offset_ns, 500 + 5_000);
        assert!((15_001..15_500).contains(&best.bound_ns), "{best:?}");
        let later = clock.at(1_020_000_000).unwrap();
        assert_eq!(later.bound_ns - best.bound_ns, 30_000, "30 µs a second");
        for second in 1..=EXCHANGES_KEPT as i64 {
            clock.push(exchange(second * 1_000_000_000, 700, 50_000, 0, 50_000));
        }
        let best = clock.at(8_000_000_000).unwrap();
        assert_eq!((best.offset_ns, clock.exchanges()), (700, 11));
        clock.forget();
        assert_eq!(clock.at(8_000_000_000), None);
    }

    #[test]
    fn stamps_that_cannot_be_say_nothing() {
        let ok = exchange(1_000, 0, 10, 10, 10);
        for wrong in [
            Exchange { there_sent_ns: ok.there_received_ns - 1, ..ok },
            Exchange { received_ns: ok.sent_ns, ..ok },
            Exchange { there_received_ns: i64::MIN, there_sent_ns: i64::MAX, ..ok },
            Exchange { sent_ns: i64::MIN, received_ns: i64::MAX, there_received_ns: i64::MAX, there_sent_ns: i64::MIN },
        ] {
            assert_eq!(wrong.estimate(), None, "{wrong:?}");
            let mut clock = Clock::default();
            clock.push(wrong);
            assert_eq!(clock.exchanges(), 0);
        }
        let edge =
            Exchange { sent_ns: i64::MIN, there_received_ns: i64::MAX, there_sent_ns: i64::MAX, received_ns: i64::MIN };
        assert_eq!(edge.estimate(), None, "too far apart for the type");
    }
}
