//! `connection-limit`: the target serves so many connections and no more: further ones are closed at once, refused by a
//! reply, or left in the queue of its listener.
//!
//! Evidence where they are turned away: (client) failures fall on new connections, which the server speaks on before anything
//! was asked or whose first request fails, while some connections go on well; (sockets) fewer connections were established and accepted at
//! the target than asked for, by the median of the readings, or (process) it never had descriptors open for all of them. Refuted
//! where failures fall on any request, where the queue of the listener overflows or descriptors are at their limit (those have names
//! of their own), where a process ended, or where as many were established and accepted as asked for. Needs twenty failures. A target that closes
//! connections without a request to make room for new ones (nginx, where its `worker_connections` are used up) loses now and then a request that is on its way:
//! then most failures are of new connections, it closes nearly all that were made, and both pieces about it are needed.
//!
//! Evidence where they are left waiting: (client) some connections never got a reply while others were served; (sockets) some
//! waited to be accepted in nearly every reading, while those that had been accepted stayed as many. A target that accepts
//! slowly has more of them at each reading. So it is for any maximum of connections, and for workers that each stay with one
//! (measured: Apache's prefork with four processes, lighttpd's and HAProxy's maximum of connections).

use super::{deaths, oom_kill};
use crate::evidence::{Client, Process, Sockets};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::ErrorKind;
use model::finding::{LossKind, Severity};
use model::request::{Request, RequestEnd};
use model::snapshot::{Role, Snapshot};
use model::units::show_grouped;
use model::users::Users;
use std::collections::BTreeSet;

const FAILED_MIN: u64 = 20;
/// A client that is turned away by a reply may have sent a second request by then.
const FIRST_ORDINAL: u32 = 2;
/// So much of what was asked for is all of it: those that are turned away come again at once.
const HELD_MAX: f64 = 0.9;
/// So many of the failures must be of first requests.
const FIRST_MIN: f64 = 0.9;
/// The same where the target closes those that ask nothing, too; and so many of all that were made it must have closed.
const FIRST_MIN_MADE_ROOM: f64 = 0.5;
const CLOSED_MIN: f64 = 0.9;
/// Of those left waiting: so many readings must show some in the listener's queue.
const WAITING_READINGS: f64 = 0.9;
const READINGS_MIN: usize = 4;
/// By so much of the most, or by one, those that were accepted may change and stay as many.
const AS_MANY: f64 = 0.1;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "connection-limit",
    needs: Needs::Connections,
    reads: &[&["network/connections"], &["process/files"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    if let Some(verdict) = left_waiting(facts) {
        return verdict;
    }
    let failed: Vec<_> = facts.recording.requests.failed().filter(|r| matches!(r.end, RequestEnd::Failed(_))).collect();
    // Of clients that had nothing to ask yet no request fails.
    let turned_away = facts.recording.totals.sum.connection_errors.of(ErrorKind::SpokeFirst);
    if failed.len() as u64 + turned_away < FAILED_MIN {
        return Verdict::refuted("hardly a request failed");
    }
    if deaths::told(facts).is_some() || deaths::gone(facts).is_some() || oom_kill::killed(facts).is_some() {
        return Verdict::refuted("a process of the target ended: nobody was there for new connections");
    }
    let refused = failed.iter().filter(|request| request.end == RequestEnd::Failed(ErrorKind::Refused)).count();
    if 2 * refused > failed.len() {
        return Verdict::refuted("connects were refused: nobody listened there, so nobody counted connections");
    }
    let first = failed.iter().filter(|request| request.ordinal <= FIRST_ORDINAL).count() as f64;
    let of_failed = if failed.is_empty() { 0.0 } else { first / failed.len() as f64 };
    // The requests are a sample of those that failed, the connections are all.
    let requests = (crate::ledger::failures(facts) - turned_away as f64).max(failed.len() as f64);
    let first = (of_failed * requests + turned_away as f64) / (requests + turned_away as f64);
    let text = match turned_away {
        0 => format!("{} of the failures were of the first requests on a new connection", percent(first)),
        n => format!(
            "{} of the failures were on new connections: on {} of them the server spoke before anything was asked",
            percent(first),
            show_grouped(n)
        ),
    };
    // Who is closed to make room fails, too, where its request was on its way.
    let connections = &facts.recording.totals.sum.counts;
    let makes_room = connections.closed_by_peer as f64 >= CLOSED_MIN * connections.connected as f64;
    let first_min = if makes_room { FIRST_MIN_MADE_ROOM } else { FIRST_MIN };
    let client = facts.piece::<Client>(text, "failed.first_share", first, "ratio").from(first_min);
    if first < first_min {
        return Verdict::refuted("requests failed on connections that had been served").because(client.into());
    }
    // Of another address: its connections say nothing of this one's.
    let at: BTreeSet<(u16, u16)> = failed.iter().map(|request| (request.origin, request.address)).collect();
    let is_there = |request: &Request| at.is_empty() || at.contains(&(request.origin, request.address));
    let well: BTreeSet<(u16, u32)> = facts
        .recording
        .requests
        .sampled()
        .filter(|request| request.end == RequestEnd::Ok && request.ordinal > FIRST_ORDINAL && is_there(request))
        .map(|request| (request.worker, request.connection))
        .collect();
    if well.is_empty() {
        return Verdict::refuted("no connection was served for longer than a request").because(client.into());
    }
    if facts.grown(Subject::Network, "listen_overflows").unwrap_or(0.0) >= 1.0 {
        return Verdict::refuted("the listener's queue overflowed").because(client.into());
    }
    // Who waits to be accepted is established as well, and not held: of a target that is busy for long those that come again are there.
    let accepted = |s: &Snapshot| Some(s.network.of("connections_looked_at")?.saturating_sub(waiting(s)));
    let mut held: Vec<u64> = facts.snapshots().filter_map(accepted).collect();
    held.sort_unstable();
    // The median: the first reading may be made before they come, and who is turned away is there for a moment.
    let Some(usual) = held.get(held.len() / 2).map(|usual| *usual as f64) else {
        return Verdict::not_observable("connections at the target", "the target's connections were not read");
    };
    let asked = u64::from(facts.recording.plan.connections);
    let text = format!(
        "{usual} connections were established and accepted at the target (the median of {} readings), of {asked} asked for",
        held.len()
    );
    let sockets =
        facts.piece::<Sockets>(text, "connections_looked_at", usual, "connections").from(HELD_MAX * asked as f64);
    // Where hundreds of thousands are turned away and come again, those that are on their way are many at any moment.
    let process = descriptors(facts).filter(|open| *open <= asked).map(|open| {
        let text =
            format!("the target never had more than {open} descriptors open, for {asked} connections and its own");
        facts.piece::<Process>(text, "target.descriptors", open as f64, "descriptors").from(asked as f64)
    });
    let is_held = usual >= HELD_MAX * asked as f64;
    if usual < 1.0 || (is_held && process.is_none()) {
        return Verdict::refuted("the target held all connections").because(client.into()).because(sockets.into());
    }
    if first < FIRST_MIN && (is_held || process.is_none()) {
        return Verdict::refuted("requests failed on connections that had been served, too")
            .because(client.into())
            .because(sockets.into());
    }
    // Those that are left without a reply fail by their time limit, those that are turned away by what comes.
    let is_late =
        |end: RequestEnd| matches!(end, RequestEnd::Failed(ErrorKind::ReplyTimeout | ErrorKind::ConnectTimeout));
    let late = failed.iter().filter(|request| is_late(request.end)).count();
    let does = if 2 * late as u64 > failed.len() as u64 + turned_away {
        "leaves further ones without a reply"
    } else {
        "turns further ones away"
    };
    // Those that it closes to make room take turns, so that more of them are served than there is room for.
    let (served, share) = if first >= FIRST_MIN { (well.len(), first) } else { (usual as usize, 1.0) };
    let title = format!("the target serves {served} connections and {does}");
    let verdict = match process.filter(|_| is_held) {
        Some(process) => Verdict::proved(Severity::Error, title, client, process),
        None => Verdict::proved(Severity::Error, title, client, sockets),
    };
    verdict
        .explains(LossKind::Failed, share, first * 0.9, 1.0)
        .remedy("Raise its maximum of connections (maxclients, max_connections, workers), or let clients share fewer connections")
        .check("ss -tn state established '( sport = :PORT )' | wc -l # while one client more tries")
        .confidence(0.85)
}

/// The most descriptors that the target's processes had open together: no more connections can it have held. `None`: not all were read.
fn descriptors(facts: &Facts<'_>) -> Option<u64> {
    let of = |(id, _)| facts.level(Subject::Process(id), "descriptors").map(|level| level.max);
    let all: Option<Vec<u64>> = facts.history.processes(Role::Target).map(of).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.into_iter().fold(0, u64::saturating_add))
}

/// What the target's listeners and connections were in a reading: waiting to be accepted, and accepted.
struct Reading {
    waiting: u64,
    accepted: u64,
}

/// Where the target stopped accepting, and those beyond wait in its listener's queue; `None`: not so.
fn left_waiting(facts: &Facts<'_>) -> Option<Verdict<OfTarget>> {
    let users: Users = facts.recording.totals.users.filter(|users| users.never_served > 0)?;
    let served = users.connections.saturating_sub(users.never_served);
    let readings: Vec<Reading> = facts.snapshots().filter_map(reading).collect();
    // The first may be made while connections still come.
    let readings = readings.get(1..).filter(|readings| readings.len() >= READINGS_MIN)?;
    let waited = readings.iter().filter(|reading| reading.waiting > 0).count() as f64 / readings.len() as f64;
    let most = readings.iter().map(|reading| reading.accepted).max()?;
    let least = readings.iter().map(|reading| reading.accepted).min()?;
    let is_constant = most.saturating_sub(least) as f64 <= (AS_MANY * most as f64).max(1.0);
    if served == 0 || most == 0 || waited < WAITING_READINGS || !is_constant {
        return None;
    }
    let mut waiting: Vec<u64> = readings.iter().map(|reading| reading.waiting).collect();
    waiting.sort_unstable();
    let usual = waiting[waiting.len() / 2];
    let text = format!(
        "{usual} connections waited to be accepted in {} of the readings, while it had accepted {most} and took no more",
        percent(waited)
    );
    let sockets = facts.piece::<Sockets>(text, "listeners.waiting", usual as f64, "connections").from(1.0);
    let text =
        format!("{} of {} connections never got a reply, and {served} did", users.never_served, users.connections);
    let client = facts.piece::<Client>(text, "users.never_served", users.never_served as f64, "connections").from(1.0);
    let title =
        format!("the target serves {most} connections at a time and leaves {usual} more waiting to be accepted");
    let share = (users.never_served as f64 / users.starved.max(users.never_served) as f64).min(0.95);
    Some(
        Verdict::proved(Severity::Error, title, client, sockets)
            .explains(LossKind::Starved, share, share * 0.8, 1.0)
            .remedy("Raise how many connections it serves at a time (its maximum of connections, or its workers where each stays with one), close idle ones sooner, or let clients share fewer connections")
            .check("ss -tn state established '( sport = :PORT )' | wc -l; ss -ltn 'sport = :PORT' # its Recv-Q stays above 0")
            .confidence(0.9),
    )
}

fn reading(snapshot: &Snapshot) -> Option<Reading> {
    let established = snapshot.network.of("connections_looked_at")?;
    // Whoever gave up while waiting is in the queue still.
    let left = snapshot.network.of("connections_close_wait").unwrap_or(0);
    let waiting = waiting(snapshot);
    Some(Reading { waiting, accepted: established.saturating_add(left).saturating_sub(waiting) })
}

/// Connections that wait to be accepted by the target.
fn waiting(snapshot: &Snapshot) -> u64 {
    snapshot.listeners.iter().map(|listener| u64::from(listener.waiting)).fold(0, u64::saturating_add)
}
