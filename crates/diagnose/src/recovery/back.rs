//! When a figure of a run's intervals left its level, and since when it is as before.
//!
//! The level is the median of up to [`BEFORE_MAX`] intervals before. As before is what is within [`THROUGHPUT`] of it, or
//! [`RESPONSE`]; where a tenth of the intervals before were further off than that, what these were at: a level that scatters by
//! more is not come back to any closer. Back is the first interval that is as before and is followed by another, or by the
//! end. Its start is told, so a return is never told too early, and too late by one interval at the most.

use crate::statistics::median;
use model::recovery::Return;

/// Intervals before that make the level, at the most.
pub const BEFORE_MAX: usize = 30;
/// The share of the throughput before from which on it is as before.
pub const THROUGHPUT: f64 = 0.95;
/// The multiple of the response time before up to which it is as before.
pub const RESPONSE: f64 = 1.10;

/// An interval: when it began, nanoseconds, and its figure; `None`: it has none, as nothing succeeded.
pub type Point = (u64, Option<f64>);

/// Whether a figure is good where it is high.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Good {
    /// As throughput is.
    High,
    /// As times are.
    Low,
}

/// What became of a figure; `None` where there was none before. `since_ns`: it cannot be back before.
pub fn back(before: &[f64], after: &[Point], good: Good, since_ns: u64) -> Option<Return> {
    let last = before.get(before.len().saturating_sub(BEFORE_MAX)..)?;
    if last.is_empty() || last.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = last.to_vec();
    sorted.sort_by(f64::total_cmp);
    let level = median(sorted.clone());
    let tenth = sorted.len() / 10;
    let limit = match good {
        Good::High => (THROUGHPUT * level).min(*sorted.get(tenth)?),
        Good::Low => (RESPONSE * level).max(*sorted.get(sorted.len() - 1 - tenth)?),
    };
    let is_off = |value: Option<f64>| match (value, good) {
        (None, _) => true,
        (Some(value), Good::High) => value < limit,
        (Some(value), Good::Low) => value > limit,
    };
    let first = after.iter().position(|(_, value)| is_off(*value));
    let values = after.iter().map(|(_, value)| *value);
    let worse = |a: f64, b: f64| if good == Good::High { a.min(b) } else { a.max(b) };
    let worst = if after.iter().any(|(_, value)| value.is_none()) { None } else { values.flatten().reduce(worse) };
    let rest = first.map_or(&[][..], |first| after.get(first + 1..).unwrap_or_default());
    let is_back = |at: usize| {
        let is_next_on = rest.get(at + 1).is_none_or(|(_, value)| !is_off(*value));
        rest.get(at).is_some_and(|(start_ns, value)| *start_ns >= since_ns && !is_off(*value) && is_next_on)
    };
    let back_s = (0..rest.len()).find(|at| is_back(*at)).and_then(|at| Some(rest.get(at)?.0 as f64 / 1e9));
    Some(Return { before: level, limit, worst, has_left: first.is_some(), back_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<Point> {
        let value = |v: &f64| v.is_finite().then_some(*v);
        values.iter().enumerate().map(|(at, v)| (at as u64 * 1_000_000_000, value(v))).collect()
    }

    fn returned(before: &[f64], after: &[f64], good: Good) -> (bool, Option<f64>) {
        let figure = back(before, &points(after), good, 0).unwrap();
        (figure.has_left, figure.back_s)
    }

    #[test]
    fn back_is_where_it_stays() {
        let before = [100.0; 10];
        assert_eq!(returned(&before, &[99.0, 96.0, 101.0], Good::High), (false, None));
        assert_eq!(returned(&before, &[0.0, 50.0, 96.0, 97.0], Good::High), (true, Some(2.0)));
        assert_eq!(returned(&before, &[0.0, 97.0, 30.0, 97.0, 99.0], Good::High), (true, Some(3.0)), "not the first");
        assert_eq!(returned(&before, &[0.0, 50.0], Good::High), (true, None));
        assert_eq!(returned(&before, &[50.0, 99.0], Good::High), (true, Some(1.0)), "the last has no next one");
        assert_eq!(returned(&before, &[109.0, 500.0, f64::NAN, 105.0], Good::Low), (true, Some(3.0)));
        assert_eq!(back(&[], &points(&[1.0]), Good::High, 0), None);
        let late = back(&before, &points(&[0.0, 99.0, 99.0, 99.0]), Good::High, 1_500_000_000).unwrap();
        assert_eq!(late.back_s, Some(2.0), "not before the first success");
    }

    #[test]
    fn a_level_that_scatters_is_not_come_back_to_any_closer() {
        let before = [100.0, 80.0, 120.0, 100.0, 90.0];
        let figure = back(&before, &points(&[10.0, 85.0, 85.0]), Good::High, 0).unwrap();
        assert_eq!((figure.before, figure.limit, figure.back_s, figure.worst), (100.0, 80.0, Some(1.0), Some(10.0)));
        // One odd interval of many is not the level.
        let mut many = vec![100.0; 30];
        many[3] = 5.0;
        assert_eq!(back(&many, &points(&[50.0]), Good::High, 0).unwrap().limit, 95.0);
    }
}
