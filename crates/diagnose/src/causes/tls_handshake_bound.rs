//! `tls-handshake-bound`: the target's processor is taken up by TLS handshakes.
//!
//! Evidence: (client) a full handshake for at least every second request; (process) a thread of it is full, and the CPU
//! time for each request is that of a signature, half a millisecond or more. Refuted where connections last, sessions are
//! resumed or the CPU is free. Source: measured on one core: RSA-2048 1,600 signatures a second, RSA-4096 260, P-256 20,000
//! (openssl speed).

use super::of_loss;
use crate::evidence::{Client, Process};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, HANDSHAKE_CPU_NS, HANDSHAKES};
use model::finding::Severity;
use model::request::Request;
use model::units::show_grouped;

const REQUESTS_MIN: f64 = 20.0;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "tls-handshake-bound", needs: Needs::Connections, reads: &[&["process/threads"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let counts = &facts.recording.totals.sum.counts;
    if counts.handshakes_full.saturating_add(counts.handshakes_resumed) == 0 {
        return Verdict::not_applicable("no TLS was spoken");
    }
    if facts.ended < REQUESTS_MIN {
        return Verdict::not_observable("handshakes a request", "fewer than twenty requests ended");
    }
    let a_request = counts.handshakes_full as f64 / facts.ended;
    let (full, resumed) = (show_grouped(counts.handshakes_full), show_grouped(counts.handshakes_resumed));
    let text =
        format!("{full} full handshakes and {resumed} resumed ones for {} requests", show_grouped(facts.ended as u64));
    let client = facts.piece::<Client>(text, "handshakes.per_request", a_request, "ratio").from(HANDSHAKES.value);
    let (Some(cost_ns), Some(demand)) = (facts.cpu_ns_per_request(), facts.busiest_demand()) else {
        return Verdict::not_observable("CPU time of a handshake", "the target's CPU time was not read")
            .because(client.into());
    };
    let text = format!(
        "the target used {} of CPU for each request, its busiest thread wanted {} of a core",
        duration(cost_ns),
        percent(demand)
    );
    let process = facts
        .piece::<Process>(text, "target.cpu_us_per_request", cost_ns / 1e3, "us")
        .from(HANDSHAKE_CPU_NS.value / 1e3);
    if a_request < HANDSHAKES.value || cost_ns < HANDSHAKE_CPU_NS.value || demand < DEMAND_FULL.value {
        return Verdict::refuted("handshakes do not take up the target").because(client.into()).because(process.into());
    }
    let (kind, share) = of_loss::of_time(facts, setting_up_ns);
    Verdict::proved(Severity::Warning, format!("TLS handshakes take up the target: {} of CPU each", duration(cost_ns)), client, process)
        .explains(kind, share, share * 0.8, 1.0)
        .remedy("Keep connections open, resume sessions (tickets), and use a P-256 key: a signature of it costs a tenth of RSA-2048's, a fortieth of RSA-4096's")
        .check("openssl speed -seconds 1 rsa2048 rsa4096 ecdsap256; openssl s_client -reconnect -connect HOST:PORT")
        .confidence(0.85)
}

/// The time from when a request could leave, or its connection was begun, until it left: of one that comes first on its connection.
fn setting_up_ns(request: &Request) -> f64 {
    let from_ns = request.ready_ns.max(request.connect_ns);
    if request.ordinal == 1 { request.sent_ns.saturating_sub(from_ns) as f64 } else { 0.0 }
}
