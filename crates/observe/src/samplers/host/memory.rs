//! Memory that could be had without swapping, and the kernel's slab, from `/proc/meminfo` (`MemAvailable`, `Slab`).
//! The whole machine's: a container's limit is not in it. Cost: one read a tick. Needs no privilege.

use crate::samplers::{Entry, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, number_after};
use model::Snapshot;

pub(crate) const ENTRY: Entry = Entry {
    name: "host/memory",
    about: "memory available, slab (/proc/meminfo)",
    make: || Box::new(Memory { meminfo: HotFile::new("/proc/meminfo") }),
};

#[derive(Debug)]
struct Memory {
    meminfo: HotFile,
}

impl Sampler for Memory {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let path = self.meminfo.path();
        let meminfo = buffers.read_hot(&mut self.meminfo)?;
        let kib = number_after(meminfo, b"MemAvailable:");
        snapshot.memory_available_bytes = kib.map(|kib| kib.saturating_mul(1024));
        snapshot.slab_bytes = number_after(meminfo, b"Slab:").map(|kib| kib.saturating_mul(1024));
        kib.map(|_| ()).ok_or_else(|| SampleError::lacks(path, "'MemAvailable'"))
    }
}
