//! `accept-imbalance`: of several listeners of one address, among which the kernel shares connections out evenly, one is slow to
//! accept and has them all waiting.
//!
//! Evidence: (sockets) the target listens with several sockets on one address (SO_REUSEPORT), and of all connections that
//! waited to be accepted nearly all waited at the same one of them, in most readings in which any did; (client) some requests were
//! slow, and the usual one was not. Refuted with one listener, where hardly a connection waited, and where they wait at all of
//! them (the target is slow to accept as a whole). What only the kept connections of a worker suffer is not seen at its listener.
//! Source: socket(7), SO_REUSEPORT: the kernel chooses by a hash of the addresses, whatever waits there already.

use crate::evidence::Sockets;
use crate::facts::{Facts, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{ONE_LISTENER, SLOW_TIME};
use model::finding::{LossKind, Severity};
use std::collections::BTreeMap;

/// In so many readings connections must have waited.
const READINGS_MIN: usize = 4;
/// So many must have waited on average then: measured 3.6 of sixteen clients, at the slow one of four, and none at the others.
const WAITING_MIN: f64 = 2.0;
/// In so many of them it must have been the same socket that had nearly all.
const LEADS_MIN: f64 = 0.75;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "accept-imbalance", needs: Needs::Connections, reads: &[&["network/listeners"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    // By address, in each reading the waiting ones of each socket.
    let mut addresses: BTreeMap<&str, Vec<BTreeMap<u64, u32>>> = BTreeMap::new();
    for snapshot in facts.snapshots() {
        let mut of_reading: BTreeMap<&str, BTreeMap<u64, u32>> = BTreeMap::new();
        for listener in snapshot.listeners.iter().filter(|listener| listener.inode != 0) {
            of_reading.entry(&listener.address).or_default().insert(listener.inode, listener.waiting);
        }
        for (address, sockets) in of_reading.into_iter().filter(|(_, sockets)| sockets.len() > 1) {
            addresses.entry(address).or_default().push(sockets);
        }
    }
    let waiting = |readings: &Vec<BTreeMap<u64, u32>>| -> u64 {
        readings.iter().flat_map(BTreeMap::values).map(|waiting| u64::from(*waiting)).sum()
    };
    let Some((address, readings)) = addresses.into_iter().max_by_key(|(_, readings)| waiting(readings)) else {
        return Verdict::not_applicable("the target has one listener an address");
    };
    let listeners = readings.iter().map(BTreeMap::len).max().unwrap_or(0);
    let all = waiting(&readings);
    let with_some: Vec<_> = readings.iter().filter(|sockets| sockets.values().any(|waiting| *waiting > 0)).collect();
    let mut by_socket: BTreeMap<u64, u64> = BTreeMap::new();
    for (inode, waiting) in with_some.iter().flat_map(|sockets| sockets.iter()) {
        *by_socket.entry(*inode).or_default() += u64::from(*waiting);
    }
    let (fullest, most) = by_socket.into_iter().max_by_key(|(_, waiting)| *waiting).unwrap_or_default();
    let leads = |sockets: &&&BTreeMap<u64, u32>| {
        let all: f64 = sockets.values().map(|waiting| f64::from(*waiting)).sum();
        sockets.get(&fullest).is_some_and(|waiting| f64::from(*waiting) >= ONE_LISTENER.value * all)
    };
    let led = with_some.iter().filter(leads).count() as f64 / with_some.len().max(1) as f64;
    let share = most as f64 / all.max(1) as f64;
    let text = format!(
        "of {listeners} listeners on {address} one had {} of all connections that waited to be accepted, {:.0} on average",
        percent(share),
        most as f64 / with_some.len().max(1) as f64
    );
    let sockets = facts.piece::<Sockets>(text, "listeners.most_share", share, "ratio").from(ONE_LISTENER.value);
    let is_many = most as f64 >= WAITING_MIN * with_some.len() as f64;
    if with_some.len() < READINGS_MIN || !is_many || share < ONE_LISTENER.value || led < LEADS_MIN {
        return Verdict::refuted("connections did not wait at one of the listeners").because(sockets.into());
    }
    let client = super::of_loss::slow_requests(facts);
    if facts.kinds.slow_time.unwrap_or(0.0) < SLOW_TIME.value {
        return Verdict::refuted("no requests were slow beside others").because(sockets.into()).because(client.into());
    }
    let title =
        format!("one of the target's {listeners} listeners has the connections waiting while the others stand empty");
    Verdict::proved(Severity::Error, title, sockets, client)
        .explains(LossKind::Slow, share, share * 0.5, 1.0)
        .remedy("Let all workers accept from one listener (EPOLLEXCLUSIVE), or choose the listener by what waits there (SO_ATTACH_REUSEPORT_EBPF); and look at what holds that one worker up")
        .check("watch -n1 \"ss -ltnp 'sport = :PORT'\" # Recv-Q of one listener is high, of the others 0")
        .confidence(0.85)
}
