//! The samplers: each fills its part of a snapshot, and says why where it cannot.
//!
//! [`SAMPLERS`] is the whole list of those that read files; probes in the kernel have a list of their own, in [`bpf`]. To add one: copy a neighbour's file, add a line here. A sampler's failure is a
//! result: it is kept, shown, and read by the rules.

#[cfg(feature = "bpf")]
pub mod bpf;
#[cfg(not(feature = "bpf"))]
#[path = "bpf_absent.rs"]
pub mod bpf;
mod calls;
pub mod host {
    //! The machine.
    pub mod clock;
    pub mod cpu;
    pub mod disks;
    pub mod kernel_log;
    pub mod memory;
    pub mod pressure;
    pub mod softnet;
    pub mod vmstat;
}
pub mod network {
    //! The network stack: of the target's network namespace, or where no target is known, of the generator's.
    mod backends;
    pub mod connections;
    pub mod conntrack;
    pub mod counters;
    mod epolls;
    mod growth;
    pub mod interfaces;
    pub mod listeners;
    pub mod lookups;
    pub mod outgoing;
    mod outgoing_unix;
    mod owned;
    pub mod sockstat;
    pub mod time_wait;

    use model::Snapshot;
    use model::snapshot::Role;

    /// The folder of network files that follow the target's first process, and its id; those of this process where
    /// no target is known.
    pub(crate) fn folder(snapshot: &Snapshot) -> (String, Option<u32>) {
        let first = snapshot.processes.iter().find(|process| process.role == Role::Target);
        let pid = first.map(super::living_id);
        (pid.map_or("/proc/self/net".to_owned(), |pid| format!("/proc/{pid}/net")), pid)
    }
}
pub mod process {
    //! The target's processes; of the generator's own, threads, memory, descriptors and quota; those beside them.
    pub mod cgroup;
    pub mod cgroup_waits;
    pub(crate) mod descriptor_kinds;
    pub mod files;
    pub mod io;
    pub mod memory;
    pub mod memory_kinds;
    pub mod neighbours;
    pub mod quota;
    pub mod runtimes;
    pub mod stands;
    pub mod switches;
    mod target_group;
    mod thread_by_thread;
    pub mod threads;
}

use crate::metric::Metric;
use crate::observer::ObserveSpec;
use crate::source::proc::{Buffers, SampleError};
use crate::source::stat::thread_has_ended;
use model::snapshot::{ProcessSample, Role};
use model::{Event, Snapshot};

/// A sampler as it is listed.
#[derive(Debug)]
pub struct Entry {
    /// Its name, `family/name`.
    pub name: &'static str,
    /// What it reads, in a sentence.
    pub about: &'static str,
    /// Which right or part of the kernel it needs; `nothing`.
    pub needs: &'static str,
    /// What it costs, in a phrase.
    pub cost: &'static str,
    /// The least time between two of its readings, nanoseconds; 0: it takes part in each.
    pub every_ns: i64,
    /// What it gives, by name.
    pub metrics: &'static [Metric],
    pub(crate) make: fn() -> Box<dyn Sampler>,
}

/// [`Entry::every_ns`] of what must be known of each interval of a run, however short it is.
pub(crate) const EACH: i64 = 0;
/// [`Entry::every_ns`] of what moves slowly or costs much: once a second, less what a tick of a second may come early.
pub(crate) const SECOND: i64 = 900_000_000;

/// Every sampler, in the order they are read: processes first, as their threads move fastest.
pub const SAMPLERS: &[Entry] = &[
    process::threads::ENTRY,
    host::cpu::ENTRY,
    process::neighbours::ENTRY,
    process::quota::ENTRY,
    process::stands::ENTRY,
    process::switches::ENTRY,
    process::memory::ENTRY,
    process::memory_kinds::ENTRY,
    process::files::ENTRY,
    process::io::ENTRY,
    process::runtimes::ENTRY,
    process::cgroup::ENTRY,
    process::cgroup_waits::ENTRY,
    host::memory::ENTRY,
    host::vmstat::ENTRY,
    host::pressure::ENTRY,
    host::disks::ENTRY,
    host::softnet::ENTRY,
    host::clock::ENTRY,
    host::kernel_log::ENTRY,
    network::time_wait::ENTRY,
    network::counters::ENTRY,
    network::sockstat::ENTRY,
    network::interfaces::ENTRY,
    network::conntrack::ENTRY,
    network::listeners::ENTRY,
    network::connections::ENTRY,
    network::outgoing::ENTRY,
    network::lookups::ENTRY,
];

/// The watch on the target's processes, which no sampler is and which has a status and metrics like one: its name,
/// what it reads, its metrics.
pub const TARGET: (&str, &str, &[Metric]) = (
    crate::watch::NAME,
    "the target's processes: CPU time, page faults, start (/proc/<pid>/stat)",
    crate::watch::METRICS,
);

/// Reads one thing into a snapshot.
pub(crate) trait Sampler: Send + std::fmt::Debug {
    /// Told before a reading that is to have everything.
    fn be_whole(&mut self) {}

    /// Told once, before the first reading, what is to be observed.
    fn begin(&mut self, _spec: &ObserveSpec) {}

    /// Reads. `snapshot.processes` is there already, each without threads and memory.
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError>;

    /// What it left out of its last reading, in a phrase; `None`: nothing.
    fn leaves_out(&self) -> Option<String> {
        None
    }

    /// What happened since this was last asked.
    fn take_events(&mut self) -> Vec<Event> {
        Vec::new()
    }
}

/// The target's processes in a snapshot.
pub(crate) fn of_target(snapshot: &mut Snapshot) -> Result<impl Iterator<Item = &mut ProcessSample>, SampleError> {
    let is_target = |process: &ProcessSample| process.role == Role::Target;
    if !snapshot.processes.iter().any(is_target) {
        return Err(SampleError::nothing("no process of the target is known"));
    }
    Ok(snapshot.processes.iter_mut().filter(move |process| is_target(process)))
}

/// The id of a process's that is living; see [`thread_has_ended`]: memory and descriptors are not shown under that of a
/// first thread that has ended before the others (threads are read before all else).
pub(crate) fn living_id(process: &ProcessSample) -> u32 {
    let is_first_gone = process.threads.iter().any(|t| t.tid == process.pid && thread_has_ended(t.state));
    if !is_first_gone {
        return process.pid;
    }
    process.threads.iter().find(|thread| !thread_has_ended(thread.state)).map_or(process.pid, |thread| thread.tid)
}

/// The first failure of several readings, but those of what has ended in between.
pub(crate) fn first_failure(outcome: Result<(), SampleError>) -> Result<(), SampleError> {
    outcome.or_else(|error| if error.is_gone() { Ok(()) } else { Err(error) })
}

/// A process of the target of which nothing is known yet.
#[cfg(test)]
pub(crate) fn process_of_target(pid: u32) -> ProcessSample {
    ProcessSample {
        role: Role::Target,
        pid,
        start_ticks: 1,
        name: String::new(),
        rss_bytes: None,
        descriptors: None,
        user_ns: None,
        system_ns: None,
        threads: Vec::new(),
        threads_total: 1,
        runtime: None,
        metrics: model::metrics::Metrics::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_of_the_form_family_slash_name() {
        for (i, entry) in SAMPLERS.iter().enumerate() {
            assert_eq!(entry.name.split('/').count(), 2, "{}", entry.name);
            assert!(SAMPLERS[..i].iter().all(|other| other.name != entry.name));
            assert!(!entry.about.is_empty() && !entry.metrics.is_empty(), "{}", entry.name);
            assert!(!entry.needs.is_empty() && !entry.cost.is_empty(), "{}", entry.name);
        }
    }
}
