//! What a listening socket of this host takes in at once: accept queue, half-open connections, SYN cookies.
//!
//! Only where the target is on this host. None of them binds by itself: they matter when connections come faster than
//! the target accepts them, which is its own speed. listen(2), Documentation/networking/ip-sysctl.rst.

use super::shape::{Name, Said, grouped, rounded_up};
use model::check::{Demand, Item, Standing};
use model::readings::Readings;

const SOMAXCONN: Name = Name { id: "somaxconn", setting: "net.core.somaxconn" };
const SYN_BACKLOG: Name = Name { id: "syn-backlog", setting: "net.ipv4.tcp_max_syn_backlog" };
const SYNCOOKIES: Name = Name { id: "syncookies", setting: "net.ipv4.tcp_syncookies" };

/// An accept queue longer than this hides a slow server rather than help it.
const QUEUE_MAX: u64 = 65_535;

const ELSEWHERE: &str = "matters on the target's host, which is not this one: run the check there, too";

/// The longest accept queue a program can ask for with listen(2); a longer wish is cut silently.
pub(super) fn somaxconn(demand: &Demand, readings: &Readings) -> Item {
    let Some(most) = readings.somaxconn.known().copied() else { return SOMAXCONN.not_read(&readings.somaxconn) };
    if demand.ends_here < 2 {
        return SOMAXCONN.setting(grouped(most), Standing::Ok, ELSEWHERE);
    }
    let needs = demand.connections.min(QUEUE_MAX);
    SOMAXCONN
        .amount(grouped(most), most as f64, needs as f64, "connections")
        .at_most_tight()
        .ok_when_enough()
        .saying(format!(
            "at most {} connections wait to be accepted by one listening socket; {} may come at once",
            grouped(most),
            grouped(demand.connections)
        ))
        .fixed_by(SOMAXCONN.setting, || rounded_up(needs).min(QUEUE_MAX).to_string())
}

/// With cookies off, a SYN from an unknown peer is dropped once three quarters of it are taken (`tcp_conn_request`,
/// net/ipv4/tcp_input.c); with cookies on it bounds only what is remembered.
pub(super) fn syn_backlog(demand: &Demand, readings: &Readings) -> Item {
    let Some(most) = readings.syn_backlog.known().copied() else {
        return SYN_BACKLOG.not_read(&readings.syn_backlog);
    };
    if demand.ends_here < 2 {
        return SYN_BACKLOG.setting(grouped(most), Standing::Ok, ELSEWHERE);
    }
    match readings.syncookies.known() {
        None => SYN_BACKLOG.not_read(&readings.syncookies),
        Some(0) => {
            let needs = demand.connections.min(QUEUE_MAX);
            SYN_BACKLOG
                .amount(grouped(most), (most - most / 4) as f64, needs as f64, "connections")
                .at_most_tight()
                .ok_when_enough()
                .saying(format!("{} half-open connections; further SYNs are dropped", grouped(most - most / 4)))
                .fixed_by(SYN_BACKLOG.setting, || rounded_up(needs * 4 / 3 + 1).to_string())
        }
        Some(_) => SYN_BACKLOG.setting(grouped(most), Standing::Ok, "cookies answer what goes beyond it"),
    }
}

/// 1 sends cookies when a queue is full, 0 never, 2 always: without window scaling and SACK where stamps are off.
pub(super) fn syncookies(demand: &Demand, readings: &Readings) -> Item {
    let Some(mode) = readings.syncookies.known().copied() else { return SYNCOOKIES.not_read(&readings.syncookies) };
    if demand.ends_here < 2 {
        return SYNCOOKIES.setting(mode, Standing::Ok, ELSEWHERE);
    }
    let item = match mode {
        0 => {
            SYNCOOKIES.setting("0 (off)", Standing::Tight, "a full queue drops SYNs: connects then take a second more")
        }
        1 => SYNCOOKIES.setting("1 (when full)", Standing::Ok, "a full queue is answered with cookies"),
        _ => SYNCOOKIES.setting(mode, Standing::Tight, "every SYN is answered with a cookie: meant for testing only"),
    };
    item.fixed_by(SYNCOOKIES.setting, || "1".to_owned())
}
