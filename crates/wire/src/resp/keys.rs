//! Which key a request is about: uniform, Zipf, or one after another.
//!
//! Zipf by rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone
//! discrete distributions, ACM TOMACS 6(3), 1996, for the exponents 0 < s): exact, in constant memory, on average less
//! than 1.4 uniform numbers a draw. The key of rank 1 has number 0.

use crate::random::{below, mix};
use model::resp::KeyDistribution;

/// A source of keys.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// Each as often as any other.
    Uniform {
        /// How many.
        count: u32,
    },
    /// By rank.
    Zipf(Zipf),
    /// Every `step`-th from `next` on.
    Sequential {
        /// How many.
        count: u32,
        /// The next.
        next: u64,
        /// Between two.
        step: u64,
    },
}

impl Keys {
    /// Keys `0..count`; the sequence is shared with the other workers, each of which takes every `workers`-th.
    pub fn new(distribution: KeyDistribution, count: u32, worker: u16, workers: u16) -> Self {
        match distribution {
            KeyDistribution::Uniform => Keys::Uniform { count },
            KeyDistribution::Zipf(exponent) => Keys::Zipf(Zipf::new(count, exponent)),
            KeyDistribution::Sequential => {
                Keys::Sequential { count, next: u64::from(worker), step: u64::from(workers.max(1)) }
            }
        }
    }

    /// The next key; `random` is uniform over all 64 bits.
    #[inline]
    pub fn next(&mut self, random: u64) -> u32 {
        match self {
            Keys::Uniform { count } => below((random >> 32) as u32, u64::from(*count)),
            Keys::Zipf(zipf) => zipf.rank(random) - 1,
            Keys::Sequential { count, next, step } => {
                let key = (*next % u64::from(*count)) as u32;
                *next = next.wrapping_add(*step);
                key
            }
        }
    }
}

/// Ranks `1..=count`, rank r in proportion to 1 / r^s.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// H(1.5) - 1 and H(count + 0.5), between which the hat's integral is drawn.
    low: f64,
    high: f64,
    /// What lies so close below a rank is accepted without looking.
    squeeze: f64,
}

impl Zipf {
    /// `count` at least 1, `exponent` above 0.
    pub fn new(count: u32, exponent: f64) -> Self {
        let mut zipf = Zipf { count: f64::from(count), exponent, low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next rank. Further numbers, where one is rejected, are made of `random`.
    #[inline]
    pub fn rank(&self, mut random: u64) -> u32 {
        loop {
            let uniform = (random >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
            let u = self.high + uniform * (self.low - self.high);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u32;
            }
            random = mix(random);
        }
    }

    /// h(x) = x^-s.
    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// H(x), an integral of h: (x^(1-s) - 1) / (1 - s), and ln x where s = 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        expm1_over((1.0 - self.exponent) * ln) * ln
    }

    /// H⁻¹(y).
    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (ln1p_over(t) * y).exp()
    }
}

/// (e^x - 1) / x, also around 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, also around 0.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 400_000;

    fn counts(mut keys: Keys, count: u32) -> Vec<f64> {
        let mut counts = vec![0.0; count as usize];
        let mut random = 7;
        for _ in 0..DRAWS {
            random = mix(random);
            counts[keys.next(random) as usize] += 1.0;
        }
        counts
    }

    /// Pearson's statistic over ranks, rare ones together; below its mean plus six standard deviations.
    fn fits(counts: &[f64], shares: &[f64]) {
        let (mut statistic, mut cells) = (0.0, 0.0);
        let (mut seen, mut due) = (0.0, 0.0);
        for (count, share) in counts.iter().zip(shares) {
            seen += count;
            due += share * f64::from(DRAWS);
            if due >= 20.0 {
                statistic += (seen - due) * (seen - due) / due;
                cells += 1.0;
                (seen, due) = (0.0, 0.0);
            }
        }
        let bound = cells + 6.0 * f64::sqrt(2.0 * cells);
        assert!(cells >= 1.0 && statistic < bound, "{statistic} over {cells} cells, expected below {bound}");
    }

    #[test]
    fn zipf_has_its_theoretical_frequencies() {
        for exponent in [0.2, 0.8, 0.99, 1.0, 1.000_000_001, 1.2, 2.0, 4.0] {
            for count in [1u32, 2, 3, 10, 1000, 100_000] {
                let weights: Vec<f64> = (1..=count).map(|r| f64::from(r).powf(-exponent)).collect();
                let sum: f64 = weights.iter().sum();
                let shares: Vec<f64> = weights.iter().map(|w| w / sum).collect();
                fits(&counts(Keys::new(KeyDistribution::Zipf(exponent), count, 0, 1), count), &shares);
            }
        }
    }

    #[test]
    fn zipf_stays_within_its_ranks_at_the_ends_of_its_range() {
        for exponent in [0.01, 1.0, 20.0] {
            let zipf = Zipf::new(u32::MAX, exponent);
            for random in [0, 1, u64::MAX, u64::MAX - 1, 1 << 63] {
                assert!(zipf.rank(random) >= 1, "{exponent} {random}");
            }
        }
    }

    #[test]
    fn uniform_is_uniform() {
        let counts = counts(Keys::new(KeyDistribution::Uniform, 1000, 0, 1), 1000);
        fits(&counts, &[0.001; 1000]);
    }

    #[test]
    fn workers_share_one_sequence() {
        let mut workers = [0, 1, 2].map(|worker| Keys::new(KeyDistribution::Sequential, 7, worker, 3));
        let mut seen: Vec<u32> = Vec::new();
        for round in 0..7 {
            let _ = round;
            seen.extend(workers.iter_mut().map(|keys| keys.next(0)));
        }
        assert_eq!(seen, (0..21).map(|i| i % 7).collect::<Vec<u32>>());
    }
}
