//! `connection-limit`: the target serves so many connections and no more: further ones are closed at once, or refused by a
//! reply.
//!
//! Evidence: (client) failures fall on the first request of new connections, while some connections go on well; (sockets)
//! the connections established at the target were fewer than asked for on average. Refuted where
//! failures fall on any request, where the queue of the listener overflows or descriptors are at their limit (those have
//! names of their own), where a process ended, or where as many were established as asked for. Needs twenty failures.

use super::{deaths, oom_kill};
use crate::evidence::{Client, Sockets};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use model::finding::{LossKind, Severity};
use model::request::RequestEnd;
use std::collections::BTreeSet;

const FAILED_MIN: usize = 20;
/// A client that is turned away by a reply may have sent a second request by then.
const FIRST_ORDINAL: u32 = 2;
/// So much of what was asked for is all of it: those that are turned away come again at once.
const HELD_MAX: f64 = 0.9;
/// So many of the failures must be of first requests.
const FIRST_MIN: f64 = 0.9;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "connection-limit",
    needs: Needs::Connections,
    reads: &[&["network/connections"], &["process/files"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let failed: Vec<_> = facts.recording.requests.failed().filter(|r| matches!(r.end, RequestEnd::Failed(_))).collect();
    if failed.len() < FAILED_MIN {
        return Verdict::refuted("hardly a request failed");
    }
    if deaths::told(facts).is_some() || deaths::gone(facts).is_some() || oom_kill::killed(facts).is_some() {
        return Verdict::refuted("a process of the target ended: nobody was there for new connections");
    }
    let first = failed.iter().filter(|request| request.ordinal <= FIRST_ORDINAL).count() as f64 / failed.len() as f64;
    let text = format!("{} of the failures were of the first requests on a new connection", percent(first));
    let client = facts.piece::<Client>(text, "failed.first_share", first, "ratio").from(FIRST_MIN);
    if first < FIRST_MIN {
        return Verdict::refuted("requests failed on connections that had been served").because(client.into());
    }
    let well: BTreeSet<(u16, u32)> = facts
        .recording
        .requests
        .sampled()
        .filter(|request| request.end == RequestEnd::Ok && request.ordinal > FIRST_ORDINAL)
        .map(|request| (request.worker, request.connection))
        .collect();
    if well.is_empty() {
        return Verdict::refuted("no connection was served for longer than a request").because(client.into());
    }
    if facts.grown(Subject::Network, "listen_overflows").unwrap_or(0.0) >= 1.0 {
        return Verdict::refuted("the listener's queue overflowed").because(client.into());
    }
    let Some(held) = facts.level(Subject::Network, "connections_looked_at") else {
        return Verdict::not_observable("connections at the target", "the target's connections were not read");
    };
    let asked = u64::from(facts.recording.plan.connections);
    let text = format!("{:.0} connections were established at the target on average, of {asked} asked for", held.mean);
    let sockets =
        facts.piece::<Sockets>(text, "connections_looked_at", held.mean, "connections").from(HELD_MAX * asked as f64);
    if held.mean >= HELD_MAX * asked as f64 || held.max == 0 {
        return Verdict::refuted("the target held all connections").because(client.into()).because(sockets.into());
    }
    let title = format!("the target serves {} connections and turns further ones away", well.len());
    Verdict::proved(Severity::Error, title, client, sockets)
        .explains(LossKind::Failed, first, first * 0.9, 1.0)
        .remedy("Raise its maximum of connections (maxclients, max_connections, workers), or let clients share fewer connections")
        .check("ss -tn state established '( sport = :PORT )' | wc -l, while one client more tries")
        .confidence(0.85)
}
