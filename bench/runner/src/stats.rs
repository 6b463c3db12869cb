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
}
