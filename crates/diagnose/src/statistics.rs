//! Medians, Welch's test of two means, the interval of one mean, with Student's critical values, and counts of what comes by chance.
//!
//! B. L. Welch, "The generalization of Student's problem when several different population variances are involved",
//! Biometrika 34 (1947). The distributions themselves are statrs'.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Poisson, StudentsT};

/// The middle of some values, of an even number the upper of two; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Mean and variance of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl Sample {
    /// Of at least two values, all finite; `None` otherwise.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean.is_finite() && variance.is_finite()).then_some(Sample { count, mean, variance })
    }
}

/// What Welch's test says of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Welch {
    /// Second mean minus first.
    pub(crate) difference: f64,
    /// Half the width of the difference's 99 % confidence interval.
    pub(crate) margin: f64,
    /// The difference's standard error.
    pub(crate) error: f64,
    /// Degrees of freedom of its t.
    pub(crate) freedom: f64,
}

impl Welch {
    pub(crate) fn of(first: Sample, second: Sample) -> Self {
        let (a, b) = (first.variance / first.count, second.variance / second.count);
        let squared = a + b;
        let below = a * a / (first.count - 1.0) + b * b / (second.count - 1.0);
        let freedom = if below > 0.0 { squared * squared / below } else { first.count + second.count - 2.0 };
        let error = squared.sqrt();
        Welch { difference: second.mean - first.mean, margin: of_table(freedom, 0.99) * error, error, freedom }
    }

    /// Whether the means differ beyond the interval.
    pub(crate) fn differs(&self) -> bool {
        self.difference.abs() > self.margin
    }
}

/// The mean of some values, and half the width of its 95 % interval where there are two at least. `None` of no value, or of
/// one that is no number.
pub(crate) fn mean_95(values: &[f64]) -> Option<(f64, Option<f64>)> {
    match values {
        [value] if value.is_finite() => Some((*value, None)),
        _ => {
            let Sample { count, mean, variance } = Sample::of(values)?;
            Some((mean, Some(of_table(count - 1.0, 0.95) * (variance / count).sqrt())))
        }
    }
}

/// As a table has it, which ends at 30 degrees of freedom: of more, and between two whole numbers, the wider interval.
fn of_table(freedom: f64, confidence: f64) -> f64 {
    critical_t(freedom.clamp(1.0, 30.0).floor(), confidence)
}

/// How many standard errors a two-sided interval reaches to each side, by Student's t.
pub fn critical_t(freedom: f64, confidence: f64) -> f64 {
    let below = (0.5 + confidence.clamp(0.0, 1.0) / 2.0).min(1.0 - f64::EPSILON);
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(below))
}

/// How probable it is that Student's t is as far from 0 as this, or farther, on either side.
pub(crate) fn beyond_t(freedom: f64, t: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(1.0, |student| 2.0 * student.cdf(-t.abs()))
}

/// How probable it is that no more than so many come, where each comes for itself and so many do on average; 1 where none is expected.
pub(crate) fn at_most_by_chance(count: u64, expected: f64) -> f64 {
    Poisson::new(expected).map_or(1.0, |poisson| poisson.cdf(count))
}

/// How probable it is that of `n` so many or more are so, each for itself with the probability `p`; 1 where `p` is none.
pub(crate) fn at_least_by_chance(n: u64, count: u64, p: f64) -> f64 {
    let Some(fewer) = count.checked_sub(1) else { return 1.0 };
    Binomial::new(p, n).map_or(1.0, |binomial| binomial.sf(fewer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_sixteen_each_so_in_one_of_four_eight_are_once_in_thirty_seven_times() {
        // By hand: of two that are so each in half, one and more in three of four.
        let is = |n, count, p: f64, by: f64| (at_least_by_chance(n, count, p) - by).abs() < 1e-4;
        assert!(is(2, 1, 0.5, 0.75) && is(16, 8, 0.25, 0.027_13) && is(10, 0, 0.3, 1.0));
        assert!(is(4, 2, 0.002, 0.000_024) && is(4, 5, 0.5, 0.0) && is(4, 2, f64::NAN, 1.0));
    }

    #[test]
    fn of_five_that_are_expected_none_comes_once_in_150_times() {
        let is = |count, expected: f64, by: f64| (at_most_by_chance(count, expected) - by).abs() < 1e-6;
        // e^-5, and e^-2 (1 + 2).
        assert!(is(0, 5.0, 0.006_737_947) && is(1, 2.0, 0.406_005_85));
        assert!(is(0, 0.0, 1.0) && is(3, f64::NAN, 1.0) && is(3, -1.0, 1.0));
    }

    #[test]
    fn welch_agrees_with_a_worked_example() {
        // By hand: means 20.5 and 24.5, variances 5/3 each, standard error sqrt(5/6), 6 degrees of freedom.
        let first = Sample::of(&[19.0, 20.0, 21.0, 22.0]).unwrap();
        let second = Sample::of(&[23.0, 24.0, 25.0, 26.0]).unwrap();
        let welch = Welch::of(first, second);
        assert!((welch.difference - 4.0).abs() < 1e-12);
        assert!((welch.margin - 3.707 * (5.0f64 / 6.0).sqrt()).abs() < 1e-3, "{welch:?}");
        assert!(welch.differs());
    }

    #[test]
    fn the_interval_of_a_mean_agrees_with_a_worked_example() {
        // By hand: mean 5, variance 10, standard error sqrt(2), 4 degrees of freedom.
        let (mean, margin) = mean_95(&[1.0, 9.0, 5.0, 3.0, 7.0]).unwrap();
        assert!((mean - 5.0).abs() < 1e-12 && (margin.unwrap() - 2.776 * 2.0f64.sqrt()).abs() < 1e-3);
        assert_eq!((mean_95(&[3.0]), mean_95(&[]), mean_95(&[f64::NAN])), (Some((3.0, None)), None, None));
    }

    /// Two-sided critical values of a printed table of Student's t.
    #[test]
    fn critical_values_are_those_of_a_table() {
        for (freedom, confidence, table) in [
            (1.0, 0.95, 12.706),
            (1.0, 0.99, 63.657),
            (4.0, 0.95, 2.776),
            (9.0, 0.98, 2.821),
            (9.0, 0.99, 3.250),
            (30.0, 0.95, 2.042),
            (30.0, 0.99, 2.750),
            (120.0, 0.95, 1.980),
        ] {
            let t = critical_t(freedom, confidence);
            assert!((t / table - 1.0).abs() < 1e-3, "{freedom} {confidence}: {t}");
            assert!((beyond_t(freedom, t) - (1.0 - confidence)).abs() < 1e-6, "{freedom} {confidence}");
        }
        assert_eq!((of_table(200.0, 0.95), of_table(6.9, 0.99)), (critical_t(30.0, 0.95), critical_t(6.0, 0.99)));
    }

    #[test]
    fn the_same_twice_does_not_differ() {
        let same = Sample::of(&[5.0, 5.0, 5.0]).unwrap();
        assert!(!Welch::of(same, same).differs());
        let wide = Sample::of(&[1.0, 9.0, 5.0, 3.0]).unwrap();
        let shifted = Sample::of(&[2.0, 10.0, 6.0, 4.0]).unwrap();
        assert!(!Welch::of(wide, shifted).differs());
        assert_eq!(Sample::of(&[1.0]), None);
        assert_eq!(Sample::of(&[1.0, f64::NAN]), None);
    }
}
