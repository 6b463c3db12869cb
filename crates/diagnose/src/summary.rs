//! What must be known before any figure is read: the target died, never answered, answered only errors or only some.
//!
//! Rates and quantiles are over what was answered, so they look well exactly where the rest was not. Each remark is read
//! from counters and the timeline, with the observer's events for the reason; the weightiest comes first.

use crate::facts::{Facts, duration, percent};
use crate::rules::starved_users;
use model::ErrorKind;
use model::finding::Remark;
use model::plan::Pace;
use model::recording::Row;
use model::units::show_grouped;
use model::{Event, LatencyKind};

/// Failures that say that nobody was there to be connected to.
const GONE: [ErrorKind; 4] =
    [ErrorKind::Refused, ErrorKind::Unreachable, ErrorKind::ConnectFailed, ErrorKind::ConnectTimeout];
/// The same, and those of connections that were cut.
const LOST: [ErrorKind; 6] = [GONE[0], GONE[1], GONE[2], GONE[3], ErrorKind::Reset, ErrorKind::ClosedEarly];
/// Failures that are a whole reply with bad news.
const BAD_NEWS: [ErrorKind; 2] = [ErrorKind::UnexpectedStatus, ErrorKind::ErrorReply];
/// Kinds of events that end a process of the target.
const ENDS: [&str; 3] = ["target-exit", "target-gone", "target-oom-kill"];
/// So many of the requests failed by bad news: the figures are of that.
const ERRORS_ONLY: f64 = 0.99;
/// So many of the requests had not ended: they reach the 99th percentile.
const UNFINISHED: f64 = 0.01;

/// The remarks on a run.
pub(crate) fn summary(facts: &Facts<'_>) -> Vec<Remark> {
    if facts.recording.capsule.import.is_some() {
        return Vec::new();
    }
    let remark = |id: &str, text: String| Remark { id: id.to_owned(), text };
    let mut all = Vec::new();
    match never_answered(facts) {
        Some(text) => all.push(remark("never-answered", text)),
        None => all.extend(died(facts).map(|text| remark("target-died", text))),
    }
    all.extend(errors_only(facts).map(|text| remark("errors-only", text)));
    all.extend(starved(facts).map(|text| remark("users-starved", text)));
    all.extend(unfinished(facts).map(|text| remark("unfinished", text)));
    all
}

fn grouped(figure: f64) -> String {
    show_grouped(figure.max(0.0).round() as u64)
}

fn succeeded(row: &Row) -> f64 {
    row.counts.ok as f64 + row.counts.carried_ok as f64
}

/// The target stopped answering for good, and it is known why: it ended, or nobody was there any more. That one of its
/// processes ended is not enough: a server may make one for each connection.
fn died(facts: &Facts<'_>) -> Option<String> {
    let last = facts.rows.iter().rposition(|row| succeeded(row) > 0.0)?;
    let rest = &facts.rows[last + 1..];
    let until_ns = facts.rows[last].end_ns;
    let ends: Vec<&Event> = facts.recording.events.iter().filter(|event| is_end(facts, event, until_ns)).collect();
    let failed_since = |at_ns: u64, kinds: &[ErrorKind]| {
        facts
            .recording
            .totals
            .examples()
            .any(|e| kinds.contains(&e.kind) && e.at_ns.saturating_add(tick_ns(facts)) >= at_ns)
    };
    let is_gone = ends.iter().any(|event| event.kind == "target-gone") || failed_since(until_ns, &LOST);
    // What the kernel said of its end tells more than that it is gone.
    let said = ends.iter().find(|event| event.kind != "target-gone").or(ends.first());
    let event = said.filter(|_| is_gone && (!rest.is_empty() || failed_since(until_ns, &GONE)));
    let failed_after: f64 = rest.iter().map(|row| row.counts.failed as f64 + row.counts.connect_failed as f64).sum();
    let at_ns = match event {
        Some(event) => u64::try_from(event.at_ns).unwrap_or(0),
        None if failed_after > 0.0 && failed_since(until_ns, &GONE) => until_ns,
        None => return None,
    };
    let lived = facts.rows[..=last].iter().filter(|row| row.start_ns < at_ns.max(1));
    let (ok, lived_ns) = lived.fold((0.0, 0.0), |(ok, ns), row| {
        let row_ns = row.end_ns.min(at_ns.max(row.start_ns + 1)).saturating_sub(row.start_ns);
        (ok + succeeded(row), ns + row_ns as f64)
    });
    let rate = if lived_ns > 0.0 { ok * 1e9 / lived_ns } else { 0.0 };
    let while_it_lived =
        format!("{} {}s/s succeeded until then, none after", grouped(rate), facts.recording.plan.unit());
    let at_s = at_ns as f64 / 1e9;
    Some(match event {
        Some(event) => format!("the target died at second {at_s:.1} ({}): {while_it_lived}", event.text),
        None => format!("nobody took connections from second {at_s:.1} on: {while_it_lived}"),
    })
}

/// Whether an event is the end of the target as far as the load saw it: about when the last reply came.
fn is_end(facts: &Facts<'_>, event: &Event, until_ns: u64) -> bool {
    let tick_ns = tick_ns(facts) as f64;
    let from_ns = until_ns as f64 - 2.0 * tick_ns;
    let (at_ns, end_ns) = (event.at_ns as f64, facts.end_ns as f64);
    ENDS.contains(&&*event.kind) && at_ns >= from_ns && at_ns <= until_ns as f64 + 2.0 * tick_ns && at_ns < end_ns
}

fn tick_ns(facts: &Facts<'_>) -> u64 {
    facts.recording.plan.tick_ns.max(1)
}

fn never_answered(facts: &Facts<'_>) -> Option<String> {
    let totals = &facts.recording.totals;
    let counts = &totals.sum.counts;
    let news: u64 = BAD_NEWS.iter().map(|kind| totals.sum.errors.of(*kind)).fold(0, u64::saturating_add);
    let is_silent = matches!(facts.recording.plan.pace, Pace::Held { every_ns: None, .. });
    if counts.ok > 0 || counts.carried_ok > 0 || news > 0 || counts.started == 0 || is_silent {
        return None;
    }
    let unit = facts.recording.plan.unit();
    let mut kinds: Vec<(ErrorKind, u64)> = totals.sum.errors.seen().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let why = kinds.first().map_or(String::new(), |(kind, _)| format!(" ({})", kind.name()));
    let fate = match (counts.failed, totals.in_flight_at_end) {
        (failed, 0) => format!("all {} failed{why}", show_grouped(failed)),
        (0, open) => format!("all {} were unfinished when the run ended", show_grouped(open)),
        (failed, open) => {
            let (failed, open) = (show_grouped(failed), show_grouped(open));
            format!("{failed} failed{why}, {open} were unfinished when the run ended")
        }
    };
    Some(if counts.connected == 0 {
        format!("no connection was ever made, and no {unit} answered: {fate}")
    } else {
        format!("no {unit} was ever answered: {fate}")
    })
}

fn errors_only(facts: &Facts<'_>) -> Option<String> {
    let errors = &facts.recording.totals.sum.errors;
    let (kind, count) = BAD_NEWS.map(|kind| (kind, errors.of(kind))).into_iter().max_by_key(|(_, count)| *count)?;
    if count == 0 || (count as f64) < ERRORS_ONLY * facts.ended {
        return None;
    }
    let mut seen: Vec<(u16, u64)> = facts.recording.totals.sum.status.seen().collect();
    seen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = match (kind, seen.first()) {
        (ErrorKind::UnexpectedStatus, Some((status, _))) if *status > 0 => format!(", mostly status {status}"),
        _ => String::new(),
    };
    let all = if count as f64 >= facts.ended { "every reply" } else { "nearly every reply" };
    let (count, ended) = (show_grouped(count), grouped(facts.ended));
    Some(format!("{all} said failure ({count} of {ended}{named}): the figures are of errors"))
}

fn starved(facts: &Facts<'_>) -> Option<String> {
    let users = facts.recording.totals.users.filter(|users| users.starved > 0)?;
    Some(format!("{}: the figures are of the others", starved_users::words(&users)))
}

fn unfinished(facts: &Facts<'_>) -> Option<String> {
    let totals = &facts.recording.totals;
    let open = totals.in_flight_at_end;
    let started = totals.sum.counts.started as f64;
    // Held connections that are only held have nothing under way.
    if totals.sum.counts.ok == 0 || open == 0 || (open as f64) <= UNFINISHED * started {
        return None;
    }
    let oldest = totals.sum.latency.of(LatencyKind::ResponseCensored);
    let age =
        if oldest.is_empty() { String::new() } else { format!(", the oldest after {}", duration(oldest.max() as f64)) };
    let unit = facts.recording.plan.unit();
    Some(format!(
        "{} of {} {unit}s ({}) were unfinished when the run ended{age}",
        show_grouped(open),
        grouped(started),
        percent(open as f64 / started)
    ))
}
