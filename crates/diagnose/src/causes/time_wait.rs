//! `time-wait`: the target's own connections that have ended hold their ports for a minute, until none is left for new ones.
//!
//! Evidence: (sockets) as many sockets in TIME-WAIT as half of the ports that outgoing connections may have; and (kernel) connects
//! of the target failed for want of one (EADDRNOTAVAIL), or more sockets were to be kept than tcp_max_tw_buckets. Sockets in
//! TIME-WAIT alone are no fault: each costs a few hundred bytes, and those of connections that came to the target hold no port of
//! it. So without failed connects it is for information. Refuted below. The generator's own are `generator-ports`. Source: RFC 9293,
//! 3.6.1; ip(7), ip_local_port_range; tcp(7), tcp_max_tw_buckets.

use crate::evidence::{Kernel, Sockets};
use crate::facts::Facts;
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::TIME_WAIT_PORTS;
use model::finding::{LossKind, Severity};
use model::units::show_grouped;

/// Ports of outgoing connections where the setting was not read (`net.ipv4.ip_local_port_range`, the kernel's default).
const PORTS: f64 = 28_232.0;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "time-wait",
    needs: Needs::Load,
    reads: &[&["network/sockstat"], &["network/counters", "bpf/syscalls"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(level) = facts.level(Subject::Network, "tcp_time_wait_sockets") else {
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
    let sockets = facts.piece::<Sockets>(text, "tcp_time_wait_sockets", share, "ratio").from(TIME_WAIT_PORTS.value);
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
    } else {
        return Verdict::refuted("sockets in TIME-WAIT kept nobody from connecting").because(sockets.into());
    };
    verdict
        .remedy("Keep the target's own connections open and use them again (keep-alive towards its backend); else a wider net.ipv4.ip_local_port_range, more addresses, or net.ipv4.tcp_tw_reuse=1")
        .check("ss -tan state time-wait | wc -l; sysctl net.ipv4.ip_local_port_range; strace -f -e trace=connect -p PID")
        .confidence(0.9)
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
