//! What is expected of the figures: as stated, and what a stated reply implies.
//!
//! Who says what a good reply is (`--expect-status` and its like) expects every reply to be one, unless a bound on errors
//! says how many need not.

use crate::ResolveError;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::workload::{Protocol, hold};
use model::Scenario;
use model::abort::AbortWhen;
use model::expectation::{Expectation, ExpectationError, Measure, Time};
use model::finding_expectation::FindingExpectation;
use model::phase::LoadPhase;
use model::plan::Pace;

/// What a plan expects. Empty: nothing was said.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Of the run's figures.
    pub(super) of_run: Vec<Expectation>,
    /// Of its findings.
    pub(super) of_findings: Vec<FindingExpectation>,
    /// The phases, each with what is expected of it.
    pub(super) phases: Vec<LoadPhase>,
}

impl Expected {
    /// Takes in a list; what names no phase is of `phase`, or of the run.
    fn add(&mut self, text: &str, phase: Option<usize>) -> Result<(), ResolveError> {
        let bad = |error: ExpectationError| ResolveError::bad_value(Field::Expect, error.expected, error.got);
        if text.trim().is_empty() {
            Expectation::list(text).map_err(bad)?;
        }
        for piece in text.split(',') {
            if let Some(of_finding) = FindingExpectation::read(piece) {
                if phase.is_some() {
                    let expected = "a bound on a figure, as findings are of the whole run";
                    return Err(ResolveError::bad_value(Field::Expect, expected, piece.trim()));
                }
                self.of_findings.push(of_finding.map_err(bad)?);
                continue;
            }
            let (figure, named) = self.split_phase(piece)?;
            let list = Expectation::list(figure).map_err(bad)?;
            match named.or(phase) {
                Some(at) => self.phases[at].expectations.extend(list),
                None => self.of_run.extend(list),
            }
        }
        Ok(())
    }

    /// `p99 < 50 ms in phase "hold"`.
    fn split_phase<'t>(&self, piece: &'t str) -> Result<(&'t str, Option<usize>), ResolveError> {
        let Some((figure, name)) = piece.split_once(" in phase ") else { return Ok((piece, None)) };
        let name = name.trim().trim_matches(['"', '\'']);
        let at = self.phases.iter().position(|phase| phase.name == name);
        let known: Vec<String> = self.phases.iter().map(|phase| format!("\"{}\"", phase.name)).collect();
        let expected = match known.is_empty() {
            true => "a load that has phases".to_owned(),
            false => format!("one of the phases {}", known.join(", ")),
        };
        let at = at.ok_or_else(|| ResolveError::bad_value(Field::Expect, expected, name))?;
        Ok((figure, Some(at)))
    }
}

/// The plan's expectations.
pub(super) fn build(
    scenario: &Scenario,
    protocol: &dyn Protocol,
    has_tls: bool,
    pace: &Pace,
    phases: Vec<LoadPhase>,
) -> Result<Expected, ResolveError> {
    let mut expected = Expected { phases, ..Expected::default() };
    for text in &scenario.expect {
        expected.add(text, None)?;
    }
    for (at, phase) in scenario.phases.iter().enumerate() {
        phase.expect.iter().try_for_each(|text| expected.add(text, Some(at)))?;
    }
    let all = &mut expected.of_run;
    let is_of_errors = |expectation: &Expectation| expectation.measure == Measure::Errors;
    if let Some(text) = &scenario.expect_errors {
        if all.iter().any(is_of_errors) {
            return Err(ResolveError::Conflict {
                what: Field::ExpectErrors.into(),
                with: words!["errors in ", Field::Expect],
                instead: "say it in one of them".into(),
            });
        }
        let errors = Expectation::errors(text);
        all.push(errors.map_err(|e| ResolveError::bad_value(Field::ExpectErrors, e.expected, e.got))?);
    }
    if protocol.says_what_is_good(scenario) && !all.iter().any(is_of_errors) {
        all.push(Expectation::NO_ERRORS);
    }
    let of_phases = expected.phases.iter().flat_map(|phase| &phase.expectations);
    for expectation in expected.of_run.iter().chain(of_phases) {
        there_is(expectation.measure, Field::Expect, protocol.is_held(), has_tls, pace)?;
    }
    Ok(expected)
}

/// When the run ends early.
pub(super) fn abort_when(scenario: &Scenario, has_tls: bool, pace: &Pace) -> Result<Vec<AbortWhen>, ResolveError> {
    let one = |text: &String| {
        let bad = |error: ExpectationError| ResolveError::bad_value(Field::AbortWhen, error.expected, error.got);
        let when = AbortWhen::read(text).map_err(bad)?;
        there_is(when.is.measure, Field::AbortWhen, matches!(pace, Pace::Held { .. }), has_tls, pace)?;
        Ok(when)
    };
    scenario.abort_when.iter().map(one).collect()
}

/// Refuses a figure that a run does not have.
fn there_is(measure: Measure, field: Field, is_held: bool, has_tls: bool, pace: &Pace) -> Result<(), ResolveError> {
    let missing: Option<Words> = match measure {
        Measure::Connections if !is_held => Some("hold:// holds connections".into()),
        Measure::Time { time: Time::Tls, .. } if !has_tls => Some("a URL with TLS has handshakes".into()),
        Measure::Rate | Measure::Time { time: Time::Response | Time::Service | Time::FirstByte, .. }
            if matches!(pace, Pace::Held { every_ns: None, .. }) =>
        {
            Some(words!["a run with ", hold::EVERY, " has replies"])
        }
        Measure::Errors | Measure::Rate | Measure::Connections | Measure::Time { .. } => None,
    };
    let Some(who_has) = missing else { return Ok(()) };
    let expected = words!["a figure that this run has (only ", who_has, ")"];
    Err(ResolveError::bad_value(field, expected, measure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::echo::EchoProtocol;
    use crate::workload::http::HttpProtocol;
    use model::plan::Think;
    use model::workload::http::HttpAsked;

    const CLOSED: Pace = Pace::Closed { think: Think::None };

    #[track_caller]
    fn check(change: impl FnOnce(&mut Scenario), protocol: &dyn Protocol, pace: &Pace, expected: &str) {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        let phases = crate::pace::phases::phases(&scenario, 0);
        let got = match build(&scenario, protocol, false, pace, phases) {
            Ok(Expected { of_run, of_findings, phases }) => {
                let of_run = of_run.iter().map(ToString::to_string);
                let of_phases = phases
                    .iter()
                    .flat_map(|phase| phase.expectations.iter().map(|one| format!("{one} in {}", phase.name)));
                let all = of_run.chain(of_findings.iter().map(ToString::to_string)).chain(of_phases);
                all.collect::<Vec<_>>().join(", ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn what_is_stated_is_expected_and_what_it_implies() {
        let http = |change: fn(&mut Scenario), expected| check(change, &HttpProtocol, &CLOSED, expected);
        http(|_| {}, "");
        http(|s| s.expect = vec!["p99 < 5ms".to_owned(), "rate>1k/s".to_owned()], "p99 < 5.00 ms, rate > 1,000/s");
        http(|s| s.expect_errors = Some("below 1 %".to_owned()), "errors < 1 %");
        http(|s| s.ask(|h: &mut HttpAsked| h.expect_status = vec!["200".to_owned()]), "no errors");
        http(|s| s.ask(|h: &mut HttpAsked| h.expect_body = Some("ok".to_owned())), "no errors");
        http(
            |s| {
                s.ask(|h: &mut HttpAsked| h.expect_body_sha256 = Some("00".to_owned()));
                s.expect_errors = Some("2 %".to_owned());
            },
            "errors <= 2 %",
        );
        http(
            |s| {
                s.ask(|h: &mut HttpAsked| h.expect_status = vec!["200".to_owned()]);
                s.expect = vec!["errors < 1 %".to_owned()];
            },
            "errors < 1 %",
        );
    }

    #[test]
    fn phases_and_findings_have_expectations_of_their_own() {
        use model::phase::PhaseAsked;
        use model::plan::Segment;
        let with = |run: &str, of_phase: &str| {
            let (run, of_phase) = (run.to_owned(), of_phase.to_owned());
            move |s: &mut Scenario| {
                let segment = Segment { from_per_s: 1.0, to_per_s: 1.0, for_ns: 1_000_000_000 };
                s.expect = vec![run];
                let expect = if of_phase.is_empty() { Vec::new() } else { vec![of_phase] };
                s.phases = vec![PhaseAsked { name: "hold".to_owned(), segment, expect }];
            }
        };
        let http = |change, expected: &str| check(change, &HttpProtocol, &CLOSED, expected);
        let all = "p99 < 5ms in phase \"hold\", findings excludes 'swap-thrash', rate > 1/s, share of 'x' < 10 %";
        http(
            with(all, "errors < 1 %"),
            "rate > 1/s, findings excludes \"swap-thrash\", share of \"x\" < 10.0 %, p99 < 5.00 ms in hold, errors < 1 % in hold",
        );
        http(with("p99 < 5ms in phase \"spike\"", ""), "expect: expected one of the phases \"hold\", got 'spike'");
        http(
            with("p99 < 5ms", "findings excludes 'x'"),
            "expect: expected a bound on a figure, as findings are of the whole run, got 'findings excludes \\'x\\''",
        );
        let none = |s: &mut Scenario| s.expect = vec!["p99 < 5ms in phase hold".to_owned()];
        check(none, &HttpProtocol, &CLOSED, "expect: expected a load that has phases, got 'hold'");
    }

    #[test]
    fn what_no_figure_of_the_run_is_or_is_said_twice_is_refused() {
        let expect = |text: &str| {
            let list = vec![text.to_owned()];
            move |s: &mut Scenario| s.expect = list
        };
        check(
            expect("p99 < 5"),
            &HttpProtocol,
            &CLOSED,
            "expect: expected a time with its unit, such as 50 ms, got '5'",
        );
        check(
            expect("tls p99 < 5ms"),
            &HttpProtocol,
            &CLOSED,
            "expect: expected a figure that this run has (only a URL with TLS has handshakes), got 'tls p99'",
        );
        check(
            expect("connections > 5"),
            &EchoProtocol,
            &CLOSED,
            "expect: expected a figure that this run has (only hold:// holds connections), got 'connections'",
        );
        let twice = |s: &mut Scenario| {
            (s.expect, s.expect_errors) = (vec!["errors < 1 %".to_owned()], Some("1 %".to_owned()));
        };
        let said = "expect_errors cannot be used with errors in expect: say it in one of them";
        check(twice, &HttpProtocol, &CLOSED, said);
    }
}
