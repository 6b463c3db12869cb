//! Delayed-ACK pairs: small segments that the target could not send before an earlier one was acknowledged (Nagle's
//! rule, no TCP_NODELAY), and the bare acknowledgement that let them go, after how long.
//!
//! By `tcp_probe`, which fires for each segment that an established socket receives, before TCP has looked at it: the
//! socket then still shows what was held and since when it last tried to send, so nothing is kept between two calls. Some
//! 40 ms is a delayed acknowledgement (`TCP_DELACK_MIN`); less, a peer that answered at once or in the course of reading.
//! Only on ports that are known. Released by data: the peer sent something of its own, which acknowledges too. Cost: a
//! look-up for each segment the host receives, so in windows.

use super::{Probe, Runs, nothing, object};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/delayed_acks",
    about: "small sends held back by Nagle's rule until a bare acknowledgement came, and for how long",
    runs: Runs::UntilEnough,
    object: object!("delayed_acks"),
    counts: &["pairs", "pairs_at_40ms", "released_by_data"],
    histograms: &["held_ns"],
    read: nothing,
};
