//! Words for what is a number or a name elsewhere: kinds of error, errno, a plan in a line.
//!
//! Sentences say what happened, not whose fault it is: that is for findings.

use crate::Describe;
use model::error_kind::ErrorExample;
use model::latency::AtLeast;
use model::plan::{Arrivals, BurstAt, OnFull, Pace, Think};
use model::units::{show_bytes, show_count, show_duration_ns};
use model::{ErrorKind, Plan};
use std::borrow::Cow;

/// With its first letter as a sentence's.
pub fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A count with its digits in groups: `2,281,234`.
pub use model::units::show_grouped as grouped;

/// A figure all of whose digits can be read.
pub use model::units::show_figure as figure;

/// What happened, in a few words.
pub fn of_kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NameNotFound => "the name has no address",
        ErrorKind::Refused => "the connection was refused",
        ErrorKind::ConnectTimeout => "no answer to the connect in time",
        ErrorKind::Unreachable => "no route to the target",
        ErrorKind::AddressNotAvailable => "no local port or address was left",
        ErrorKind::TooManyFiles => "no descriptor was left in the generator",
        ErrorKind::OutOfMemory => "no memory was left for the generator's sockets",
        ErrorKind::ConnectFailed => "the connect failed",
        ErrorKind::TlsHandshake => "the TLS handshake failed",
        ErrorKind::Reset => "the peer reset the connection",
        ErrorKind::ClosedEarly => "the peer closed before the reply was complete",
        ErrorKind::ReplyTimeout => "no complete reply in time",
        ErrorKind::QueueTimeout => "no connection became free in time",
        ErrorKind::BadFraming => "the bytes were not the protocol",
        ErrorKind::HeadTooLarge => "the reply's head was longer than the limit",
        ErrorKind::UnsolicitedReply => "bytes came that no request had asked for",
        ErrorKind::SpokeFirst => "the server spoke on a new connection before anything was asked",
        ErrorKind::UnexpectedStatus => "the status was not an accepted one",
        ErrorKind::WrongContent => "the body was not the expected one",
        ErrorKind::TruncatedReply => "the connection ended in the middle of the payload",
        ErrorKind::MissingReply => "the payload was taken and nothing came back",
        ErrorKind::ShortReply => "part of the payload came, then nothing",
        ErrorKind::PaddedReply => "more came back than was sent",
        ErrorKind::CorruptedReply => "other bytes came back than were sent",
        ErrorKind::Io => "sending or receiving failed",
        ErrorKind::TlsBroken => "TLS failed on an established connection",
        ErrorKind::ErrorReply => "the reply was an error",
        ErrorKind::LoginRefused => "the server refused AUTH or SELECT",
        ErrorKind::TlsRefused => "the server refused the client after the TLS handshake",
        ErrorKind::Check => "the reply did not pass a check",
        ErrorKind::LostWrite => "a value whose write had been acknowledged was gone when it was read",
        ErrorKind::MissingValue => "the reply had no value that was to be taken from it",
        ErrorKind::NoSocket => "there is no socket at that path",
    }
}

/// The kernel's sentence for an error number; `None` for 0.
pub fn of_errno(errno: i32) -> Option<String> {
    if errno == 0 {
        return None;
    }
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    // The standard library adds the number.
    Some(text.split(" (os error").next().unwrap_or(&text).to_owned())
}

/// The facts of an example: where, what, when.
pub fn of_example(example: &ErrorExample, describe: Describe<'_>) -> String {
    let mut text = format!("first at {:.2} s, {}", example.at_ns as f64 / 1e9, example.phase.name());
    for more in [describe(example).map(Cow::into_owned), of_errno(example.errno)].into_iter().flatten() {
        text.push_str(": ");
        text.push_str(&more);
    }
    if example.unsent_bytes > 0 {
        text.push_str(&format!(", {} of the request not sent", show_bytes(example.unsent_bytes as f64)));
    }
    text
}

/// A duration; what is nothing is `0`.
pub fn duration(ns: u64) -> String {
    if ns == 0 { "0".to_owned() } else { show_duration_ns(ns as f64) }
}

/// A duration that may be a lower bound of the true one: `≥ 2.50 s`.
pub fn bounded(figure: AtLeast) -> String {
    if figure.is_bound { format!("≥\u{a0}{}", duration(figure.ns)) } else { duration(figure.ns) }
}

/// A length of time as one would say it: `10 s`, `1.5 s`, `2 min`.
pub fn length(ns: u64) -> String {
    if ns == 0 {
        return "0 s".to_owned();
    }
    let text = show_duration_ns(ns as f64);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// A count with its noun: `1 thread`, `50 connections`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A rate a second, three figures, exact below ten thousand.
pub fn rate(per_s: f64) -> String {
    if per_s < 10_000.0 { format!("{}/s", figure(per_s)) } else { format!("{}/s", show_count(per_s)) }
}

/// A share in percent; what is not nothing is not shown as nothing, nor what is not all as all.
pub fn percent(share: f64) -> String {
    match share {
        0.0 => "0 %".to_owned(),
        100.0 => "100 %".to_owned(),
        s if s < 0.01 => "< 0.01 %".to_owned(),
        s if s < 1.0 => format!("{s:.2} %"),
        s if s > 99.9 && s < 100.0 => format!("{:.2} %", s.min(99.99)),
        s => format!("{s:.1} %"),
    }
}

/// Parts in a row; a line is broken between them rather than within one, unless it is a sentence.
pub fn listed(parts: &[String]) -> String {
    const SENTENCE: usize = 48;
    let unbroken = |part: &String| {
        if part.chars().count() < SENTENCE { part.replace(' ', "\u{a0}") } else { part.clone() }
    };
    parts.iter().map(unbroken).collect::<Vec<_>>().join(", ")
}

/// Bytes a second.
pub fn byte_rate(per_s: f64) -> String {
    format!("{}/s", show_bytes(per_s))
}

/// What was to be done, in a line.
pub fn of_plan(plan: &Plan) -> String {
    let mut parts = vec![match &plan.pace {
        Pace::Closed { think: Think::None } => "closed loop".to_owned(),
        Pace::Closed { think } => format!("closed loop, {}", of_think(*think)),
        Pace::Open { profile, arrivals } => {
            let rates = match profile.as_slice() {
                [one] if one.from_per_s == one.to_per_s => rate(one.to_per_s),
                [first, .., last] => format!("{} to {}", rate(first.from_per_s), rate(last.to_per_s)),
                [one] => format!("{} to {}", rate(one.from_per_s), rate(one.to_per_s)),
                [] => "no rate".to_owned(),
            };
            let arrivals = if *arrivals == Arrivals::Poisson { ", Poisson" } else { "" };
            let full = if plan.on_full == OnFull::Drop { ", dropped when full" } else { "" };
            format!("open loop, {rates}{arrivals}{full}")
        }
        Pace::Burst { rounds, at, .. } => {
            let what = if *at == BurstAt::Connect { "connects with their requests" } else { "requests" };
            format!(
                "{} of {} {what} at once",
                counted(u64::from(*rounds), "burst"),
                grouped(u64::from(plan.connections))
            )
        }
        Pace::Held { every_ns, connects_per_s } => {
            let message = if plan.unit() == "request" { "message" } else { plan.unit() };
            let messages =
                every_ns.map_or("nothing is sent".to_owned(), |ns| format!("a {message} every {}", length(ns)));
            format!("held, {messages}, {} new connections until all are there", rate(*connects_per_s))
        }
    }];
    if !plan.on_error.is_fail_fast() {
        parts.push(format!("on failure {}", plan.on_error));
    }
    parts.push(counted(u64::from(plan.connections), "connection"));
    if let Some(tls) = &plan.tls {
        let sessions = if tls.resume { "" } else { ", no session resumed" };
        parts.push(if tls.handshake_only {
            format!("TLS handshakes alone{sessions}")
        } else {
            format!("TLS{sessions}")
        });
    }
    if plan.pipeline > 1 {
        parts.push(format!("pipeline {}", plan.pipeline));
    }
    parts.push(counted(u64::from(plan.threads), "thread"));
    if let Some(requests) = plan.stop.requests {
        parts.push(counted(requests, plan.unit()));
    }
    if let Some(duration_ns) = plan.stop.duration_ns {
        parts.push(length(duration_ns));
    }
    if plan.warmup_ns > 0 {
        parts.push(format!("{} warm-up", length(plan.warmup_ns)));
    }
    parts.join(", ")
}

fn of_think(think: Think) -> String {
    match think {
        Think::None => "no think time".to_owned(),
        Think::FixedNs(ns) => format!("{} think time", length(ns)),
        Think::UniformNs(low, high) => format!("{} to {} think time", length(low), length(high)),
        Think::ExponentialNs(mean) => format!("{} mean think time", length(mean)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_words() {
        assert_eq!([0, 7, 999, 1000, 10_000_000].map(grouped), ["0", "7", "999", "1,000", "10,000,000"]);
        assert_eq!(
            [10_000_000_000, 1_500_000_000, 600_000_000_000, 200].map(length),
            ["10 s", "1.5 s", "10 min", "200 ns"]
        );
        assert_eq!([5000.0, 228_123.4, 0.1, 99.96].map(rate), ["5,000/s", "228k/s", "0.10/s", "100/s"]);
        assert_eq!(of_errno(104).as_deref(), Some("Connection reset by peer"));
        assert_eq!(of_errno(0), None);
        assert_eq!(counted(1, "thread"), "1 thread");
        let shares = [0.0, 1e-9, 0.5, 12.34, 99.5, 99.9999, 100.0].map(percent);
        assert_eq!(shares, ["0 %", "< 0.01 %", "0.50 %", "12.3 %", "99.5 %", "99.99 %", "100 %"]);
    }
}
