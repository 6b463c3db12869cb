//! How long the target's threads were runnable and had no CPU: the delay the scheduler adds.
//!
//! By `sched_wakeup`, `sched_wakeup_new` and `sched_switch`. The sum agrees with the second field of
//! `/proc/<pid>/schedstat`, which is read all the time; this shows how it is spread. Cost: a look-up a wake-up and two a
//! context switch of the host, the generator's too, so in windows alone (`docs/decisions/2026-11-23-probes-cost.md`).

use super::{Probe, Runs, nothing, object};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/runqueue",
    about: "time that the target's threads waited for a CPU",
    runs: Runs::Always,
    object: object!("runqueue"),
    counts: &["preempted", "threads_lost"],
    histograms: &["wait_ns"],
    read: nothing,
};
