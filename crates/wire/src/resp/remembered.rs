//! Which keys' values a server has acknowledged, so that it is known when one is gone (`--verify-writes`).
//!
//! A bit for each key: an eighth of a byte, taken at the start. Each worker knows its own writes, so what is found gone is at
//! least what is. A key counts as acknowledged from the moment its reply came; a read that left before is judged as if it
//! were not. One that was found gone is forgotten until it is written again, so each loss is counted once by each worker.

use std::cell::Cell;

/// A bit for each key.
#[derive(Debug)]
pub(super) struct Remembered {
    words: Vec<Cell<u64>>,
}

impl Remembered {
    /// None of so many keys.
    pub fn new(keys: u32) -> Self {
        Remembered { words: vec![Cell::new(0); keys.div_ceil(u64::BITS) as usize] }
    }

    /// Its value was acknowledged.
    #[inline]
    pub fn acknowledged(&self, key: u32) {
        self.change(key, |word, bit| word | bit);
    }

    /// It was found gone.
    pub fn forget(&self, key: u32) {
        self.change(key, |word, bit| word & !bit);
    }

    /// Whether its value was acknowledged, and not found gone since.
    #[inline]
    pub fn has(&self, key: u32) -> bool {
        self.words.get((key / u64::BITS) as usize).is_some_and(|word| word.get() & bit(key) != 0)
    }

    fn change(&self, key: u32, to: impl Fn(u64, u64) -> u64) {
        if let Some(word) = self.words.get((key / u64::BITS) as usize) {
            word.set(to(word.get(), bit(key)));
        }
    }
}

fn bit(key: u32) -> u64 {
    1 << (key % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_remembered_each_by_itself() {
        let remembered = Remembered::new(130);
        [0, 63, 64, 129].into_iter().for_each(|key| remembered.acknowledged(key));
        let known: Vec<u32> = (0..200).filter(|key| remembered.has(*key)).collect();
        assert_eq!(known, [0, 63, 64, 129]);
        remembered.forget(64);
        remembered.acknowledged(500);
        assert_eq!((0..600).filter(|key| remembered.has(*key)).count(), 3);
    }
}
