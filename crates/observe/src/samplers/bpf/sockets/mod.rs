//! The target's TCP sockets on its ports: sizes received and sent, with TCP_NODELAY or not, packets in flight, and three
//! times: established → first read (its accept queue and the client's own pause are inside), and first read of a request
//! → first send of its reply, the service time as the kernel sees it.
//!
//! By `sock_recv_length`, `sock_send_length` and `inet_sock_set_state`. Small: below a segment. In flight: not yet
//! acknowledged when the send returned, its own segment left out. Held back: Nagle's rule keeps a small segment because of
//! them. With pipelined requests a pair is the first read after a send and the next send. Not here: delayed
//! acknowledgements, for which there is no tracepoint. Cost: a few look-ups a receive and a send.

use super::{Probe, nothing, object};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/sockets",
    about: "receives and sends on the target's ports: sizes, NODELAY, packets in flight, time from request to reply",
    in_windows: false,
    object: object!("sockets"),
    counts: &[
        "receives",
        "sends",
        "sends_nodelay",
        "small_sends_in_flight",
        "sends_held_back",
        "send_buffer_full",
        "established",
        "sockets_lost",
    ],
    histograms: &["receive_bytes", "send_bytes", "service_ns", "first_read_ns", "in_flight_packets"],
    read: nothing,
};
