//! `send-buffer`: the target's own send buffer is smaller than what the path holds, so it waits for acknowledgements while
//! there would be room on the way.
//!
//! Evidence: (sockets) of the time in which it had data under way to clients, a tenth and more was bound by its send buffer
//! alone, all of which had been sent; (client) most of a request's time goes by after the first byte of its reply. Refuted below;
//! where the target had nothing under way for most of a request's time; and where it is full, as then it is late to fill the
//! buffer. The peer's window is `receive-window`, the path itself `path-limited`. Source: tcp_info(7), tcpi_sndbuf_limited
//! (net/ipv4/tcp.c, TCP_CHRONO_SNDBUF_LIMITED); the catalogue's tenth; measured: SO_SNDBUF of 16 KiB at 20 ms, 65 %.

use crate::evidence::{Client, Sockets};
use crate::facts::{Facts, duration, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, SEND_LIMITED, SENDING};
use model::finding::{LossKind, Severity};
use model::latency::Kind;

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "send-buffer", needs: Needs::Connections, reads: &[&["network/connections"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(sending) = facts.sending() else {
        return Verdict::not_observable(
            "what bounds sending",
            "no request succeeded, or the target's connections were not read twice",
        );
    };
    let text = format!(
        "{} of the requests' time the target had data under way, {} of that bound by its own send buffer",
        percent(sending.of_requests),
        percent(sending.buffer)
    );
    let sockets = facts.piece::<Sockets>(text, "send_buffer_limited", sending.buffer, "ratio").from(SEND_LIMITED.value);
    if sending.buffer < SEND_LIMITED.value || sending.of_requests < SENDING.value {
        return Verdict::refuted("the send buffer hardly bounded the target").because(sockets.into());
    }
    if facts.busiest_demand().is_none_or(|demand| demand >= DEMAND_FULL.value) {
        return Verdict::refuted("the target is full, or its threads were not read").because(sockets.into());
    }
    let Some((client, body)) = body(facts) else {
        return Verdict::not_observable("how long replies took", "no first byte was timed").because(sockets.into());
    };
    if body < SENDING.value {
        return Verdict::refuted("most of a request's time had gone by before its reply began")
            .because(sockets.into())
            .because(client.into());
    }
    let share = sending.of_requests * sending.buffer;
    Verdict::proved(Severity::Warning, "the target's send buffer holds less than the path would carry", sockets, client)
        .explains(LossKind::Waiting, share.max(sending.buffer * body), share * 0.5, 1.0)
        .remedy("Do not set SO_SNDBUF (the kernel then lets it grow, up to net.ipv4.tcp_wmem), or set at least bandwidth × round trip")
        .check("ss -tnmi state established '( sport = :PORT )' # sndbuf_limited, and tb of skmem beside rate × rtt")
        .confidence(0.85)
}

/// How much of the requests' time went by after the first byte of their replies; `None`: no first byte was timed.
pub(super) fn body(facts: &Facts<'_>) -> Option<(crate::evidence::Piece<Client>, f64)> {
    let (service, first) = (facts.latency(Kind::Service), facts.latency(Kind::FirstByte));
    if service.is_empty() || first.is_empty() {
        return None;
    }
    let share = (1.0 - first.mean() / service.mean().max(1.0)).clamp(0.0, 1.0);
    let text = format!("replies took {}, {} of it after their first byte", duration(service.mean()), percent(share));
    Some((facts.piece::<Client>(text, "reply.body_share", share, "ratio").from(SENDING.value), share))
}
