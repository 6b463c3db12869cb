//! `packet-loss`: segments are lost on the way, and are sent again.
//!
//! Evidence: (kernel) more than a thousandth of the segments was sent again, SYNs left out (an accept queue that overflows
//! drops those), and what receivers dropped whose buffer was full; (sockets) connections of the target have sent some again, or (client) requests were slow. Refuted below,
//! or where the peer had them already (reordering, DSACK). Source: RFC 6298; RFC 2883; the catalogue's thousandth.

use crate::evidence::{Kernel, Sockets};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::RETRANSMITS;
use model::finding::{LossKind, Severity};

const AGAIN_MIN: f64 = 20.0;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "packet-loss",
    needs: Needs::Connections,
    reads: &[&["network/counters"], &["network/connections"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let of = |name| facts.grown(Subject::Network, name);
    let (Some(again), Some(out)) = (of("tcp_retransmits"), of("tcp_out_segments")) else {
        return Verdict::not_observable(
            "segments sent again",
            "TCP's counters were not read twice in the measured time",
        );
    };
    // A receiver whose buffer is full drops what comes all the same: it reads too slowly, and nothing is lost on the way.
    let full = ["tcp_zero_window_drops", "tcp_receive_queue_drops"].into_iter().filter_map(of).sum::<f64>();
    let known = of("tcp_syn_retransmits").unwrap_or(0.0) + of("tcp_dsack_received").unwrap_or(0.0) + full;
    let again = (again - known).max(0.0);
    let share = if out > 0.0 { again / out } else { 0.0 };
    let text = format!("{again:.0} of {out:.0} segments were sent again ({}), SYNs left out", percent(share));
    let kernel = facts.piece::<Kernel>(text, "tcp_retransmits", share, "ratio").from(RETRANSMITS.value);
    if share < RETRANSMITS.value || again < AGAIN_MIN {
        return Verdict::refuted("hardly a segment was sent again").because(kernel.into());
    }
    let with = facts.level(Subject::Network, "connections_with_retransmits").map_or(0, |level| level.max);
    let text = format!("up to {with} of the target's connections had sent some again");
    let sockets = facts.piece::<Sockets>(text, "connections_with_retransmits", with as f64, "connections").from(1.0);
    if with == 0 {
        return Verdict::refuted("segments were sent again, and none by a connection of the target")
            .because(kernel.into())
            .because(sockets.into());
    }
    Verdict::proved(Severity::Warning, format!("{} of the segments are lost on the way", percent(share)), kernel, sockets)
        .explains(LossKind::Slow, 0.7, 0.2, 1.0)
        .remedy("Look at the path: drops of interfaces and queues, a policer, a radio link; until then, shorter round trips and SACK help most")
        .check("nstat -az TcpRetransSegs TcpOutSegs TcpExtTCPLostRetransmit; ss -ti | grep -c retrans; ip -s link")
        .confidence(0.8)
}
