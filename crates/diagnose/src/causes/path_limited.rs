//! `path-limited`: the path between target and clients carries no more, and what is sent waits in a queue on the way.
//!
//! Evidence: (sockets) the smoothed round trip is more than five times the least one and a millisecond longer, while the target
//! has several segments under way on each connection that it sends on, for most of the requests' time,
//! and hardly ever nothing under way at all; (client) requests take far longer than the work in them. Hardly a segment was sent again: a queue that overflows is `packet-loss`. Refuted where one segment is under way at
//! a time (delayed acknowledgements stretch round trips too); where the target or its machine is full, as then it is the ends that
//! are late; and where send buffer or window bound it. Source: tcp_info(7), tcpi_rtt and tcpi_min_rtt; N. Cardwell et al., "BBR", ACM Queue 14
//! (2016): beyond the bandwidth of the path only the round trip grows; the catalogue's five times; measured: 50 Mbit/s, 87 ms
//! beside 3 µs.

use crate::evidence::{Client, Sockets};
use crate::facts::{Facts, duration, percent};
use crate::history::Subject;
use crate::ledger::in_target_ns;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, PATH_BUSY, PATH_RTT_NS, PATH_RTT_TIMES, PATH_UNACKED, SEND_LIMITED, SENDING};
use model::finding::{LossKind, Severity};
use model::units::show_figure;

/// More segments sent again than these: a queue overflows, or something else loses them.
const AGAIN_MAX: f64 = 0.01;
/// Requests must take so many times the work in them.
const TIMES_WORK: f64 = 3.0;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "path-limited",
    needs: Needs::Connections,
    reads: &[&["network/connections"], &["process/threads"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some((sending, rtt_ns, least_ns)) =
        facts.sending().and_then(|sending| Some((sending, sending.rtt_ns?, sending.rtt_min_ns?)))
    else {
        return Verdict::not_observable(
            "round trips of connections that send",
            "no request succeeded, or the target's connections were not read twice",
        );
    };
    let text = format!(
        "round trips took {} where the shortest took {}, with {:.0} segments under way on each connection that sent, {} of the requests' time",
        duration(rtt_ns),
        duration(least_ns),
        sending.unacked,
        percent(sending.of_requests)
    );
    let times = rtt_ns / least_ns.max(1.0);
    let sockets = facts.piece::<Sockets>(text, "rtt.times_least", times, "ratio").from(PATH_RTT_TIMES.value);
    if times < PATH_RTT_TIMES.value || rtt_ns - least_ns < PATH_RTT_NS.value {
        return Verdict::refuted("round trips hardly took longer than the shortest").because(sockets.into());
    }
    if sending.busy < PATH_BUSY.value {
        return Verdict::refuted("for much of the time nothing was under way: the path had room")
            .because(sockets.into());
    }
    if sending.unacked < PATH_UNACKED.value || sending.of_requests < SENDING.value {
        return Verdict::refuted("the target had hardly anything under way").because(sockets.into());
    }
    if sending.window.max(sending.buffer) >= SEND_LIMITED.value {
        return Verdict::refuted("a window or send buffer bounded the target").because(sockets.into());
    }
    let of = |name| facts.grown(Subject::Network, name).unwrap_or(0.0);
    let again = of("tcp_retransmits") / of("tcp_out_segments").max(1.0);
    if again > AGAIN_MAX {
        return Verdict::refuted(format!("{} of the segments were sent again", percent(again))).because(sockets.into());
    }
    let is_machine_full = facts.host.is_none_or(|host| host.is_full());
    if is_machine_full || facts.busiest_demand().is_none_or(|demand| demand >= DEMAND_FULL.value) {
        return Verdict::refuted("the target or its machine is full, or was not read").because(sockets.into());
    }
    let Some((in_ns, cost_ns)) = in_target_ns(facts).zip(facts.cpu_ns_per_request()) else {
        return Verdict::not_observable("waits for the path", "the target's CPU time was not read")
            .because(sockets.into());
    };
    let bits = facts.whole.counts.bytes_received as f64 * 8.0 / facts.measured_s().max(1e-9);
    let text = format!(
        "requests took {} beyond the shortest way, of which the target worked {}; replies came at {}bit/s in all",
        duration(in_ns),
        duration(cost_ns),
        show_bits(bits)
    );
    let client = facts.piece::<Client>(text, "service.mean_us", in_ns / 1e3, "us").from(TIMES_WORK * cost_ns / 1e3);
    if in_ns < TIMES_WORK * cost_ns {
        return Verdict::refuted("requests did not wait for the path").because(sockets.into()).because(client.into());
    }
    let queued = 1.0 - least_ns / rtt_ns;
    let title = format!("the path carries no more than {}bit/s, and replies wait in a queue on it", show_bits(bits));
    Verdict::proved(Severity::Warning, title, sockets, client)
        .explains(LossKind::Waiting, sending.of_requests * queued, sending.of_requests * queued * 0.5, 1.0)
        .remedy("Send less (compression, smaller replies, a cache nearer to the clients), or have a path that carries more; a faster server changes nothing")
        .check("tc -s qdisc; ip -s link; ss -tni state established '( sport = :PORT )' # rtt beside minrtt")
        .confidence(0.8)
}

/// Bits a second, with the prefix of thousands.
fn show_bits(bits: f64) -> String {
    let (value, prefix) = match bits {
        b if b >= 1e9 => (b / 1e9, "G"),
        b if b >= 1e6 => (b / 1e6, "M"),
        b if b >= 1e3 => (b / 1e3, "k"),
        b => (b, ""),
    };
    format!("{} {prefix}", show_figure(value))
}
