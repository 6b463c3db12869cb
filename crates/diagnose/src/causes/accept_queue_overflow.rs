//! `accept-queue-overflow`: connections came faster than the target accepted them, and its queue was full.
//!
//! Evidence: (kernel) ListenOverflows rose in the target's network namespace; and (sockets) a listener of the target had more
//! waiting than its backlog, or did not take some, or (client) connects took the second after which a SYN is sent again, or
//! came to nothing. Refuted where none overflowed. ListenDrops without ListenOverflows is the SYN queue or memory. Source:
//! listen(2), net/ipv4/tcp_ipv4.c (tcp_v4_syn_recv_sock), RFC 6298.

use super::of_loss;
use crate::evidence::{Client, Kernel, Sockets};
use crate::facts::{Facts, duration};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::CONNECT_NS;
use model::ErrorKind;
use model::finding::{LossKind, Severity};
use model::latency::Kind;
use model::request::Request;
use model::units::show_grouped;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "accept-queue-overflow",
    needs: Needs::Load,
    reads: &[&["network/counters"], &["network/listeners"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(overflows) = facts.grown(Subject::Network, "listen_overflows") else {
        return Verdict::not_observable(
            "overflows of the accept queue",
            "ListenOverflows was not read twice in the measured time",
        );
    };
    let kernel = facts
        .piece::<Kernel>(
            format!("ListenOverflows rose by {} in the target's network namespace", show_grouped(overflows as u64)),
            "listen_overflows",
            overflows,
            "connections",
        )
        .from(1.0);
    if overflows < 1.0 {
        return Verdict::refuted("no listener's queue overflowed").because(kernel.into());
    }
    let listeners = facts.snapshots().flat_map(|snapshot| &snapshot.listeners);
    let fullest = listeners.max_by_key(|l| (u64::from(l.waiting) * 1000) / u64::from(l.backlog.max(1)));
    let full = fullest.filter(|l| l.waiting > l.backlog || (l.waiting == l.backlog && l.backlog > 0));
    let timed_out = facts.errors(ErrorKind::ConnectTimeout);
    let slowest_ns = facts.latency(Kind::Connect).max();
    let is_late = slowest_ns as f64 >= CONNECT_NS.value || timed_out > 0;
    let client = is_late.then(|| {
        let text = match timed_out {
            0 => format!("connects took up to {}: a SYN is sent again after 1, 3 and 7 s", duration(slowest_ns as f64)),
            _ => format!(
                "{} connects came to nothing, and others took up to {}",
                show_grouped(timed_out),
                duration(slowest_ns as f64)
            ),
        };
        facts.piece::<Client>(text, "connect.max_us", slowest_ns as f64 / 1e3, "us").from(CONNECT_NS.value / 1e3)
    });
    let sockets = full.map(|l| {
        let text = format!("{} had {} waiting to be accepted, of a backlog of {}", l.address, l.waiting, l.backlog);
        facts
            .piece::<Sockets>(text, "listeners.waiting", f64::from(l.waiting), "connections")
            .from(f64::from(l.backlog))
    });
    let backlog = fullest.map_or(String::new(), |l| format!(" of {}", l.backlog));
    let title = format!(
        "the target accepts too slowly for its queue{backlog}: {} connections were not taken at once",
        show_grouped(overflows as u64)
    );
    let verdict = match (sockets, client) {
        (Some(sockets), client) => {
            Verdict::proved(Severity::Error, title, kernel, sockets).because_all(client.map(Into::into))
        }
        (None, Some(client)) => Verdict::proved(Severity::Error, title, kernel, client),
        (None, None) => {
            return Verdict::refuted("a queue overflowed, and neither a listener of the target nor the load shows it")
                .because(kernel.into());
        }
    };
    let (loss, share) = explained(facts);
    verdict
        .explains(loss, share, share * 0.5, if crate::ledger::is_of_time(loss) { 2.0 * share } else { 1.0 })
        .remedy("Accept more at once (accept until EAGAIN, more workers), and ask for a longer queue: the backlog of listen(2), which net.core.somaxconn caps")
        .check("nstat -az TcpExtListenOverflows TcpExtListenDrops; ss -ltn 'sport = :PORT' # Recv-Q of Send-Q")
        .confidence(0.95)
}

/// Which loss it explains, and how much of it: connects that came to nothing; connections that were never taken; or what those requests
/// took that had to connect for as long as a SYN takes to be sent again.
fn explained(facts: &Facts<'_>) -> (LossKind, f64) {
    if crate::ledger::failures(facts) > 0.0 {
        return (LossKind::Failed, of_loss::not_taken(facts));
    }
    // Those that hardly got a reply may all have been taken; or they are those that had to connect again, and waited for that.
    let late = late_to_connect(facts);
    of_loss::never_taken(facts).map_or(late, |share| (LossKind::Starved, share.max(late.1)))
}

/// Of the time of requests what those took beyond others that had to connect for as long as a SYN takes to be sent again.
pub(super) fn late_to_connect(facts: &Facts<'_>) -> (LossKind, f64) {
    let is_late = |request: &Request| request.sent_ns.saturating_sub(request.ready_ns) as f64 >= CONNECT_NS.value;
    of_loss::of_time(facts, |request| facts.kinds.excess_ns(request).filter(|_| is_late(request)).unwrap_or(0.0))
}
