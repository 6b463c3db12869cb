//! Ends a run early when what was said in `--abort-when` is so.
//!
//! A figure is that of the last stretch of its length, all ticks in it together; looked at once a tick, and not before the
//! measured time has lasted so long. Of a quantile it is enough to count how many were beyond the limit: p99 is above it just
//! where more than 1 % are. A request without a good reply is beyond any limit. What is still under way is not seen: a target
//! that answers nothing at all is found by a bound on the rate. Cost: a pass over one histogram a tick for each condition on a
//! time, and some 48 bytes for each tick of the stretch.

use model::Event;
use model::abort::AbortWhen;
use model::event::Details;
use model::expectation::{Bound, Expectation, Measure, Statistic};
use model::plan::Plan;
use model::recording::Tick;
use model::units::show_duration_ns;
use std::collections::VecDeque;

/// The conditions of a run.
#[derive(Debug, Default)]
pub struct Aborting {
    conditions: Vec<Condition>,
    from_ns: u64,
}

/// One condition, and the ticks of its stretch.
#[derive(Debug)]
struct Condition {
    when: AbortWhen,
    pieces: VecDeque<Piece>,
}

/// What a tick gives to a figure.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    length_ns: u64,
    good: u64,
    bad: u64,
    /// Times of the figure's kind, how many of them were beyond the limit, and their sum.
    times: u64,
    beyond: u64,
    sum_ns: f64,
}

impl Piece {
    fn add(self, other: &Piece) -> Piece {
        Piece {
            length_ns: self.length_ns + other.length_ns,
            good: self.good + other.good,
            bad: self.bad + other.bad,
            times: self.times + other.times,
            beyond: self.beyond + other.beyond,
            sum_ns: self.sum_ns + other.sum_ns,
        }
    }
}

impl Aborting {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Self {
        let one = |when: &AbortWhen| Condition { when: *when, pieces: VecDeque::new() };
        let from_ns = plan.warmup_ns.saturating_add(plan.ramp_ns());
        Aborting { conditions: plan.abort_when.iter().map(one).collect(), from_ns }
    }

    /// Takes a tick in: the event that ends the run with it, where a condition is so.
    pub fn ended_by(&mut self, tick: &Tick) -> Option<Event> {
        let (when, what) = self.push(tick)?;
        let at = show_duration_ns(tick.row.end_ns as f64);
        let text = format!("the run was ended early, after {at}: {what} (--abort-when {when})");
        let details = Details { of_kind: Some(when.to_string()), ..Details::default() };
        let at_ns = i64::try_from(tick.row.end_ns).unwrap_or(i64::MAX);
        Some(Event::new(at_ns, model::event::ABORTED, text).with(details))
    }

    /// Takes a tick in: the condition that is so, and what the figure was, in half a sentence.
    fn push(&mut self, tick: &Tick) -> Option<(AbortWhen, String)> {
        let row = &tick.row;
        if row.is_drain || row.start_ns < self.from_ns {
            return None;
        }
        self.conditions.iter_mut().find_map(|condition| {
            condition.take(tick);
            condition.judge().map(|what| (condition.when, what))
        })
    }
}

impl Condition {
    fn take(&mut self, tick: &Tick) {
        let (row, counts) = (&tick.row, &tick.row.counts);
        let mut piece = Piece {
            length_ns: row.end_ns.saturating_sub(row.start_ns),
            good: counts.ok + counts.carried_ok,
            bad: counts.failed + counts.dropped,
            ..Piece::default()
        };
        let Expectation { measure, bound, limit } = self.when.is;
        if let Measure::Time { time, .. } = measure {
            let histogram = tick.sum.latency.of(time.kind());
            piece.times = histogram.len();
            piece.sum_ns = histogram.mean() * histogram.len() as f64;
            // Beyond as the bound has it: `p99 > x` asks for those above x, `p99 < x` for those at least x.
            let is_beyond =
                |ns: f64| if bound == Bound::Above || bound == Bound::AtMost { ns > limit } else { ns >= limit };
            let beyond = histogram.iter_recorded().filter(|(ns, _)| is_beyond(*ns as f64));
            piece.beyond = beyond.map(|(_, count)| u64::from(count)).sum();
            if time.is_of_requests() {
                piece.times += piece.bad;
                piece.beyond += piece.bad;
            }
        }
        self.pieces.push_back(piece);
        // The shortest row of ticks that is as long as the stretch.
        let mut length_ns: u64 = self.pieces.iter().map(|piece| piece.length_ns).sum();
        while let Some(first) = self.pieces.front().filter(|first| length_ns - first.length_ns >= self.when.for_ns) {
            length_ns -= first.length_ns;
            self.pieces.pop_front();
        }
    }

    /// What the figure of the whole stretch is, where it is so.
    fn judge(&self) -> Option<String> {
        let whole = self.pieces.iter().fold(Piece::default(), |sum, piece| sum.add(piece));
        if whole.length_ns < self.when.for_ns {
            return None;
        }
        let Expectation { measure, bound, limit } = self.when.is;
        let over = show_duration_ns(whole.length_ns as f64);
        let is = |figure: f64| {
            bound.holds(figure, limit).then(|| format!("{measure} came to {} over {over}", measure.show(figure)))
        };
        match measure {
            Measure::Errors if whole.good + whole.bad == 0 => None,
            Measure::Errors => is(whole.bad as f64 / (whole.good + whole.bad) as f64),
            Measure::Rate => is(whole.good as f64 * 1e9 / whole.length_ns as f64),
            Measure::Connections => None,
            Measure::Time { .. } if whole.times == 0 => None,
            Measure::Time { of: Statistic::Mean, time } => {
                let measured = if time.is_of_requests() { whole.times - whole.bad } else { whole.times };
                (measured > 0).then(|| is(whole.sum_ns / measured as f64)).flatten()
            }
            Measure::Time { of, .. } => {
                let most = match of {
                    Statistic::Quantile(quantile) => 1.0 - quantile,
                    Statistic::Max | Statistic::Mean => 0.0,
                };
                let share = whole.beyond as f64 / whole.times as f64;
                // A hair for the quantile's own rounding.
                let is_beyond = share > most + 1e-12;
                (is_beyond != bound.is_upper()).then(|| {
                    let (side, limit) = (if is_beyond { "longer" } else { "no longer" }, measure.show(limit));
                    let share = Measure::Errors.show(if is_beyond { share } else { 1.0 - share });
                    format!("{share} took {side} than {limit} over {over}")
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::recording::Row;
    use model::{Interval, LatencyKind};

    const S: u64 = 1_000_000_000;

    /// The tick at which a condition is so, of ticks of a second with (good, bad, response time of the good in ms).
    fn at(text: &str, ticks: &[(u64, u64, u64)]) -> Option<(usize, String)> {
        let when = AbortWhen::read(text).unwrap();
        let mut aborting = Aborting { conditions: vec![Condition { when, pieces: VecDeque::new() }], from_ns: S };
        ticks.iter().enumerate().find_map(|(at, (good, bad, ms))| {
            let mut sum = Box::new(Interval::new(0));
            (sum.start_ns, sum.end_ns) = (at as u64 * S, (at as u64 + 1) * S);
            (sum.counts.ok, sum.counts.failed) = (*good, *bad);
            sum.latency.record_n(LatencyKind::Response, ms * 1_000_000, *good as u32);
            let row = Row::of(&sum, model::recording::WorkerShares::default());
            aborting.push(&Tick { sum, row }).map(|(_, what)| (at, what))
        })
    }

    #[test]
    fn a_run_ends_when_the_whole_stretch_is_so_and_not_before() {
        // The first second is warm-up. 30 of 300 are 10 %, 31 are more.
        let ticks = [(0, 100, 1), (100, 0, 1), (90, 10, 1), (80, 20, 1), (79, 21, 1), (0, 0, 1)];
        let (second, what) = at("errors > 10 % for 3s", &ticks).unwrap();
        assert_eq!((second, &*what), (4, "errors came to 17.0 % over 3.00 s"));
        assert_eq!(at("errors > 21 % for 3s", &ticks), None);
        assert_eq!(at("errors > 1 % for 9s", &ticks), None, "the run was never so long");
        // Nothing that ended says nothing of errors, and all of the rate.
        assert_eq!(at("errors > none for 1s", &[(1, 0, 1), (0, 0, 1), (0, 0, 1)]), None);
        assert_eq!(at("rate < 1/s for 2s", &[(0, 0, 1), (9, 0, 1), (0, 0, 1), (0, 0, 1)]).map(|(at, _)| at), Some(3));
    }

    #[test]
    fn a_quantile_is_a_count_of_those_beyond_its_limit() {
        let (second, what) =
            at("p99 > 50 ms for 2s", &[(1, 0, 1), (98, 0, 1), (100, 0, 1), (1, 2, 1), (0, 1, 1)]).unwrap();
        assert_eq!((second, &*what), (3, "1.94 % took longer than 50.0 ms over 2.00 s"));
        assert_eq!(at("p99 > 50 ms for 2s", &[(1, 0, 1), (99, 0, 1), (1, 0, 90), (99, 0, 1)]).map(|(at, _)| at), None);
        assert_eq!(at("p50 > 50 ms for 2s", &[(1, 0, 1), (9, 0, 60), (8, 0, 1)]).map(|(at, _)| at), Some(2));
        assert_eq!(at("max > 50 ms for 1s", &[(1, 0, 99), (9, 0, 1), (1, 0, 60)]).map(|(at, _)| at), Some(2));
        assert_eq!(at("mean > 5 ms for 1s", &[(1, 0, 9), (9, 0, 4), (9, 0, 6)]).map(|(at, _)| at), Some(2));
        assert_eq!(at("p50 < 5 ms for 1s", &[(1, 0, 1), (9, 0, 6), (9, 0, 4)]).map(|(at, _)| at), Some(2));
    }
}
