//! When windows of probes begin and end, and how much of the time they take.
//!
//! Where time is measured, all windows of a run together take at most a tenth of it, attaching and detaching included: a
//! window's cost is inside the run's percentiles. Of a long run six tenths of that go to windows that are due, the rest is
//! for those after a slow tick. A run that may end at any moment has a tenth of what has passed, so its windows begin short
//! and grow. Nothing is attached here, and nothing is read: the clock is given.

use crate::limits::{WINDOW_EVERY, WINDOW_NS_LEAST, WINDOW_NS_MAX, WINDOW_NS_MIN, WINDOW_SPARES_NS};
use crate::observer::WindowShare;
use crate::source::clock;

/// How long after its start a run of unknown length has its first window, nanoseconds.
const FIRST_AFTER_NS: i64 = 500_000_000;

/// Why a window is to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its time has come.
    Due,
    /// The target was slow.
    Slow,
}

/// The windows of a run. All moments are of the monotonic clock, nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Window {
    share: WindowShare,
    /// When the load began.
    began_ns: Option<i64>,
    /// When the open one was opened.
    pub(super) open_since_ns: Option<i64>,
    /// Why it was opened.
    why: Option<Why>,
    /// When it is to end; `None`: with the first reading after the shortest time.
    pub(super) ends_ns: Option<i64>,
    /// When its first program was attached.
    attached_ns: i64,
    /// Opened and closed, and not counted yet.
    pub(super) closed: Option<(i64, i64)>,
    /// Until when all programs of the one that was closed last were attached.
    pub(super) attached_to_ns: i64,
    /// Replies and doings when it was opened.
    pub(super) replies: u64,
    pub(super) doings: u64,
    /// When the probes that run until they have seen enough had in it, and the replies by then.
    pub(super) enough: Option<(i64, u64)>,
    /// When that is looked at next.
    pub(super) look_ns: i64,
    /// When the next is due.
    pub(super) next_ns: i64,
    /// How many have begun.
    pub(super) begun: u64,
    /// Time that they have taken.
    used_ns: i64,
}

impl Window {
    pub(super) fn of(share: WindowShare) -> Self {
        Window { share, ..Window::default() }
    }

    /// The load begins.
    pub(super) fn begin(&mut self, now_ns: i64) {
        self.began_ns.get_or_insert(now_ns);
    }

    /// Where nobody said when it began, with the first reading in it.
    pub(super) fn begin_if(&mut self, is_in_load: bool) {
        if is_in_load {
            self.begin(clock::monotonic_ns());
        }
    }

    /// When one is due that does not wait for a reading: the first of a run that may be over by then.
    pub(super) fn opens_ns(&self) -> Option<i64> {
        let WindowShare::TenthOfMeasured { measured_ns, warmup_ns, tick_ns } = self.share else { return None };
        let from_ns = self.began_ns?.saturating_add(signed(warmup_ns));
        if self.begun > 0 || self.closed.is_some() {
            return None;
        }
        match measured_ns {
            Some(measured_ns) if warmup_ns.saturating_add(measured_ns) >= 2 * tick_ns => None,
            // A third of it: after the connects, and well before the end.
            Some(measured_ns) => {
                (signed(measured_ns) / 10 >= WINDOW_NS_LEAST).then(|| from_ns.saturating_add(signed(measured_ns) / 3))
            }
            None => Some(from_ns.saturating_add(FIRST_AFTER_NS)),
        }
    }

    /// How long one may be that opens now, nanoseconds: `Some(None)` until a reading; `None`: it may not.
    pub(super) fn may_open(&self, now_ns: i64, why: Why) -> Option<Option<i64>> {
        if self.open_since_ns.is_some() || self.closed.is_some() {
            return None;
        }
        let WindowShare::TenthOfMeasured { measured_ns, warmup_ns, .. } = self.share else {
            return (why == Why::Slow || now_ns >= self.next_ns).then_some(None);
        };
        let passed_ns = now_ns.saturating_sub(self.began_ns?.saturating_add(signed(warmup_ns)));
        if passed_ns < 0 {
            return None;
        }
        let whole_ns = measured_ns.map_or(passed_ns, signed);
        let left_ns = whole_ns / 10 - self.used_ns;
        let wanted_ns = match (why, measured_ns) {
            (Why::Slow, _) => WINDOW_NS_MAX.min(left_ns),
            (Why::Due, Some(_)) if whole_ns < WINDOW_SPARES_NS => left_ns,
            (Why::Due, Some(_)) => WINDOW_NS_MAX,
            // Each twice as long as all before: few of them, and the first one soon.
            (Why::Due, None) => (2 * self.used_ns).clamp(WINDOW_NS_LEAST, WINDOW_NS_MAX),
        };
        (wanted_ns >= WINDOW_NS_LEAST && wanted_ns <= left_ns).then_some(Some(wanted_ns))
    }

    /// One has been opened: from when on programs were attached, and when all were.
    pub(super) fn open(
        &mut self,
        why: Why,
        attached_ns: i64,
        since_ns: i64,
        length_ns: Option<i64>,
        replies: u64,
        doings: u64,
    ) {
        let took_ns = since_ns.saturating_sub(attached_ns);
        self.attached_ns = attached_ns;
        self.open_since_ns = Some(since_ns);
        self.why = Some(why);
        // Detaching takes about as long as attaching.
        self.ends_ns = length_ns.map(|length_ns| attached_ns.saturating_add((length_ns - took_ns).max(took_ns)));
        (self.replies, self.doings, self.enough) = (replies, doings, None);
        self.begun += 1;
    }

    /// Whether the open one may end where enough was seen. One after a slow tick may not: what is sought there is rare.
    pub(super) fn may_end_early(&self) -> bool {
        self.open_since_ns.is_some() && self.why == Some(Why::Due) && self.ends_ns.is_some()
    }

    /// Whether the open one's time is up.
    pub(super) fn is_over(&self, now_ns: i64) -> bool {
        self.open_since_ns.is_some_and(|since_ns| match self.ends_ns {
            Some(ends_ns) => now_ns >= ends_ns,
            None => now_ns.saturating_sub(since_ns) >= WINDOW_NS_MIN,
        })
    }

    /// The open one has been closed.
    pub(super) fn close(&mut self, now_ns: i64) {
        let Some(since_ns) = self.open_since_ns.take() else { return };
        self.closed = Some((since_ns, now_ns));
        self.used_ns = self.used_ns.saturating_add(now_ns.saturating_sub(self.attached_ns));
        self.next_ns = match self.share {
            WindowShare::SecondInTen => {
                since_ns.saturating_add(now_ns.saturating_sub(since_ns).saturating_mul(WINDOW_EVERY))
            }
            WindowShare::TenthOfMeasured { measured_ns: Some(_), .. } => {
                self.attached_ns.saturating_add(WINDOW_NS_MIN.saturating_mul(WINDOW_EVERY))
            }
            WindowShare::TenthOfMeasured { measured_ns: None, .. } => now_ns,
        };
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// The windows of a run, as begin and length in milliseconds: ticks of a second, all of them slow or none.
    fn windows(measured_ms: Option<u64>, length_ms: i64, is_slow: bool) -> Vec<(i64, i64)> {
        let mut window = Window::of(WindowShare::TenthOfMeasured {
            measured_ns: measured_ms.map(|ms| ms * 1_000_000),
            warmup_ns: 0,
            tick_ns: 1_000_000_000,
        });
        window.begin(0);
        let mut found = Vec::new();
        for ms in 0..length_ms {
            let now_ns = ms * MS;
            if window.is_over(now_ns) {
                window.close(now_ns);
                found.push((window.attached_ns / MS, ms - window.attached_ns / MS));
            }
            let is_tick = ms > 0 && ms % 1000 == 0;
            if is_tick {
                window.closed = None;
            }
            let is_due =
                window.opens_ns().is_some_and(|opens_ns| opens_ns <= now_ns) || is_tick && now_ns >= window.next_ns;
            let why = if is_tick && is_slow { Why::Slow } else { Why::Due };
            if (is_due || why == Why::Slow)
                && let Some(length_ns) = window.may_open(now_ns, why)
            {
                window.open(why, now_ns, now_ns, length_ns, 0, 0);
            }
            let taken: i64 = found.iter().map(|(_, length)| length).sum();
            let whole_ms = measured_ms.map_or(ms, |ms| ms as i64);
            assert!(taken <= whole_ms / 10, "{taken} of {whole_ms}: {found:?}");
        }
        found
    }

    #[test]
    fn windows_take_a_tenth_at_the_most_whatever_the_length() {
        assert_eq!(windows(Some(300), 300, false), [], "too short for any");
        assert_eq!(windows(Some(1000), 1000, false), [(334, 100)]);
        assert_eq!(windows(Some(2000), 2000, false), [(1000, 200)]);
        assert_eq!(windows(Some(10_000), 10_000, false), [(1000, 600)]);
        assert_eq!(windows(Some(30_000), 30_000, false), [(1000, 600), (10_000, 600), (19_000, 600), (28_000, 600)]);
        for length_ms in (100..20_000).step_by(700) {
            windows(Some(length_ms as u64), length_ms, true);
            windows(None, length_ms, true);
        }
    }

    #[test]
    fn after_a_slow_tick_there_is_one_as_long_as_something_is_left() {
        let slow = windows(Some(10_000), 10_000, true);
        assert_eq!(slow, [(1000, 600), (2000, 400)]);
        assert_eq!(windows(Some(30_000), 30_000, true).len(), 5);
    }

    #[test]
    fn of_a_run_that_may_end_at_any_moment_they_begin_short_and_grow() {
        let found = windows(None, 30_000, false);
        assert_eq!(found.first(), Some(&(500, 45)));
        assert!(found.windows(2).all(|two| two[0].1 <= two[1].1), "{found:?}");
        assert_eq!(found.last().map(|(_, length)| *length), Some(600), "{found:?}");
    }
}
