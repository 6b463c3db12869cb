//! What was expected of a run, judged: on the right figures, over all that was due, and never by a figure that is not the
//! target's.

use crate::common::{Build, SECOND, closed, open};
use diagnose::diagnose;
use model::ErrorKind;
use model::expectation::Expectation;
use model::finding::{Diagnosis, ExpectationState};

fn judged(build: Build, expected: &str) -> Diagnosis {
    diagnose(&build.with(|b| b.plan.expectations = Expectation::list(expected).unwrap()).recording())
}

#[track_caller]
fn check(build: Build, expected: &str, shown: &[&str]) {
    let diagnosis = judged(build, expected);
    let got: Vec<String> =
        diagnosis.expectations.iter().map(|e| format!("{}: {}: {}", e.expected, e.state.name(), e.got)).collect();
    assert_eq!(got, shown);
    let told = diagnosis.summary.iter().filter(|remark| remark.id == "expectation-not-met").count();
    let missed = diagnosis.expectations.iter().filter(|e| e.state == ExpectationState::NotMet).count();
    assert_eq!(told, missed, "each that is not met is in the first lines: {:?}", diagnosis.summary);
}

#[test]
fn figures_are_held_against_their_limits() {
    let all = "p99 < 5 ms, p99 < 1ms, mean <= 3 ms, max < 1 s, errors < 0.1 %, rate > 1k/s, rate > 6k/s";
    check(
        open(),
        all,
        &[
            "p99 < 5.00 ms: met: 2.00 ms",
            "p99 < 1.00 ms: not-met: 2.00 ms",
            "mean <= 3.00 ms: met: 2.00 ms",
            "max < 1.00 s: met: 2.00 ms",
            "errors < 0.1 %: met: none",
            "rate > 1,000/s: met: 5,000/s good replies",
            "rate > 6,000/s: not-met: 5,000/s good replies",
        ],
    );
}

#[test]
fn what_failed_has_no_time_below_any_limit() {
    let failing = |share_of_100: u64| {
        closed().each(move |s| {
            let failed = s.ok * share_of_100 / 100;
            (s.ok, s.failed) = (s.ok - failed, vec![(ErrorKind::ReplyTimeout, failed)]);
        })
    };
    check(failing(0), "p99 < 20 ms", &["p99 < 20.0 ms: met: 10.0 ms"]);
    check(
        failing(1),
        "p90 < 20 ms, errors <= 1 %",
        &["p90 < 20.0 ms: met: 10.0 ms", "errors <= 1 %: met: 1 % (640 of 64,000 requests had no good reply)"],
    );
    check(
        failing(2),
        "p99 < 20 ms, errors <= 1 %",
        &[
            "p99 < 20.0 ms: not-met: only 98 % of the requests had a good reply",
            "errors <= 1 %: not-met: 2 % (1,280 of 64,000 requests had no good reply)",
        ],
    );
}

#[test]
fn what_is_unfinished_is_not_below_a_limit_that_it_may_pass_yet() {
    let hung = open().with(|b| (b.in_flight_at_end, b.unfinished) = (4000, (2_500_000_000, 4000)));
    let hung = || hung.clone().at(9, |s| (s.ok, s.in_flight) = (1010, 64));
    check(
        hung(),
        "p50 < 3 s, p99 < 3 s, p99 < 1 s, errors < 1 %",
        &[
            "p50 < 3.00 s: met: 2.00 ms",
            "p99 < 3.00 s: not-met: ≥ 2.50 s, as requests were unfinished",
            "p99 < 1.00 s: not-met: ≥ 2.50 s",
            "errors < 1 %: not-met: 8 % (4,000 of 50,010 requests had no good reply)",
        ],
    );
    // Who does not wait for them says that they do not count.
    let diagnosis = judged(hung().with(|b| b.plan.drain_ns = 0), "errors < 1 %");
    assert_eq!(diagnosis.expectations[0].state, ExpectationState::Met);
}

#[test]
fn without_a_word_half_of_the_requests_are_expected_to_succeed() {
    let failing = |share_of_100: u64| {
        closed().each(move |s| {
            let failed = s.ok * share_of_100 / 100;
            (s.ok, s.failed) = (s.ok - failed, vec![(ErrorKind::UnexpectedStatus, failed)]);
        })
    };
    assert_eq!(diagnose(&failing(50).recording()).expectations, []);
    let said = diagnose(&failing(60).recording()).expectations;
    assert!(said.len() == 1 && said[0].state == ExpectationState::NotMet && !said[0].is_stated, "{said:?}");
    // Where all of them failed, the line that says so is enough.
    let all = diagnose(&failing(100).recording());
    assert_eq!(all.summary.iter().map(|remark| &*remark.id).collect::<Vec<_>>(), ["errors-only"]);
    assert_eq!(all.expectations.len(), 1);
}

#[test]
fn a_figure_that_is_not_the_targets_shows_nothing() {
    let late = || {
        open().each(|s| {
            (s.busy, s.late, s.late_ns, s.lag_ns) = (0.99, 2500, 40_000_000, 20_000_000);
        })
    };
    let diagnosis = judged(late(), "p99 < 1 ms, errors < 1 %");
    assert!(!diagnosis.validity.valid, "{:?}", diagnosis.validity);
    let states: Vec<ExpectationState> = diagnosis.expectations.iter().map(|e| e.state).collect();
    assert_eq!(states, [ExpectationState::Undetermined, ExpectationState::Met], "{:?}", diagnosis.expectations);
}

#[test]
fn few_requests_are_said_to_be_few() {
    let few = closed().each(|s| (s.ok, s.in_flight) = (6, 0));
    let diagnosis = judged(few, "p99 < 50 ms");
    let got = &diagnosis.expectations[0];
    assert!(got.state == ExpectationState::Met && got.got.contains("few"), "{got:?}");
    assert!(got.value.is_some_and(|ns| ns < SECOND as f64));
}
