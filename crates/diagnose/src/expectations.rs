//! What was expected of the figures, beside what they are.
//!
//! A time is judged over all requests that were due: one that failed, was dropped or is unfinished has no time below any
//! limit, so that a target cannot meet `p99 < 50 ms` by failing the slow ones. Where the quiet part is the run's answer,
//! times and rates are its own; errors are always of the whole run. A figure that is not known to be the target's meets
//! nothing and fails nothing: that is `undetermined`.
//!
//! Where nothing was said, one thing is expected: that no more than half of the requests fail. Not where connections are
//! added until something gives: there the failure is the answer.

use crate::facts::{Facts, Scope, percent};
use crate::held;
use model::abort::AbortWhen;
use model::event::ABORTED;
use model::expectation::{Expectation, Measure, Statistic, Time};
use model::finding::{ExpectationState, Figure, Finding, Judgement, Status, Validity, ValidityState};
use model::finding_expectation::{FindingExpectation, FindingIs};
use model::phase::LoadPhase;
use model::plan::Pace;
use model::recording::{Part, Recording};
use model::units::show_grouped;
use model::{LatencyKind, LatencySet};

/// Every expectation with its figure, in the order in which they were stated.
pub(crate) fn judge(facts: &Facts<'_>, validity: &Validity) -> Vec<Judgement> {
    let plan = &facts.recording.plan;
    let is_until_failure = plan.workload.protocol().is_until_failure();
    if facts.recording.capsule.why_no_load().is_some() {
        return Vec::new();
    }
    if plan.expectations.is_empty() {
        let half = (!is_until_failure).then(|| one(facts, validity, &Expectation::HALF, false));
        // It goes without saying where it is met.
        return half.into_iter().filter(|judgement| judgement.state != ExpectationState::Met).collect();
    }
    plan.expectations.iter().map(|expectation| one(facts, validity, expectation, true)).collect()
}

/// Every expectation of a phase, of one after the other.
pub(crate) fn judge_phases(facts: &Facts<'_>, validity: &Validity) -> Vec<Judgement> {
    let recording = facts.recording;
    let phases = recording.plan.phases.iter().enumerate();
    let of_phase = |(at, phase): (usize, &LoadPhase)| {
        let tick_ns = recording.plan.tick_ns;
        let part = recording.totals.phases.get(at).filter(|part| part.is_reached(tick_ns));
        let judged = |expectation: &Expectation| {
            let got = part.map_or_else(
                || Got { value: None, text: "the run did not reach it".to_owned(), is_bound: false },
                |part| of_phase(part, expectation.measure),
            );
            let mut judgement = judgement(validity, expectation, true, got);
            judgement.expected = format!("{expectation} in phase \"{}\"", phase.name);
            judgement
        };
        phase.expectations.iter().map(judged).collect::<Vec<_>>()
    };
    phases.flat_map(of_phase).collect()
}

/// A figure of a phase: of the requests that ended in it.
fn of_phase(part: &Part, measure: Measure) -> Got {
    let counts = &part.sum.counts;
    let bad = counts.failed.saturating_add(counts.dropped);
    match measure {
        Measure::Time { time, of } => {
            let without = if time.is_of_requests() { bad } else { 0 };
            time_of(&part.sum.latency, time, of, without)
        }
        Measure::Errors => {
            let all = counts.ok.saturating_add(counts.carried_ok).saturating_add(bad);
            share(bad, all, "requests that ended in it had no good reply")
        }
        Measure::Rate => {
            let good = part.in_time.ok.saturating_add(part.in_time.carried_ok) as f64;
            let rate = if part.measured_ns == 0 { 0.0 } else { good * 1e9 / part.measured_ns as f64 };
            Got { value: Some(rate), text: format!("{} good replies", Measure::Rate.show(rate)), is_bound: false }
        }
        Measure::Connections => Got { value: None, text: "a phase has none of its own".to_owned(), is_bound: false },
    }
}

/// Every expectation of a finding. One that could not be looked at is neither there nor absent.
pub(crate) fn judge_findings(expectations: &[FindingExpectation], findings: &[Finding]) -> Vec<Judgement> {
    expectations.iter().map(|expectation| of_finding(expectation, findings)).collect()
}

fn of_finding(expectation: &FindingExpectation, findings: &[Finding]) -> Judgement {
    let finding = findings.iter().find(|finding| finding.id == expectation.id);
    let share = finding.and_then(|finding| finding.explains).map_or(0.0, |explains| explains.share);
    let is_supported = finding.is_some_and(|finding| finding.status == Status::Supported);
    let holds = match expectation.is {
        FindingIs::Excluded => !is_supported,
        FindingIs::Included => is_supported,
        FindingIs::Share { bound, limit } => bound.holds(if is_supported { share } else { 0.0 }, limit),
    };
    let (state, got) = match finding {
        None => (ExpectationState::Undetermined, "this version does not judge it".to_owned()),
        Some(finding) if finding.status == Status::NotObservable => {
            (ExpectationState::Undetermined, format!("it could not be looked at: {}", finding.title))
        }
        Some(finding) => {
            let got = match (is_supported, finding.explains) {
                (true, Some(explains)) => format!("found, {} of the loss: {}", percent(explains.share), finding.title),
                (true, None) => format!("found: {}", finding.title),
                (false, _) => "not found".to_owned(),
            };
            (if holds { ExpectationState::Met } else { ExpectationState::NotMet }, got)
        }
    };
    let value = match expectation.is {
        FindingIs::Share { .. } if state != ExpectationState::Undetermined => {
            Some(if is_supported { share } else { 0.0 })
        }
        _ => None,
    };
    Judgement { expected: expectation.to_string(), is_stated: true, state, got, value }
}

/// What was not to be gone on with: not met by the one that ended the run, met by the others.
pub(crate) fn judge_aborts(recording: &Recording) -> Vec<Judgement> {
    let ended = recording.events.iter().find(|event| event.kind == ABORTED);
    let one = |when: &AbortWhen| {
        let written = when.to_string();
        let its = ended.filter(|event| event.details.of_kind.as_ref() == Some(&written));
        Judgement {
            expected: format!("never {written}"),
            is_stated: true,
            state: if its.is_some() { ExpectationState::NotMet } else { ExpectationState::Met },
            got: its.map_or_else(|| "it never was".to_owned(), |event| event.text.clone()),
            value: None,
        }
    };
    recording.plan.abort_when.iter().map(one).collect()
}

/// What a figure came to.
struct Got {
    /// The figure, in the unit of the expectation's limit; `None`: there is none, and none would be on the right side.
    value: Option<f64>,
    /// In words.
    text: String,
    /// Whether the true figure may be larger.
    is_bound: bool,
}

fn one(facts: &Facts<'_>, validity: &Validity, expectation: &Expectation, is_stated: bool) -> Judgement {
    let got = match expectation.measure {
        Measure::Time { time, of } => of_time(facts, validity, time, of),
        Measure::Errors => errors(facts),
        Measure::Rate => rate(facts, validity),
        Measure::Connections => connections(facts),
    };
    judgement(validity, expectation, is_stated, got)
}

fn judgement(validity: &Validity, expectation: &Expectation, is_stated: bool, got: Got) -> Judgement {
    let holds = got.value.is_some_and(|value| expectation.bound.holds(value, expectation.limit));
    // What is at least so much is not shown to be below anything.
    let is_shown = !(got.is_bound && expectation.bound.is_upper());
    let (state, text) = match doubt(expectation.measure, validity) {
        Some(doubt) => (ExpectationState::Undetermined, format!("{}; {doubt}", got.text)),
        None if holds && is_shown => (ExpectationState::Met, got.text),
        None if holds => (ExpectationState::NotMet, format!("{}, as requests were unfinished", got.text)),
        None => (ExpectationState::NotMet, got.text),
    };
    Judgement { expected: expectation.to_string(), is_stated, state, got: text, value: got.value }
}

/// Why a figure cannot be leaned on, if it cannot.
fn doubt(measure: Measure, validity: &Validity) -> Option<&'static str> {
    let figure = match measure {
        Measure::Errors => return None,
        Measure::Rate => Figure::Throughput,
        Measure::Connections => Figure::Connections,
        Measure::Time { time: Time::Response, .. } => Figure::Response,
        Measure::Time { .. } => Figure::Service,
    };
    match validity.figure(figure).map(|verdict| verdict.state) {
        None | Some(ValidityState::Valid) => None,
        Some(ValidityState::Undetermined) => Some("whether that is the target's figure is not known"),
        Some(ValidityState::NotValid) => Some("that is not the target's figure"),
    }
}

/// The part of the run whose figures are its answer.
fn scope<'a, 'r>(facts: &'a Facts<'r>, validity: &Validity) -> (&'a Scope<'r>, bool) {
    match &facts.quiet {
        Some(quiet) if validity.used_quiet().is_some() => (quiet, true),
        _ => (&facts.whole, false),
    }
}

fn of_time(facts: &Facts<'_>, validity: &Validity, time: Time, of: Statistic) -> Got {
    let (scope, is_quiet) = scope(facts, validity);
    let without = if time.is_of_requests() { without_reply(facts, scope, is_quiet, time.kind()) } else { 0 };
    time_of(&scope.latency, time, of, without)
}

/// A figure of a time, where so many requests that were due have none.
fn time_of(latency: &LatencySet<u64>, time: Time, of: Statistic, without: u64) -> Got {
    let kind = time.kind();
    let measure = Measure::Time { time, of };
    let there = latency.count(kind);
    let none = |text: &str| Got { value: None, text: text.to_owned(), is_bound: false };
    if there == 0 {
        return none("there is none");
    }
    let figure = match of {
        Statistic::Mean => {
            let mean_ns = latency.of(kind).mean();
            return Got { value: Some(mean_ns), text: measure.show(mean_ns), is_bound: false };
        }
        Statistic::Max => latency.max(kind),
        Statistic::Quantile(quantile) => {
            let rank = quantile * (there + without) as f64 / there as f64;
            if rank > 1.0 {
                let share = there as f64 / (there + without) as f64;
                return none(&format!("only {} of the requests had a good reply", percent(share)));
            }
            latency.quantile(kind, rank)
        }
    };
    let Some(figure) = figure else { return none("there is none") };
    let at_least = if figure.is_bound { "≥ " } else { "" };
    let few = match of {
        Statistic::Quantile(q) if (there as f64) * (1.0 - q) < 10.0 => {
            format!(" (of {}: few for this quantile)", show_grouped(there))
        }
        _ => String::new(),
    };
    let text = format!("{at_least}{}{few}", measure.show(figure.ns as f64));
    Got { value: Some(figure.ns as f64), text, is_bound: figure.is_bound }
}

/// Requests that were due and have no time of this kind, not even one that they had at the least.
fn without_reply(facts: &Facts<'_>, scope: &Scope<'_>, is_quiet: bool, kind: LatencyKind) -> u64 {
    if is_quiet {
        return scope.counts.failed.saturating_add(scope.counts.dropped);
    }
    due(facts).saturating_sub(scope.latency.count(kind))
}

/// Requests that were due and taken up, or dropped.
fn due(facts: &Facts<'_>) -> u64 {
    let counts = &facts.recording.totals.sum.counts;
    counts.started.saturating_add(counts.dropped)
}

fn errors(facts: &Facts<'_>) -> Got {
    let recording = facts.recording;
    if let Pace::Held { .. } = recording.plan.pace {
        let all = u64::from(recording.plan.connections);
        return share(all.saturating_sub(held::at_end(recording)), all, "connections were lost or not made");
    }
    let counts = &recording.totals.sum.counts;
    // Who does not wait for what is under way at the end says that it does not count.
    let open = if recording.plan.drain_ns > 0 { recording.totals.in_flight_at_end } else { 0 };
    let bad = counts.failed.saturating_add(counts.dropped).saturating_add(open);
    share(bad, due(facts), &format!("{}s had no good reply", recording.plan.unit()))
}

fn share(bad: u64, all: u64, what: &str) -> Got {
    if all == 0 {
        return Got { value: None, text: "nothing was asked".to_owned(), is_bound: false };
    }
    let share = bad as f64 / all as f64;
    let text = match bad {
        0 => "none".to_owned(),
        _ => format!("{} ({} of {} {what})", Measure::Errors.show(share), show_grouped(bad), show_grouped(all)),
    };
    Got { value: Some(share), text, is_bound: false }
}

fn rate(facts: &Facts<'_>, validity: &Validity) -> Got {
    let (scope, _) = scope(facts, validity);
    let good = scope.counts.ok.saturating_add(scope.counts.carried_ok) as f64;
    let rate = if scope.measured_ns == 0 { 0.0 } else { good * 1e9 / scope.measured_ns as f64 };
    Got { value: Some(rate), text: format!("{} good replies", Measure::Rate.show(rate)), is_bound: false }
}

fn connections(facts: &Facts<'_>) -> Got {
    let held = held::at_end(facts.recording) as f64;
    Got { value: Some(held), text: Measure::Connections.show(held), is_bound: false }
}
