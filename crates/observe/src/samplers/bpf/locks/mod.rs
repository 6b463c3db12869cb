//! How long the target's threads waited for the kernel's own locks.
//!
//! By `contention_begin` and `contention_end` (Linux 5.19): mutexes, semaphores, spin locks. Locks of the program's own
//! are the system call `futex`. In windows, as a contended kernel calls it often.

use super::{Probe, Reading, object};
use crate::source::bpf::{BpfError, Programs};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/locks",
    about: "time that the target's threads waited for locks of the kernel",
    in_windows: true,
    object: object!("locks"),
    counts: &["contentions", "threads_lost"],
    histograms: &["wait_ns"],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    // A wait that began in this window and ends unseen must not be taken for one of the next.
    if reading.window_ended { programs.forget("waiting") } else { Ok(()) }
}
