//! How much of a loss is what a cause makes of it, counted: of the failures those of the kinds that it makes, of the connections that
//! starved those that it leaves out, of the slow requests' time what its delays are. A rule states no share that is not counted so, or
//! measured by itself.

use crate::evidence::{Client, Piece};
use crate::facts::{Facts, taken_ns};
use crate::thresholds::SLOW_TIME;
use model::finding::LossKind;
use model::request::{Request, RequestEnd};
use model::{ErrorKind, Snapshot};

/// What fails where nobody answers, or nobody takes connections: no reply in time, or no connection for it in time.
pub(super) const UNANSWERED: [ErrorKind; 3] =
    [ErrorKind::ReplyTimeout, ErrorKind::ConnectTimeout, ErrorKind::QueueTimeout];
/// What fails of those that are not let in.
const NOT_LET_IN: [ErrorKind; 2] = [ErrorKind::ConnectTimeout, ErrorKind::QueueTimeout];
/// And where the kernel has made the connection, and nobody takes it: the client sends its first request, and gets nothing.
const NOT_TAKEN: [ErrorKind; 3] = [ErrorKind::ReplyTimeout, ErrorKind::Reset, ErrorKind::ClosedEarly];

/// Of the failures by the target's doing, and of the requests that had no end, those that had no answer from a moment on (nanoseconds
/// since the run's start), 0..=1.
pub(super) fn unanswered_since(facts: &Facts<'_>, since_ns: u64) -> f64 {
    let before = facts.rows.iter().filter(|row| row.end_ns <= since_ns).map(|row| row.failed_unanswered as f64).sum();
    of_failures(facts, &UNANSWERED, before, facts.recording.totals.in_flight_at_end as f64)
}

/// Of the failures by the target's doing those of some kinds, 0..=1.
pub(super) fn failed_by(facts: &Facts<'_>, kinds: &[ErrorKind]) -> f64 {
    of_failures(facts, kinds, 0.0, 0.0)
}

fn of_failures(facts: &Facts<'_>, kinds: &[ErrorKind], others: f64, unfinished: f64) -> f64 {
    let count = kinds.iter().map(|kind| facts.errors(*kind)).fold(0, u64::saturating_add) as f64;
    let all = crate::ledger::failures(facts) + unfinished;
    if all > 0.0 { (((count - others).max(0.0) + unfinished) / all).min(1.0) } else { 0.0 }
}

/// Of the failures those of requests whose connection was not made, or made and never taken, 0..=1: by what is kept of single ones.
pub(super) fn not_taken(facts: &Facts<'_>) -> f64 {
    let (mut its_own, mut all) = (0.0, 0.0);
    for request in facts.recording.requests.failed() {
        let RequestEnd::Failed(kind) = request.end else { continue };
        let is_first = request.ordinal <= 1 && request.first_byte_ns == 0;
        all += 1.0;
        its_own += f64::from(u8::from(NOT_LET_IN.contains(&kind) || (is_first && NOT_TAKEN.contains(&kind))));
    }
    // An attempt to connect that was no request's is kept nowhere, and counted.
    if all > 0.0 { its_own / all } else { failed_by(facts, &NOT_LET_IN) }
}

/// That some requests were slow, beside others of their kind.
pub(super) fn slow_requests(facts: &Facts<'_>) -> Piece<Client> {
    let slow_time = facts.kinds.slow_time.unwrap_or(0.0);
    let text = crate::ledger::slow_in_words(facts, slow_time);
    facts.piece::<Client>(text, "slow.time_share", slow_time, "ratio").from(SLOW_TIME.value)
}

/// Of the connections that starved those that no reply ever came on, or as many as waited at the listener, 0..=1; `None` where none starved, or
/// all that did were taken, and hardly answered.
pub(super) fn never_taken(facts: &Facts<'_>) -> Option<f64> {
    let users = facts.recording.totals.users.filter(|users| users.starved > 0)?;
    let listening = |snapshot: &Snapshot| snapshot.listeners.iter().map(|one| u64::from(one.waiting)).sum::<u64>();
    let waiting = facts.snapshots().map(listening).max().unwrap_or(0);
    Some((users.never_served.max(waiting) as f64 / users.starved as f64).min(1.0)).filter(|share| *share > 0.0)
}

/// Of the time of requests that some part of each is, 0..=1: of the slow ones' time beyond what others of their kind take, or of all
/// requests' time where all of them wait. `part` says of a request how much of its time that is, nanoseconds.
pub(super) fn of_time(facts: &Facts<'_>, part: impl Fn(&Request) -> f64) -> (LossKind, f64) {
    let losses = crate::ledger::losses(facts);
    let is = |kind: LossKind| losses.iter().any(|loss| loss.kind == kind);
    let is_waiting = is(LossKind::Waiting) && !is(LossKind::Slow);
    let (mut of_it, mut all) = (0.0, 0.0);
    for (weight, request) in facts.recording.requests.weighted() {
        let whole_ns = match is_waiting {
            true => Some(taken_ns(request)),
            false => facts.kinds.excess_ns(request),
        };
        let Some(whole_ns) = whole_ns else { continue };
        all += weight * whole_ns;
        of_it += weight * part(request).min(whole_ns);
    }
    let kind = if is_waiting { LossKind::Waiting } else { LossKind::Slow };
    (kind, if all > 0.0 { of_it / all } else { 0.0 })
}
