//! Outcomes of replies: what a complete reply was, as a number that its protocol gives it.
//!
//! Which numbers there are, and what each is, is the protocol's own ([`crate::workload::ProtocolPlan::outcomes`]): HTTP's are
//! its statuses, RESP's are made of command and error word ([`crate::resp::reply_code`]), and some protocols have none. Nobody
//! else reads meaning into one: names come from [`crate::workload::ProtocolPlan::failures_by_name`].

use std::ops::Range;

/// Complete replies by outcome; those outside the protocol's numbers together.
#[derive(Debug, Clone, Default)]
pub struct OutcomeCounts {
    /// The number of the first count.
    first: u16,
    counts: Vec<u64>,
    others: u64,
}

impl OutcomeCounts {
    /// Takes the memory that counting these numbers needs, and counts from zero.
    pub fn reserve(&mut self, numbers: Range<u16>) {
        *self = OutcomeCounts { first: numbers.start, counts: vec![0; numbers.len()], others: 0 };
    }

    /// Takes the memory that another has taken, where that is not done. What was counted is gone then.
    pub fn count_as(&mut self, other: &OutcomeCounts) {
        if self.first != other.first || self.counts.len() != other.counts.len() {
            *self = OutcomeCounts { first: other.first, counts: vec![0; other.counts.len()], others: 0 };
        }
    }

    /// Counts one reply, without taking memory: numbers that no memory was taken for are counted together.
    #[inline]
    pub fn record(&mut self, outcome: u16) {
        match self.counts.get_mut(usize::from(outcome.wrapping_sub(self.first))) {
            Some(count) => *count += 1,
            None => self.others += 1,
        }
    }

    /// Counts several, whatever their number; 0 stands for those counted together.
    pub fn add(&mut self, outcome: u16, count: u64) {
        if outcome == 0 {
            self.others += count;
            return;
        }
        if self.counts.is_empty() {
            self.first = outcome;
        }
        let before = usize::from(self.first.saturating_sub(outcome));
        if before > 0 {
            self.counts.splice(..0, std::iter::repeat_n(0, before));
            self.first = outcome;
        }
        let index = usize::from(outcome - self.first);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
    }

    /// Every outcome seen, ascending, with its count; 0 stands for those counted together, last.
    pub fn seen(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let numbered = self.counts.iter().enumerate().map(|(place, count)| (self.first + place as u16, *count));
        numbered.chain([(0, self.others)]).filter(|(_, count)| *count > 0)
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &OutcomeCounts) {
        if self.counts.is_empty() {
            (self.first, self.counts) = (other.first, vec![0; other.counts.len()]);
        }
        if self.first != other.first || self.counts.len() < other.counts.len() {
            return other.seen().for_each(|(outcome, count)| self.add(outcome, count));
        }
        for (into, from) in self.counts.iter_mut().zip(&other.counts) {
            *into += from;
        }
        self.others += other.others;
    }

    /// Sets all to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.others = 0;
    }
}

/// The same outcomes, as often: whatever memory was taken for.
impl PartialEq for OutcomeCounts {
    fn eq(&self, other: &Self) -> bool {
        self.seen().eq(other.seen())
    }
}

impl Eq for OutcomeCounts {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn seen(counts: &OutcomeCounts) -> Vec<(u16, u64)> {
        counts.seen().collect()
    }

    #[test]
    fn outcomes_outside_the_protocols_numbers_are_counted_together() {
        let mut counts = OutcomeCounts::default();
        counts.reserve(100..600);
        [200, 200, 404, 99, 600, 999, 0].into_iter().for_each(|code| counts.record(code));
        assert_eq!(seen(&counts), [(200, 2), (404, 1), (0, 4)]);
        counts.clear();
        assert_eq!(seen(&counts), []);
        counts.record(599);
        assert_eq!(seen(&counts), [(599, 1)]);
        let mut none = OutcomeCounts::default();
        none.record(200);
        assert_eq!(seen(&none), [(0, 1)], "no memory was taken for any");
    }

    #[test]
    fn there_is_no_number_behind_the_last() {
        let mut counts = OutcomeCounts::default();
        counts.add(u16::MAX, 2);
        counts.add(1, 1);
        assert_eq!(seen(&counts), [(1, 1), (u16::MAX, 2)]);
        counts.record(u16::MAX);
        counts.record(0);
        assert_eq!(seen(&counts), [(1, 1), (u16::MAX, 3), (0, 1)]);
    }

    proptest! {
        #[test]
        fn sums_are_the_same_in_whatever_order(
            parts in proptest::collection::vec((1u16..50, 0u16..50, proptest::collection::vec(0u16..60, 0..20)), 0..6),
        ) {
            let mut expected: BTreeMap<u16, u64> = BTreeMap::new();
            let (mut sum, mut one_by_one) = (OutcomeCounts::default(), OutcomeCounts::default());
            for (first, length, recorded) in parts {
                let mut part = OutcomeCounts::default();
                part.reserve(first..first + length);
                for outcome in recorded {
                    part.record(outcome);
                    let is_known = (first..first + length).contains(&outcome);
                    *expected.entry(if is_known { outcome } else { 0 }).or_default() += 1;
                }
                sum.merge(&part);
                part.seen().for_each(|(outcome, count)| one_by_one.add(outcome, count));
            }
            prop_assert_eq!(sum.seen().collect::<BTreeMap<_, _>>(), expected);
            prop_assert_eq!(sum, one_by_one);
        }
    }
}
