//! Shifts of means, by Student's t: of pairs, and of two samples (Welch).
//!
//! For figures that are sums over a slice, throughput and CPU time: their logarithms' differences are close to normal, and the
//! mean of them uses more of what was measured than ranks do.

use super::Estimate;
use crate::statistics::{Sample, Welch, beyond_t, critical_t};

/// The mean of pairs' differences; the interval is absent with fewer than two. `None` without a pair, or of a difference that
/// is no number.
pub(crate) fn of_pairs(differences: &[f64], confidence: f64) -> Option<Estimate> {
    match differences {
        [one] if one.is_finite() => Some(Estimate { value: *one, interval: None, p: 1.0 }),
        _ => {
            let Sample { count, mean, variance } = Sample::of(differences)?;
            Some(estimate(mean, (variance / count).sqrt(), count - 1.0, confidence))
        }
    }
}

/// The difference of two samples' means, second minus first, as [`of_pairs`].
pub(crate) fn of_samples(first: &[f64], second: &[f64], confidence: f64) -> Option<Estimate> {
    match (Sample::of(first), Sample::of(second)) {
        (Some(a), Some(b)) => {
            let welch = Welch::of(a, b);
            Some(estimate(welch.difference, welch.error, welch.freedom, confidence))
        }
        _ => {
            let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            let value = mean(second)? - mean(first)?;
            value.is_finite().then_some(Estimate { value, interval: None, p: 1.0 })
        }
    }
}

fn estimate(value: f64, error: f64, freedom: f64, confidence: f64) -> Estimate {
    if error <= 0.0 {
        let p = if value == 0.0 { 1.0 } else { 0.0 };
        return Estimate { value, interval: Some((value, value)), p };
    }
    let margin = critical_t(freedom, confidence) * error;
    Estimate { value, interval: Some((value - margin, value + margin)), p: beyond_t(freedom, value / error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: mean 5, variance 10, standard error √2, t of 4 degrees of freedom at 98 % is 3.747.
    #[test]
    fn pairs_agree_with_a_worked_example() {
        let shift = of_pairs(&[1.0, 9.0, 5.0, 3.0, 7.0], 0.98).unwrap();
        let (low, high) = shift.interval.unwrap();
        assert!((shift.value - 5.0).abs() < 1e-12 && (high - 5.0 - 3.747 * 2f64.sqrt()).abs() < 1e-3);
        assert!((low + high - 10.0).abs() < 1e-9);
        // t = 3.536: between 2.776 (95 %) and 3.747 (98 %).
        assert!(shift.p < 0.05 && shift.p > 0.02, "{}", shift.p);
        assert_eq!(of_pairs(&[3.0], 0.98).unwrap().interval, None);
        assert_eq!((of_pairs(&[], 0.98), of_pairs(&[1.0, f64::NAN], 0.98)), (None, None));
        assert_eq!(of_pairs(&[0.0; 4], 0.98), Some(Estimate { value: 0.0, interval: Some((0.0, 0.0)), p: 1.0 }));
    }

    #[test]
    fn two_samples_are_welchs() {
        // As in `statistics`: difference 4, standard error √(5/6), 6 degrees of freedom, 3.143 at 98 %.
        let shift = of_samples(&[19.0, 20.0, 21.0, 22.0], &[23.0, 24.0, 25.0, 26.0], 0.98).unwrap();
        let (low, _) = shift.interval.unwrap();
        assert!((shift.value - 4.0).abs() < 1e-12 && (low - 4.0 + 3.143 * (5.0f64 / 6.0).sqrt()).abs() < 1e-3);
        assert_eq!(of_samples(&[1.0], &[3.0], 0.98).unwrap().interval, None, "one run each");
        assert_eq!(of_samples(&[], &[3.0], 0.98), None);
    }
}
