//! Forks, exits, signals and OOM kills of the target: each an event with its moment, however short the process lived.
//!
//! By `sched_process_fork`, `sched_process_exit`, `signal_generate` (for the sender), `signal_deliver` and `mark_victim`.
//! A child of a target's process is watched from its first instruction. A signal counts when a thread takes it, not when it
//! is sent; one that ends a process is taken by each of its threads, and is one event. Others that are equal within a tick
//! are one event with a number. Signals by which a language's runtime interrupts its own threads, hundreds a second, are
//! left out. Which process it was is told by its start as well, as ids are given again. In a PID namespace, Linux before
//! 6.9 does not say whom it kills for want of memory. Cost: a look-up a fork, exit and signal of any process.

mod told;

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs};
use told::{Record, Seen};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/lifecycle",
    about: "forks, exits with their code and last system call, signals delivered, OOM kills",
    runs: Runs::Always,
    object: object!("lifecycle"),
    counts: &["signals", "exits", "thread_exits", "forks", "oom_kills", "records_lost", "targets_lost"],
    histograms: &[],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let mut seen = Seen::default();
    let count = |name: &str| reading.sample.counts.get(name).copied().unwrap_or(0);
    let events = count("lifecycle.signals") + count("lifecycle.exits") + count("lifecycle.oom_kills");
    let written = events.saturating_sub(count("lifecycle.records_lost"));
    programs.take_records("records", written, |bytes| {
        if let Some(record) = Record::parse(bytes) {
            seen.add(record);
        }
    })?;
    reading.events.extend(seen.told(reading.origin_ns));
    Ok(())
}
