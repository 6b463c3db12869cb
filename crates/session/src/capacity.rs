//! The search for the load line: which rate to try next, and when to stop. A pure state machine; it runs no load.
//!
//! First the rate rises geometrically until a step misses the objective, then the interval between the highest rate
//! that met it and the lowest that did not is halved until it is narrow enough or the steps are used up. A rate that
//! met the objective after one that missed it (noise) only ever narrows the interval from below its upper end.

use model::LatencyKind;
use model::recording::Totals;

/// What a step must satisfy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// Which quantile of the response time, 0..1.
    pub quantile: f64,
    /// It must be below this, nanoseconds.
    pub response_ns_max: u64,
    /// Share of requests that may fail, be dropped or stay unfinished.
    pub failed_share_max: f64,
}

impl Objective {
    /// As people write it: `p99 < 10 ms, errors < 0.1 %`.
    pub fn words(&self) -> String {
        format!(
            "p{} < {}, errors < {} %",
            self.quantile * 100.0,
            model::units::show_duration_ns(self.response_ns_max as f64),
            self.failed_share_max * 100.0
        )
    }

    /// Whether a run met it, in its quiet part alone where that is what counts. Requests that were dropped, never taken up
    /// or unfinished count as failed; unfinished ones are in the quantile at their age.
    pub fn is_met(&self, totals: &Totals, only_quiet: bool) -> bool {
        let quiet = if only_quiet { totals.quiet() } else { None };
        let (counts, latency) = match &quiet {
            Some(part) => (&part.sum.counts, &part.sum.latency),
            None => (&totals.sum.counts, &totals.sum.latency),
        };
        let all = counts.started + counts.dropped + counts.never_taken_up;
        let bad = counts.failed + counts.dropped + counts.never_taken_up + totals.in_flight_at_end;
        let response = latency.quantile(LatencyKind::Response, self.quantile);
        all > 0
            && bad as f64 <= self.failed_share_max * all as f64
            && response.is_some_and(|figure| figure.ns < self.response_ns_max)
    }
}

/// Bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Steps at the most.
    pub steps: u32,
    /// Stop when the upper end is at most so many times the lower.
    pub ratio: f64,
    /// How much higher the next step goes while none has missed the objective.
    pub growth: f64,
}

/// Where the line lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLine {
    /// The highest rate that met the objective, requests a second; `None`: not even the lowest tried did.
    pub met_per_s: Option<f64>,
    /// The lowest rate above it that did not; `None`: none tried missed it.
    pub missed_per_s: Option<f64>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Try this rate, requests a second.
    Try(f64),
    /// The search is over.
    Done(LoadLine),
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    bounds: Bounds,
    met: Option<f64>,
    missed: Option<f64>,
    steps_left: u32,
    next: f64,
}

impl Search {
    /// A search whose first step is tried at this rate, requests a second.
    pub fn new(first_per_s: f64, bounds: Bounds) -> Self {
        Search { bounds, met: None, missed: None, steps_left: bounds.steps, next: first_per_s }
    }

    /// Where the line lies, as far as it is known.
    pub fn line(&self) -> LoadLine {
        LoadLine { met_per_s: self.met, missed_per_s: self.missed }
    }

    /// What to do next.
    pub fn next(&self) -> Next {
        let narrow = matches!((self.met, self.missed), (Some(met), Some(missed)) if missed <= met * self.bounds.ratio);
        if self.steps_left == 0 || narrow { Next::Done(self.line()) } else { Next::Try(self.next) }
    }

    /// Takes in how the last step went.
    pub fn observe(&mut self, rate_per_s: f64, is_met: bool) {
        self.steps_left = self.steps_left.saturating_sub(1);
        if is_met {
            self.met = Some(self.met.map_or(rate_per_s, |met| met.max(rate_per_s)));
        } else {
            self.missed = Some(self.missed.map_or(rate_per_s, |missed| missed.min(rate_per_s)));
        }
        if let (Some(met), Some(missed)) = (self.met, self.missed)
            && met >= missed
        {
            // The two contradict each other: what was missed below a rate that was met was noise.
            self.missed = None;
        }
        self.next = match (self.met, self.missed) {
            (Some(met), Some(missed)) => (met * missed).sqrt(),
            (Some(met), None) => met * self.bounds.growth,
            (None, Some(missed)) => missed / self.bounds.growth,
            (None, None) => self.next,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: f64, first: f64, steps: u32) -> (LoadLine, u32) {
        let mut search = Search::new(first, Bounds { steps, ratio: 1.02, growth: 1.5 });
        let mut tried = 0;
        loop {
            match search.next() {
                Next::Done(found) => return (found, tried),
                Next::Try(rate) => {
                    tried += 1;
                    search.observe(rate, rate <= line);
                }
            }
        }
    }

    #[test]
    fn the_line_is_enclosed_from_any_start() {
        for line in [10.0, 777.0, 123_456.0] {
            for first in [line / 50.0, line * 0.9, line, line * 1.1, line * 50.0] {
                let (found, tried) = find(line, first, 40);
                let (met, missed) = (found.met_per_s.unwrap(), found.missed_per_s.unwrap());
                assert!(met <= line && line < missed && missed <= met * 1.02, "{line} {first}: {found:?}");
                assert!(tried < 25, "{tried}");
            }
        }
    }

    #[test]
    fn steps_are_bounded_and_an_unmet_objective_is_said() {
        let (found, tried) = find(0.0, 100.0, 5);
        assert_eq!((found.met_per_s, tried), (None, 5));
        assert!((found.missed_per_s.unwrap() - 100.0 / 1.5f64.powi(4)).abs() < 1e-6);
        let (found, tried) = find(f64::INFINITY, 100.0, 3);
        assert_eq!((found.missed_per_s, tried), (None, 3));
    }

    #[test]
    fn a_miss_below_a_rate_that_was_met_is_taken_back() {
        let mut search = Search::new(100.0, Bounds { steps: 10, ratio: 1.02, growth: 2.0 });
        search.observe(100.0, false);
        search.observe(50.0, true);
        search.observe(120.0, true);
        assert_eq!(search.next(), Next::Try(240.0));
    }
}
