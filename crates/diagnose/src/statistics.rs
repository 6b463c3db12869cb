//! Medians, Welch's test of two means, and the interval of one mean, with Student's critical values.
//!
//! B. L. Welch, "The generalization of Student's problem when several different population variances are involved",
//! Biometrika 34 (1947). The critical values are those of any table of Student's t, 99 % two-sided.

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
    variance: f64,
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
}

impl Welch {
    pub(crate) fn of(first: Sample, second: Sample) -> Self {
        let (a, b) = (first.variance / first.count, second.variance / second.count);
        let squared = a + b;
        let below = a * a / (first.count - 1.0) + b * b / (second.count - 1.0);
        let freedom = if below > 0.0 { squared * squared / below } else { f64::INFINITY };
        Welch { difference: second.mean - first.mean, margin: critical_t(freedom) * squared.sqrt() }
    }

    /// Whether the means differ beyond the interval.
    pub(crate) fn differs(&self) -> bool {
        self.difference.abs() > self.margin
    }
}

/// Student's t, 99 % two-sided, for 1 to 30 degrees of freedom.
const T_99: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];

/// Student's t, 95 % two-sided, for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The mean of some values, and half the width of its 95 % interval where there are two at least. `None` of no value, or of
/// one that is no number.
pub(crate) fn mean_95(values: &[f64]) -> Option<(f64, Option<f64>)> {
    match values {
        [value] if value.is_finite() => Some((*value, None)),
        _ => {
            let Sample { count, mean, variance } = Sample::of(values)?;
            Some((mean, Some(critical_t_95(count - 1.0) * (variance / count).sqrt())))
        }
    }
}

/// Student's t, 99 % two-sided.
fn critical_t(freedom: f64) -> f64 {
    of_table(&T_99, freedom)
}

/// Student's t, 95 % two-sided, of so many degrees of freedom; of one at the least.
pub(crate) fn critical_t_95(freedom: f64) -> f64 {
    of_table(&T_95, freedom)
}

/// Rounded down to whole degrees of freedom, and to 30 of more: the wider interval.
fn of_table(table: &[f64; 30], freedom: f64) -> f64 {
    table[(freedom.max(1.0) as usize).min(table.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_agrees_with_a_worked_example() {
        // By hand: means 20.5 and 24.5, variances 5/3 each, standard error sqrt(5/6), 6 degrees of freedom.
        let first = Sample::of(&[19.0, 20.0, 21.0, 22.0]).unwrap();
        let second = Sample::of(&[23.0, 24.0, 25.0, 26.0]).unwrap();
        let welch = Welch::of(first, second);
        assert!((welch.difference - 4.0).abs() < 1e-12);
        assert!((welch.margin - 3.707 * (5.0f64 / 6.0).sqrt()).abs() < 1e-9, "{welch:?}");
        assert!(welch.differs());
    }

    #[test]
    fn the_interval_of_a_mean_agrees_with_a_worked_example() {
        // By hand: mean 5, variance 10, standard error sqrt(2), 4 degrees of freedom.
        let (mean, margin) = mean_95(&[1.0, 9.0, 5.0, 3.0, 7.0]).unwrap();
        assert!((mean - 5.0).abs() < 1e-12 && (margin.unwrap() - 2.776 * 2.0f64.sqrt()).abs() < 1e-9);
        assert_eq!((mean_95(&[3.0]), mean_95(&[]), mean_95(&[f64::NAN])), (Some((3.0, None)), None, None));
    }

    #[test]
    fn critical_values_are_those_of_the_table_at_either_end() {
        assert_eq!((critical_t_95(1.0), critical_t_95(2.9), critical_t_95(1e9)), (12.706, 4.303, 2.042));
        assert_eq!((critical_t(0.0), critical_t(f64::INFINITY), critical_t(f64::NAN)), (63.657, 2.75, 63.657));
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
