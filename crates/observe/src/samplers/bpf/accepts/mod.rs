//! Connections that the target accepts, and its attempts that came back empty-handed (no connection waits, or no
//! descriptor is left): what makes `bpf/sockets` tell the accept queue from the time until the first read.
//!
//! By `sys_exit` of `accept` and `accept4`: in windows, as it slows every system call of the host a little. What is
//! accepted through io_uring is not seen.

use super::{Probe, nothing, object};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/accepts",
    about: "connections that the target accepted: for how long they waited for it",
    in_windows: true,
    object: object!("accepts"),
    counts: &["accepted", "empty_handed"],
    histograms: &[],
    read: nothing,
};
