//! The target's TCP sockets on its ports: sizes received and sent, with TCP_NODELAY or not, packets in flight, and
//! its times: established → accepted → first read (both parts only where `bpf/syscalls` saw it being accepted, else their
//! sum), and a request's arrival → first send of its reply: the service time as the kernel sees it, what the request lay
//! in the receive buffer included.
//!
//! By `sock_recv_length`, `sock_send_length` and `inet_sock_set_state`. Arrival and send are stamped by TCP's own clock,
//! which it reads at every segment: of what one read takes, the last segment's; where data lay so long that its
//! acknowledgement was due meanwhile (40 ms), by the kernel's tick (1 to 10 ms). Small: below a segment. In flight: not
//! yet acknowledged when the send returned, its own segment left out. Held back: Nagle's rule keeps a small segment
//! because of them. With pipelined requests a pair is the first read after a send and the next send. Cost: 0.2 µs a
//! receive and a send, half of it for being called at all, so those are looked at in windows; established and closed
//! connections always. State is kept with the socket. What is looked at without being taken (MSG_PEEK) is seen, so its
//! time counts, and is not received: `peeks`. `requests`: times from a request to its reply that began in a window;
//! `others_requests`, `others_service_ns`: those of clients that are not the generator, told by the port that they come
//! from: `generator_ports` are those that this process connected from, or sent from in a window. Absent where there is none
//! of these: the load is put on from elsewhere, or none is.
//! `not_ended`: those whose reply had not come by its end. `began_before`: connections whose first doing in a window was a
//! send, as the request had been read before; or there was none.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/sockets",
    about: "receives and sends on the target's ports: sizes, NODELAY, packets in flight, time from request to reply",
    runs: Runs::Always,
    object: object!("sockets"),
    counts: &[
        "sends_nodelay",
        "small_sends_in_flight",
        "sends_held_back",
        "send_buffer_full",
        "peeks",
        "requests",
        "began_before",
        "established",
        "closed",
        "sockets_lost",
        "others_requests",
        "generator_ports",
    ],
    histograms: &[
        "receive_bytes",
        "send_bytes",
        "service_ns",
        "first_read_ns",
        "accept_queue_ns",
        "accepted_read_ns",
        "in_flight_packets",
        "others_service_ns",
    ],
    read,
};

/// Receives and sends are as many as there are sizes of them; requests without an answer those without a time.
fn read(_: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    reading.count_not_ended("sockets.requests", "sockets.service_ns", "sockets.not_ended");
    for (count, sizes) in [("sockets.receives", "sockets.receive_bytes"), ("sockets.sends", "sockets.send_bytes")] {
        let n = reading.sample.histograms.get(sizes).map_or(0, model::bpf::Log2::count);
        reading.sample.counts.insert(count.to_owned(), n);
    }
    // Without a connection of the generator's there is nobody to tell others from: it is elsewhere, or puts no load.
    if reading.sample.counts.get("sockets.generator_ports").is_none_or(|ports| *ports == 0) {
        reading.sample.counts.remove("sockets.others_requests");
        reading.sample.histograms.remove("sockets.others_service_ns");
    }
    Ok(())
}
