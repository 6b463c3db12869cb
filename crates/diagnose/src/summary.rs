//! What must be known before any figure is read: the target died, never answered, answered only errors or only some, an
//! expectation is not met, others had the target's CPU.
//!
//! Rates and quantiles are over what was answered, so they look well exactly where the rest was not. Each remark is read
//! from counters and the timeline, with the observer's events for the reason; the weightiest comes first.

use crate::NO_CONNECTION;
use crate::busy;
use crate::causes::deaths::{self, asked_for, is_bad_end};
use crate::facts::{Facts, duration, percent};
use crate::recovery::sentence::sentence;
use crate::rules::starved_users;
use crate::statistics::median;
use model::event::TLS_FAILED;
use model::finding::{ExpectationState, Judgement, Loss, Remark};
use model::limits::GONE_NS;
use model::plan::{Address, Pace, Workload};
use model::recording::Row;
use model::recovery::Recovery;
use model::request::{Request, RequestEnd};
use model::units::{show_bytes, show_figure, show_grouped};
use model::{ErrorKind, Event, LatencyKind};
use std::collections::BTreeSet;

/// Failures that say that nobody was there to be connected to.
const GONE: [ErrorKind; 5] = [
    ErrorKind::Refused,
    ErrorKind::NoSocket,
    ErrorKind::Unreachable,
    ErrorKind::ConnectFailed,
    ErrorKind::ConnectTimeout,
];
/// The same, and those of connections that were cut.
const LOST: [ErrorKind; 7] = [GONE[0], GONE[1], GONE[2], GONE[3], GONE[4], ErrorKind::Reset, ErrorKind::ClosedEarly];
/// Failures that are a whole reply with bad news.
const BAD_NEWS: [ErrorKind; 2] = [ErrorKind::UnexpectedStatus, ErrorKind::ErrorReply];
/// Kinds of events that end a process of the target.
const ENDS: [&str; 3] = ["target-exit", "target-gone", "target-oom-kill"];
/// So many of the requests failed by bad news: the figures are of that.
const ERRORS_ONLY: f64 = 0.99;
/// How a message fails in whose place something else comes.
const OTHER_BYTES: [ErrorKind; 4] =
    [ErrorKind::CorruptedReply, ErrorKind::PaddedReply, ErrorKind::TruncatedReply, ErrorKind::WrongContent];
/// So many connections, by requests that ended, brought bytes that nobody had asked for.
const UNASKED: f64 = 0.01;
/// So many of the requests had not ended: they reach the 99th percentile.
const UNFINISHED: f64 = 0.01;

/// A target whose busiest thread waits for a CPU for so much of what it wants to run, on a machine that others use, is
/// measured beside them: a healthy thread on a shared machine waits for 4 %, beside one busy loop on its CPU for half.
const CROWDED_WAIT: f64 = 0.25;
/// Of the intervals in the second half of a run, so many with bytes of replies show that those were still coming; and so many there must be.
const COMING_ROWS: f64 = 0.75;
const COMING_ROWS_MIN: usize = 2;
/// So do bytes in one of the last two, where this half of the run has so large a part of them: on a busy machine they come in lumps.
const COMING_LAST: usize = 2;
const COMING_BYTES: f64 = 1.0 / 3.0;
/// Attempts for each request of an interval from which on retries are a storm.
const STORM_TIMES: f64 = 2.0;
/// So many of the failures must be connects that never came to be.
const NOT_CONNECTED_MIN: f64 = 0.95;
/// Fewer requests of others, or a smaller share of all, leave the figures what they are: a health check, a scrape.
const OTHERS_MIN: u64 = 20;
const OTHERS_SHARE_MIN: f64 = 0.1;
/// A thread that wants less of the time than this is not held up by much, whatever share of it.
const WANTED_MIN: f64 = 0.1;

/// The remarks on a run.
pub(crate) fn summary(facts: &Facts<'_>, expectations: &[Judgement], recoveries: &[Recovery]) -> Vec<Remark> {
    if facts.recording.capsule.why_no_load().is_some() {
        return Vec::new();
    }
    let remark = |id: &str, text: String| Remark { id: id.to_owned(), text };
    let mut all = Vec::new();
    match (still_coming(facts), never_answered(facts)) {
        (Some(coming), _) => all.push(remark("still-coming", coming.advice())),
        (None, Some(text)) => all.push(remark("never-answered", text)),
        (None, None) => match died(facts) {
            Some(text) => all.push(remark("target-died", text)),
            None => all.extend(away(facts).map(|text| remark("target-away", text))),
        },
    }
    all.extend(disrupted(facts, recoveries).map(|text| remark("disrupted", text)));
    all.extend(storm(facts).map(|text| remark("retry-storm", text)));
    all.extend(errors_only(facts).map(|text| remark("errors-only", text)));
    all.extend(unasked(facts).map(|text| remark("unsolicited-replies", text)));
    all.extend(spoke_first(facts).map(|text| remark("spoke-first", text)));
    all.extend(starved(facts).map(|text| remark("users-starved", text)));
    all.extend(unfinished(facts).map(|text| remark("unfinished", text)));
    all.extend(other_clients(facts).map(|text| remark("other-clients", text)));
    // What was not said to be expected need not be said where the reason is.
    let is_told = !all.is_empty();
    let not_met = expectations.iter().filter(|e| e.state == ExpectationState::NotMet && (e.is_stated || !is_told));
    all.extend(not_met.map(|e| remark("expectation-not-met", format!("expected {}, got {}", e.expected, e.got))));
    all.extend(crowded(facts).map(|text| remark("target-crowded", text)));
    all
}

/// What happened at a second of the run, for whom, how long until as before: of faults, and of what the target came back from by
/// itself. One that died for good is told as that.
fn disrupted(facts: &Facts<'_>, recoveries: &[Recovery]) -> Option<String> {
    let is_told = |recovery: &&Recovery| {
        let is_fault = recovery.fault.is_some() || recovery.name == "fault";
        is_fault || (recovery.first_success_s.is_some() && recovery.has_done_anything())
    };
    let told: Vec<&Recovery> = recoveries.iter().filter(is_told).collect();
    // The one that took most from the load.
    let lost = |recovery: &&&Recovery| (recovery.has_done_anything(), recovery.failed.requests, recovery.outages);
    let worst = told.iter().rev().max_by_key(lost)?;
    let more = match told.len() - 1 {
        0 => String::new(),
        1 => " (and one more disruption)".to_owned(),
        n => format!(" (and {n} more disruptions)"),
    };
    Some(format!("{}{more}", sentence(worst, facts.recording.plan.unit())))
}

/// Other clients put load on, too: what the target carries is more than this load's figures say. By the probes' windows, so not said of
/// several generators or loads of plimsoll, which are each other's others.
fn other_clients(facts: &Facts<'_>) -> Option<String> {
    // What it asks itself, as a gateway to its own port does, comes as others' requests do.
    let is_alone = facts.recording.capsule.generators.is_none()
        && facts.recording.capsule.together.is_none()
        && !facts.asks_itself();
    // The generator's own first request on a connection that is older than the probe counts as another's.
    let own_at_most = facts.counted("sockets.generator_ports").unwrap_or(0);
    let others = facts.counted("sockets.others_requests")?.saturating_sub(own_at_most);
    let all = facts.counted("sockets.requests")?.saturating_sub(own_at_most);
    let share = others as f64 / all.max(1) as f64;
    if !is_alone || others < OTHERS_MIN || share < OTHERS_SHARE_MIN {
        return None;
    }
    let own_per_s = facts.recording.totals.requests_per_s();
    Some(format!(
        "other clients put load on the target, too: {} of the requests that the probes saw there ({} of {}); these figures are of this load alone, \
         and the target answered about {}/s in all",
        percent(share),
        show_grouped(others),
        show_grouped(all),
        grouped(own_per_s / (1.0 - share).max(1.0 / all.max(1) as f64))
    ))
}

/// Retries made the load a multiple of what was meant, when the target could bear it least.
fn storm(facts: &Facts<'_>) -> Option<String> {
    // Where users wait for their retries, few requests are started: what was meant is then the usual load.
    let length_s = |row: &Row| row.end_ns.saturating_sub(row.start_ns) as f64 / 1e9;
    let usual = median(facts.rows.iter().map(|row| row.counts.started as f64 / length_s(row)).collect());
    let meant = |row: &Row| (row.counts.started as f64).max(usual * length_s(row)).max(1.0);
    let times = |row: &&&Row| row.counts.attempts() as f64 / meant(row);
    let worst = facts.rows.iter().filter(|row| row.counts.retries > 0).max_by(|a, b| times(a).total_cmp(&times(b)))?;
    let most = times(&worst);
    if most < STORM_TIMES {
        return None;
    }
    let (counts, at_s) = (&facts.recording.totals.sum.counts, worst.start_ns as f64 / 1e9);
    let whole = counts.attempts() as f64 / counts.started.max(1) as f64;
    let unit = facts.recording.plan.unit();
    Some(format!(
        "a retry storm: {} attempts for {} {unit}s at second {at_s:.1}, {} times what was meant ({} times over the run); a budget \
         (--retry-budget 10%), longer waits and jitter bound it",
        show_grouped(worst.counts.attempts()),
        grouped(meant(worst)),
        show_figure(most),
        show_figure(whole)
    ))
}

fn grouped(figure: f64) -> String {
    show_grouped(figure.max(0.0).round() as u64)
}

fn succeeded(row: &Row) -> f64 {
    row.counts.ok as f64 + row.counts.carried_ok as f64
}

/// The end of a target, for good.
pub(crate) struct Death<'f> {
    at_s: f64,
    /// What was seen of it; `None`: only that nobody took connections any more.
    event: Option<&'f Event>,
    /// Whether that is of the process that listened, or of an end that was none in order: a child that exits with code 0 tells little.
    is_told: bool,
    /// Whether all that listened and are gone ended in order.
    is_in_order: bool,
    /// Requests that succeeded a second until then.
    rate_per_s: f64,
}

impl Death<'_> {
    /// In words.
    pub(crate) fn said(&self) -> String {
        match self.event {
            Some(_) if self.is_in_order => format!("the target ended in order at second {:.1}", self.at_s),
            Some(_) => format!("the target died at second {:.1}", self.at_s),
            None => format!("nobody took connections from second {:.1} on", self.at_s),
        }
    }
}

impl<'f> Death<'f> {
    /// Whether the end itself was seen, not only that nobody took connections any more.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Of one that ended in order: who asked for it, or that nobody was seen to.
    pub(crate) fn why(&self, facts: &Facts<'f>) -> Option<String> {
        let event = self.event.filter(|_| self.is_in_order)?;
        let asked = asked_for(facts, event.at_ns).map(|event| event.text.clone());
        Some(asked.unwrap_or_else(|| "it exited with code 0, and nobody was seen to ask for it".to_owned()))
    }
}

fn died(facts: &Facts<'_>) -> Option<String> {
    let death = death(facts)?;
    let of = death.event.map(|event| format!(" ({})", event.text)).unwrap_or_default();
    let (rate, unit) = (grouped(death.rate_per_s), facts.recording.plan.unit());
    Some(format!("{}{of}: {rate} {unit}s/s succeeded until then, none after", death.said()))
}

/// The target stopped answering for good, and it is known why: it ended, or nobody was there any more. That one of its
/// processes ended is not enough: a server may make one for each connection.
pub(crate) fn death<'f>(facts: &Facts<'f>) -> Option<Death<'f>> {
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
    let gone = || ends.iter().filter(|event| event.kind == "target-gone");
    let bad = ends.iter().find(|event| is_bad_end(event));
    let is_in_order = bad.is_none()
        && gone().next().is_some()
        && gone().all(|event| deaths::is_in_order(facts.recording, event.details.pid));
    let is_told = bad.is_some() || gone().next().is_some();
    let is_gone = gone().next().is_some() || failed_since(until_ns, &LOST);
    // What the kernel said of its end tells more than that it is gone.
    let said = bad.or_else(|| ends.iter().find(|event| event.kind != "target-gone")).or(ends.first());
    let event = said.copied().filter(|_| is_gone && (!rest.is_empty() || failed_since(until_ns, &GONE)));
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
    let rate_per_s = if lived_ns > 0.0 { ok * 1e9 / lived_ns } else { 0.0 };
    Some(Death { at_s: at_ns as f64 / 1e9, event, is_told, is_in_order, rate_per_s })
}

/// Nobody took connections for long, and it is not known that nobody will any more: the longest time.
fn away(facts: &Facts<'_>) -> Option<String> {
    let mut longest: Option<(u64, u64)> = None;
    // Since when, and how many connections it was asked for meanwhile: where none is wanted, none is refused.
    let mut since: Option<(u64, u64)> = None;
    for row in &facts.rows {
        if !row.is_nobody_there() {
            since = None;
            continue;
        }
        let (from_ns, asked) = since.unwrap_or((row.start_ns, 0));
        let asked = asked.saturating_add(row.counts.connect_failed);
        since = Some((from_ns, asked));
        let for_ns = row.end_ns.saturating_sub(from_ns);
        if asked > 0 && for_ns >= GONE_NS && longest.is_none_or(|(from, to)| for_ns > to.saturating_sub(from)) {
            longest = Some((from_ns, row.end_ns));
        }
    }
    let (from_ns, to_ns) = longest?;
    let times = [from_ns, to_ns].map(|ns| ns as f64 / 1e9);
    Some(format!(
        "nobody took connections from second {:.1} to {:.1}: rates are over that time, too",
        times[0], times[1]
    ))
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

/// Replies that were still coming when the run ended, where none was whole by then.
pub(crate) struct StillComing {
    replies: u64,
    /// Requests that had none of theirs yet: one comes on a connection at a time.
    behind: u64,
    /// Bytes a second, of all together.
    rate: f64,
}

impl StillComing {
    /// In a sentence without an end.
    pub(crate) fn seen(&self) -> String {
        let coming = match self.replies {
            1 => "one was".to_owned(),
            replies => format!("{} were", show_grouped(replies)),
        };
        let behind = match self.behind {
            0 => String::new(),
            behind => format!(", and {} waited behind", show_grouped(behind)),
        };
        format!("no reply was whole when the run ended: {coming} still coming{behind}")
    }

    fn advice(&self) -> String {
        format!("{}, at {}/s in all: run longer (-d), or ask for something smaller", self.seen(), show_bytes(self.rate))
    }
}

/// Where bytes came to the end, and nothing failed: a reply that takes longer than the run is none that does not come.
pub(crate) fn still_coming(facts: &Facts<'_>) -> Option<StillComing> {
    let totals = &facts.recording.totals;
    let counts = &totals.sum.counts;
    let is_open = totals.in_flight_at_end > 0 && !matches!(facts.recording.plan.pace, Pace::Held { .. });
    if !is_open || counts.ok > 0 || counts.carried_ok > 0 || counts.failed > 0 {
        return None;
    }
    let later = facts.rows.get(facts.rows.len() / 2..).filter(|rows| rows.len() >= COMING_ROWS_MIN)?;
    let coming = later.iter().filter(|row| row.counts.bytes_received > 0).count();
    let sum = |rows: &[&Row]| rows.iter().map(|row| row.counts.bytes_received).fold(0, u64::saturating_add);
    let bytes = sum(later);
    let is_last = later.iter().rev().take(COMING_LAST).any(|row| row.counts.bytes_received > 0);
    let is_coming = coming as f64 >= COMING_ROWS * later.len() as f64
        || (is_last && bytes as f64 >= COMING_BYTES * sum(&facts.rows) as f64);
    let passed_ns: u64 = later.iter().map(|row| row.end_ns.saturating_sub(row.start_ns)).sum();
    let rate = bytes as f64 * 1e9 / passed_ns.max(1) as f64;
    let replies = totals.in_flight_at_end.min(u64::from(facts.recording.plan.connections.max(1)));
    is_coming.then_some(StillComing { replies, behind: totals.in_flight_at_end - replies, rate })
}

/// Of a run in which every request failed since what came was not what the protocol has: nothing of a load's makes that.
pub(crate) fn not_its_protocol(facts: &Facts<'_>) -> Option<String> {
    let totals = &facts.recording.totals;
    let counts = &totals.sum.counts;
    if counts.ok > 0 || counts.carried_ok > 0 || counts.failed == 0 {
        return None;
    }
    let is_all = |kind: ErrorKind| totals.sum.errors.of(kind) as f64 >= ERRORS_ONLY * counts.failed as f64;
    if is_all(ErrorKind::BadFraming) {
        let (failed, kind) = (show_grouped(counts.failed), ErrorKind::BadFraming.name());
        return Some(format!(
            "nothing that came was a reply of this protocol (all {failed} failed, {kind}): the target speaks another, or TLS"
        ));
    }
    if is_all(ErrorKind::TlsHandshake) {
        let told = facts.recording.events.iter().find(|event| event.kind == TLS_FAILED);
        let why = told.map_or(String::new(), |event| format!(": {}", event.text));
        return Some(format!("no TLS handshake was completed{why}"));
    }
    not_an_echo(facts)
}

/// The same where messages must come back as they went, and what came each time was something else.
fn not_an_echo(facts: &Facts<'_>) -> Option<String> {
    let instead = match facts.recording.plan.workload {
        Workload::Echo(_) | Workload::WebSocket(_) => "",
        Workload::Hold(_) => "; with --every never connections are held and nothing is sent",
        Workload::Http1(_) | Workload::Resp(_) | Workload::HoldWebSocket(_) => return None,
    };
    let sum = &facts.recording.totals.sum;
    let others = OTHER_BYTES.iter().map(|kind| (sum.errors.of(*kind), kind));
    let count = others.clone().fold(0, |all: u64, (count, _)| all.saturating_add(count));
    if (count as f64) < ERRORS_ONLY * sum.counts.failed as f64 {
        return None;
    }
    let (_, most) = others.max_by_key(|(count, _)| *count)?;
    let failed = show_grouped(sum.counts.failed);
    Some(format!(
        "nothing came back as it was sent (all {failed} failed, {}): the target is no echo server, or changes every message{instead}",
        most.name()
    ))
}

/// Of a run in which nothing connected: what most attempts came to, and where to look.
pub(crate) fn nothing_connected(facts: &Facts<'_>) -> String {
    let sum = &facts.recording.totals.sum;
    let attempts = |kind: ErrorKind| sum.errors.of(kind).saturating_add(sum.connection_errors.of(kind));
    let most = ErrorKind::ALL.iter().copied().filter(|kind| attempts(*kind) > 0).max_by_key(|kind| attempts(*kind));
    let mut addresses = facts.recording.plan.origins.iter().flat_map(|origin| &origin.addresses);
    let only = addresses.next().filter(|_| addresses.next().is_none());
    let why = most.and_then(|kind| why_not_connected(kind, only));
    let why = why.unwrap_or_else(|| match most {
        Some(kind) => format!("{}; what the target can do is not known", kind.name()),
        None => "what the target can do is not known".to_owned(),
    });
    format!("{NO_CONNECTION}: {why}")
}

/// Why no connect to an address comes to be, by how those fail, and what to look at; `None` is one of several.
fn why_not_connected(kind: ErrorKind, address: Option<&Address>) -> Option<String> {
    let where_to = match address {
        Some(Address::Unix(path)) => path.display().to_string(),
        Some(address) => address.to_string(),
        None => "the target".to_owned(),
    };
    let listeners = if matches!(address, Some(Address::Unix(_))) { "ss -lx" } else { "ss -ltn" };
    match kind {
        ErrorKind::Refused => Some(format!(
            "{where_to} refuses, as where nobody listens: does the server run, and at that address ({listeners})?"
        )),
        ErrorKind::ConnectTimeout => {
            Some(format!("{where_to} does not answer, as where a firewall drops packets or the machine is off"))
        }
        ErrorKind::NoSocket => Some(format!("there is no socket at {where_to}: does the server run ({listeners})?")),
        ErrorKind::Unreachable => Some(format!("no way leads to {where_to} from here (ip route get ADDRESS)")),
        _ => None,
    }
}

/// That one of several addresses cannot be connected to, and nearly all failures are that; `None`: they are something else.
pub(crate) fn one_not_connected(facts: &Facts<'_>, loss: &Loss) -> Option<String> {
    let recording = facts.recording;
    let errors = &recording.totals.sum.errors;
    let kind = GONE.into_iter().max_by_key(|kind| errors.of(*kind))?;
    if (errors.of(kind) as f64) < NOT_CONNECTED_MIN * recording.totals.sum.counts.failed as f64 {
        return None;
    }
    let at = |request: &Request| (request.origin, request.address);
    let failed: BTreeSet<(u16, u16)> = recording.requests.failed().map(at).collect();
    let good = || recording.requests.sampled().filter(|request| request.end == RequestEnd::Ok);
    let one = failed.first().filter(|one| failed.len() == 1 && good().all(|request| at(request) != **one))?;
    good().next()?;
    let address = recording.plan.origins.get(usize::from(one.0))?.addresses.get(usize::from(one.1))?;
    Some(format!("{}: {}", loss.text, why_not_connected(kind, Some(address))?))
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
    if facts.recording.totals.sum.counts.connected == 0 {
        let (count, kind, unit) = (show_grouped(count), kind.name(), facts.recording.plan.unit());
        return Some(format!(
            "no connection got as far as its first {unit}: each was refused as it was opened ({count} times, {kind})"
        ));
    }
    let protocol = facts.recording.plan.workload.protocol();
    let outcomes = match protocol.failure_replies() {
        Some(replies) if replies.kind == kind => protocol.failures_by_name(&facts.recording.totals.sum.outcomes),
        _ => Vec::new(),
    };
    let most = outcomes.into_iter().max_by_key(|outcome| outcome.count);
    let named = most.map_or(String::new(), |outcome| format!(", mostly {}", outcome.name));
    let all = if count as f64 >= facts.ended { "every reply" } else { "nearly every reply" };
    let (count, ended) = (show_grouped(count), grouped(facts.ended));
    Some(format!("{all} said failure ({count} of {ended}{named}): the figures are of errors"))
}

/// A reply that is whole by its own length is a good one; what comes behind it says that the length may be wrong.
fn unasked(facts: &Facts<'_>) -> Option<String> {
    let count = facts.recording.totals.sum.connection_errors.of(ErrorKind::UnsolicitedReply);
    if count == 0 || (count as f64) < UNASKED * facts.ended {
        return None;
    }
    Some(format!(
        "bytes that no request had asked for came on {} connections, behind a reply or between two ({} requests ended): the \
         lengths of replies may be wrong",
        show_grouped(count),
        grouped(facts.ended)
    ))
}

/// What a server says on a new connection is for whoever came with it: that it takes no more of them, or who it is.
fn spoke_first(facts: &Facts<'_>) -> Option<String> {
    let sum = &facts.recording.totals.sum;
    let count = sum.connection_errors.of(ErrorKind::SpokeFirst);
    if count == 0 || (count as f64) < UNASKED * facts.ended {
        return None;
    }
    let why = if sum.counts.ok > 0 {
        "while others were served: so a server turns away whom it has no room for"
    } else {
        "and none was served: is it a server of this protocol? Those of SSH, SMTP and MySQL speak first"
    };
    let count = show_grouped(count);
    Some(format!("the server spoke on {count} new connections before anything was asked on them, {why}"))
}

fn starved(facts: &Facts<'_>) -> Option<String> {
    let users = facts.recording.totals.users.filter(|users| users.starved > 0)?;
    Some(format!("{}: the figures are of the others", starved_users::words(&users)))
}

/// Others on its machine had the CPU that the target wanted. The generator's figures stand; they are not those of a server
/// that has the machine for itself.
fn crowded(facts: &Facts<'_>) -> Option<String> {
    let thread = facts.target_threads.first().filter(|_| !facts.is_target_elsewhere())?;
    let (run, wait) = thread.run.zip(thread.wait)?;
    let wanted = run + wait;
    let who = busy::neighbours(facts);
    if wanted < WANTED_MIN || wait < CROWDED_WAIT * wanted || who.is_empty() {
        return None;
    }
    let (busy, share) = (busy::sentence(&who), percent(wait / wanted));
    Some(format!("{busy}, and the target waited for a CPU {share} of the time it wanted to run"))
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
