//! The bytes that echo payloads are ranges of: made once from a seed, never changed.
//!
//! Not cryptographic and not exactly uniform; it has to be incompressible, and different at every offset, so that a
//! reply shifted by a byte is seen. Cost: at most a nanosecond a byte, before the load starts.

use crate::random::SplitMix64;
use model::plan::Content;

/// Smallest pool, bytes: payloads of one size still begin at many places, and a core's second cache holds all of it.
pub const POOL_BYTES_MIN: usize = 64 * 1024;
/// Largest pool, bytes: twice the largest payload.
pub const POOL_BYTES_MAX: usize = 2 * model::limits::ECHO_BYTES_MAX as usize;

/// A pool for payloads of at most `largest` bytes.
pub fn make(content: Content, largest: u32, seed: u64) -> Vec<u8> {
    let length = (largest as usize).saturating_mul(2).clamp(POOL_BYTES_MIN, POOL_BYTES_MAX);
    let mut random = SplitMix64::new(seed);
    let mut pool = vec![0; length];
    for eight in pool.chunks_mut(8) {
        let drawn = random.bits().to_le_bytes();
        match content {
            Content::Incompressible => eight.copy_from_slice(&drawn[..eight.len()]),
            // The 95 printable characters, from space to tilde.
            Content::Text => {
                eight
                    .iter_mut()
                    .zip(drawn)
                    .for_each(|(byte, drawn)| *byte = b' ' + ((u16::from(drawn) * 95) >> 8) as u8);
            }
            // Of each byte two bits of a second draw: a quarter is NUL.
            Content::Binary => {
                let mask = random.bits();
                for (place, (byte, drawn)) in eight.iter_mut().zip(drawn).enumerate() {
                    *byte = if (mask >> (2 * place)) & 3 == 0 { 0 } else { drawn };
                }
            }
        }
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_hold_what_was_asked_for() {
        for content in [Content::Text, Content::Binary, Content::Incompressible] {
            let pool = make(content, 1, 1);
            let share = |wanted: fn(u8) -> bool| pool.iter().filter(|b| wanted(**b)).count() as f64 / pool.len() as f64;
            let printable = share(|b| (b' '..=b'~').contains(&b));
            let nul = share(|b| b == 0);
            match content {
                Content::Text => assert_eq!(printable, 1.0),
                Content::Binary => assert!((nul - 0.2529).abs() < 0.005, "{nul}"),
                Content::Incompressible => assert!((nul - 1.0 / 256.0).abs() < 0.001, "{nul}"),
            }
            let mut counts = [0u32; 256];
            pool.iter().for_each(|b| counts[usize::from(*b)] += 1);
            let kinds = counts.iter().filter(|count| **count > 0).count();
            assert_eq!(kinds, if content == Content::Text { 95 } else { 256 });
            assert_eq!(make(content, 1, 1), pool, "the same seed, the same pool");
            assert_ne!(make(content, 1, 2), pool);
        }
    }

    #[test]
    fn pools_are_bounded() {
        assert_eq!(make(Content::Text, 1, 0).len(), POOL_BYTES_MIN);
        assert_eq!(make(Content::Text, 3_000_001, 0).len(), 6_000_002);
        assert_eq!(POOL_BYTES_MAX, 128 * 1024 * 1024);
    }
}
