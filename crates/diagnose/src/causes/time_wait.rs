//! `time-wait`: the target's own connections that have ended hold their ports for a minute, until none is left for new ones.
//!
//! Evidence: (sockets) as many sockets in TIME-WAIT as half of the ports that outgoing connections may have; and (kernel) connects
//! of the target failed for want of one (EADDRNOTAVAIL), or more sockets were to be kept than tcp_max_tw_buckets. Sockets in
//! TIME-WAIT alone are no fault: each costs a few hundred bytes, and those of connections that came to the target hold no port of
//! it. So without failed connects it is for information. Where nobody counted the target's calls: requests failed, and there were as many
//! such sockets as ports, less those that the generator's own connections can have left, and no more of them for half of the run, though requests
//! went on. Refuted below. The generator's own are `generator-ports`. Source: RFC 9293,
//! 3.6.1; ip(7), ip_local_port_range; tcp(7), tcp_max_tw_buckets.

use crate::evidence::{Client, Kernel, Piece, Sockets};
use crate::facts::{Facts, percent};
use crate::history::{Metric, Subject};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::TIME_WAIT_PORTS;
use model::finding::{LossKind, Severity};
use model::units::show_grouped;

/// Ports of outgoing connections where the setting was not read (`net.ipv4.ip_local_port_range`, the kernel's default).
const PORTS: f64 = 28_232.0;
/// Of requests of which fewer fail it is not told by how many sockets there are.
const FAILED_MIN: f64 = 0.01;
/// So many sockets are as many as there are ports, give or take.
const NEAR: f64 = 0.1;
const READINGS_MIN: u32 = 3;
const SOCKETS: &str = "tcp_time_wait_sockets";

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "time-wait",
    needs: Needs::Load,
    reads: &[&["network/sockstat"], &["network/counters", "bpf/syscalls"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(level) = facts.level(Subject::Network, SOCKETS) else {
        return Verdict::not_observable("sockets in TIME-WAIT", "they were not read in the measured time");
    };
    let ports = facts.recording.capsule.sysctls.get("net.ipv4.ip_local_port_range").and_then(|range| ports(range));
    let ports = ports.unwrap_or(PORTS);
    let share = level.max as f64 / ports;
    let text = format!(
        "up to {} sockets were in TIME-WAIT; outgoing connections to one address have {} ports",
        show_grouped(level.max),
        show_grouped(ports as u64)
    );
    let sockets = facts.piece::<Sockets>(text, SOCKETS, share, "ratio").from(TIME_WAIT_PORTS.value);
    let failed = facts.call("connect").and_then(|call| call.errors_by.get("EADDRNOTAVAIL")).copied().unwrap_or(0);
    let beyond = facts.grown(Subject::Network, "tcp_time_wait_overflows").unwrap_or(0.0);
    if share < TIME_WAIT_PORTS.value {
        return Verdict::refuted("few sockets are in TIME-WAIT").because(sockets.into());
    }
    let verdict = if failed > 0 {
        let text = format!("{failed} connects of the target failed with EADDRNOTAVAIL in the probes' windows");
        let kernel = facts.piece::<Kernel>(text, "syscalls.connect_no_address", failed as f64, "calls").from(1.0);
        let share = of_failures(facts, failed as f64);
        let title = "the target has no port left for its own connections: those that ended hold them in TIME-WAIT";
        Verdict::proved(Severity::Error, title, kernel, sockets).explains(LossKind::Failed, share, share * 0.8, 1.0)
    } else if beyond >= 1.0 {
        let text = format!(
            "{} sockets were not kept in TIME-WAIT: tcp_max_tw_buckets was reached",
            show_grouped(beyond as u64)
        );
        let kernel = facts.piece::<Kernel>(text, "tcp_time_wait_overflows", beyond, "connections").from(1.0);
        Verdict::proved(Severity::Info, "as many sockets are in TIME-WAIT as the kernel keeps", kernel, sockets)
    } else if let Some(client) = uncounted(facts) {
        let Some(from_ns) = all_taken_from_ns(facts, ports) else {
            return Verdict::not_observable(
                "connects without a port",
                "requests failed, many sockets are in TIME-WAIT, and nobody counted which connects of the target failed; --observe windows does",
            );
        };
        let share = failed_since(facts, from_ns);
        let title = "the target has no port left for its own connections, as far as it is seen: there are as many sockets in TIME-WAIT as ports, and no more come";
        Verdict::proved(Severity::Warning, title, client, sockets).explains(LossKind::Failed, share, share * 0.5, 1.0)
    } else {
        return Verdict::refuted("sockets in TIME-WAIT kept nobody from connecting").because(sockets.into());
    };
    verdict
        .remedy("Keep the target's own connections open and use them again (keep-alive towards its backend); else a wider net.ipv4.ip_local_port_range, more addresses, or net.ipv4.tcp_tw_reuse=1")
        .check("ss -tan state time-wait | wc -l; sysctl net.ipv4.ip_local_port_range; strace -f -e trace=connect -p PID")
        .confidence(if failed > 0 || beyond >= 1.0 { 0.9 } else { 0.6 })
}

/// Requests that failed, where nobody counted the target's calls, and so whether its connects did.
fn uncounted(facts: &Facts<'_>) -> Option<Piece<Client>> {
    let (failures, whole) = (crate::ledger::failures(facts), facts.ended.max(1.0));
    let text = format!("{} requests failed, {} of all", show_grouped(failures as u64), percent(failures / whole));
    let client = facts.piece::<Client>(text, "failed.share", failures / whole, "ratio").from(FAILED_MIN);
    (facts.calls_window_ns().is_none() && failures >= FAILED_MIN * whole).then_some(client)
}

/// From when on there were always as many sockets in TIME-WAIT as ports: half of the measured time at least; `None`: there were not. Those of
/// connections that came to the target are none of its own: as many as the generator made are left out.
fn all_taken_from_ns(facts: &Facts<'_>, ports: f64) -> Option<u64> {
    let clients = facts.recording.totals.sum.counts.connected as f64;
    let is_near = |sockets: u64| (sockets as f64 - clients - ports).abs() <= NEAR * ports;
    let is_taken = |from_ns: &u64| {
        let level = |window| facts.history.level(Metric::new(Subject::Network, SOCKETS), window).ok();
        let level = facts.history.window(*from_ns, facts.end_ns).and_then(level);
        level
            .is_some_and(|level| level.readings >= READINGS_MIN && is_near(level.value.min) && is_near(level.value.max))
    };
    let eighth_ns = facts.end_ns.saturating_sub(facts.start_ns) / 8;
    (0..=4).map(|n| facts.start_ns + n * eighth_ns).find(is_taken)
}

/// Of the requests that failed those that did so from then on, 0..=1.
fn failed_since(facts: &Facts<'_>, from_ns: u64) -> f64 {
    let failed = |from_ns: u64| {
        let rows = facts.rows.iter().filter(|row| row.end_ns > from_ns);
        rows.map(|row| row.counts.failed).fold(0, u64::saturating_add) as f64
    };
    failed(from_ns) / failed(0).max(1.0)
}

/// Of the failures those that so many connects without a port made, 0..=1: counted in the probes' windows, which are a part of the run.
fn of_failures(facts: &Facts<'_>, refused: f64) -> f64 {
    let windows_ns = facts.calls_window_ns().unwrap_or(0.0);
    let (measured_ns, failures) = (facts.measured_s() * 1e9, crate::ledger::failures(facts));
    if windows_ns > 0.0 && failures > 0.0 { (refused * measured_ns / windows_ns / failures).min(1.0) } else { 0.0 }
}

/// How many ports a range has, both ends included.
fn ports(range: &str) -> Option<f64> {
    let mut ends = range.split_whitespace().map_while(|end| end.parse::<u32>().ok());
    let (first, last) = (ends.next()?, ends.next()?);
    (last >= first).then(|| f64::from(last - first) + 1.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_range_of_ports_has_both_ends() {
        assert_eq!(super::ports("32768\t60999"), Some(28_232.0));
        assert_eq!([super::ports(""), super::ports("9 8"), super::ports("x 8")], [None, None, None]);
    }
}
