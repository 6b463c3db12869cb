//! Local ports: how many, how long TIME_WAIT keeps them, and what tracks connections beside them.
//!
//! A connection is told apart by both addresses and both ports (RFC 9293 §3.4), so the range of local ports counts once
//! for each pair of source address and destination. Documentation/networking/ip-sysctl.rst, nf_conntrack-sysctl.rst.

use super::shape::{Name, Said, counted, grouped, n, rounded_up};
use model::check::{Demand, Item, Standing};
use model::readings::{Reading, Readings};

const LOCAL_PORTS: Name = Name { id: "local-ports", setting: "net.ipv4.ip_local_port_range" };
const TIME_WAIT: Name = Name { id: "time-wait", setting: "net.ipv4.tcp_tw_reuse" };
const TW_BUCKETS: Name = Name { id: "tw-buckets", setting: "net.ipv4.tcp_max_tw_buckets" };
const CONNTRACK: Name = Name { id: "conntrack", setting: "net.netfilter.nf_conntrack_max" };

/// `TCP_TIMEWAIT_LEN` of net/tcp.h, seconds: no setting changes it.
const TIME_WAIT_S: f64 = 60.0;
/// With reuse a port may be taken again after a second (`tcp_twsk_unique`, net/ipv4/tcp_ipv4.c).
const REUSE_S: f64 = 1.0;
/// `nf_conntrack_tcp_timeout_time_wait` as the kernel sets it, seconds.
const CONNTRACK_TIME_WAIT_S: f64 = 120.0;
/// The widest range that leaves the ports below 1024 to servers (`ip_unprivileged_port_start`).
const WIDEST: (u16, u16) = (1024, 65_535);

/// Where connections are made at the target's speed, what was counted is the least: enough for it is no answer.
fn counted_at_least(item: Item, demand: &Demand) -> Item {
    if demand.connects_per_s.is_some() || item.standing != Standing::Ok {
        return item;
    }
    let text = format!("{}; how many connections are made a second follows from the target's speed", item.text);
    Item { standing: Standing::NotKnown, text, ..item }
}

/// Ports of the range that the kernel may choose: without those reserved.
fn usable((first, last): (u16, u16), reserved: &[(u16, u16)]) -> u64 {
    let is_reserved = |port: u16| reserved.iter().any(|(low, high)| (*low..=*high).contains(&port));
    (first..=last).filter(|port| !is_reserved(*port)).count() as u64
}

/// How many connections the ports allow at once, and for one source address and destination.
fn room(demand: &Demand, readings: &Readings) -> Option<(u64, u64)> {
    let range = *readings.local_ports.known()?;
    let reserved = readings.reserved_ports.known().map_or(&[][..], |list| list);
    let each = usable(range, reserved);
    Some((each.saturating_mul(demand.sources).saturating_mul(demand.destinations), each))
}

/// One connection a port, for each pair of source address and destination.
pub(super) fn local_ports(demand: &Demand, readings: &Readings) -> Item {
    let (Some((first, last)), Some((allows, each))) = (readings.local_ports.known(), room(demand, readings)) else {
        return LOCAL_PORTS.not_read(&readings.local_ports);
    };
    let value = format!("{first} {last}");
    if demand.destinations == 0 {
        return LOCAL_PORTS.setting(value, Standing::Ok, "unix sockets take no ports");
    }
    if let Reading::Unreadable(reason) = &readings.reserved_ports {
        return LOCAL_PORTS.not_read(&Reading::<()>::Unreadable(reason.clone()));
    }
    let mut text = format!(
        "{} to one target address and port from one source address; × {} × {} = {}",
        counted(each, "connection"),
        counted(demand.destinations, "destination"),
        counted(demand.sources, "source"),
        n(allows as f64)
    );
    let widest = usable(WIDEST, readings.reserved_ports.known().map_or(&[][..], |list| list));
    let sources = demand.connections.div_ceil(widest.saturating_mul(demand.destinations).max(1));
    if demand.connections > allows && sources > demand.sources {
        text += &format!(
            "; even the widest range ({} {}) needs {sources} source addresses, or as many times the destinations",
            WIDEST.0, WIDEST.1
        );
    }
    let item = LOCAL_PORTS.amount(value, allows as f64, demand.connections as f64, "connections").saying(text);
    if widest > each { item.fixed_by(LOCAL_PORTS.setting, || format!("{} {}", WIDEST.0, WIDEST.1)) } else { item }
}

/// Who closes first keeps the port in TIME_WAIT for 60 s (RFC 9293 §3.6); `tcp_tw_reuse` 1 takes it again after a
/// second for outgoing connections, 2 only over loopback.
pub(super) fn time_wait(demand: &Demand, readings: &Readings) -> Item {
    let Some(reuse) = readings.tw_reuse.known().copied() else { return TIME_WAIT.not_read(&readings.tw_reuse) };
    let Some(waiting) = readings.time_wait.known().copied() else { return TIME_WAIT.not_read(&readings.time_wait) };
    let meaning = match reuse {
        0 => "off",
        1 => "on",
        _ => "loopback only",
    };
    let value = format!("{reuse} ({meaning})");
    let now = format!("{} in TIME_WAIT now", counted(waiting, "socket"));
    if demand.destinations == 0 {
        return TIME_WAIT.setting(value, Standing::Ok, format!("unix sockets have no TIME_WAIT; {now}"));
    }
    let Some((ports, _)) = room(demand, readings) else { return TIME_WAIT.not_read(&readings.local_ports) };
    let is_reused = reuse == 1 || (reuse == 2 && demand.is_loopback);
    let Some(connects_per_s) = demand.connects_per_s else {
        let text = format!(
            "how many connections are made a second follows from the target's speed; {now}, each keeps a port for {} s",
            if is_reused { REUSE_S } else { TIME_WAIT_S }
        );
        return TIME_WAIT.setting(value, Standing::NotKnown, text);
    };
    if connects_per_s <= 0.0 {
        // Who else made them, and to where, is not read: they may all be to this target.
        let left = ports.saturating_sub(if is_reused { 0 } else { waiting });
        let item = TIME_WAIT.amount(value, left as f64, demand.connections as f64, "connections").at_most_tight();
        let text = match item.standing {
            Standing::Ok => format!("connections are kept, so none build up; {now}"),
            _ => format!(
                "connections are kept, so none build up, but {now}: were all to this target, {} ports were left. \
                 They go by themselves within 60 s, or by: plimsoll drop time-wait --to HOST:PORT",
                n(left as f64)
            ),
        };
        return item.saying(text);
    }
    let held_s = if is_reused { REUSE_S } else { TIME_WAIT_S };
    let allows = ports.saturating_sub(demand.connections.min(ports)) as f64 / held_s;
    let text = format!(
        "{} new connections a second, each keeping its port for {held_s} s where this side closes first; {now}",
        n(allows)
    );
    let item = TIME_WAIT.amount(value, allows, connects_per_s, "connections/s").saying(text);
    if is_reused { item } else { item.fixed_by(TIME_WAIT.setting, || "1".to_owned()) }
}

/// Beyond it sockets skip TIME_WAIT and the kernel logs that its table overflows: late segments may then meet a new
/// connection.
pub(super) fn tw_buckets(demand: &Demand, readings: &Readings) -> Item {
    let (most, waiting) = match (readings.tw_buckets_max.known(), readings.time_wait.known()) {
        (None, _) => return TW_BUCKETS.not_read(&readings.tw_buckets_max),
        (_, None) => return TW_BUCKETS.not_read(&readings.time_wait),
        (Some(most), Some(waiting)) => (*most, *waiting),
    };
    // All connections are closed at the end of a run, and wait together.
    let needs = demand.connections as f64 + demand.connects_per_s.unwrap_or(0.0) * TIME_WAIT_S;
    let left = most.saturating_sub(waiting) as f64;
    let wanted = ((needs * 1.25) as u64).saturating_add(waiting);
    let item = TW_BUCKETS
        .amount(grouped(most), left, needs, "sockets")
        .at_most_tight()
        .saying(format!(
            "{} more sockets may be in TIME_WAIT, of {} that this plan may leave; beyond that they are closed at once",
            n(left),
            n(needs)
        ))
        .fixed_by(TW_BUCKETS.setting, || rounded_up(wanted).to_string());
    counted_at_least(item, demand)
}

/// A tracked connection is one entry, kept for 120 s of TIME_WAIT; a full table drops packets of new connections.
pub(super) fn conntrack(demand: &Demand, readings: &Readings) -> Item {
    let (most, tracked) = match (&readings.conntrack_max, &readings.conntrack_count) {
        (Reading::Absent, _) => {
            return CONNTRACK.setting("not loaded", Standing::Ok, "no connection is tracked here");
        }
        (Reading::Known(most), Reading::Known(tracked)) => (*most, *tracked),
        (Reading::Known(_), other) | (other, _) => return CONNTRACK.not_read(other),
    };
    let needs = demand.connections as f64 + demand.connects_per_s.unwrap_or(0.0) * CONNTRACK_TIME_WAIT_S;
    let left = most.saturating_sub(tracked) as f64;
    let is_used = tracked > 0;
    let item = CONNTRACK.amount(grouped(most), left, needs, "connections");
    let (item, text) = match is_used {
        true => (item, format!("{} more connections can be tracked; {} are", n(left), grouped(tracked))),
        false => (
            item.at_most_tight(),
            format!("{} connections could be tracked; none is now, so it may be that no rule asks for it", n(left)),
        ),
    };
    let item = item
        .saying(text)
        .fixed_by(CONNTRACK.setting, || rounded_up(((needs * 1.25) as u64).saturating_add(tracked)).to_string());
    counted_at_least(item, demand)
}
