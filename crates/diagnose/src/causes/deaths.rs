//! What the rules on ends of the target's processes have in common: which ended, how, and what the load lost by it.

use crate::evidence::{Client, Kernel, Piece, Process};
use crate::facts::Facts;
use model::ErrorKind;
use model::event::Event;
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
    let is_bad = |event: &&Event| {
        let details = &event.details;
        event.kind == "target-exit" && (details.signal.is_some() || details.exit_code.is_some_and(|code| code != 0))
    };
    in_load(facts).find(is_bad)
}

/// A process of the target that was not there any more when it was looked at.
pub(super) fn gone<'f>(facts: &'f Facts<'_>) -> Option<&'f Event> {
    in_load(facts).find(|event| event.kind == "target-gone")
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
