//! What a user expects of a run's figures, such as `p99 < 50 ms, errors < 0.1 %, rate > 1k/s`: read, kept in the plan, and
//! shown in one way of writing.
//!
//! `diagnose` judges them; one that is not met is exit status 3.

pub mod abort;
pub mod finding_expectation;

use crate::LatencyKind;
use crate::units::{duration_ns, rate_per_s, show_count, show_duration_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A bound on one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// Which figure.
    pub measure: Measure,
    /// On which side of the limit it is expected.
    pub bound: Bound,
    /// The limit: nanoseconds of a time, 0..=1 of errors, requests a second of a rate, a number of connections.
    pub limit: f64,
}

/// A figure that something can be expected of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// A figure of a time.
    Time {
        /// Which time.
        time: Time,
        /// Which figure of it.
        of: Statistic,
    },
    /// The share of the requests that were due and had no good reply: failed, dropped, or unfinished though waited for.
    /// Of held connections: the share that was lost or not made.
    Errors,
    /// Good replies a second.
    Rate,
    /// Connections held at the end.
    Connections,
}

/// A time that something can be expected of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Time {
    /// From when a request was due to its reply.
    Response,
    /// From when it was sent to its reply.
    Service,
    /// From when it was sent to the reply's first byte.
    FirstByte,
    /// Of making a connection.
    Connect,
    /// Of a TLS handshake.
    Tls,
}

impl Time {
    /// Every one, in the order of help texts.
    pub const ALL: [Time; 5] = [Time::Response, Time::Service, Time::FirstByte, Time::Connect, Time::Tls];

    /// The word that is written.
    pub const fn name(self) -> &'static str {
        match self {
            Time::Response => "response",
            Time::Service => "service",
            Time::FirstByte => "first-byte",
            Time::Connect => "connect",
            Time::Tls => "tls",
        }
    }

    /// The histogram it is in.
    pub const fn kind(self) -> LatencyKind {
        match self {
            Time::Response => LatencyKind::Response,
            Time::Service => LatencyKind::Service,
            Time::FirstByte => LatencyKind::FirstByte,
            Time::Connect => LatencyKind::Connect,
            Time::Tls => LatencyKind::Tls,
        }
    }

    /// Whether there is one for each request, so that one without a good reply has none below any limit.
    pub const fn is_of_requests(self) -> bool {
        matches!(self, Time::Response | Time::Service | Time::FirstByte)
    }
}

/// A figure of a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The quantile, in (0, 1): 0.99 of `p99`.
    Quantile(f64),
    /// The mean, of good replies.
    Mean,
    /// The longest, of good replies and what was unfinished.
    Max,
}

/// A side of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Bound {
    /// How each may be written; the first is how it is shown. The longer ones before those they begin with.
    const WRITTEN: [(&'static str, Bound); 8] = [
        ("<=", Bound::AtMost),
        (">=", Bound::AtLeast),
        ("<", Bound::Below),
        (">", Bound::Above),
        ("at most", Bound::AtMost),
        ("at least", Bound::AtLeast),
        ("below", Bound::Below),
        ("above", Bound::Above),
    ];

    /// The sign.
    pub fn sign(self) -> &'static str {
        Bound::WRITTEN.iter().find(|(_, bound)| *bound == self).map_or("", |(sign, _)| sign)
    }

    /// Whether a figure is on the side of the limit that it was expected on. One that is no number is on neither.
    pub fn holds(self, figure: f64, limit: f64) -> bool {
        match self {
            Bound::Below => figure < limit,
            Bound::AtMost => figure <= limit,
            Bound::Above => figure > limit,
            Bound::AtLeast => figure >= limit,
        }
    }

    /// Whether figures are expected to be small.
    pub fn is_upper(self) -> bool {
        matches!(self, Bound::Below | Bound::AtMost)
    }
}

/// Text that is no expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectationError {
    /// The one that is none, as written.
    pub got: String,
    /// What was expected.
    pub expected: String,
}

impl fmt::Display for ExpectationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, got '{}'", self.expected, self.got.escape_debug())
    }
}

impl std::error::Error for ExpectationError {}

/// What is expected, in the words of errors.
const FORM: &str = "a list such as 'p99 < 50 ms, errors < 0.1 %, rate > 1k/s'";
const FIGURES: &str = "p50 to p99.999, mean or max (of response, or after one of service, first-byte, connect, tls), errors, rate or connections";
const BOUNDS: &str = "a figure, then one of < <= > >=, then a limit, such as 'p99 < 50 ms'";
const TIME: &str = "a time with its unit, such as 50 ms";
const SHARE: &str = "a share such as 0.1 %, or none";
const RATE: &str = "a rate such as 1k/s";
const COUNT: &str = "a count such as 10k";

impl Expectation {
    /// Every request has a good reply.
    pub const NO_ERRORS: Expectation = Expectation { measure: Measure::Errors, bound: Bound::AtMost, limit: 0.0 };
    /// At least half of them have: what is expected of a run of which nothing was said.
    pub const HALF: Expectation = Expectation { measure: Measure::Errors, bound: Bound::AtMost, limit: 0.5 };

    /// Reads a list of them, with commas between.
    ///
    /// ```
    /// use model::expectation::Expectation;
    /// let list = Expectation::list("p99<50ms, errors below 0.1 %, rate >= 1k/s").unwrap();
    /// assert_eq!(list[0].to_string(), "p99 < 50.0 ms");
    /// assert_eq!(list[1].to_string(), "errors < 0.1 %");
    /// assert_eq!(list[2].to_string(), "rate >= 1,000/s");
    /// assert!(Expectation::list("p99 < 50").is_err(), "without a unit");
    /// ```
    ///
    /// # Errors
    /// [`ExpectationError`] for the first that is none.
    pub fn list(text: &str) -> Result<Vec<Expectation>, ExpectationError> {
        if text.trim().is_empty() {
            return Err(wrong(text, FORM));
        }
        text.split(',').map(Expectation::one).collect()
    }

    /// Reads the part behind `errors`: `below 1 %`, `< 1 %`, `1 %` (at most), `none`, or `any`, which is always met.
    ///
    /// # Errors
    /// [`ExpectationError`] where it is none of these.
    pub fn errors(text: &str) -> Result<Expectation, ExpectationError> {
        let (bound, limit) = split_bound(text.trim()).map_or((Bound::AtMost, text), |(_, bound, limit)| (bound, limit));
        let limit = if limit.trim().eq_ignore_ascii_case("any") { 1.0 } else { share(limit)? };
        if !bound.is_upper() {
            return Err(wrong(text, "an upper bound of errors, such as 'below 1 %'"));
        }
        Ok(Expectation { measure: Measure::Errors, bound, limit })
    }

    fn one(text: &str) -> Result<Expectation, ExpectationError> {
        let text = text.trim();
        let Some((figure, bound, limit)) = split_bound(text) else { return Err(wrong(text, BOUNDS)) };
        let measure = Measure::read(figure).ok_or_else(|| wrong(figure.trim(), FIGURES))?;
        let limit = limit.trim();
        let limit = match measure {
            Measure::Time { .. } if limit.ends_with(|c: char| c.is_ascii_digit()) => return Err(wrong(limit, TIME)),
            Measure::Time { .. } => duration_ns(limit).map_err(|_| wrong(limit, TIME))? as f64,
            Measure::Errors => share(limit)?,
            Measure::Rate => rate_per_s(limit).map_err(|_| wrong(limit, RATE))?,
            Measure::Connections => crate::units::count(limit).map_err(|_| wrong(limit, COUNT))? as f64,
        };
        Ok(Expectation { measure, bound, limit })
    }
}

impl Measure {
    fn read(text: &str) -> Option<Measure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (time, figure) = match words[..] {
            [figure] => (Time::Response, figure),
            [time, figure] => (Time::ALL.into_iter().find(|known| known.name() == time)?, figure),
            _ => return None,
        };
        let of = match figure {
            "errors" | "rate" | "connections" if words.len() > 1 => return None,
            "errors" => return Some(Measure::Errors),
            "rate" => return Some(Measure::Rate),
            "connections" => return Some(Measure::Connections),
            "mean" | "avg" => Statistic::Mean,
            "max" => Statistic::Max,
            _ => {
                let digits = figure.strip_prefix('p').filter(|digits| !digits.is_empty() && digits.len() <= 7)?;
                let percent = digits.parse::<f64>().ok().filter(|_| !digits.contains(['e', 'E', '+', '-']))?;
                // Through hundredths of a thousandth, so that p99.9 is 0.999 and not a neighbour of it.
                let quantile = (percent * 1e5).round() / 1e7;
                if !(quantile > 0.0 && quantile < 1.0) {
                    return None;
                }
                Statistic::Quantile(quantile)
            }
        };
        Some(Measure::Time { time, of })
    }

    /// A figure of it as people read it.
    pub fn show(self, figure: f64) -> String {
        match self {
            Measure::Time { .. } => show_duration_ns(figure),
            Measure::Errors => show_share(figure),
            Measure::Rate => format!("{}/s", show_count(figure)),
            Measure::Connections => crate::units::show_grouped(figure.max(0.0) as u64),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Time { time, of } => {
                if *time != Time::Response {
                    write!(f, "{} ", time.name())?;
                }
                match of {
                    Statistic::Quantile(quantile) => write!(f, "p{}", (quantile * 1e7).round() / 1e5),
                    Statistic::Mean => f.write_str("mean"),
                    Statistic::Max => f.write_str("max"),
                }
            }
            Measure::Errors => f.write_str("errors"),
            Measure::Rate => f.write_str("rate"),
            Measure::Connections => f.write_str("connections"),
        }
    }
}

impl fmt::Display for Expectation {
    /// As reports show it: limits with three figures, digits in groups.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.measure, self.limit) {
            (Measure::Errors, 0.0) if self.bound == Bound::AtMost => f.write_str("no errors"),
            (measure, limit) => write!(f, "{measure} {} {}", self.bound.sign(), measure.show(limit)),
        }
    }
}

/// A share in percent, with as many digits as tell it from none.
fn show_share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        0.0 => "none".to_owned(),
        p if p < 0.01 => format!("{p:.1e} %"),
        p if p < 10.0 => format!("{} %", (p * 100.0).round() / 100.0),
        p => format!("{p:.1} %"),
    }
}

/// What stands before a bound, the bound, and what follows.
pub(crate) fn split_bound(text: &str) -> Option<(&str, Bound, &str)> {
    Bound::WRITTEN.iter().find_map(|(sign, bound)| {
        let (figure, limit) = text.split_once(sign)?;
        Some((figure, *bound, limit))
    })
}

pub(crate) fn share(text: &str) -> Result<f64, ExpectationError> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("none") {
        return Ok(0.0);
    }
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent.filter(|p| (0.0..=100.0).contains(p)).map(|p| p / 100.0).ok_or_else(|| wrong(text, SHARE))
}

pub(crate) fn wrong(got: &str, expected: &str) -> ExpectationError {
    ExpectationError { got: got.to_owned(), expected: expected.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shown(text: &str, expected: &str) {
        let got = match Expectation::list(text) {
            Ok(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn lists_are_read_as_people_write_them() {
        shown("p99<50ms", "p99 < 50.0 ms");
        shown(" p99.9 <= 1.5 s ,errors<0.1%,  rate >1k/s", "p99.9 <= 1.50 s, errors < 0.1 %, rate > 1,000/s");
        shown("p50 below 300us, mean at most 1ms, max<2s", "p50 < 300 µs, mean <= 1.00 ms, max < 2.00 s");
        shown(
            "service p95 < 5 ms, connect max < 1s, tls p99.99 < 10ms, first-byte mean < 1ms",
            "service p95 < 5.00 ms, connect max < 1.00 s, tls p99.99 < 10.0 ms, first-byte mean < 1.00 ms",
        );
        shown("errors <= none, connections >= 10k", "no errors, connections >= 10,000");
        shown("errors < 0.001 %", "errors < 1.0e-3 %");
    }

    #[test]
    fn what_is_no_expectation_is_refused_with_what_was_expected() {
        shown("", &format!("expected {FORM}, got ''"));
        shown("p99", &format!("expected {BOUNDS}, got 'p99'"));
        shown("p99 < 50 ms,", &format!("expected {BOUNDS}, got ''"));
        shown("p99 < 50", &format!("expected {TIME}, got '50'"));
        shown("p99 < fast", &format!("expected {TIME}, got 'fast'"));
        shown("errors < 1", &format!("expected {SHARE}, got '1'"));
        shown("errors < 101 %", &format!("expected {SHARE}, got '101 %'"));
        shown("errors < NaN %", &format!("expected {SHARE}, got 'NaN %'"));
        shown("rate > 0", &format!("expected {RATE}, got '0'"));
        for figure in ["p0", "p100", "p", "pp99", "p1e1", "p-1", "p99.999999", "queue p99", "tls rate", "a b c", "p+5"]
        {
            shown(&format!("{figure} < 1ms"), &format!("expected {FIGURES}, got '{figure}'"));
        }
    }

    #[test]
    fn errors_alone_are_read_in_words() {
        for (text, expected) in [
            ("below 1 %", "errors < 1 %"),
            ("< 0.5%", "errors < 0.5 %"),
            ("2 %", "errors <= 2 %"),
            ("none", "no errors"),
        ] {
            assert_eq!(Expectation::errors(text).map(|e| e.to_string()), Ok(expected.to_owned()));
        }
        assert_eq!(Expectation::errors("any").map(|e| e.limit), Ok(1.0));
        assert!(Expectation::errors("above 1 %").is_err() && Expectation::errors("few").is_err());
    }

    #[test]
    fn a_bound_is_a_side_of_its_limit() {
        let holds = |bound: Bound| [0.9, 1.0, 1.1, f64::NAN].map(|figure| bound.holds(figure, 1.0));
        assert_eq!(holds(Bound::Below), [true, false, false, false]);
        assert_eq!(holds(Bound::AtMost), [true, true, false, false]);
        assert_eq!(holds(Bound::Above), [false, false, true, false]);
        assert_eq!(holds(Bound::AtLeast), [false, true, true, false]);
    }

    #[test]
    fn quantiles_are_the_numbers_that_were_written() {
        for (text, quantile) in [("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("p50", 0.5), ("p2.5", 0.025)] {
            let list = Expectation::list(&format!("{text} < 1s")).unwrap();
            assert!(
                matches!(list[0].measure, Measure::Time { of: Statistic::Quantile(q), .. } if q == quantile),
                "{text}"
            );
            assert_eq!(list[0].measure.to_string(), text);
        }
    }
}
