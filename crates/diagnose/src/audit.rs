//! The arithmetic that figures of a load must obey, whoever measured them: Little's law, what a link carries, counts over time.
//!
//! Given are some figures; each check needs two or three of them. What cannot be is said with the arithmetic; where a figure
//! is missing that follows from the others, it is worked out. Shared with the rule [`figure-audit`](crate::rules), which holds
//! a run's own figures against each other.
//!
//! Little's law, L = λW: J. D. C. Little, Operations Research 9 (1961). It is exact of means over a time at whose ends
//! nothing is left over; published figures are rounded, so [`CLOSE`] is allowed. Of a link only payload is counted:
//! headers come on top, so what does not fit without them does not fit.

use crate::facts::{duration, percent};
use model::Recording;
use model::finding::{Diagnosis, Status};
use model::units::{show_bytes, show_figure};
use schemars::JsonSchema;
use serde::Serialize;

/// How much more time than there was may be spent in requests: a histogram's third digit, twice over, and rounding.
pub const OVER: f64 = 1.02;
/// How far two accounts of one thing may differ, as published figures are rounded.
pub const CLOSE: f64 = 0.05;
/// So much of the users' time is spent in requests where they do not think between them.
pub const FULL: f64 = 0.8;

/// Requests under way at once, by Little's law: so many a second, each so many seconds long.
pub fn under_way(per_s: f64, seconds: f64) -> f64 {
    per_s * seconds
}

/// Whether so many requests can be under way of so many users.
pub fn fits(under_way: f64, users: f64) -> bool {
    under_way <= users * OVER
}

/// What is known of a load. `None`: it was not said.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Requests that were answered, a second.
    pub throughput_per_s: Option<f64>,
    /// Requests that were asked for, a second.
    pub rate_per_s: Option<f64>,
    /// Mean response time, seconds.
    pub latency_s: Option<f64>,
    /// Users: connections, each with one request under way at the most.
    pub concurrency: Option<f64>,
    /// Bytes of a request and its reply on the link, at the least.
    pub size_bytes: Option<f64>,
    /// What the link carries, bits a second.
    pub link_bits_per_s: Option<f64>,
    /// How long it took, seconds.
    pub duration_s: Option<f64>,
    /// Requests in all.
    pub requests: Option<f64>,
    /// Bytes in all.
    pub bytes: Option<f64>,
}

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The figures agree.
    Agrees,
    /// They cannot all be true.
    CannotBe,
    /// They can be true, and say something more.
    Says,
}

impl Outcome {
    /// The word of it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Agrees => "agrees",
            Outcome::CannotBe => "cannot be",
            Outcome::Says => "says",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Checked {
    /// Which: `littles-law`, `link`, `requests-over-time`, `bytes-over-requests`.
    pub check: &'static str,
    /// What it came to.
    pub outcome: Outcome,
    /// The arithmetic, and what follows.
    pub text: String,
}

/// A run's own figures, held against each other by the rule `figure-audit`, and with what is known beside them, such as a link.
pub fn of_run(recording: &Recording, diagnosis: &Diagnosis, given: &Figures) -> Vec<Checked> {
    let totals = &recording.totals;
    let counts = &totals.in_time;
    let ok = counts.ok_arrived();
    let whole = |n: u64| (n > 0).then_some(n as f64);
    let measured_s = totals.measured_ns as f64 / 1e9;
    let throughput_per_s = whole(ok).filter(|_| measured_s > 0.0).map(|ok| ok / measured_s);
    // Of replies and requests together: each passes the link once, in a direction of its own.
    let most = counts.bytes_received.max(counts.bytes_sent);
    let figures = Figures {
        size_bytes: given.size_bytes.or_else(|| whole(most).zip(whole(ok)).map(|(bytes, ok)| bytes / ok)),
        link_bits_per_s: given.link_bits_per_s,
        throughput_per_s,
        ..Figures::default()
    };
    let mut checks = Vec::new();
    if let Some(finding) = diagnosis.findings.iter().find(|finding| finding.id == "figure-audit") {
        let outcome = match finding.status {
            Status::Supported => Outcome::CannotBe,
            Status::Refuted => Outcome::Agrees,
            Status::NotObservable | Status::NotApplicable => Outcome::Says,
        };
        let told = finding.because.iter().map(|evidence| evidence.text.clone());
        checks.extend(told.map(|text| Checked { check: "figure-audit", outcome, text }));
    }
    checks.extend(link(&figures));
    checks
}

/// Every check that the figures allow; none: too few of them were given.
pub fn audit(figures: &Figures) -> Vec<Checked> {
    [little(figures), link(figures), asked(figures), requests(figures), bytes(figures)].into_iter().flatten().collect()
}

fn number(value: f64) -> String {
    show_figure(value)
}

fn seconds(s: f64) -> String {
    duration(s * 1e9)
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= CLOSE * a.abs().max(b.abs())
}

fn little(figures: &Figures) -> Option<Checked> {
    let of = |outcome, text| Some(Checked { check: "littles-law", outcome, text });
    let Figures { throughput_per_s, latency_s, concurrency, .. } = *figures;
    match (throughput_per_s, latency_s, concurrency) {
        (Some(x), Some(r), Some(n)) => {
            let under_way = under_way(x, r);
            let law = format!("{}/s × {} = {} requests under way", number(x), seconds(r), number(under_way));
            if !fits(under_way, n) && !is_close(under_way, n) {
                let most = number(n / r);
                return of(
                    Outcome::CannotBe,
                    format!(
                        "{law}, of {} users: with so many, requests of {} make at most {most}/s",
                        number(n),
                        seconds(r)
                    ),
                );
            }
            if under_way >= FULL * n {
                return of(Outcome::Agrees, format!("{law}, of {} users", number(n)));
            }
            let idle = seconds(n / x - r);
            of(
                Outcome::Says,
                format!(
                    "{law}, of {} users: each waited {idle} between two requests, {} of its time; without think time that cannot be",
                    number(n),
                    percent(1.0 - under_way / n)
                ),
            )
        }
        (Some(x), Some(r), None) => {
            let text =
                format!("{}/s × {} = {} requests under way at once", number(x), seconds(r), number(under_way(x, r)));
            of(Outcome::Says, text)
        }
        (Some(x), None, Some(n)) => {
            let text = format!(
                "{} users ÷ {}/s = {}: a request takes at most that long on average",
                number(n),
                number(x),
                seconds(n / x)
            );
            of(Outcome::Says, text)
        }
        (None, Some(r), Some(n)) => {
            let text = format!("{} users ÷ {} = {}/s at the most", number(n), seconds(r), number(n / r));
            of(Outcome::Says, text)
        }
        _ => None,
    }
}

/// A rate in bits for people.
fn bits(per_s: f64) -> String {
    let (scale, unit) = match per_s {
        per_s if per_s >= 1e9 => (1e9, "Gbit/s"),
        per_s if per_s >= 1e6 => (1e6, "Mbit/s"),
        _ => (1e3, "kbit/s"),
    };
    format!("{} {unit}", number(per_s / scale))
}

fn link(figures: &Figures) -> Option<Checked> {
    let (size, link) = (figures.size_bytes?, figures.link_bits_per_s?);
    let of = |outcome, text| Some(Checked { check: "link", outcome, text });
    let most = number(link / (8.0 * size));
    let Some(rate) = figures.throughput_per_s.into_iter().chain(figures.rate_per_s).reduce(f64::max) else {
        return of(Outcome::Says, format!("{} ÷ (8 × {}) = {most}/s at the most", bits(link), show_bytes(size)));
    };
    let needed = rate * size * 8.0;
    let text = format!(
        "{}/s × {} × 8 = {}, of {} that the link carries",
        number(rate),
        show_bytes(size),
        bits(needed),
        bits(link)
    );
    if needed > link {
        let times = number(needed / link);
        return of(Outcome::CannotBe, format!("{text}: {times} times as much; it carries at most {most}/s"));
    }
    of(Outcome::Agrees, format!("{text} ({})", percent(needed / link)))
}

/// What was answered against what was asked for.
fn asked(figures: &Figures) -> Option<Checked> {
    let (throughput, rate) = (figures.throughput_per_s?, figures.rate_per_s?);
    let (outcome, what) = match throughput {
        x if x > rate * (1.0 + CLOSE) => (Outcome::CannotBe, "more was answered than asked for"),
        x if is_close(x, rate) => (Outcome::Agrees, "what was asked for was answered"),
        _ => (Outcome::Says, "the rest was dropped, failed, or waits, and longer with every second"),
    };
    let text = format!("{}/s were answered of {}/s asked for: {what}", number(throughput), number(rate));
    Some(Checked { check: "asked", outcome, text })
}

fn requests(figures: &Figures) -> Option<Checked> {
    let (requests, took_s) = (figures.requests?, figures.duration_s?);
    let per_s = requests / took_s;
    let text = format!("{} requests ÷ {} = {}/s", number(requests), seconds(took_s), number(per_s));
    let (outcome, text) = match figures.throughput_per_s {
        None => (Outcome::Says, text),
        Some(x) if is_close(x, per_s) => (Outcome::Agrees, format!("{text}, as was said")),
        Some(x) => (Outcome::CannotBe, format!("{text}, and {}/s were said", number(x))),
    };
    Some(Checked { check: "requests-over-time", outcome, text })
}

fn bytes(figures: &Figures) -> Option<Checked> {
    let bytes = figures.bytes?;
    let requests = figures.requests.or_else(|| Some(figures.throughput_per_s? * figures.duration_s?))?;
    let each = bytes / requests;
    let text = format!("{} ÷ {} requests = {} each", show_bytes(bytes), number(requests), show_bytes(each));
    let (outcome, text) = match figures.size_bytes {
        None => (Outcome::Says, text),
        Some(size) if each < size * (1.0 - CLOSE) => {
            (Outcome::CannotBe, format!("{text}, and each has {} at the least", show_bytes(size)))
        }
        Some(size) => (Outcome::Agrees, format!("{text}, of {} at the least", show_bytes(size))),
    };
    Some(Checked { check: "bytes-over-requests", outcome, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(figures: Figures) -> Vec<(&'static str, Outcome)> {
        audit(&figures).into_iter().map(|checked| (checked.check, checked.outcome)).collect()
    }

    #[test]
    fn littles_law_holds_of_published_figures_and_fails_where_it_must() {
        let wrk = Figures {
            throughput_per_s: Some(228.12),
            latency_s: Some(0.04372),
            concurrency: Some(10.0),
            ..Figures::default()
        };
        assert_eq!(outcomes(wrk), [("littles-law", Outcome::Agrees)]);
        let said = audit(&wrk).remove(0).text;
        assert!(said.contains("= 9.97 requests under way, of 10"), "{said}");
        let impossible = Figures { concurrency: Some(5.0), ..wrk };
        assert_eq!(outcomes(impossible), [("littles-law", Outcome::CannotBe)]);
        let thinking = Figures { concurrency: Some(100.0), ..wrk };
        assert_eq!(outcomes(thinking), [("littles-law", Outcome::Says)]);
        for two in [
            Figures { latency_s: None, ..wrk },
            Figures { concurrency: None, ..wrk },
            Figures { throughput_per_s: None, ..wrk },
        ] {
            assert_eq!(outcomes(two), [("littles-law", Outcome::Says)]);
        }
        assert!(audit(&Figures { latency_s: Some(1.0), ..Figures::default() }).is_empty());
    }

    #[test]
    fn a_link_carries_no_more_than_it_can() {
        let published = Figures {
            rate_per_s: Some(3000.0),
            size_bytes: Some(26e6),
            link_bits_per_s: Some(10e9),
            ..Figures::default()
        };
        assert_eq!(outcomes(published), [("link", Outcome::CannotBe)]);
        let said = audit(&published).remove(0).text;
        assert!(said.contains("624 Gbit/s, of 10") && said.contains("at most 48.1/s"), "{said}");
        assert_eq!(outcomes(Figures { rate_per_s: Some(40.0), ..published }), [("link", Outcome::Agrees)]);
        assert_eq!(outcomes(Figures { rate_per_s: None, ..published }), [("link", Outcome::Says)]);
    }

    #[test]
    fn counts_bytes_and_rates_are_held_against_each_other() {
        let sound = Figures {
            requests: Some(2290.0),
            duration_s: Some(10.0),
            throughput_per_s: Some(229.0),
            bytes: Some(2290.0 * 1000.0),
            size_bytes: Some(900.0),
            ..Figures::default()
        };
        assert_eq!(
            outcomes(sound),
            [("requests-over-time", Outcome::Agrees), ("bytes-over-requests", Outcome::Agrees)]
        );
        let wrong = Figures { requests: Some(9000.0), size_bytes: Some(2000.0), ..sound };
        assert_eq!(
            outcomes(wrong),
            [("requests-over-time", Outcome::CannotBe), ("bytes-over-requests", Outcome::CannotBe)]
        );
        assert_eq!(
            outcomes(Figures { rate_per_s: Some(100.0), throughput_per_s: Some(229.0), ..Figures::default() }),
            [("asked", Outcome::CannotBe)]
        );
    }
}
