//! How long the target's threads waited for the kernel's own locks.
//!
//! By `contention_begin` and `contention_end` (Linux 5.19): mutexes, semaphores, spin locks. Locks of the program's own
//! are the system call `futex`. In windows, as a contended kernel calls it often. Waits that a window cuts have no time:
//! `began_before` it, or `not_ended` in it.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/locks",
    about: "time that the target's threads waited for locks of the kernel",
    runs: Runs::InWindows,
    object: object!("locks"),
    counts: &["contentions", "began_before", "threads_lost"],
    histograms: &["wait_ns"],
    read,
};

fn read(_: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    reading.count_not_ended("locks.contentions", "locks.wait_ns", "locks.not_ended");
    Ok(())
}
