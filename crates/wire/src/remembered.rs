//! Which keys' values a server has acknowledged, so that it is known when one is gone (`--verify-writes`).
//!
//! A bit for each key: an eighth of a byte, taken at the start. Each worker knows its own writes, so what is found gone is at
//! least what is. A key counts as acknowledged from the moment its reply came; a read that left before is judged as if it
//! were not. One that was found gone is forgotten until it is written again, so each loss is counted once by each worker.
//!
//! Where requests take values away, too, four bytes more a key: how many such requests left, and of how many it is known that
//! the server is done with them. A write counts only if none was under way from the moment it left until its reply came, and a
//! read finds something lost only if none left in that time: in what order a server does what overlaps is not known. One
//! that is never answered leaves its key in doubt for good, as it may still be done. All removals of a key must be the same
//! worker's: of others' it does not know.

use std::cell::Cell;

/// A bit for each key.
#[derive(Debug)]
pub(crate) struct Remembered {
    words: Vec<Cell<u64>>,
    /// For each key; empty where nothing is taken away.
    removals: Vec<Cell<Removals>>,
}

/// How often a key's value was to be taken away, modulo 2^16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Removals {
    sent: u16,
    done: u16,
}

/// What was known of a key when a request that names it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsSent {
    is_acknowledged: bool,
    /// Whether a removal was under way.
    is_in_doubt: bool,
    /// Removals that had left, modulo 2^16.
    removals: u16,
}

impl Remembered {
    /// None of so many keys, whose values requests take away or not.
    pub fn new(keys: u32, are_removed: bool) -> Self {
        let removals = if are_removed { keys as usize } else { 0 };
        Remembered {
            words: vec![Cell::new(0); keys.div_ceil(u64::BITS) as usize],
            removals: vec![Cell::default(); removals],
        }
    }

    /// A request that names a key is about to leave, and takes nothing away.
    #[inline]
    pub fn sent(&self, key: u32) -> AsSent {
        let removals = self.removals(key);
        let is_in_doubt = removals.sent != removals.done;
        AsSent { is_acknowledged: self.has(key), is_in_doubt, removals: removals.sent }
    }

    /// A request that takes a key's value away is about to leave.
    pub fn removal_sent(&self, key: u32) {
        self.forget(key);
        // With as many under way as can be counted the key stays in doubt, whatever is answered.
        self.count_removal(key, |of| Removals { sent: of.sent.wrapping_add(1), ..of });
    }

    /// The server is done with a request that took a key's value away.
    pub fn removal_done(&self, key: u32) {
        self.count_removal(key, |of| Removals { done: of.done.wrapping_add(1), ..of });
    }

    /// A write was acknowledged.
    #[inline]
    pub fn acknowledged(&self, key: u32, as_sent: AsSent) {
        if !as_sent.is_in_doubt && self.removals(key).sent == as_sent.removals {
            self.change(key, |word, bit| word | bit);
        }
    }

    /// A read found nothing: whether that is a loss. If so it is forgotten, and not counted again.
    #[inline]
    pub fn is_lost(&self, key: u32, as_sent: AsSent) -> bool {
        let is_lost = as_sent.is_acknowledged && self.has(key) && self.removals(key).sent == as_sent.removals;
        if is_lost {
            self.forget(key);
        }
        is_lost
    }

    fn forget(&self, key: u32) {
        self.change(key, |word, bit| word & !bit);
    }

    fn has(&self, key: u32) -> bool {
        self.words.get((key / u64::BITS) as usize).is_some_and(|word| word.get() & bit(key) != 0)
    }

    fn change(&self, key: u32, to: impl Fn(u64, u64) -> u64) {
        if let Some(word) = self.words.get((key / u64::BITS) as usize) {
            word.set(to(word.get(), bit(key)));
        }
    }

    fn removals(&self, key: u32) -> Removals {
        self.removals.get(key as usize).map(Cell::get).unwrap_or_default()
    }

    fn count_removal(&self, key: u32, to: impl Fn(Removals) -> Removals) {
        if let Some(of) = self.removals.get(key as usize)
            && of.get().sent.wrapping_sub(of.get().done) != u16::MAX
        {
            of.set(to(of.get()));
        }
    }
}

fn bit(key: u32) -> u64 {
    1 << (key % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(remembered: &Remembered, key: u32) -> bool {
        remembered.sent(key).is_acknowledged
    }

    #[test]
    fn keys_are_remembered_each_by_itself() {
        let remembered = Remembered::new(130, false);
        [0, 63, 64, 129].into_iter().for_each(|key| remembered.acknowledged(key, remembered.sent(key)));
        let known: Vec<u32> = (0..200).filter(|key| is_known(&remembered, *key)).collect();
        assert_eq!(known, [0, 63, 64, 129]);
        assert!(remembered.is_lost(64, remembered.sent(64)) && !remembered.is_lost(64, remembered.sent(64)));
        remembered.acknowledged(500, remembered.sent(500));
        assert_eq!((0..600).filter(|key| is_known(&remembered, *key)).count(), 3);
    }

    #[test]
    fn two_reads_under_way_find_one_loss() {
        let remembered = Remembered::new(1, false);
        remembered.acknowledged(0, remembered.sent(0));
        let (one, other) = (remembered.sent(0), remembered.sent(0));
        assert!(remembered.is_lost(0, one) && !remembered.is_lost(0, other));
    }

    #[test]
    fn what_overlaps_with_a_removal_is_not_known() {
        let written = || {
            let remembered = Remembered::new(1, true);
            remembered.acknowledged(0, remembered.sent(0));
            remembered
        };
        // A read that left before, answered after; and after a write that came later.
        let remembered = written();
        let read = remembered.sent(0);
        remembered.removal_sent(0);
        assert!(!is_known(&remembered, 0) && !remembered.is_lost(0, read));
        remembered.removal_done(0);
        remembered.acknowledged(0, remembered.sent(0));
        assert!(is_known(&remembered, 0) && !remembered.is_lost(0, read), "it may have been done between the two");
        // A write that left while one was under way, or before it and was answered after.
        let remembered = written();
        let before = remembered.sent(0);
        remembered.removal_sent(0);
        let within = remembered.sent(0);
        remembered.acknowledged(0, before);
        remembered.removal_done(0);
        remembered.acknowledged(0, before);
        remembered.acknowledged(0, within);
        assert!(!is_known(&remembered, 0));
        // Two, of which one is answered.
        remembered.removal_sent(0);
        remembered.removal_sent(0);
        remembered.removal_done(0);
        remembered.acknowledged(0, remembered.sent(0));
        assert!(!is_known(&remembered, 0));
        remembered.removal_done(0);
        remembered.acknowledged(0, remembered.sent(0));
        assert!(is_known(&remembered, 0));
    }

    #[test]
    fn more_removals_than_can_be_counted_leave_the_key_in_doubt() {
        let remembered = Remembered::new(1, true);
        (0..2 * 65_536).for_each(|_| remembered.removal_sent(0));
        (0..2 * 65_536 - 1).for_each(|_| remembered.removal_done(0));
        remembered.acknowledged(0, remembered.sent(0));
        assert!(!is_known(&remembered, 0));
    }
}
