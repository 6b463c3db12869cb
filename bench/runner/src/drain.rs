//! What an honest open loop must report when its target stands still for a while: the exact
//! expectation, simulated. Requests are due evenly; the target serves them one after the other,
//! in the order they were due, each taking `1 / drain rate`; while it stands still it does
//! nothing. Response time is counted from when a request was due.
//! The drain decides the lower quantiles: with 5000/s and a stop of 1 s a tenth of the requests
//! of 10 s is due in the stop, so p90 is the response of the one that was due last in it, which
//! waits only for the drain: 5000 / drain rate.

use serde::Serialize;

/// One frozen second, or another, in an even load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// Requests due per second.
    pub rate_per_s: f64,
    /// Length of the run.
    pub seconds: f64,
    /// When the target stopped, from the start of the run.
    pub stopped_at_s: f64,
    /// How long it stood still.
    pub stopped_for_s: f64,
    /// Requests per second it serves when it has more than enough of them.
    pub drain_per_s: f64,
}

/// Quantiles of response time, in µs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Expected {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// What happened in one run whose target was stopped, and what should have been reported.
#[derive(Debug, Clone, Serialize)]
pub struct StallFacts {
    /// From the start of the tool to the stop, in seconds.
    pub stopped_at_s: f64,
    /// How long the target stood still, in seconds (CLOCK_MONOTONIC).
    pub stopped_for_s: f64,
    /// Requests per second served until nothing was left over.
    pub drain_per_s: Option<f64>,
    /// With that drain.
    pub expected: Option<Expected>,
    /// With the rate of a closed loop for a drain.
    pub expected_closed: Option<Expected>,
}

/// Simulates the stall; none when there is no request in it or no rate to serve them.
pub fn expected(stall: &Stall) -> Option<Expected> {
    let count = (stall.rate_per_s * stall.seconds).round() as usize;
    if count == 0 || stall.drain_per_s.is_nan() || stall.drain_per_s <= 0.0 {
        return None;
    }
    let service_s = 1.0 / stall.drain_per_s;
    let stop_end_s = stall.stopped_at_s + stall.stopped_for_s;
    let mut free_at_s = 0.0_f64;
    let mut responses_us: Vec<f64> = (0..count)
        .map(|index| {
            let due_s = index as f64 / stall.rate_per_s;
            let mut begin_s = free_at_s.max(due_s);
            if (stall.stopped_at_s..stop_end_s).contains(&begin_s) {
                begin_s = stop_end_s;
            }
            let cut = begin_s < stall.stopped_at_s && begin_s + service_s > stall.stopped_at_s;
            let stood_s = if cut { stall.stopped_for_s } else { 0.0 };
            free_at_s = begin_s + service_s + stood_s;
            (free_at_s - due_s) * 1e6
        })
        .collect();
    responses_us.sort_by(f64::total_cmp);
    Some(Expected {
        p50_us: nearest_rank(&responses_us, 50),
        p90_us: nearest_rank(&responses_us, 90),
        p95_us: nearest_rank(&responses_us, 95),
        p99_us: nearest_rank(&responses_us, 99),
        max_us: nearest_rank(&responses_us, 100),
    })
}

/// The smallest value with at least `percent` of all values at or below it.
fn nearest_rank(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// What is left of a backlog when it counts as gone. Not nought: a few requests are always under
/// way, and the counter the samples come from is not exact.
const GONE_SHARE: f64 = 0.05;

/// The rate at which a target got rid of what had gathered while it stood still: requests served
/// from the end of the stop to the moment when a twentieth of the backlog was left, over that
/// time.
///
/// `samples` are (seconds from the start of the run, requests served since the end of the stop).
/// None when the samples end before the backlog does.
pub fn observed_drain(samples: &[(f64, f64)], rate_per_s: f64, stopped_at_s: f64, resumed_at_s: f64) -> Option<f64> {
    let gone = (resumed_at_s - stopped_at_s) * rate_per_s * GONE_SHARE;
    // How much is left above that.
    let left = |&(at_s, served): &(f64, f64)| (at_s - stopped_at_s) * rate_per_s - served - gone;
    let after = samples.iter().position(|sample| sample.0 > resumed_at_s && left(sample) <= 0.0)?;
    let before = samples[..after].last().copied().unwrap_or((resumed_at_s, 0.0));
    let last = samples[after];
    // Between two samples what is left falls evenly: where it crosses nought lies in proportion.
    let share = left(&before) / (left(&before) - left(&last));
    let end_s = before.0 + (last.0 - before.0) * share;
    let served = before.1 + (last.1 - before.1) * share;
    (end_s > resumed_at_s).then(|| served / (end_s - resumed_at_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Stall =
        Stall { rate_per_s: 5000.0, seconds: 10.0, stopped_at_s: 4.5, stopped_for_s: 1.0, drain_per_s: 70_000.0 };

    fn near(got: f64, expected: f64, tolerance: f64) {
        assert!((got - expected).abs() <= expected.abs() * tolerance, "{got} is not {expected} ± {tolerance}");
    }

    #[test]
    fn the_simulation_agrees_with_the_formula() {
        // A request due `a` after the stop began is answered a·R/μ after its end, so it took
        // L − a·(1 − R/μ): linear in a, and the k-th slowest is the k-th of them.
        let got = expected(&STALL).unwrap();
        let slope = 1.0 - STALL.rate_per_s / STALL.drain_per_s;
        let slowest = |rank: f64| (1.0 - rank / STALL.rate_per_s * slope) * 1e6;
        near(got.max_us, 1_000_000.0, 0.001);
        near(got.p99_us, slowest(500.0), 0.001);
        near(got.p95_us, slowest(2500.0), 0.001);
        near(got.p90_us, slowest(5000.0), 0.005);
        near(got.p50_us, 1e6 / STALL.drain_per_s, 0.001);
    }

    #[test]
    fn without_a_stop_every_response_is_one_service_time() {
        let got = expected(&Stall { stopped_for_s: 0.0, ..STALL }).unwrap();
        near(got.max_us, 1e6 / STALL.drain_per_s, 1e-6);
    }

    #[test]
    fn a_target_slower_than_the_load_never_catches_up() {
        let got = expected(&Stall { drain_per_s: 4000.0, stopped_for_s: 0.0, ..STALL }).unwrap();
        // After 50,000 requests at 4000/s 12.5 s have gone, and the last was due at 10 s.
        near(got.max_us, 2_500_000.0, 0.001);
    }

    #[test]
    fn nothing_to_serve_or_nobody_to_serve_it() {
        for (rate_per_s, drain_per_s) in [(0.0, 1.0), (1.0, 0.0), (1.0, f64::NAN)] {
            let stall = Stall { rate_per_s, drain_per_s, ..STALL };
            assert_eq!(expected(&stall), None);
        }
    }

    #[test]
    fn a_drain_is_read_back_from_its_samples() {
        // Stopped from 1 to 2 s at 1000/s; then 11,000/s until nothing is left, at 2.1 s.
        let served = |at_s: f64| {
            if at_s < 2.1 { (at_s - 2.0) * 11_000.0 } else { 1100.0 + (at_s - 2.1) * 1000.0 }
        };
        let samples: Vec<(f64, f64)> =
            (0..300).map(|step| 2.0 + f64::from(step) * 0.00097).map(|at_s| (at_s, served(at_s))).collect();
        near(observed_drain(&samples, 1000.0, 1.0, 2.0).unwrap(), 11_000.0, 0.01);
        assert_eq!(observed_drain(&samples[..50], 1000.0, 1.0, 2.0), None);
        assert_eq!(observed_drain(&[], 1000.0, 1.0, 2.0), None);
    }
}
