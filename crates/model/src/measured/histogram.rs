//! A histogram of durations, with the buckets of HdrHistogram at the fixed range and precision of [`crate::limits`].
//!
//! The library's own writes to all of its memory when it is made, and goes through all of it when two are added: for
//! the dozens that a run has, megabytes and a percent of the load's CPU time. Here memory is taken zeroed and touched
//! where something is recorded, a page for each doubling of a duration, and everything is done between the lowest and
//! the highest bucket in use. A test holds each figure to be the library's.
//!
//! Buckets, as <https://github.com/HdrHistogram/HdrHistogram> has them: one for each nanosecond below 2 × 1024, and
//! 1024 for each doubling above.

use crate::limits::{LATENCY_DIGITS, LATENCY_NS_MAX, LATENCY_NS_MIN};
use hdrhistogram::Counter;

/// Half of the buckets below the first doubling, as a power of two: the one above 2 × 10³, halved.
const HALF_LOG2: u32 = 10;
const HALF: usize = 1 << HALF_LOG2;
/// Buckets up to the end of the last doubling.
const BUCKETS: usize = index_of(LATENCY_NS_MAX) / HALF * HALF + HALF;

const _: () = assert!(LATENCY_DIGITS == 3 && LATENCY_NS_MIN == 1, "the buckets are those of three digits from 1 ns on");

/// Counts of durations, nanoseconds. Takes memory when something is first recorded, or by [`Histogram::reserve`].
#[derive(Debug, Clone)]
pub struct Histogram<C: Counter> {
    /// One for each bucket, or none.
    counts: Box<[C]>,
    total: u64,
    /// The lowest and the highest bucket that holds something; empty: the one is above the other.
    first: usize,
    last: usize,
}

impl<C: Counter> Histogram<C> {
    /// An empty one.
    pub fn new() -> Self {
        Histogram { counts: Box::new([]), total: 0, first: usize::MAX, last: 0 }
    }

    /// Takes the memory now, so that recording will not.
    pub fn reserve(&mut self) {
        if self.counts.is_empty() {
            // Zeroed by the system: nothing is touched.
            self.counts = vec![C::zero(); BUCKETS].into_boxed_slice();
        }
    }

    /// Records one duration; longer than the range is recorded as the range's end.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, C::one());
    }

    /// Records `count` durations of the same length.
    #[inline]
    pub fn record_n(&mut self, ns: u64, count: C) {
        let index = index_of(ns);
        match self.counts.get_mut(index) {
            Some(at) => *at = at.saturating_add(count),
            None => self.record_first(index, count),
        }
        if count != C::zero() {
            self.total = self.total.saturating_add(count.as_u64());
            self.first = self.first.min(index);
            self.last = self.last.max(index);
        }
    }

    #[cold]
    fn record_first(&mut self, index: usize, count: C) {
        self.reserve();
        if let Some(at) = self.counts.get_mut(index) {
            *at = count;
        }
    }

    /// How many durations it holds.
    #[inline]
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether it holds none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The lowest value of the lowest bucket in use; 0 where there is none.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { lowest_of(self.first) }
    }

    /// The highest value of the highest bucket in use; 0 where there is none.
    pub fn max(&self) -> u64 {
        if self.is_empty() { 0 } else { highest_of(self.last) }
    }

    /// The mean, each duration taken at the middle of its bucket; 0 where there is none.
    pub fn mean(&self) -> f64 {
        self.in_use()
            .fold(0.0, |mean, (index, count)| mean + middle_of(index) as f64 * count.as_f64() / self.total as f64)
    }

    /// The quantile, 0..=1: of n durations in ascending order the ⌈q·n⌉-th, at the highest value of its bucket (at 0, the
    /// lowest); 0 where there is none.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile.min(1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0u64;
        for (index, count) in self.in_use() {
            seen = seen.saturating_add(count.as_u64());
            if seen >= rank {
                return if quantile == 0.0 { lowest_of(index) } else { highest_of(index) };
            }
        }
        0
    }

    /// Every bucket in use, ascending: its highest value, and how many durations it holds.
    pub fn iter_recorded(&self) -> impl Iterator<Item = (u64, C)> + '_ {
        self.in_use().map(|(index, count)| (highest_of(index), count))
    }

    /// The buckets in use, by index.
    fn in_use(&self) -> impl Iterator<Item = (usize, C)> + '_ {
        let first = self.first.min(self.counts.len());
        let end = if self.is_empty() { first } else { self.last + 1 };
        let counts = self.counts[first..end].iter().copied().enumerate();
        counts.filter(|(_, count)| *count != C::zero()).map(move |(at, count)| (first + at, count))
    }

    /// Adds one of the same counters.
    pub fn add(&mut self, other: &Histogram<C>) {
        if let Some((into, from)) = self.pairs(other) {
            into.iter_mut().zip(from).for_each(|(into, from)| *into = into.saturating_add(*from));
        }
    }

    /// What both have between the other's ends, and the other's total taken in; `None` where that is empty.
    fn pairs<'a, D: Counter>(&'a mut self, other: &'a Histogram<D>) -> Option<(&'a mut [C], &'a [D])> {
        if other.is_empty() {
            return None;
        }
        self.reserve();
        self.total = self.total.saturating_add(other.total);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        let between = other.first..=other.last;
        Some((&mut self.counts[between.clone()], &other.counts[between]))
    }

    /// Empties it, keeping the memory.
    pub fn reset(&mut self) {
        if !self.is_empty() {
            self.counts[self.first..=self.last].fill(C::zero());
        }
        (self.total, self.first, self.last) = (0, usize::MAX, 0);
    }
}

impl Histogram<u64> {
    /// Adds one of any counters.
    pub fn add_any<D: Counter>(&mut self, other: &Histogram<D>) {
        if let Some((into, from)) = self.pairs(other) {
            into.iter_mut().zip(from).for_each(|(into, from)| *into = into.saturating_add(from.as_u64()));
        }
    }

    /// Takes away one that is a part of it; whether it was: where it was not, nothing is taken away.
    pub fn subtract(&mut self, part: &Histogram<u64>) -> bool {
        if part.is_empty() {
            return true;
        }
        let between = part.first..=part.last;
        let is_part = self.total >= part.total
            && self
                .counts
                .get(between.clone())
                .is_some_and(|own| own.iter().zip(&part.counts[between.clone()]).all(|(own, part)| own >= part));
        if !is_part {
            return false;
        }
        self.counts[between.clone()].iter_mut().zip(&part.counts[between]).for_each(|(own, part)| *own -= part);
        self.total -= part.total;
        let ends = self.in_use().map(|(index, _)| index).fold(None, |ends, index| match ends {
            None => Some((index, index)),
            Some((first, _)) => Some((first, index)),
        });
        (self.first, self.last) = ends.unwrap_or((usize::MAX, 0));
        true
    }
}

impl<C: Counter> Default for Histogram<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Counter> PartialEq for Histogram<C> {
    fn eq(&self, other: &Self) -> bool {
        self.total == other.total && self.in_use().eq(other.in_use())
    }
}

/// The bucket of a duration.
#[inline]
const fn index_of(ns: u64) -> usize {
    let ns = if ns > LATENCY_NS_MAX { LATENCY_NS_MAX } else { ns };
    // Doublings above the first buckets.
    let doublings = (u64::BITS - (ns | (2 * HALF as u64 - 1)).leading_zeros()) - (HALF_LOG2 + 1);
    ((doublings as usize) << HALF_LOG2) + (ns >> doublings) as usize
}

/// How many doublings lie below a bucket.
const fn doublings_of(index: usize) -> u32 {
    (index / HALF).saturating_sub(1) as u32
}

/// The lowest value of a bucket.
const fn lowest_of(index: usize) -> u64 {
    let doublings = doublings_of(index);
    ((index - (doublings as usize) * HALF) as u64) << doublings
}

/// The highest value of a bucket.
const fn highest_of(index: usize) -> u64 {
    lowest_of(index) + (1 << doublings_of(index)) - 1
}

/// The middle of a bucket, as the library has it.
const fn middle_of(index: usize) -> u64 {
    lowest_of(index) + ((1 << doublings_of(index)) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The library's, of the same range.
    fn theirs(values: &[(u64, u32)]) -> hdrhistogram::Histogram<u32> {
        let mut theirs =
            hdrhistogram::Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS).unwrap();
        for (ns, count) in values {
            theirs.saturating_record_n((*ns).min(LATENCY_NS_MAX), *count);
        }
        theirs
    }

    fn ours(values: &[(u64, u32)]) -> Histogram<u32> {
        let mut ours = Histogram::new();
        values.iter().for_each(|(ns, count)| ours.record_n(*ns, *count));
        ours
    }

    fn values_strategy() -> impl Strategy<Value = Vec<(u64, u32)>> {
        let ns = prop_oneof![0u64..5000, (0u32..64, any::<u64>()).prop_map(|(bits, ns)| ns >> bits)];
        prop::collection::vec((ns, 1u32..1000), 0..60)
    }

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!(
            (lowest_of(0), index_of(0), highest_of(BUCKETS - 1) + 1),
            (0, 0, LATENCY_NS_MAX.next_power_of_two())
        );
        for index in 1..BUCKETS {
            assert_eq!(lowest_of(index), highest_of(index - 1) + 1, "{index}");
        }
        for index in 0..=index_of(LATENCY_NS_MAX) {
            assert_eq!(index_of(lowest_of(index)), index);
            assert_eq!(index_of(highest_of(index).min(LATENCY_NS_MAX)), index);
        }
        assert_eq!(index_of(u64::MAX), index_of(LATENCY_NS_MAX));
        assert_eq!(theirs(&[]).distinct_values(), BUCKETS);
    }

    #[test]
    fn counts_end_at_what_they_can_hold() {
        let mut full = ours(&[(7, u32::MAX), (7, u32::MAX)]);
        full.add(&full.clone());
        assert_eq!(full.iter_recorded().collect::<Vec<_>>(), [(7, u32::MAX)]);
    }

    #[test]
    fn what_is_no_part_is_not_taken_away() {
        let of = |values: &[(u64, u32)]| {
            let mut sum = Histogram::<u64>::new();
            sum.add_any(&ours(values));
            sum
        };
        let whole = of(&[(5, 2), (5000, 1)]);
        for part in [&[(5, 3)][..], &[(6, 1)], &[(5, 2), (5000, 2)], &[(5, 2), (5000, 1), (9, 1)]] {
            let mut rest = whole.clone();
            assert!(!rest.subtract(&of(part)), "{part:?}");
            assert_eq!(rest, whole);
        }
        assert!(!Histogram::<u64>::new().subtract(&whole));
        let mut rest = whole.clone();
        assert!(rest.subtract(&of(&[(5000, 1)])));
        assert_eq!((rest.len(), rest.min(), rest.max()), (2, 5, 5));
        assert!(rest.subtract(&of(&[(5, 2)])));
        assert_eq!((rest.is_empty(), rest.clone()), (true, Histogram::new()));
    }

    proptest! {
        #[test]
        fn every_figure_is_the_librarys(a in values_strategy(), b in values_strategy(), q in 0.0f64..=1.0) {
            let (mut own, mut other) = (ours(&a), theirs(&a));
            let same = |own: &Histogram<u32>, other: &hdrhistogram::Histogram<u32>| {
                prop_assert_eq!((own.len(), own.min(), own.max()), (other.len(), other.min(), other.max()));
                prop_assert_eq!(own.mean(), other.mean());
                for q in [0.0, q, 0.5, 0.99, 0.999, 1.0] {
                    prop_assert_eq!(own.value_at_quantile(q), other.value_at_quantile(q), "{}", q);
                }
                let recorded = other.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()));
                prop_assert_eq!(own.iter_recorded().collect::<Vec<_>>(), recorded.collect::<Vec<_>>());
                Ok(())
            };
            same(&own, &other)?;
            let mut wide = Histogram::<u64>::new();
            wide.add_any(&own);
            own.add(&ours(&b));
            other.add(theirs(&b)).unwrap();
            same(&own, &other)?;
            // A part that was added can be taken out again.
            let before = wide.clone();
            let mut part = Histogram::<u64>::new();
            part.add_any(&ours(&b));
            wide.add_any(&ours(&b));
            prop_assert!(wide.iter_recorded().map(|(ns, count)| (ns, count as u32)).eq(own.iter_recorded()));
            prop_assert!(wide.subtract(&part));
            prop_assert_eq!(&wide, &before);
            prop_assert_eq!((wide.min(), wide.max()), (before.min(), before.max()));
            own.reset();
            prop_assert_eq!(&own, &Histogram::new());
            own.add(&ours(&a));
            prop_assert_eq!(own, ours(&a));
        }
    }
}
