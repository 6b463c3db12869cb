//! `packet-loss`: segments are lost on the way, and are sent again.
//!
//! Evidence: (kernel) more than a thousandth of the segments was sent again, left out SYNs, what an accept queue dropped that was full
//! (SYNs, and what a client sends that takes its connection for made: the last step of the handshake was dropped), and what
//! receivers dropped whose buffer was full; (sockets) connections of the target have sent some again, or (client) requests were slow. Refuted below,
//! or where the peer had them already (reordering, DSACK). Source: RFC 6298; RFC 2883; the catalogue's thousandth.

use crate::evidence::{Kernel, Sockets};
use crate::facts::{Facts, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::RETRANSMITS;
use model::finding::{LossKind, Severity};

const AGAIN_MIN: f64 = 20.0;
/// The shortest time after which Linux sends a segment again that nobody acknowledged: two turns of its clock for a probe of the tail
/// (`TCP_TIMEOUT_MIN`; 250 turns a second), and 200 ms where nothing else tells (`TCP_RTO_MIN`, include/net/tcp.h), less what that clock
/// rounds away. What the peer asks for is sent again within a round trip, and is late by less: the upper bound has that.
const PROBE_MIN_NS: f64 = 8e6;
const TIMEOUT_MIN_NS: f64 = 190e6;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "packet-loss",
    needs: Needs::Connections,
    reads: &[&["network/counters"], &["network/connections"]],
    judge,
};

/// The share of the segments that was sent again, left out SYNs, what the peer had already and what a full receiver or a full accept queue dropped;
/// with how many those are and of how many; `None`: it was not read.
pub(crate) fn lost(facts: &Facts<'_>) -> Option<(f64, f64, f64)> {
    let of = |name| facts.grown(Subject::Network, name);
    let (again, out) = (of("tcp_retransmits")?, of("tcp_out_segments")?);
    // A receiver whose buffer is full drops what comes all the same: it reads too slowly, and nothing is lost on the way.
    // So does an accept queue: the client has its answer to the SYN and sends, and each such segment is one more overflow.
    let full = ["tcp_zero_window_drops", "tcp_receive_queue_drops", "listen_overflows"];
    let full = full.into_iter().filter_map(of).sum::<f64>();
    let known = of("tcp_syn_retransmits").unwrap_or(0.0) + of("tcp_dsack_received").unwrap_or(0.0) + full;
    let again = (again - known).max(0.0);
    Some((if out > 0.0 { again / out } else { 0.0 }, again, out))
}

/// How many of the target's connections had sent some again, at the most.
fn connections(facts: &Facts<'_>) -> u64 {
    facts.level(Subject::Network, "connections_with_retransmits").map_or(0, |level| level.max)
}

/// Whether so many were lost, the target's among them, that what is late may be for that alone.
pub(crate) fn is_lossy(facts: &Facts<'_>) -> bool {
    let is_much = |(share, again, _): (f64, f64, f64)| share >= RETRANSMITS.value && again >= AGAIN_MIN;
    lost(facts).is_some_and(is_much) && connections(facts) > 0
}

/// Whether at least so many segments were sent again, some by connections of the target: each request that stands still for a lost
/// segment has one, however few they are of all that were sent.
pub(crate) fn has_sent_again(facts: &Facts<'_>, segments: f64) -> bool {
    lost(facts).is_some_and(|(_, again, _)| again >= segments) && connections(facts) > 0
}

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some((share, again, out)) = lost(facts) else {
        return Verdict::not_observable(
            "segments sent again",
            "TCP's counters were not read twice in the measured time",
        );
    };
    let text = format!("{again:.0} of {out:.0} segments were sent again ({}), SYNs left out", percent(share));
    let kernel = facts.piece::<Kernel>(text, "tcp_retransmits", share, "ratio").from(RETRANSMITS.value);
    if share < RETRANSMITS.value || again < AGAIN_MIN {
        return Verdict::refuted("hardly a segment was sent again").because(kernel.into());
    }
    let with = connections(facts);
    let text = format!("up to {with} of the target's connections had sent some again");
    let sockets = facts.piece::<Sockets>(text, "connections_with_retransmits", with as f64, "connections").from(1.0);
    if with == 0 {
        return Verdict::refuted("segments were sent again, and none by a connection of the target")
            .because(kernel.into())
            .because(sockets.into());
    }
    let (of_slow, least) = (late(facts, PROBE_MIN_NS, again), late(facts, TIMEOUT_MIN_NS, again));
    Verdict::proved(Severity::Warning, format!("{} of the segments are lost on the way", percent(share)), kernel, sockets)
        .explains(LossKind::Slow, of_slow, least.min(of_slow), 1.0)
        .remedy("Look at the path: drops of interfaces and queues, a policer, a radio link; until then, shorter round trips and SACK help most")
        .check("nstat -az TcpRetransSegs TcpOutSegs TcpExtTCPLostRetransmit; ss -ti | grep -c retrans; ip -s link")
        .confidence(0.8)
}

/// Of the slow requests' time what those took that were late by so long or longer: of no more requests than segments were sent again.
/// Those that waited most of that for a connection waited for others, and have it as these have.
fn late(facts: &Facts<'_>, by_ns: f64, again: f64) -> f64 {
    let (mut late_ns, mut all_ns, mut count) = (0.0, 0.0, 0.0);
    for (weight, request) in facts.recording.requests.weighted() {
        let Some(excess_ns) = facts.kinds.excess_ns(request) else { continue };
        if request.sent_ns.saturating_sub(request.ready_ns) as f64 >= excess_ns / 2.0 {
            continue;
        }
        all_ns += weight * excess_ns;
        if excess_ns >= by_ns {
            (late_ns, count) = (late_ns + weight * excess_ns, count + weight);
        }
    }
    let share = if all_ns > 0.0 { late_ns / all_ns } else { 0.0 };
    if count > again { share * again / count } else { share }
}
