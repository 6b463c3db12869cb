//! What is expected of the figures: as stated, and what a stated reply implies.
//!
//! Who says what a good reply is (`--expect-status` and its like) expects every reply to be one, unless a bound on errors
//! says how many need not.

use crate::ResolveError;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::workload::{Protocol, hold};
use model::Scenario;
use model::expectation::{Expectation, Measure, Time};
use model::plan::Pace;

/// The plan's expectations. Empty: nothing was said.
pub(super) fn build(
    scenario: &Scenario,
    protocol: &dyn Protocol,
    has_tls: bool,
    pace: &Pace,
) -> Result<Vec<Expectation>, ResolveError> {
    let mut all = Vec::new();
    for text in &scenario.expect {
        let list = Expectation::list(text).map_err(|e| ResolveError::bad_value(Field::Expect, e.expected, e.got))?;
        all.extend(list);
    }
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
    for expectation in &all {
        let measure = expectation.measure;
        let missing: Option<Words> = match measure {
            Measure::Connections if !protocol.is_held() => Some("hold:// holds connections".into()),
            Measure::Time { time: Time::Tls, .. } if !has_tls => Some("a URL with TLS has handshakes".into()),
            Measure::Rate | Measure::Time { time: Time::Response | Time::Service | Time::FirstByte, .. }
                if matches!(pace, Pace::Held { every_ns: None, .. }) =>
            {
                Some(words!["a run with ", hold::EVERY, " has replies"])
            }
            Measure::Errors | Measure::Rate | Measure::Connections | Measure::Time { .. } => None,
        };
        if let Some(who_has) = missing {
            let expected = words!["a figure that this run has (only ", who_has, ")"];
            return Err(ResolveError::bad_value(Field::Expect, expected, measure));
        }
    }
    Ok(all)
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
        let got = match build(&scenario, protocol, false, pace) {
            Ok(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
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
