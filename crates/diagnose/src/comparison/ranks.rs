//! Shifts by ranks, with exact intervals: Hodges and Lehmann's estimate of pairs and of two samples.
//!
//! J. L. Hodges, E. L. Lehmann, "Estimates of location based on rank tests", Ann. Math. Statist. 34 (1963). Of pairs: the median
//! of all means of two of the differences, each with itself too (Walsh averages); the interval ends at two of these that the
//! signed-rank statistic's exact distribution names. Of two samples: the same of all differences between them, by the
//! rank-sum statistic's. No shape is assumed beyond symmetry of the differences; one wild slice moves the estimate little. The
//! distributions are counted exactly, for no normal approximation holds at the six to twenty repeats that are usual here. Ties
//! make both wider, never narrower.
//!
//! Cost: pairs² values to sort, and pairs³ additions; [`super::REPEATS_MAX`] bounds them.

use super::Estimate;

/// The shift of pairs.
///
/// `None` without a pair, or of a difference that is no number. The interval is absent where so few pairs have none at this
/// confidence: at 95 % that is below 6, at 99 % below 8.
pub(crate) fn of_pairs(differences: &[f64], confidence: f64) -> Option<Estimate> {
    if differences.is_empty() || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let n = differences.len();
    let mut averages = Vec::with_capacity(n * (n + 1) / 2);
    for (i, a) in differences.iter().enumerate() {
        averages.extend(differences[i..].iter().map(|b| (a + b) / 2.0));
    }
    Some(of_sorted(averages, &signed_ranks(n), confidence))
}

/// The shift from the first sample to the second, as [`of_pairs`].
pub(crate) fn of_samples(first: &[f64], second: &[f64], confidence: f64) -> Option<Estimate> {
    let is_sound = |values: &[f64]| !values.is_empty() && values.iter().all(|value| value.is_finite());
    if !is_sound(first) || !is_sound(second) {
        return None;
    }
    let differences = first.iter().flat_map(|a| second.iter().map(move |b| b - a)).collect();
    Some(of_sorted(differences, &rank_sums(first.len(), second.len()), confidence))
}

/// The fewest pairs that have an interval at a confidence.
pub(crate) fn pairs_min(confidence: f64) -> u32 {
    // The smallest probability is that all differences are on one side.
    (1..64).find(|pairs| 2.0 * 0.5f64.powi(*pairs) <= 1.0 - confidence).map_or(64, i32::unsigned_abs)
}

/// `chances`: of the statistic that counts how many of the values are above the true shift.
fn of_sorted(mut values: Vec<f64>, chances: &[f64], confidence: f64) -> Estimate {
    values.sort_by(f64::total_cmp);
    let m = values.len();
    let value = (values[(m - 1) / 2] + values[m / 2]) / 2.0;
    let at_most = |count: usize| chances.iter().take(count + 1).sum::<f64>();
    // How many values may lie beyond each end: the most of them whose chance is small enough.
    let half = (1.0 - confidence) / 2.0;
    let beyond = (0..m.div_ceil(2)).take_while(|count| at_most(*count) <= half * (1.0 + 1e-9)).last();
    let interval = beyond.map(|beyond| (values[beyond], values[m - 1 - beyond]));
    // Those at 0 count for neither side.
    let above = values.iter().filter(|value| **value > 0.0).count();
    let below = values.iter().filter(|value| **value < 0.0).count();
    let p = (2.0 * at_most(m - above.max(below))).min(1.0);
    Estimate { value, interval, p }
}

/// The chance of each value of the signed-rank statistic of n pairs.
fn signed_ranks(n: usize) -> Vec<f64> {
    let mut chances = vec![1.0];
    for rank in 1..=n {
        let mut next = vec![0.0; chances.len() + rank];
        for (at, chance) in chances.iter().enumerate() {
            next[at] += chance / 2.0;
            next[at + rank] += chance / 2.0;
        }
        chances = next;
    }
    chances
}

/// The chance of each value of the rank-sum statistic (Mann and Whitney's U) of samples of these sizes.
///
/// Of all ways to place them, the last is one of the first sample (and all of the second are below it, or none counted) with the
/// chance m / (m + n), else one of the second, which is above all of the first.
fn rank_sums(m: usize, n: usize) -> Vec<f64> {
    // `row[j]`: the chances for i of the first sample and j of the second.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let mut chances = vec![0.0; i * j + 1];
            let all = (i + j) as f64;
            for (at, chance) in row[j].iter().enumerate() {
                chances[at] += chance * i as f64 / all;
            }
            for (at, chance) in next[j - 1].iter().enumerate() {
                chances[at + i] += chance * j as f64 / all;
            }
            next.push(chances);
        }
        row = next;
    }
    row.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    /// By enumeration: every sign of every rank, and every way to place two samples.
    #[test]
    fn the_distributions_are_exact() {
        let n = 7;
        let mut counts = vec![0.0; n * (n + 1) / 2 + 1];
        for signs in 0..1 << n {
            let sum: usize = (0..n).filter(|bit| signs >> bit & 1 == 1).map(|bit| bit + 1).sum();
            counts[sum] += 1.0 / f64::from(1 << n);
        }
        assert!(signed_ranks(n).iter().zip(&counts).all(|(a, b)| close(*a, *b)));
        let (m, n) = (4usize, 3usize);
        let mut counts = vec![0.0; m * n + 1];
        let mut ways = 0.0;
        for places in 0..1usize << (m + n) {
            if places.count_ones() as usize != n {
                continue;
            }
            // Of each of the second sample, how many of the first are below.
            let is_second = |at: &usize| places >> at & 1 == 1;
            let u: usize =
                (0..m + n).filter(is_second).map(|at| (0..at).filter(|below| !is_second(below)).count()).sum();
            counts[u] += 1.0;
            ways += 1.0;
        }
        let exact = rank_sums(m, n);
        assert_eq!(exact.len(), counts.len());
        assert!(exact.iter().zip(&counts).all(|(a, b)| close(*a, b / ways)), "{exact:?}");
    }

    /// By hand: 1, 2, 4, 8, 16, 32 have 21 Walsh averages; of six pairs all on one side P = 2 / 64, so at 95 % the interval is
    /// from the smallest to the largest of them.
    #[test]
    fn pairs_agree_with_a_worked_example() {
        let differences = [8.0, 1.0, 32.0, 4.0, 2.0, 16.0];
        let shift = of_pairs(&differences, 0.95).unwrap();
        assert_eq!((shift.value, shift.interval), (8.5, Some((1.0, 32.0))));
        assert!(close(shift.p, 2.0 / 64.0));
        // From the second smallest to the second largest: 4 / 64 are beyond these.
        let wider = of_pairs(&differences, 0.93).unwrap();
        assert_eq!(wider.interval, Some((1.5, 24.0)));
        assert_eq!(of_pairs(&differences, 0.99).unwrap().interval, None, "too few pairs");
        assert_eq!([0.9, 0.95, 0.98, 0.99, 0.996].map(pairs_min), [5, 6, 7, 8, 9]);
        assert_eq!((of_pairs(&[], 0.95), of_pairs(&[f64::NAN], 0.95)), (None, None));
    }

    #[test]
    fn ties_and_zeros_prove_nothing() {
        let same = of_pairs(&[0.0; 12], 0.98).unwrap();
        assert_eq!((same.value, same.interval, same.p), (0.0, Some((0.0, 0.0)), 1.0));
        let both = of_samples(&[3.0; 8], &[3.0; 8], 0.98).unwrap();
        assert_eq!((both.interval, both.p), (Some((0.0, 0.0)), 1.0));
    }

    /// By hand: all of one sample below all of another of 4 each has the chance 2 / 70.
    #[test]
    fn two_samples_agree_with_a_worked_example() {
        let shift = of_samples(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0], 0.95).unwrap();
        assert_eq!((shift.value, shift.interval), (10.0, Some((7.0, 13.0))));
        assert!(close(shift.p, 2.0 / 70.0), "{}", shift.p);
        assert_eq!(of_samples(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).unwrap().interval, None);
    }

    /// The interval leaves 0 out just where the chance is small enough: a verdict and its interval cannot contradict.
    #[test]
    fn the_interval_and_the_chance_agree() {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 40) % 21) as f64 - 7.0
        };
        for _ in 0..500 {
            let differences: Vec<f64> = (0..10).map(|_| next()).collect();
            let shift = of_pairs(&differences, 0.95).unwrap();
            let (low, high) = shift.interval.unwrap();
            assert_eq!(low > 0.0 || high < 0.0, shift.p <= 0.05, "{differences:?} {shift:?}");
            assert!(low <= shift.value && shift.value <= high);
        }
    }
}
