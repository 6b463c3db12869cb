//! `receive-window`: the client's receive window is what bounds the target's sending: a small receive buffer there, or a client
//! that reads slowly.
//!
//! Evidence: (sockets) of the time in which the target had data under way, a tenth and more was bound by the peer's window;
//! (client) most of a request's time goes by after the first byte of its reply. Refuted below; where the target had nothing under
//! way for most of a request's time; where it is full; and where the generator itself was busy, as then it is the client that
//! reads slowly. Which of both it is the window's size tells (ss(8): snd_wnd). Source: tcp_info(7), tcpi_rwnd_limited
//! (net/ipv4/tcp.c, TCP_CHRONO_RWND_LIMITED); RFC 9293, 3.8.6; the catalogue's tenth; measured: tcp_rmem of 16 KiB at 20 ms, 43 %.

use super::send_buffer::body;
use crate::evidence::Sockets;
use crate::facts::{Facts, percent};
use crate::rule::{CauseRule, Needs, OfTarget, Verdict};
use crate::thresholds::{DEMAND_FULL, READER_BUSY, SEND_LIMITED, SENDING};
use model::finding::{LossKind, Severity};

/// See the file's head.
pub const RULE: CauseRule =
    CauseRule { id: "receive-window", needs: Needs::Connections, reads: &[&["network/connections"]], judge };

fn judge(facts: &Facts<'_>) -> Verdict<OfTarget> {
    let Some(sending) = facts.sending() else {
        return Verdict::not_observable(
            "what bounds sending",
            "no request succeeded, or the target's connections were not read twice",
        );
    };
    let text = format!(
        "{} of the requests' time the target had data under way, {} of that bound by its clients' windows",
        percent(sending.of_requests),
        percent(sending.window)
    );
    let sockets = facts.piece::<Sockets>(text, "send_window_limited", sending.window, "ratio").from(SEND_LIMITED.value);
    if sending.window < SEND_LIMITED.value || sending.of_requests < SENDING.value {
        return Verdict::refuted("clients' windows hardly bounded the target").because(sockets.into());
    }
    if facts.busiest_demand().is_none_or(|demand| demand >= DEMAND_FULL.value) {
        return Verdict::refuted("the target is full, or its threads were not read").because(sockets.into());
    }
    let busy = facts.whole.mean_over_rows(|row| row.worker_busy_max + row.worker_wait_max);
    if busy >= READER_BUSY.value || facts.generator_host.is_some_and(|host| host.is_full()) {
        return Verdict::refuted("the generator or its machine was busy, and read late what came")
            .because(sockets.into());
    }
    let Some((client, share)) = body(facts) else {
        return Verdict::not_observable("how long replies took", "no first byte was timed").because(sockets.into());
    };
    if share < SENDING.value {
        return Verdict::refuted("most of a request's time had gone by before its reply began")
            .because(sockets.into())
            .because(client.into());
    }
    let explained = sending.of_requests * sending.window;
    Verdict::proved(Severity::Warning, "the clients' receive windows let the target send no more at a time", sockets, client)
        .explains(LossKind::Waiting, explained.max(sending.window * share), explained * 0.5, 1.0)
        .remedy("Give clients larger receive buffers (net.ipv4.tcp_rmem, no small SO_RCVBUF), or read faster there; the target can only send smaller replies")
        .check("ss -tni state established '( sport = :PORT )' # rwnd_limited, and snd_wnd beside rate × rtt; Recv-Q at the client")
        .confidence(0.85)
}
