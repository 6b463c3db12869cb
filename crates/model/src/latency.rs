//! The kinds of latency kept for every run, and a set of histograms holding one of each.
//!
//! All values are nanoseconds. The range is fixed ([`crate::limits`]), so two sets always merge without loss.

use crate::limits::{LATENCY_DIGITS, LATENCY_NS_MAX, LATENCY_NS_MIN};
use hdrhistogram::{Counter, Histogram};

/// What a duration is the duration of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// done − intended, successes only.
    Response,
    /// done − sent, successes only.
    Service,
    /// done − intended of failed requests; a timeout enters at its timeout.
    Failed,
    /// From the start of a connect to its completion.
    Connect,
    /// The TLS handshake: from the TCP connection to the first moment a request may be sent.
    Tls,
    /// first byte − sent, successes only.
    FirstByte,
    /// sent − ready: no connection was free. The target's doing.
    Queue,
    /// ready − intended: the generator's own delay.
    Lag,
}

impl Kind {
    /// All kinds, in the order of [`Kind::index`].
    pub const ALL: [Kind; 8] = [
        Kind::Response,
        Kind::Service,
        Kind::Failed,
        Kind::Connect,
        Kind::Tls,
        Kind::FirstByte,
        Kind::Queue,
        Kind::Lag,
    ];

    /// The name in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Response => "response",
            Kind::Service => "service",
            Kind::Failed => "failed",
            Kind::Connect => "connect",
            Kind::Tls => "tls",
            Kind::FirstByte => "first_byte",
            Kind::Queue => "queue",
            Kind::Lag => "lag",
        }
    }

    /// Place in a [`LatencySet`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A histogram of the fixed range and precision.
///
/// # Panics
/// Never: the bounds are constants that the library accepts (a test holds this).
pub fn histogram<C: Counter>() -> Histogram<C> {
    #[expect(clippy::expect_used, reason = "constant bounds, held by a test")]
    Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS).expect("constant bounds are valid")
}

/// One histogram for each [`Kind`], nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySet<C: Counter> {
    histograms: [Histogram<C>; Kind::ALL.len()],
}

impl<C: Counter> LatencySet<C> {
    /// An empty set. Allocates all the memory it will ever need.
    pub fn new() -> Self {
        LatencySet { histograms: std::array::from_fn(|_| histogram()) }
    }

    /// The histogram of one kind.
    pub fn of(&self, kind: Kind) -> &Histogram<C> {
        &self.histograms[kind.index()]
    }

    /// The histogram of one kind, to write to.
    pub fn of_mut(&mut self, kind: Kind) -> &mut Histogram<C> {
        &mut self.histograms[kind.index()]
    }

    /// Records one duration; longer than the range is recorded as the range's end. Does not allocate.
    #[inline]
    pub fn record(&mut self, kind: Kind, nanoseconds: u64) {
        self.histograms[kind.index()].saturating_record(nanoseconds);
    }

    /// Records `count` durations of the same length.
    pub fn record_n(&mut self, kind: Kind, nanoseconds: u64, count: C) {
        self.histograms[kind.index()].saturating_record_n(nanoseconds, count);
    }

    /// Empties every histogram that holds something, keeping the memory.
    pub fn clear(&mut self) {
        for histogram in &mut self.histograms {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }
}

impl LatencySet<u64> {
    /// Adds another set, losslessly: the buckets are the same, so every value stays in its own.
    pub fn add<D: Counter>(&mut self, other: &LatencySet<D>) {
        for (into, from) in self.histograms.iter_mut().zip(&other.histograms) {
            for value in from.iter_recorded() {
                into.saturating_record_n(value.value_iterated_to(), value.count_at_value().as_u64());
            }
        }
    }
}

impl<C: Counter> Default for LatencySet<C> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_indexed_in_order() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), i);
            assert_eq!(Kind::ALL.iter().filter(|k| k.name() == kind.name()).count(), 1);
        }
    }

    #[test]
    fn merging_is_lossless_and_saturates_at_the_range() {
        let mut a = LatencySet::<u32>::new();
        a.record(Kind::Response, 1);
        a.record(Kind::Response, u64::MAX);
        a.record_n(Kind::Lag, 0, 5);
        let mut sum = LatencySet::<u64>::new();
        sum.add(&a);
        sum.add(&a);
        assert_eq!(sum.of(Kind::Response).len(), 4);
        assert_eq!(sum.of(Kind::Lag).len(), 10);
        assert_eq!(sum.of(Kind::Lag).max(), 0);
        assert!(sum.of(Kind::Response).max() >= LATENCY_NS_MAX);
        a.clear();
        assert_eq!(a, LatencySet::new());
    }
}
