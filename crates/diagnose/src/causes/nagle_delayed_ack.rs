//! `nagle-delayed-ack`: the end of a reply waits for the acknowledgement of its beginning, which the client delays by 40 ms.
//!
//! Evidence: (client) the median service time from the second request of a connection on is 36 to 48 ms; (kernel) at least
//! 0.8 delayed ACKs for each request, or as many small sends with data in flight that such an ACK released. Refuted by
//! another time, or without those ACKs: a timer of 40 ms looks alike, TCP_CORK's is 200 ms. Healthy short connections have
//! delayed ACKs too (measured: 262 in 500), and are quick. Source: RFC 896, RFC 1122 4.2.3.2; TCP_DELACK_MIN of
//! include/net/tcp.h; measured: 43.99 ms, 19 of 20, with NODELAY 0.04 ms and none.

use crate::evidence::{Client, Kernel};
use crate::facts::{Facts, duration};
use crate::history::Subject;
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DELAYED_ACKS, NAGLE_HIGH_NS, NAGLE_LOW_NS};
use model::finding::{LossKind, Severity};
use model::request::RequestEnd;

const REQUESTS_MIN: usize = 10;

/// See the file's head.
pub const RULE: CauseRule = CauseRule {
    id: "nagle-delayed-ack",
    needs: Needs::Connections,
    reads: &[&["network/counters", "bpf/delayed_acks"]],
    judge,
};

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let sampled = || facts.recording.requests.sampled().filter(|request| request.end == RequestEnd::Ok);
    let service = |request: &model::request::Request| request.service_ns().unwrap_or(0);
    let mut later: Vec<u64> = sampled().filter(|request| request.ordinal > 1).map(service).collect();
    if later.len() < REQUESTS_MIN {
        return Verdict::not_observable(
            "service time from the second request on",
            "fewer than ten requests were a connection's second or later ones",
        );
    }
    later.sort_unstable();
    let median_ns = later[later.len() / 2] as f64;
    let in_band = later.iter().filter(|ns| (NAGLE_LOW_NS.value..=NAGLE_HIGH_NS.value).contains(&(**ns as f64))).count();
    let share = in_band as f64 / later.len() as f64;
    let text =
        format!("from a connection's second request on, half of the replies took {} or less", duration(median_ns));
    let client =
        facts.piece::<Client>(text, "service.later_p50_us", median_ns / 1e3, "us").from(NAGLE_LOW_NS.value / 1e3);
    if !(NAGLE_LOW_NS.value..=NAGLE_HIGH_NS.value).contains(&median_ns) {
        return Verdict::refuted("replies do not take the time of a delayed ACK").because(client.into());
    }
    let ended = facts.recording.totals.in_time.arrived() as f64;
    let acks = facts.grown(Subject::Network, "delayed_acks");
    let pairs = facts.counted("delayed_acks.pairs_at_40ms").or(facts.counted("delayed_acks.pairs")).unwrap_or(0) as f64;
    let (Some(acks), true) = (acks, ended > 0.0) else {
        return Verdict::not_observable("delayed ACKs", "DelayedACKs was not read twice in the measured time")
            .because(client.into());
    };
    let a_request = acks / ended;
    let seen =
        if pairs > 0.0 { format!("; the probes saw {pairs:.0} small sends wait for one") } else { String::new() };
    let text = format!("{a_request:.2} delayed ACKs for each request{seen}");
    let kernel = facts.piece::<Kernel>(text, "delayed_acks", a_request, "ratio").from(DELAYED_ACKS.value);
    if a_request < DELAYED_ACKS.value {
        return Verdict::refuted("replies take 40 ms, and no delayed ACK explains it")
            .because(client.into())
            .because(kernel.into());
    }
    Verdict::proved(
        Severity::Error,
        format!("replies wait for a delayed ACK: {} each, from a connection's second request on", duration(median_ns)),
        client,
        kernel,
    )
    .explains(LossKind::Waiting, share, share * 0.9, 1.0)
    .remedy(
        "Set TCP_NODELAY on each accepted connection, or write head and body of a reply in one call (writev, MSG_MORE)",
    )
    .check("strace -f -e trace=network,write -p PID: two sends a reply and no TCP_NODELAY; nstat -z TcpExtDelayedACKs")
    .confidence(0.95)
}
