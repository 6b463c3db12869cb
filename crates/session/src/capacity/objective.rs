//! What a step must hold, as bad requests that are counted tick by tick: `p99 < 50 ms` is a share of late ones below 1 %.
//!
//! Only what is a share of requests can be decided block by block: quantiles of a request's own times, and errors. A mean, a
//! maximum or a rate is none, and is refused with what to write in its place.

use super::decision::Bound;
use model::expectation::{Expectation, Measure, Statistic, Time};
use model::{Interval, LatencyKind};

/// Something a step must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    expectation: Expectation,
    /// The time it is of; `None`: errors.
    kind: Option<LatencyKind>,
    share_max: f64,
}

/// What is no objective of a search.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected quantiles below a time and errors below a share, such as 'p99 < 50 ms, errors < 0.1 %', got '{got}': {instead}"
)]
pub struct ObjectiveError {
    got: String,
    instead: &'static str,
}

impl Objective {
    /// From what is expected of a run.
    ///
    /// # Errors
    /// It is no share of requests.
    pub fn of(expectation: &Expectation) -> Result<Self, ObjectiveError> {
        let wrong = |instead| Err(ObjectiveError { got: expectation.to_string(), instead });
        if !expectation.bound.is_upper() {
            return wrong("write an upper bound");
        }
        let (kind, share_max) = match expectation.measure {
            Measure::Time { time, of: Statistic::Quantile(quantile) } if time.is_of_requests() => {
                (Some(time.kind()), 1.0 - quantile)
            }
            Measure::Time { time: Time::Connect | Time::Tls, .. } => {
                return wrong("write the response time, which has the connection's in it");
            }
            Measure::Time { of: Statistic::Max, .. } => return wrong("write a high quantile such as p99.9"),
            Measure::Time { .. } => return wrong("write a quantile such as p50"),
            Measure::Errors => (None, expectation.limit),
            Measure::Rate | Measure::Connections => return wrong("leave it out, it is what is looked for"),
        };
        // A few parts in a million are what a search of a minute can see of a fast server.
        if !(1e-6..1.0).contains(&share_max) {
            return wrong("write a share of at least 0.0001 %");
        }
        Ok(Objective { expectation: *expectation, kind, share_max })
    }

    /// All of a list such as `p99 < 50 ms, errors < 0.1 %`.
    ///
    /// # Errors
    /// The first that is none, in a sentence.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let expectations = Expectation::list(text).map_err(|error| error.to_string())?;
        expectations.iter().map(|one| Objective::of(one).map_err(|error| error.to_string())).collect()
    }

    /// As reports show it.
    pub fn words(all: &[Objective]) -> String {
        all.iter().map(|one| one.expectation.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// What its share must stay below.
    pub fn bound(&self) -> Bound {
        let late_s = self.kind.map_or(0.0, |_| self.expectation.limit / 1e9);
        Bound { share_max: self.share_max, late_s }
    }

    /// Bad requests of some that ended or never began.
    pub fn bad(&self, interval: &Interval<u32>) -> u64 {
        let counts = &interval.counts;
        let lost = counts.failed + counts.dropped + counts.never_taken_up;
        let late = self.kind.map_or(0, |kind| {
            let is_late = |ns: u64| !self.expectation.bound.holds(ns as f64, self.expectation.limit);
            let recorded = interval.latency.of(kind).iter_recorded();
            recorded.filter(|(ns, _)| is_late(*ns)).map(|(_, count)| u64::from(count)).sum()
        });
        lost + late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_share_of_late_requests() {
        let all = Objective::list("p99 < 50 ms, service p50 <= 2ms, errors < 0.1 %").unwrap();
        let bounds: Vec<Bound> = all.iter().map(Objective::bound).collect();
        assert!((bounds[0].share_max - 0.01).abs() < 1e-12 && (bounds[0].late_s - 0.05).abs() < 1e-12);
        assert_eq!((bounds[1].share_max, bounds[2]), (0.5, Bound { share_max: 0.001, late_s: 0.0 }));
        assert_eq!(Objective::words(&all), "p99 < 50.0 ms, service p50 <= 2.00 ms, errors < 0.1 %");
    }

    #[test]
    fn late_failed_and_dropped_requests_are_bad() {
        let mut interval = Interval::new(0);
        interval.counts.ok = 10;
        interval.counts.failed = 2;
        interval.counts.dropped = 3;
        interval.counts.never_taken_up = 1;
        for ms in [1, 49, 51, 80] {
            interval.latency.record(LatencyKind::Response, ms * 1_000_000);
        }
        let all = Objective::list("p99 < 50 ms, errors < 1 %").unwrap();
        assert_eq!((all[0].bad(&interval), all[1].bad(&interval)), (8, 6));
    }

    #[test]
    fn what_is_no_share_is_refused_with_what_to_write() {
        for (text, instead) in [
            ("mean < 5 ms", "a quantile such as p50"),
            ("max < 5 ms", "p99.9"),
            ("rate > 5k/s", "an upper bound"),
            ("rate < 5k/s", "what is looked for"),
            ("connect p99 < 5 ms", "the response time"),
            ("errors <= none", "at least 0.0001 %"),
            ("p99 > 5 ms", "an upper bound"),
            ("nonsense", "expected"),
        ] {
            let error = Objective::list(text).unwrap_err();
            assert!(error.contains(instead), "{text}: {error}");
        }
    }
}
