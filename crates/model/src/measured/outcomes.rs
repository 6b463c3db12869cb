//! Outcomes of replies: what a complete reply was, as a number that its protocol gives it.
//!
//! Which number is what is the protocol's own ([`crate::workload`]): HTTP's are its statuses, RESP's are made of command and
//! error word ([`crate::resp::reply_code`]). Nobody else reads meaning into one: names come from
//! [`crate::workload::ProtocolPlan::failures_by_name`]. Memory is the same whatever comes.

/// Complete replies by outcome: 100..=599 each, others together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeCounts {
    counts: Box<[u64; 501]>,
}

impl Default for OutcomeCounts {
    fn default() -> Self {
        OutcomeCounts { counts: Box::new([0; 501]) }
    }
}

impl OutcomeCounts {
    /// Counts one reply. Numbers outside 100..=599 are counted together as 0.
    #[inline]
    pub fn record(&mut self, outcome: u16) {
        self.add(outcome, 1);
    }

    /// Counts several.
    #[inline]
    pub fn add(&mut self, outcome: u16, count: u64) {
        let index = if (100..600).contains(&outcome) { usize::from(outcome) - 100 } else { 500 };
        self.counts[index] += count;
    }

    /// Every outcome seen, ascending, with its count; 0 stands for those outside 100..=599, last.
    pub fn seen(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(i, n)| (if i == 500 { 0 } else { i as u16 + 100 }, *n))
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &OutcomeCounts) {
        for (into, from) in self.counts.iter_mut().zip(other.counts.iter()) {
            *into += from;
        }
    }

    /// Sets all to zero.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_outside_the_range_are_counted_together() {
        let mut s = OutcomeCounts::default();
        for code in [200, 200, 404, 99, 600, 999, 0] {
            s.record(code);
        }
        assert_eq!(s.seen().collect::<Vec<_>>(), [(200, 2), (404, 1), (0, 4)]);
    }
}
