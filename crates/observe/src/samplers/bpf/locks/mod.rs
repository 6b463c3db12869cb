//! How long the target's threads waited for the kernel's own locks.
//!
//! By `contention_begin` and `contention_end` (Linux 5.19): mutexes, semaphores, spin locks. Locks of the program's own
//! are the system call `futex`. In windows, as a contended kernel calls it often.

use super::{Probe, Runs, nothing, object};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/locks",
    about: "time that the target's threads waited for locks of the kernel",
    runs: Runs::InWindows,
    object: object!("locks"),
    counts: &["contentions", "threads_lost"],
    histograms: &["wait_ns"],
    read: nothing,
};
