//! Numbers as good as random, from a seed, so that a run repeats. Nothing here is cryptographic.

use model::plan::Sizes;

/// A sequence: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

/// What each step adds: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix64 {
    /// Another sequence for another seed.
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }
}

/// What a sequence from this seed begins with: the same number for the same one, and all 64 bits differ for its neighbour.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound`, which is at most 2^32; `random` is uniform over all 32 bits. Off by at most `bound` / 2^32,
/// relatively.
#[inline]
pub(crate) fn below(random: u32, bound: u64) -> u32 {
    ((u64::from(random) * bound) >> 32) as u32
}

/// The size that is due at `turn`, or that is drawn. Sizes are as [`crate::echo`] has checked them.
#[inline]
pub(crate) fn size(sizes: &Sizes, turn: usize, random: u32) -> u32 {
    match sizes {
        Sizes::Fixed(size) => *size,
        Sizes::Range(low, high) => low + below(random, u64::from(high - low) + 1),
        Sizes::List(sizes) => sizes[turn % sizes.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first three of seed 1234567, as the reference implementation prints them.
        let mut random = SplitMix64::new(1_234_567);
        let drawn = [random.bits(), random.bits(), random.bits()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn bounds_are_kept() {
        assert_eq!([below(0, 7), below(u32::MAX, 7), below(u32::MAX, 1 << 32)], [0, 6, u32::MAX]);
        let range = Sizes::Range(3, 5);
        assert_eq!([0, u32::MAX / 2, u32::MAX].map(|random| size(&range, 0, random)), [3, 4, 5]);
        let list = Sizes::List(vec![1, 9]);
        assert_eq!([0, 1, 2].map(|turn| size(&list, turn, 0)), [1, 9, 1]);
    }
}
