//! `backend-limited`: requests wait in the target for one of a few connections to a server that it asks.
//!
//! Evidence: (sockets) the target's own connections were as many in nearly every reading, two at least, and nearly all of them
//! owed a reply; (client) more requests were in the target than it has such connections, 1.5 for each and more. They had been
//! read: hardly one lay in a socket. By Little's law a connection was held for connections ÷ throughput, and the rest of a
//! request's time it waited for one. Refuted where connections come and go or stand idle; where requests lie unread, so a
//! worker is what they wait for (`pool-exhausted`, `single-thread-bound`); and where the target or the machine is full: more
//! connections would get no more out of it. Not observable where the backend is on the target's machine and a process beside the target
//! is full: it may be the backend (`backend-wait`); elsewhere that says nothing. One connection
//! may carry several requests at a time, so of one nothing is said. Source: Little's law; tcp_info (tcpi_unacked,
//! tcpi_last_data_sent).

use crate::evidence::{Client, Sockets};
use crate::facts::{Asked, Facts, NeighbourUse, duration, percent};
use crate::history::Subject;
use crate::ledger::in_target_ns;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, SLOTS_BUSY, SLOTS_CONSTANT, SLOTS_LINE, SLOTS_UNREAD};
use model::finding::{LossKind, Severity};
use std::net::SocketAddr;

const READINGS_MIN: usize = 3;
/// Of the most connections that there were, so many are as many: one may be made anew at the moment of a reading.
const AS_MANY: f64 = 0.8;
/// One connection may carry several requests at a time.
const CONNECTIONS_MIN: u64 = 2;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "backend-limited",
    needs: Needs::Connections,
    reads: &[&["network/outgoing"], &["network/connections"]],
    judge,
};

/// The connections for which requests may stand in line.
struct Slots<'f> {
    /// To whom most of them are.
    remote: &'f str,
    /// To how many they are.
    remotes: usize,
    /// Whether one of them is on the target's own machine.
    is_here: bool,
    /// The most there were.
    most: u64,
    /// The share of readings with about as many.
    constant: f64,
    /// The share of them on which a reply was due.
    busy: f64,
}

impl<'f> Slots<'f> {
    /// Of backends that owed a reply in half of the readings and more.
    fn of(all: &'f [Asked<'f>]) -> Option<Self> {
        let busy: Vec<&Asked<'_>> = all.iter().filter(|asked| asked.due_share() >= 0.5).collect();
        let first = busy.first()?;
        let open: Vec<u64> = (0..first.open.len())
            .map(|reading| {
                busy.iter().filter_map(|asked| asked.open.get(reading)).fold(0, |a, b| u64::saturating_add(a, *b))
            })
            .collect();
        let most = open.iter().copied().max()?;
        let as_many = open.iter().filter(|count| **count as f64 >= AS_MANY * most as f64).count();
        let due: f64 = busy.iter().map(|asked| asked.due_mean()).sum();
        let held: f64 = busy.iter().map(|asked| asked.open_mean()).sum();
        Some(Slots {
            remote: first.remote,
            remotes: busy.len(),
            is_here: busy.iter().any(|asked| is_loopback(asked.remote)),
            most,
            constant: as_many as f64 / open.len() as f64,
            busy: if held > 0.0 { (due / held).min(1.0) } else { 0.0 },
        })
    }

    /// To whom, in words.
    fn to_whom(&self) -> String {
        match self.remotes {
            1 => self.remote.to_owned(),
            more => format!("{more} servers, {} among them", self.remote),
        }
    }
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(all) = facts.asked(READINGS_MIN) else {
        return Verdict::not_observable(
            "connections to backends",
            "fewer than three readings of the target's own connections",
        );
    };
    if all.is_empty() {
        return Verdict::not_applicable("the target made no connection of its own");
    }
    let Some(slots) = Slots::of(&all) else {
        return Verdict::refuted("hardly a reply was due to the target when it was looked at");
    };
    let (whom, most) = (slots.to_whom(), slots.most);
    let text = format!(
        "it had {most} connections to {whom}, as many in {} of the readings, and a reply was due on {} of them",
        percent(slots.constant),
        percent(slots.busy)
    );
    let sockets = facts.piece::<Sockets>(text, "outgoing.busy_share", slots.busy, "ratio").from(SLOTS_BUSY.value);
    if slots.constant < SLOTS_CONSTANT.value || slots.busy < SLOTS_BUSY.value {
        return Verdict::refuted("the target's connections to backends came and went, or stood idle")
            .because(sockets.into());
    }
    let Some(in_ns) = in_target_ns(facts) else {
        return Verdict::not_observable("requests in line", "no request succeeded").because(sockets.into());
    };
    let rate = facts.recording.totals.requests_per_s();
    let under_way = rate * in_ns / 1e9;
    let line = under_way / most.max(1) as f64;
    let held_ns = most as f64 * 1e9 / rate.max(f64::MIN_POSITIVE);
    let text = format!(
        "{under_way:.0} requests were in the target at a time, {line:.1} for each of those connections: {} each, of which a \
         connection was held for {}",
        duration(in_ns),
        duration(held_ns.min(in_ns))
    );
    let client = facts.piece::<Client>(text, "target.requests_a_slot", line, "ratio").from(SLOTS_LINE.value);
    if line < SLOTS_LINE.value {
        return Verdict::refuted("there was a connection to the backend for nearly each request")
            .because(sockets.into())
            .because(client.into());
    }
    if most < CONNECTIONS_MIN {
        return Verdict::not_observable("requests in line", "one connection may carry several requests at a time")
            .because(sockets.into())
            .because(client.into());
    }
    let unread =
        facts.level(Subject::Network, "receive_queue_connections").map_or(0.0, |level| level.mean) + waiting(facts);
    if unread > SLOTS_UNREAD.value * (under_way - most as f64) {
        let text = format!("{unread:.0} requests lay in sockets that the target had not read");
        let against = facts.piece::<Sockets>(text, "receive_queue_connections", unread, "connections");
        return Verdict::refuted("requests wait to be read: for a worker of the target").because(against.into());
    }
    if facts.busiest_demand().is_none_or(|demand| demand >= DEMAND_FULL.value) {
        return Verdict::refuted("the target is full, or its threads were not read").because(sockets.into());
    }
    if facts.host.is_some_and(|host| host.is_full()) {
        return Verdict::refuted("the machine is full: more connections would get no more out of it")
            .because(sockets.into());
    }
    // Only of a backend on the target's own machine somebody beside the target can be it.
    if slots.is_here
        && let Some(other) = full_beside(facts)
    {
        let text = format!("{} (pid {}) used {:.2} cores meanwhile", other.name, other.pid, other.cores);
        let against = facts.evidence(text, "neighbours.cores", other.cores, "cores");
        return Verdict::not_observable(
            "whether the backend itself is full",
            "a process beside the target used a whole core: where that is the backend, more connections would get no more out of it",
        )
        .because(sockets.into())
        .although(against);
    }
    let in_line = (1.0 - 1.0 / line).clamp(0.0, 1.0);
    let title = format!("requests wait in the target for one of its {most} connections to {whom}");
    Verdict::proved(Severity::Error, title, sockets, client)
        .explains(LossKind::Waiting, in_line, in_line * 0.8, (in_line * 1.1).min(1.0))
        .remedy(format!("Let the target have more connections to {whom} (its pool, maxconn, max connections per host), as many as requests a second × the time of one there; then look at that time"))
        .check(format!("watch -n1 \"ss -tn state established dst {} | wc -l\" # the number stays, whatever the load", slots.remote))
        .confidence(0.85)
}

/// Connections that waited to be accepted, on average.
fn waiting(facts: &Facts<'_>) -> f64 {
    let readings: Vec<f64> =
        facts.snapshots().map(|s| s.listeners.iter().map(|listener| f64::from(listener.waiting)).sum()).collect();
    readings.iter().sum::<f64>() / readings.len().max(1) as f64
}

/// The neighbour of the target that may be a backend that is full: one that uses a whole core. Where it is known which of them are
/// backends, one of those.
fn full_beside<'f>(facts: &'f Facts<'_>) -> Option<&'f NeighbourUse<'f>> {
    let is_known = facts.neighbours.iter().any(|other| other.is_backend);
    // Those that were read are the generator's machine's.
    let may_be = |other: &&NeighbourUse<'_>| other.is_backend || (!is_known && !other.is_generator);
    let mut others = facts.neighbours.iter().filter(may_be);
    others.next().filter(|other| !facts.is_target_elsewhere() && other.cores >= DEMAND_FULL.value)
}

/// Whether an address is one of the target's own machine, as far as the address itself tells.
pub(super) fn is_loopback(remote: &str) -> bool {
    let is_unix = Asked { remote, ..Asked::default() }.is_unix();
    is_unix || remote.parse::<SocketAddr>().is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

/// How much of a request's time in the target it had a connection to its backend, where requests wait for one; `None`: they do not.
pub(crate) fn share_at_backend(facts: &Facts<'_>) -> Option<f64> {
    let verdict = judge(facts);
    verdict.is_supported().then(|| 1.0 - verdict.explained().unwrap_or(1.0))
}
