//! `syn-queue-full`: connections that never complete fill the queue of half-open ones, and new clients are not let in.
//!
//! Evidence: (kernel) SYNs were dropped because the queue was full (TCPReqQFullDrop), or answered with a cookie instead
//! (TCPReqQFullDoCookies); and (sockets) the target had many connections half open, or (client) connects took the second after
//! which a SYN is sent again, or came to nothing. With cookies clients are let in all the same, without some options of TCP: that
//! is for information. Refuted where no SYN found the queue full: drops without that are the accept queue's
//! (`accept-queue-overflow`) or for want of memory. Source: tcp(7), tcp_max_syn_backlog and tcp_syncookies; net/ipv4/tcp_input.c
//! (tcp_conn_request); RFC 4987; RFC 6298.

use super::accept_queue_overflow::late_to_connect;
use super::of_loss;
use crate::evidence::{Client, Kernel, Sockets};
use crate::facts::{Facts, duration};
use crate::history::Subject;
use crate::ledger::failures;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{CONNECT_NS, HALF_OPEN};
use model::ErrorKind;
use model::finding::{LossKind, Severity};
use model::latency::Kind;
use model::units::show_grouped;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "syn-queue-full", needs: Needs::Load, reads: &[&["network/counters"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let of = |name| facts.grown(Subject::Network, name);
    let (Some(dropped), Some(cookies)) = (of("syn_queue_full_drops"), of("syn_queue_full_cookies")) else {
        return Verdict::not_observable(
            "SYNs that found the queue full",
            "TCP's counters were not read twice in the measured time",
        );
    };
    let full = dropped + cookies;
    let text = format!(
        "{} SYNs found the queue full: {} were dropped, {} answered with a cookie",
        show_grouped(full as u64),
        show_grouped(dropped as u64),
        show_grouped(cookies as u64)
    );
    let kernel = facts.piece::<Kernel>(text, "syn_queue_full", full, "segments").from(1.0);
    if full < 1.0 {
        return Verdict::refuted("no SYN found the queue full").because(kernel.into());
    }
    let half_open = facts.level(Subject::Network, "connections_syn_received").map_or(0, |level| level.max);
    let timed_out = facts.errors(ErrorKind::ConnectTimeout);
    let connect = facts.latency(Kind::Connect);
    let slowest_ns = if connect.is_empty() { 0 } else { connect.max() };
    let is_late = slowest_ns as f64 >= CONNECT_NS.value || timed_out > 0;
    let client = is_late.then(|| {
        let text = format!(
            "connects took up to {}, and {} came to nothing: a SYN is sent again after 1, 3 and 7 s",
            duration(slowest_ns as f64),
            show_grouped(timed_out)
        );
        facts.piece::<Client>(text, "connect.max_us", slowest_ns as f64 / 1e3, "us").from(CONNECT_NS.value / 1e3)
    });
    let sockets = (half_open as f64 >= HALF_OPEN.value).then(|| {
        let text = format!("up to {half_open} connections to the target were half open when they were looked at");
        facts.piece::<Sockets>(text, "connections_syn_received", half_open as f64, "connections").from(HALF_OPEN.value)
    });
    let (loss, share) = match failures(facts) >= 1.0 {
        true => (LossKind::Failed, of_loss::not_taken(facts)),
        false => late_to_connect(facts),
    };
    let title = "half-open connections fill the target's SYN queue: new clients are not let in";
    let verdict = match (client, sockets) {
        (Some(client), sockets) if dropped >= 1.0 => Verdict::proved(Severity::Error, title, kernel, client)
            .because_all(sockets.map(Into::into))
            .explains(loss, share, share * 0.5, 1.0),
        (_, Some(sockets)) => {
            let title = "half-open connections fill the target's SYN queue: it answers with cookies";
            Verdict::proved(Severity::Info, title, kernel, sockets)
        }
        _ => {
            return Verdict::refuted("no client was late for it, and hardly a connection was half open")
                .because(kernel.into());
        }
    };
    verdict
        .remedy("Turn on net.ipv4.tcp_syncookies; raise the listener's backlog, net.core.somaxconn and net.ipv4.tcp_max_syn_backlog; find out who sends SYNs and never completes them (ss -tn state syn-recv), and filter those")
        .check("nstat -az TcpExtTCPReqQFullDrop TcpExtTCPReqQFullDoCookies TcpExtSyncookiesSent; ss -tn state syn-recv '( sport = :PORT )' | wc -l")
        .confidence(0.9)
}
