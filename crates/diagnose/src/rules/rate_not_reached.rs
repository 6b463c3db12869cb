//! `rate-not-reached`: less was sent than was asked for, overall or in some intervals, and by whose doing.
//!
//! Evidence: requests due by the plan against those sent (started, less those that wait for a connection or never got
//! one), over the run and in each interval; what is missing is told apart into what waited, was dropped or timed out
//! for want of a free connection (the target's doing, or too few connections) and what was never taken up (the
//! generator's). Supported beyond 2 % overall (a warning) or 5 % in an interval (for information: a stall that was made
//! up for), each beyond the arrivals' own scatter (five roots of a Poisson count). Refuted in a closed pace, which asks
//! for no rate. Never makes a result invalid: `generator-cpu`, `generator-starved`, `cpu-stolen` or `generator-lag` does,
//! where it was the generator.

use crate::facts::{Facts, duration, percent, quantile_name};
use crate::rule::{Bearing, Needs, Rule, Verdict, past};
use model::ErrorKind;
use model::finding::{About, Severity};
use model::latency::Kind;
use model::plan::{Arrivals, Pace};
use model::units::show_figure;

const OVERALL: f64 = 0.02;
const INTERVAL: f64 = 0.05;

/// Failures of requests that never left.
const UNSENT: [ErrorKind; 11] = [
    ErrorKind::QueueTimeout,
    ErrorKind::NameNotFound,
    ErrorKind::Refused,
    ErrorKind::NoSocket,
    ErrorKind::ConnectTimeout,
    ErrorKind::Unreachable,
    ErrorKind::AddressNotAvailable,
    ErrorKind::TooManyFiles,
    ErrorKind::OutOfMemory,
    ErrorKind::ConnectFailed,
    ErrorKind::TlsHandshake,
];

/// See the file's head.
pub const RULE: Rule =
    Rule { id: "rate-not-reached", about: About::Load, needs: Needs::Connections, bearing: Bearing::None, judge };

fn judge(facts: &Facts<'_>) -> Verdict {
    let title = "the rate asked for was not reached";
    let Some(due) = facts.due(facts.start_ns, facts.end_ns) else {
        return Verdict::refuted("a closed pace asks for no rate");
    };
    let quota = facts.recording.plan.stop.requests.map_or(f64::INFINITY, |n| n as f64);
    let due = due.min(quota);
    if due < 1.0 || facts.rows.is_empty() {
        return Verdict::not_observable(title, "no interval was measured in which a request was due");
    }
    let totals = &facts.recording.totals;
    let taken = totals.in_time.started as f64 + totals.in_time.dropped as f64;
    // Counted where the generator knew of them, and at the least what is missing of those due.
    let never_taken = (due - taken).max(totals.sum.counts.never_taken_up as f64).max(0.0);
    let queued = facts.rows.last().map_or(0, |row| row.gauges.queued) as f64;
    let unsent: f64 = UNSENT.iter().map(|kind| totals.sum.errors.of(*kind) as f64).sum();
    let held = queued + totals.in_time.dropped as f64 + unsent;
    let missing = never_taken + held;
    let (short, intervals) = short_rows(facts, quota);

    let measured_s = facts.measured_s().max(1e-9);
    let (asked, sent) = (due / measured_s, (due - missing).max(0.0) / measured_s);
    let text = match missing > 0.0 {
        true => {
            let less = percent(missing / due);
            format!("{}/s were due and {}/s were sent: {less} less", show_figure(asked), show_figure(sent))
        }
        false => format!("{}/s were due and all of them were sent", show_figure(asked)),
    };
    let rate = facts.evidence(text, "achieved.sent_per_s", sent, "1/s");
    let text = format!("in {short} of {intervals} intervals more than {} were missing", percent(INTERVAL));
    let rows = facts.evidence(text, "achieved.intervals_short", short as f64, "intervals");
    let is_short = missing > (OVERALL * due).max(scatter(facts, due));
    if !is_short && short == 0 {
        return Verdict::refuted("the rate asked for was sent").because(rate).because(rows);
    }
    let is_targets = held >= never_taken;
    let title = match (is_short, is_targets) {
        (true, true) => format!("{title}: no connection was free for {} of the requests", percent(held / due)),
        (true, false) => {
            format!("{title}: the generator did not take up {} of the requests", percent(never_taken / due))
        }
        (false, _) => format!("the rate was not held in {short} of {intervals} intervals, and was made up for"),
    };
    let severity = if is_short { Severity::Warning } else { Severity::Info };
    Verdict::supported(severity, title)
        .because(rate)
        .because(rows)
        .because(facts.evidence(
            format!(
                "{} waited for a connection to the end, were dropped, or failed without one",
                show_figure(held.round())
            ),
            "achieved.held",
            held,
            "requests",
        ))
        .because(facts.evidence(
            format!("{} were never taken up by the generator", show_figure(never_taken.round())),
            "achieved.never_taken_up",
            never_taken,
            "requests",
        ))
        .because_all(tail(facts, Kind::Lag, "lag.p99_us"))
        .because_all(tail(facts, Kind::Queue, "queue.p99_us"))
        .remedy(if is_targets { targets_remedy(facts, asked) } else { generators_remedy() })
        .check("ss -tin state established | head; top -H")
        .confidence(past(missing / due, OVERALL))
}

/// Intervals in which too little was sent, and how many could be looked at.
fn short_rows(facts: &Facts<'_>, quota: f64) -> (usize, usize) {
    let rows = facts.recording.timeline.rows();
    let first = rows.iter().position(|r| facts.rows.first().is_some_and(|f| f.start_ns == r.start_ns)).unwrap_or(0);
    let mut queued = first.checked_sub(1).and_then(|i| rows.get(i)).map_or(0, |r| r.gauges.queued) as f64;
    let (mut short, mut looked, mut due_so_far) = (0, 0, 0.0);
    for row in &facts.rows {
        let due = facts.due(row.start_ns, row.end_ns).unwrap_or(0.0);
        due_so_far += due;
        if due_so_far > quota {
            break;
        }
        let sent = row.counts.started as f64 - (row.gauges.queued as f64 - queued);
        queued = row.gauges.queued as f64;
        looked += 1;
        if due - sent > (INTERVAL * due).max(scatter(facts, due)) {
            short += 1;
        }
    }
    (short, looked)
}

/// How far a count of arrivals strays by itself.
fn scatter(facts: &Facts<'_>, due: f64) -> f64 {
    let rounding = f64::from(facts.recording.plan.threads) + 1.0;
    match &facts.recording.plan.pace {
        Pace::Open { arrivals: Arrivals::Poisson, .. } => 5.0 * due.sqrt() + rounding,
        Pace::Open { arrivals: Arrivals::Constant, .. }
        | Pace::Closed { .. }
        | Pace::Held { .. }
        | Pace::Burst { .. } => rounding,
    }
}

fn tail(facts: &Facts<'_>, kind: Kind, metric: &str) -> Option<model::finding::Evidence> {
    let (quantile, ns) = facts.tail(kind)?;
    let text = format!("{} {} is {}", kind.name(), quantile_name(quantile), duration(ns as f64));
    Some(facts.evidence(text, metric, ns as f64 / 1e3, "us"))
}

fn targets_remedy(facts: &Facts<'_>, asked_per_s: f64) -> String {
    let places = facts.users();
    let service = facts.latency(Kind::Service);
    let mean_ns = if service.is_empty() { 0.0 } else { service.mean() };
    let needed = asked_per_s * mean_ns / 1e9;
    if needed > places {
        format!(
            "{}/s at {} each need {} places, and there are {}: more connections (-c) if the target is not yet at its limit, \
             else a lower --rate",
            show_figure(asked_per_s.round()),
            duration(mean_ns),
            show_figure(needed.round()),
            show_figure(places)
        )
    } else {
        "Look at what held the target up in those intervals; a lower --rate, or more connections (-c), leave it room"
            .to_owned()
    }
}

fn generators_remedy() -> String {
    "Look at what kept the generator (its own findings say), and give it CPUs of its own (--pin)".to_owned()
}
