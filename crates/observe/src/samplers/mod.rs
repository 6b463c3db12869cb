//! The samplers: each fills its part of a snapshot, and says why where it cannot.
//!
//! [`SAMPLERS`] is the whole list of those that read files; probes in the kernel have a list of their own, in [`bpf`]. To add one: copy a neighbour's file, add a line here. A sampler's failure is a
//! result: it is kept, shown, and read by the rules.

#[cfg(feature = "bpf")]
pub mod bpf;
#[cfg(not(feature = "bpf"))]
#[path = "bpf_absent.rs"]
pub mod bpf;
pub mod host {
    //! The machine.
    pub mod clock;
    pub mod cpu;
    pub mod memory;
}
pub mod network {
    //! The network stack, of this network namespace.
    pub mod time_wait;
}
pub mod process {
    //! The target's processes and the generator's own.
    pub mod memory;
    pub mod threads;
}

use crate::source::proc::{Buffers, SampleError};
use model::Snapshot;

/// A sampler as it is listed.
#[derive(Debug)]
pub struct Entry {
    /// Its name, `family/name`.
    pub name: &'static str,
    /// What it reads, in a sentence.
    pub about: &'static str,
    pub(crate) make: fn() -> Box<dyn Sampler>,
}

/// Every sampler, in the order they are read: processes first, as their threads move fastest.
pub const SAMPLERS: &[Entry] = &[
    process::threads::ENTRY,
    process::memory::ENTRY,
    host::cpu::ENTRY,
    host::memory::ENTRY,
    host::clock::ENTRY,
    network::time_wait::ENTRY,
];

/// Reads one thing into a snapshot.
pub(crate) trait Sampler: Send + std::fmt::Debug {
    /// Reads. `snapshot.processes` is there already, each without threads and memory.
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_of_the_form_family_slash_name() {
        for (i, entry) in SAMPLERS.iter().enumerate() {
            assert_eq!(entry.name.split('/').count(), 2, "{}", entry.name);
            assert!(SAMPLERS[..i].iter().all(|other| other.name != entry.name));
            assert!(!entry.about.is_empty());
        }
    }
}
