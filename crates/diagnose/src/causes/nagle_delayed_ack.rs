//! `nagle-delayed-ack`: the end of a reply waits for the acknowledgement of its beginning, which the client delays by 40 ms.
//!
//! Evidence: (client) the median service time from the second request of a connection on is 36 to 48 ms; (kernel) at least
//! 0.8 delayed ACKs for each request. Or such are only some of the requests, but most of what is slow, each with a delayed ACK, and
//! the probes saw a small send with data in flight wait for one: a client that acknowledges at once now and then (TCP's quick
//! ACKs, as at low rates) hides the rest. Or the target works, or waits, for a while before it replies: a request then takes that and
//! 40 ms, and the kernel counts for how long the target had data under way that was not acknowledged (tcpi_busy_time): 36 to 56 ms
//! for each request (it counts in ticks of its clock), with a segment of it under way and more behind it that was not sent. Refuted by
//! another time, or without those ACKs: a timer of 40 ms looks alike, TCP_CORK's is 200 ms. Healthy short connections have
//! delayed ACKs too (measured: 262 in 500), and are quick. Source: RFC 896, RFC 1122 4.2.3.2; TCP_DELACK_MIN of
//! include/net/tcp.h; measured: 43.99 ms, 19 of 20, with NODELAY 0.04 ms and none.

use crate::evidence::{Client, Kernel};
use crate::facts::{Facts, duration, percent};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::statistics::median;
use crate::thresholds::{DELAYED_ACKS, NAGLE_HIGH_NS, NAGLE_LOW_NS, NAGLE_OF_SLOW};
use model::finding::{LossKind, Severity};
use model::request::{Request, RequestEnd};

const REQUESTS_MIN: usize = 10;
/// Where so many waited in the probes' windows, so large a part of them must have been seen to.
const PAIRS_EXPECTED: f64 = 3.0;
const PAIRS_SHARE: f64 = 0.3;

/// Time with data under way is counted in ticks of the kernel's clock: up to one more at either end, of 4 ms.
const TICKS_NS: f64 = 8e6;
/// Acknowledged within this part of a delayed ACK's time, where none is delayed.
const NEAR: f64 = 0.5;
/// So few segments are under way, where the end of a reply waits for the acknowledgement of its beginning.
const FEW_SEGMENTS: f64 = 2.0;
/// And no more of that time is bound by the peer's window, or the send buffer.
const BOUND_MAX: f64 = 0.5;
const REMEDY: &str =
    "Set TCP_NODELAY on each accepted connection, or write head and body of a reply in one call (writev, MSG_MORE)";
const CHECK: &str = "nstat -z TcpExtDelayedACKs; timeout 5 strace -f -e trace=network,write -p PID # two sends a reply and no TCP_NODELAY";

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "nagle-delayed-ack",
    needs: Needs::Connections,
    reads: &[&["network/counters", "bpf/delayed_acks"], &["network/counters", "network/connections"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let sampled = facts.recording.requests.sampled().filter(|r| r.end == RequestEnd::Ok && r.ordinal > 1);
    let later: Vec<&Request> = sampled.collect();
    if later.len() < REQUESTS_MIN {
        return Verdict::not_observable(
            "service time from the second request on",
            "fewer than ten requests were a connection's second or later ones",
        );
    }
    let waited: Vec<&Request> = later.iter().copied().filter(|request| is_in_band(service_ns(request))).collect();
    let share = waited.len() as f64 / later.len() as f64;
    let median_ns = median(later.iter().map(|request| service_ns(request)).collect());
    let is_most = is_in_band(median_ns);
    // A client that answers at once delays few acknowledgements: those are slow beside others of their kind.
    let of_slow = share_of_slow(facts, |request| request.ordinal > 1 && is_in_band(service_ns(request)));
    let text = match is_most {
        true => {
            format!("from a connection's second request on, half of the replies took {} or less", duration(median_ns))
        }
        false => format!(
            "{} of the replies, a connection's first left out, took the time of a delayed ACK ({} to {}): {} of the time of slow ones",
            percent(share),
            duration(NAGLE_LOW_NS.value),
            duration(NAGLE_HIGH_NS.value),
            percent(of_slow)
        ),
    };
    let client =
        facts.piece::<Client>(text, "service.later_p50_us", median_ns / 1e3, "us").from(NAGLE_LOW_NS.value / 1e3);
    if !is_most && (waited.len() < REQUESTS_MIN || of_slow < NAGLE_OF_SLOW.value) {
        if let Some(verdict) = behind_work(facts, median_ns) {
            return verdict;
        }
        return Verdict::refuted("replies do not take the time of a delayed ACK").because(client.into());
    }
    let ended = facts.recording.totals.in_time.arrived() as f64;
    let acks = facts.grown(Subject::Network, "delayed_acks");
    let pairs = facts.counted("delayed_acks.pairs_at_40ms").or(facts.counted("delayed_acks.pairs")).unwrap_or(0) as f64;
    let (Some(acks), true) = (acks, ended > 0.0) else {
        return Verdict::not_observable("delayed ACKs", "DelayedACKs was not read twice in the measured time")
            .because(client.into());
    };
    // Of all requests where most wait, else of those that did.
    let waiting = if is_most { ended } else { ended * share };
    let each = acks / waiting.max(1.0);
    let seen =
        if pairs > 0.0 { format!("; the probes saw {pairs:.0} small sends wait for one") } else { String::new() };
    let of = if is_most { "each request" } else { "each of them" };
    let kernel = facts
        .piece::<Kernel>(format!("{each:.2} delayed ACKs for {of}{seen}"), "delayed_acks", each, "ratio")
        .from(DELAYED_ACKS.value);
    if each < DELAYED_ACKS.value {
        return Verdict::refuted("replies take 40 ms, and no delayed ACK explains it")
            .because(client.into())
            .because(kernel.into());
    }
    // A server that takes 40 ms itself acknowledges the request with a delayed ACK, too: the probe tells whose end waited.
    let expected = waiting * windows_share(facts);
    let is_looked_for = expected >= PAIRS_EXPECTED && facts.why_not("bpf/delayed_acks").is_none();
    if is_looked_for && pairs < PAIRS_SHARE * expected {
        return Verdict::refuted(
            "no small send was seen to wait for those delayed ACKs: the target itself takes 40 ms",
        )
        .because(client.into())
        .because(kernel.into());
    }
    if !is_most && pairs < 1.0 {
        return Verdict::not_observable(
            "what waits for delayed ACKs",
            "what takes 40 ms now and then may do so by itself: a small send that waits for one is seen by --observe windows",
        )
        .because(client.into())
        .because(kernel.into());
    }
    let title = match is_most {
        true => format!(
            "replies wait for a delayed ACK: {} each, from a connection's second request on",
            duration(median_ns)
        ),
        false => format!(
            "{} of the replies wait for a delayed ACK, {} each",
            percent(share),
            duration(median(waited.iter().map(|request| service_ns(request)).collect()))
        ),
    };
    let (kind, part) = if is_most { (LossKind::Waiting, share) } else { (LossKind::Slow, of_slow) };
    Verdict::proved(Severity::Error, title, client, kernel)
        .explains(kind, part, part * 0.9, 1.0)
        .remedy(REMEDY)
        .check(CHECK)
        .confidence(if is_most { 0.95 } else { 0.85 })
}

/// The same behind work of the target's own, or a wait: what half of the requests take is that and the 40 ms, so that the time says nothing.
fn behind_work(facts: &Facts<'_>, median_ns: f64) -> Option<Verdict<OfTarget>> {
    let sending = facts.sending()?;
    let each_ns = 1e9 * sending.busy / facts.recording.totals.requests_per_s().max(1e-9);
    let behind = facts.level(Subject::Network, "not_sent_bytes")?.mean;
    let acks = facts.grown(Subject::Network, "delayed_acks")? / facts.recording.totals.in_time.arrived().max(1) as f64;
    // What is far away acknowledges late by itself; what is large goes on while it waits.
    let is_near = sending.rtt_min_ns.is_none_or(|ns| ns <= NEAR * NAGLE_LOW_NS.value);
    let is_small = sending.unacked <= FEW_SEGMENTS && sending.window.max(sending.buffer) <= BOUND_MAX;
    let is_one = (NAGLE_LOW_NS.value..=NAGLE_HIGH_NS.value + TICKS_NS).contains(&each_ns);
    let is_so = is_one && median_ns > NAGLE_HIGH_NS.value && behind > 0.0 && acks >= DELAYED_ACKS.value;
    if !(is_so && is_near && is_small) {
        return None;
    }
    let share = sending.of_requests;
    let client = facts
        .piece::<Client>(
            format!("from a connection's second request on, half of the replies took {} or less", duration(median_ns)),
            "service.later_p50_us",
            median_ns / 1e3,
            "us",
        )
        .from(NAGLE_HIGH_NS.value / 1e3);
    let text = format!(
        "for {} of each request the target had a segment under way that was not acknowledged, and more behind it; {acks:.2} delayed ACKs for each",
        duration(each_ns)
    );
    let kernel =
        facts.piece::<Kernel>(text, "network.send_busy_ns", each_ns / 1e3, "us").from(NAGLE_LOW_NS.value / 1e3);
    let title = format!(
        "the end of each reply waits {} for a delayed ACK, of the {} that it takes",
        duration(each_ns),
        duration(median_ns)
    );
    Some(
        Verdict::proved(Severity::Error, title, client, kernel)
            .explains(LossKind::Waiting, share, share * 0.9, 1.0)
            .remedy(REMEDY)
            .check(CHECK)
            .confidence(0.9),
    )
}

fn service_ns(request: &Request) -> f64 {
    request.service_ns().unwrap_or(0) as f64
}

fn is_in_band(ns: f64) -> bool {
    (NAGLE_LOW_NS.value..=NAGLE_HIGH_NS.value).contains(&ns)
}

/// How much of the slow requests' excess over their kind is of some of them; 0 where none was slow.
fn share_of_slow(facts: &Facts<'_>, is_one: impl Fn(&Request) -> bool) -> f64 {
    let (mut all_ns, mut part_ns) = (0.0, 0.0);
    for (weight, request) in facts.recording.requests.weighted() {
        let Some(excess_ns) = facts.kinds.excess_ns(request) else { continue };
        all_ns += weight * excess_ns;
        if request.end == RequestEnd::Ok && is_one(request) {
            part_ns += weight * excess_ns;
        }
    }
    if all_ns > 0.0 { part_ns / all_ns } else { 0.0 }
}

/// The share of the measured time in which the probes looked for such pairs.
fn windows_share(facts: &Facts<'_>) -> f64 {
    facts.calls_window_ns().unwrap_or(0.0) / 1e9 / facts.measured_s().max(1e-9)
}
