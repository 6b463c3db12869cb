//! Medians, spreads and ratios of few values. Spread is minimum to maximum: with five rounds
//! nothing finer can be said. Ratios are taken within a round and the median of those is shown,
//! because the machine drifts between rounds and both tools of a round see the same machine.

use serde::Serialize;

/// A median with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of these values; none when there is none. Values that are not numbers are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        Some(Self { count, median, min, max })
    }
}

/// The ratios `of[i] / to[i]` of the rounds in which both have a value.
pub fn ratios(of: &[Option<f64>], to: &[Option<f64>]) -> Option<Summary> {
    let both = of.iter().zip(to);
    Summary::of(both.filter_map(|(of, to)| Some((*of)? / (*to)?)))
}

/// A ratio with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// How many pairs.
    pub count: usize,
    /// The geometric mean of the ratios.
    pub middle: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// The interval of the ratios `of[i] / to[i]` of the rounds in which both have a value: Student's t on their logarithms.
/// None with fewer than two.
pub fn interval_of_ratio(of: &[Option<f64>], to: &[Option<f64>]) -> Option<Interval> {
    let logs: Vec<f64> =
        of.iter().zip(to).filter_map(|(of, to)| Some(((*of)? / (*to)?).ln())).filter(|log| log.is_finite()).collect();
    let count = logs.len();
    if count < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / count as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let half = t_975(count - 1) * (variance / count as f64).sqrt();
    Some(Interval { count, middle: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// The median of the ratios `of[i] / to[i]` of the rounds in which both have a value, with its 95 % interval by order statistics
/// (W. J. Conover, "Practical Nonparametric Statistics", 1999, 3.2): whatever the ratios' distribution, and a round that was
/// disturbed moves it no more than any other. None with fewer than six, of which no interval is so sure.
pub fn interval_of_median_ratio(of: &[Option<f64>], to: &[Option<f64>]) -> Option<Interval> {
    let mut ratios: Vec<f64> =
        of.iter().zip(to).filter_map(|(of, to)| Some((*of)? / (*to)?)).filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len();
    // How many of `count` fair coins show heads at most so many times, in 2.5 of a hundred throws: as a sum of logarithms, as
    // 0.5 to the power of some hundreds is no longer a number that can be added up.
    let mut log_term = -(count as f64) * std::f64::consts::LN_2;
    let (mut sum, mut rank) = (log_term.exp(), 0);
    while sum <= 0.025 {
        rank += 1;
        log_term += ((count - rank + 1) as f64 / rank as f64).ln();
        sum += log_term.exp();
    }
    let low = rank.checked_sub(1)?;
    let middle = (ratios[(count - 1) / 2] + ratios[count / 2]) / 2.0;
    Some(Interval { count, middle, low: ratios[low], high: ratios[count - 1 - low] })
}

/// The 97.5 % quantile of Student's t, by degrees of freedom; beyond the table, the next lower entry, which is wider.
fn t_975(degrees: usize) -> f64 {
    if degrees >= 100 {
        return 1.984;
    }
    const TABLE: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    let last = TABLE[TABLE.len() - 1];
    TABLE.get(degrees.saturating_sub(1)).copied().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expected: Option<(f64, f64, f64)>) {
        let summary = Summary::of(values.iter().copied());
        let short = summary.map(|summary| (summary.median, summary.min, summary.max));
        assert_eq!(short, expected, "{values:?}");
    }

    #[test]
    fn medians_and_spreads() {
        check(&[], None);
        check(&[f64::NAN, f64::INFINITY], None);
        check(&[3.0], Some((3.0, 3.0, 3.0)));
        check(&[9.0, 1.0], Some((5.0, 1.0, 9.0)));
        check(&[5.0, 100.0, 1.0], Some((5.0, 1.0, 100.0)));
        check(&[4.0, 1.0, f64::NAN, 2.0, 3.0], Some((2.5, 1.0, 4.0)));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine halves its speed after the first round; the tools keep their ratio of 2.
        let of = [Some(200.0), None, Some(100.0), Some(100.0)];
        let to = [Some(100.0), Some(50.0), Some(50.0), None];
        let ratio = ratios(&of, &to).unwrap();
        assert_eq!((ratio.count, ratio.median), (2, 2.0));
        assert_eq!((ratio.min, ratio.max), (2.0, 2.0));
        assert_eq!(ratios(&of, &[None; 4]), None);
    }

    #[test]
    fn a_median_of_ratios_is_no_ratio_of_medians() {
        let of = [Some(1.0), Some(10.0), Some(100.0)];
        let to = [Some(10.0), Some(1.0), Some(50.0)];
        assert_eq!(ratios(&of, &to).unwrap().median, 2.0);
    }

    #[test]
    fn the_interval_of_a_median_is_of_ranks() {
        let ratios = |n: u32| -> Vec<Option<f64>> { (1..=n).map(|i| Some(f64::from(i))).collect() };
        let of = |n: u32| interval_of_median_ratio(&ratios(n), &vec![Some(1.0); n as usize]);
        assert_eq!(of(0), None);
        assert_eq!(of(5), None, "all five on one side of the median: once in 16");
        // Ranks of the binomial distribution's table.
        for (n, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (20, 6.0, 15.0), (100, 40.0, 61.0)] {
            let interval = of(n).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "{n}");
            assert_eq!(interval.middle, f64::from(n + 1) / 2.0);
        }
        let many = of(2000).unwrap();
        assert!(many.low > 950.0 && many.high < 1051.0, "{many:?}");
        // One that was disturbed.
        let mut wild = ratios(20);
        wild[19] = Some(1e9);
        assert_eq!(interval_of_median_ratio(&wild, &[Some(1.0); 20]).unwrap().high, 15.0);
    }

    #[test]
    fn an_interval_of_ratios_is_students() {
        // Logarithms 0, ln 2, ln 4: mean ln 2, deviation ln 2, three of them.
        let of = [Some(1.0), Some(2.0), Some(4.0), None];
        let interval = interval_of_ratio(&of, &[Some(1.0); 4]).unwrap();
        let half = 4.303 * 2.0_f64.ln() / 3.0_f64.sqrt();
        assert_eq!(interval.count, 3);
        assert!((interval.middle - 2.0).abs() < 1e-9);
        assert!((interval.low - (2.0_f64.ln() - half).exp()).abs() < 1e-9, "{interval:?}");
        assert!((interval.high - (2.0_f64.ln() + half).exp()).abs() < 1e-9, "{interval:?}");
        assert_eq!(interval_of_ratio(&of[..1], &[Some(1.0)]), None);
        assert_eq!(interval_of_ratio(&[Some(0.0), Some(1.0)], &[Some(1.0); 2]), None, "no logarithm of nothing");
        assert!(t_975(1) > t_975(9) && (t_975(9) - 2.262).abs() < 1e-9 && t_975(1000) >= 1.96);
    }
}
