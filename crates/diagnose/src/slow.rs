//! The slow windows of a run: where the response time was well above what it mostly was.
//!
//! A tick is slow when its response p99 is more than [`SLOW_FACTOR`] times the median of the ticks' p99. Ticks without a
//! response (nothing ended well in them) have no p99, and ticks after the end of the load are not the load's: neither
//! counts. Of an even number the median is the mean of the middle two. Known from the timeline alone, so of any recording;
//! where its rows stand for several ticks each, a row is as slow as its slowest tick.

use model::profile::Period;
use model::recording::Row;

/// How many times the median makes a tick slow.
pub const SLOW_FACTOR: f64 = 2.0;

/// A time in which responses were slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start, nanoseconds since the run's start.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

/// The slow windows, oldest first; slow ticks that follow each other are one.
pub fn slow_windows(rows: &[Row]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let Some(limit) = limit_ns(rows) else { return windows };
    for row in rows.iter().filter(|row| p99_ns(row).is_some_and(|p99| p99 > limit)) {
        match windows.last_mut() {
            Some(window) if window.to_ns == row.start_ns => window.to_ns = row.end_ns,
            _ => windows.push(Window { from_ns: row.start_ns, to_ns: row.end_ns }),
        }
    }
    windows
}

/// Whether the last of some ticks is slow, by those up to it.
pub fn is_last_slow(rows: &[Row]) -> bool {
    let last = rows.last().and_then(p99_ns);
    last.zip(limit_ns(rows)).is_some_and(|(p99, limit)| p99 > limit)
}

/// Whether stacks are those of slow windows: when at least half of their time lies in them.
pub fn is_in(windows: &[Window], period: &Period) -> bool {
    let (from, to) = (period.from_ns.max(0).cast_unsigned(), period.to_ns.max(0).cast_unsigned());
    let within = |window: &Window| to.min(window.to_ns).saturating_sub(from.max(window.from_ns));
    let slow_ns = windows.iter().map(within).fold(0, u64::saturating_add);
    to > from && slow_ns >= (to - from).div_ceil(2)
}

fn p99_ns(row: &Row) -> Option<f64> {
    row.response_p99_ns.filter(|_| !row.is_drain).map(|ns| ns as f64)
}

fn limit_ns(rows: &[Row]) -> Option<f64> {
    let mut all: Vec<f64> = rows.iter().filter_map(p99_ns).collect();
    all.sort_by(f64::total_cmp);
    let (low, high) = (all.get(all.len().saturating_sub(1) / 2)?, all.get(all.len() / 2)?);
    Some((low + high) / 2.0 * SLOW_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of 10 ns with a p99 each; 0: nothing ended.
    fn rows(p99: &[u64]) -> Vec<Row> {
        let row = |(i, p99): (usize, &u64)| Row {
            start_ns: i as u64 * 10,
            end_ns: i as u64 * 10 + 10,
            response_p99_ns: (*p99 > 0).then_some(*p99),
            ..Row::default()
        };
        p99.iter().enumerate().map(row).collect()
    }

    fn check(p99: &[u64], expected: &[(u64, u64)]) {
        let windows = slow_windows(&rows(p99));
        assert_eq!(windows.iter().map(|w| (w.from_ns, w.to_ns)).collect::<Vec<_>>(), expected, "{p99:?}");
    }

    #[test]
    fn a_tick_is_slow_above_twice_the_median() {
        check(&[], &[]);
        check(&[500], &[]);
        check(&[10, 10, 20, 10], &[]);
        check(&[10, 10, 21, 10], &[(20, 30)]);
        check(&[10, 50, 60, 10, 10, 0, 10, 90, 10], &[(10, 30), (70, 80)]);
        // The median of an even number lies between: 15, so 30 is not above 30.
        check(&[10, 20, 30, 10], &[]);
        check(&[10, 20, 31, 10], &[(20, 30)]);
    }

    #[test]
    fn what_comes_after_the_load_is_not_its_slowness() {
        let mut all = rows(&[10, 10, 10, 90]);
        assert!(is_last_slow(&all));
        all[3].is_drain = true;
        assert!(slow_windows(&all).is_empty() && !is_last_slow(&all));
        assert!(!is_last_slow(&rows(&[10, 90, 10])) && !is_last_slow(&[]) && !is_last_slow(&rows(&[10, 10, 10, 0])));
    }

    #[test]
    fn stacks_belong_to_slow_windows_by_half_of_their_time() {
        let windows = [Window { from_ns: 100, to_ns: 200 }, Window { from_ns: 300, to_ns: 400 }];
        let period = |from_ns, to_ns| Period { from_ns, to_ns, ..Period::default() };
        for (from, to, is_slow) in [
            (100, 200, true),
            (150, 250, true),
            (151, 251, false),
            (-50, 90, false),
            (100, 400, true),
            (200, 200, false),
        ] {
            assert_eq!(is_in(&windows, &period(from, to)), is_slow, "{from}..{to}");
        }
    }
}
