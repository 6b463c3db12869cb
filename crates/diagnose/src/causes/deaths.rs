//! What the rules on ends of the target's processes have in common: which ended, how, and what the load lost by it.

use super::pauses::{joined, pauses};
use crate::evidence::{Client, Kernel, Piece, Process};
use crate::facts::{Facts, duration};
use crate::rule::{OfTarget, Verdict};
use model::ErrorKind;
use model::event::Event;
use model::recording::{Recording, Row};
use model::units::show_grouped;

/// Failures of a connection whose other end died, or is not there any more.
const LOST: [ErrorKind; 5] =
    [ErrorKind::Refused, ErrorKind::Reset, ErrorKind::ClosedEarly, ErrorKind::NoSocket, ErrorKind::ConnectFailed];

/// SIGKILL, signal(7).
pub(super) const SIGKILL: i32 = 9;
/// SIGPIPE, signal(7).
pub(super) const SIGPIPE: i32 = 13;
/// Findings that say of what a process was ended, and the signal that does it.
pub(crate) const NAMED: [(&str, i32); 2] = [("sigpipe-death", SIGPIPE), ("oom-kill", SIGKILL)];

/// The end of a process of the target by a signal, or with a code that is not 0, as the kernel's probe told it: the first.
pub(super) fn told<'f>(facts: &'f Facts<'_>) -> Option<&'f Event> {
    in_load(facts).find(|event| is_bad_end(event))
}

/// Whether an event is such an end.
pub(crate) fn is_bad_end(event: &Event) -> bool {
    let details = &event.details;
    event.kind == "target-exit" && (details.signal.is_some() || details.exit_code.is_some_and(|code| code != 0))
}

/// How a process of the target ended, in a sentence: by a signal or with a code that is not 0, or else that it is not there any more; the last. `None`: none
/// is known to have ended so. A server may go on without one of many.
pub fn target_ended(recording: &Recording) -> Option<&str> {
    let bad = recording.events.iter().rfind(|event| is_bad_end(event));
    let last = bad.or_else(|| recording.events.iter().rfind(|event| event.kind == "target-gone"))?;
    Some(&last.text)
}

/// A process of the target that was not there any more when it was looked at.
pub(super) fn gone<'f>(facts: &'f Facts<'_>) -> Option<&'f Event> {
    in_load(facts).find(|event| event.kind == "target-gone")
}

/// The same, and it is not known that it ended in order.
pub(super) fn gone_badly<'f>(facts: &'f Facts<'_>) -> Option<&'f Event> {
    in_load(facts).find(|event| event.kind == "target-gone" && !is_in_order(facts.recording, event.details.pid))
}

/// Whether the kernel's probe told of a process that it ended with code 0 and of no signal: a worker that was asked to, after a
/// reload or a drain, or a server that was stopped.
pub(crate) fn is_in_order(recording: &Recording, pid: Option<u32>) -> bool {
    pid.is_some() && recording.events.iter().any(|event| is_end_in_order(event) && event.details.pid == pid)
}

fn is_end_in_order(event: &Event) -> bool {
    event.kind == "target-exit" && event.details.signal.is_none() && event.details.exit_code == Some(0)
}

/// Processes that do the target's work and ended in order, one after the other within a short part of the load, as when they are replaced; and what it lost by that.
pub(super) struct Replaced<'f> {
    pub(super) ends: Vec<&'f Event>,
    pub(super) lost: Piece<Client>,
    pub(super) share: f64,
}

/// Such ends, where the load's lost connections are of that time, and requests succeeded after it: a server that makes a process for each
/// connection has ends all along.
pub(super) fn replaced<'f>(facts: &'f Facts<'_>) -> Option<Replaced<'f>> {
    /// Of the load, the part in which they all lie; and of what was lost, the part that was lost then.
    const WITHIN: f64 = 0.5;
    const THEN: f64 = 0.9;
    let ends = ends_of_workers(facts);
    let (first_ns, last_ns) = (ends.first()?.at_ns, ends.last()?.at_ns);
    let slack_ns = facts.recording.plan.tick_ns.saturating_mul(2);
    let at = |ns: i64| u64::try_from(ns).unwrap_or(0);
    let (from_ns, to_ns) = (at(first_ns).saturating_sub(slack_ns), at(last_ns).saturating_add(slack_ns));
    let load_ns = facts.end_ns.saturating_sub(facts.start_ns);
    let is_short = at(last_ns).saturating_sub(at(first_ns)) as f64 <= WITHIN * load_ns as f64;
    let failed = |row: &Row| row.counts.failed as f64;
    let all: f64 = facts.rows.iter().map(|row| failed(row)).sum();
    let then: f64 =
        facts.rows.iter().filter(|row| row.end_ns > from_ns && row.start_ns < to_ns).map(|row| failed(row)).sum();
    let is_served = facts.rows.iter().any(|row| row.start_ns >= at(last_ns) && row.counts.ok > 0);
    if !is_short || then < THEN * all || !is_served {
        return None;
    }
    let (lost, share) = lost_from(facts, first_ns)?;
    Some(Replaced { ends, lost, share })
}

/// The ends in order of processes named as those that do the target's work, in the order of time: a program that a worker started and waits for is
/// none of them.
fn ends_of_workers<'f>(facts: &'f Facts<'_>) -> Vec<&'f Event> {
    /// Whoever does the work runs for so much of what the busiest does.
    const WORKING_SHARE: f64 = 0.1;
    let busiest = facts.target_threads.iter().filter_map(|thread| thread.run).fold(0.0, f64::max);
    let works = |name: &str| {
        let is_so = |run: f64| busiest > 0.0 && run >= WORKING_SHARE * busiest;
        facts.target_threads.iter().any(|thread| thread.process == name && thread.run.is_some_and(is_so))
    };
    let is_workers = |event: &&Event| is_end_in_order(event) && event.details.process.as_deref().is_some_and(works);
    let mut ends: Vec<&Event> = in_load(facts).filter(is_workers).collect();
    ends.sort_by_key(|event| event.at_ns);
    ends
}

/// Workers that end in order and are replaced all along the load, where nobody is answered until another is ready: of servers that let each
/// answer so many requests and no more.
pub(crate) struct Recycled<'f> {
    /// The ends, in the order of time.
    pub(crate) ends: Vec<&'f Event>,
    /// The pauses in which one ended, nanoseconds of the run, in the order of time.
    pub(crate) spans: Vec<(u64, u64)>,
}

impl Recycled<'_> {
    /// Fewer pauses with an end are a reload.
    pub(super) const PAUSES_MIN: usize = 3;

    /// Whether that was in one of those pauses.
    pub(super) fn has(&self, event: &Event) -> bool {
        u64::try_from(event.at_ns).is_ok_and(|at_ns| {
            let next = self.spans.partition_point(|(from_ns, _)| *from_ns <= at_ns);
            next.checked_sub(1).is_some_and(|at| at_ns <= self.spans[at].1)
        })
    }

    /// Why other pauses are not to be looked for.
    pub(super) fn refutes(&self) -> Verdict<OfTarget> {
        Verdict::refuted("while nobody was answered processes of the target ended, and others took their place")
    }
}

/// Such workers. Nearly all of the pauses' time is of pauses in which one ended, and nearly all of them ended in a pause: a server that stands
/// still for another reason has pauses without an end, and one that makes a process for each connection has many more ends than pauses.
pub(crate) fn recycled<'f>(facts: &'f Facts<'_>) -> Option<Recycled<'f>> {
    const NEARLY_ALL: f64 = 0.8;
    /// Workers that end in one pause.
    const AT_ONCE: usize = 8;
    let ends = ends_of_workers(facts);
    if ends.is_empty() {
        return None;
    }
    let all = joined(pauses(facts)?.spans());
    let at = |end: &&Event| u64::try_from(end.at_ns).unwrap_or(0);
    let has_end = |(from_ns, to_ns): &&(u64, u64)| {
        ends.get(ends.partition_point(|end| at(end) < *from_ns)).is_some_and(|end| at(end) <= *to_ns)
    };
    let length = |spans: &[(u64, u64)]| spans.iter().map(|(from_ns, to_ns)| (to_ns - from_ns) as f64).sum::<f64>();
    let spans: Vec<(u64, u64)> = all.iter().filter(has_end).copied().collect();
    let recycled = Recycled { ends, spans };
    let within = recycled.ends.iter().filter(|end| recycled.has(end)).count();
    let is_so = recycled.spans.len() >= Recycled::PAUSES_MIN
        && length(&recycled.spans) >= NEARLY_ALL * length(&all)
        && within as f64 >= NEARLY_ALL * recycled.ends.len() as f64
        && recycled.ends.len() <= AT_ONCE * recycled.spans.len();
    is_so.then_some(recycled)
}

/// Workers that ended in order all along the load, in words: said beside what was lost and is not explained. `None` where they are few, or each
/// had a connection of its own.
pub(crate) fn ends_all_along(facts: &Facts<'_>) -> Option<String> {
    /// Fewer are a reload.
    const ENDS_MIN: usize = 3;
    /// From the first to the last end is so much of the load.
    const ALONG: f64 = 0.5;
    /// Where hardly more connections were opened than processes ended, each has its own.
    const CONNECTIONS: f64 = 2.0;
    let ends = ends_of_workers(facts);
    let (first, last) = (ends.first()?, ends.last()?);
    let along_ns = (last.at_ns - first.at_ns) as f64;
    let load_ns = facts.end_ns.saturating_sub(facts.start_ns) as f64;
    let opened = facts.recording.totals.sum.counts.connected as f64;
    if ends.len() < ENDS_MIN || along_ns < ALONG * load_ns || opened < CONNECTIONS * ends.len() as f64 {
        return None;
    }
    Some(format!(
        "meanwhile {} processes of the target ({}) ended in order, one every {}",
        ends.len(),
        first.details.process.as_deref().unwrap_or_default(),
        duration(along_ns / (ends.len() - 1) as f64)
    ))
}

/// The signal that asked for it, where the kernel's probe told of one that a server takes as such, from somebody: HUP, QUIT, TERM, USR1, USR2.
pub(crate) fn asked_for<'f>(facts: &'f Facts<'_>, before_ns: i64) -> Option<&'f Event> {
    const ASKING: [i32; 5] = [1, 3, 15, 10, 12];
    /// Servers let their old processes answer what they have for a while.
    const WITHIN_NS: i64 = 60_000_000_000;
    let is_one = |event: &&Event| {
        event.kind == "target-signal"
            && event.details.sender_pid.is_some()
            && event.details.signal.is_some_and(|signal| ASKING.contains(&signal))
            && (0..=WITHIN_NS).contains(&(before_ns - event.at_ns))
    };
    in_load(facts).filter(is_one).last()
}

/// Events from the start of the load to its end.
pub(super) fn in_load<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = &'f Event> {
    let end_ns = i64::try_from(facts.end_ns).unwrap_or(i64::MAX);
    facts.recording.events.iter().filter(move |event| event.at_ns >= 0 && event.at_ns < end_ns)
}

/// What the load lost from about a moment on: the failures that a dead peer makes, and how many.
pub(super) fn lost_from(facts: &Facts<'_>, at_ns: i64) -> Option<(Piece<Client>, f64)> {
    let tick_ns = i64::try_from(facts.recording.plan.tick_ns).unwrap_or(i64::MAX);
    let from_ns = at_ns.saturating_sub(tick_ns).saturating_sub(tick_ns);
    let is_then = |at_ns: u64| i64::try_from(at_ns).unwrap_or(i64::MAX) >= from_ns;
    let totals = &facts.recording.totals;
    let seen: Vec<(ErrorKind, u64)> =
        LOST.iter().map(|kind| (*kind, facts.errors(*kind))).filter(|s| s.1 > 0).collect();
    let then = totals.examples().any(|e| LOST.contains(&e.kind) && is_then(e.at_ns));
    let rows = facts.rows.iter().filter(|row| is_then(row.end_ns));
    let failed: f64 = rows.map(|row| row.counts.failed as f64 + row.counts.connect_failed as f64).sum();
    if seen.is_empty() || (!then && failed <= 0.0) {
        return None;
    }
    let lost: f64 = seen.iter().map(|(_, count)| *count as f64).sum();
    let waited = waited_in_vain(facts, at_ns, lost);
    let shown = |(kind, count): &(ErrorKind, u64)| format!("{} × {}", show_grouped(*count), kind.name());
    let words: Vec<String> = seen.iter().chain(waited.as_ref()).map(shown).collect();
    let text = format!("the load lost connections to it: {}", words.join(", "));
    let count = lost + waited.map_or(0.0, |(_, count)| count as f64);
    let share = (count / crate::ledger::failures(facts).max(1.0)).min(1.0);
    Some((facts.piece(text, "errors.lost_connections", count, "failures"), share))
}

/// Requests that waited for a connection while there was nobody to connect to: from a moment on until one succeeds. Of the failures
/// of that time `lost` have another name.
fn waited_in_vain(facts: &Facts<'_>, at_ns: i64, lost: f64) -> Option<(ErrorKind, u64)> {
    let at_ns = u64::try_from(at_ns).unwrap_or(0);
    let from = facts.rows.iter().skip_while(|row| row.end_ns <= at_ns);
    let until_back = from.take_while(|row| row.start_ns <= at_ns || row.counts.ok == 0);
    let failed: f64 = until_back.map(|row| row.counts.failed as f64).sum();
    let all = facts.errors(ErrorKind::QueueTimeout);
    let waited = all.min((failed - lost).max(0.0) as u64);
    (waited > 0).then_some((ErrorKind::QueueTimeout, waited))
}

/// What the kernel told of an end.
pub(super) fn kernel(facts: &Facts<'_>, event: &Event) -> Piece<Kernel> {
    let at_s = event.at_ns as f64 / 1e9;
    let text = format!("at second {at_s:.1} {}", event.text);
    facts.piece(text, "lifecycle.signal", event.details.signal.map(f64::from), "signal")
}

/// That it was not there any more.
pub(super) fn process(facts: &Facts<'_>, event: &Event) -> Piece<Process> {
    let at_s = event.at_ns as f64 / 1e9;
    facts.piece(format!("at second {at_s:.1} {}", event.text), "target.gone_s", at_s, "s")
}
