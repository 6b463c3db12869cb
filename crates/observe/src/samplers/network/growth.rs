//! Counters of connections, summed up over connections that come and go: what each grew by since it was last looked at.
//!
//! The kernel counts by connection and forgets with it. A sum over the living ones falls when one ends, and is no counter;
//! this one never falls. What a connection counted after its last reading is lost with it, so it is a lower bound. A
//! connection that was not there at the reading before counts from its beginning; where that reading was not of all, it may
//! only not have been looked at, and counts from now on.

use std::collections::BTreeMap;

/// Sums of `N` counters; one that no connection has is `None`.
#[derive(Debug)]
pub(crate) struct Growth<const N: usize> {
    sums: [Option<u64>; N],
    /// By cookie, of the reading before.
    last: BTreeMap<u64, [Option<u64>; N]>,
    /// Whether that one was of all connections.
    was_whole: bool,
}

impl<const N: usize> Default for Growth<N> {
    fn default() -> Self {
        Growth { sums: [None; N], last: BTreeMap::new(), was_whole: false }
    }
}

impl<const N: usize> Growth<N> {
    /// Takes in a reading, the first of which is where it begins; the sums.
    pub(crate) fn take(
        &mut self,
        is_whole: bool,
        read: impl Iterator<Item = (u64, [Option<u64>; N])>,
    ) -> [Option<u64>; N] {
        let before = std::mem::take(&mut self.last);
        for (cookie, now) in read {
            let earlier = before.get(&cookie);
            for (i, now) in now.iter().enumerate() {
                let Some(now) = now else { continue };
                let from = match earlier {
                    Some(earlier) => earlier[i].unwrap_or(*now),
                    None if self.was_whole => 0,
                    None => *now,
                };
                let sum = self.sums[i].get_or_insert(0);
                *sum = sum.saturating_add(now.saturating_sub(from));
            }
            self.last.insert(cookie, now);
        }
        self.was_whole = is_whole;
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_falls_and_counts_what_began_since_from_zero() {
        let mut growth = Growth::<2>::default();
        let mut take =
            |is_whole, read: &[(u64, u64)]| growth.take(is_whole, read.iter().map(|(id, n)| (*id, [Some(*n), None])));
        assert_eq!(take(true, &[]), [None, None], "no connection has it");
        assert_eq!(take(true, &[(1, 5)]), [Some(5), None], "it began since");
        assert_eq!(take(true, &[(1, 7), (2, 3)]), [Some(10), None]);
        assert_eq!(take(true, &[(2, 4)]), [Some(11), None], "one has ended: what it had stays");
        assert_eq!(take(false, &[(2, 4)]), [Some(11), None]);
        assert_eq!(take(true, &[(2, 4), (9, 100)]), [Some(11), None], "it may have been there before");
        assert_eq!(take(true, &[(9, 101), (2, 1)]), [Some(12), None], "a count that goes back counts as none");
        assert_eq!(take(true, &[]), [Some(12), None]);
    }

    #[test]
    fn what_was_there_before_the_first_reading_is_not_counted() {
        let mut growth = Growth::<1>::default();
        assert_eq!(growth.take(true, [(1, [Some(50)])].into_iter()), [Some(0)]);
        assert_eq!(growth.take(true, [(1, [Some(51)])].into_iter()), [Some(1)]);
    }
}
