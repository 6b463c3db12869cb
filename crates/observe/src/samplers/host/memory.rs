//! Memory and swap, and what memory is used for, from `/proc/meminfo`.
//! The whole machine's: a container's limit is not in it. Cost: one read a second. Needs no privilege.

use crate::metric::{Metric, fill, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, number_after};
use model::Snapshot;

const METRICS: &[Metric] = &[
    gauge("memory_available_bytes", "bytes", "MemAvailable:", "could be had without swapping")
        .otel("system.linux.memory.available"),
    gauge("slab_bytes", "bytes", "Slab:", "the kernel's own objects").otel("system.linux.memory.slab.usage"),
    gauge("memory_total_bytes", "bytes", "MemTotal:", "memory there is").otel("system.memory.limit"),
    gauge("memory_free_bytes", "bytes", "MemFree:", "used for nothing").otel("system.memory.usage"),
    gauge("memory_cached_bytes", "bytes", "Cached:", "pages of files").otel("system.memory.usage"),
    gauge("memory_anonymous_bytes", "bytes", "AnonPages:", "pages of processes that are of no file"),
    gauge("memory_dirty_bytes", "bytes", "Dirty:", "pages that wait to be written to a disk"),
    gauge("memory_writeback_bytes", "bytes", "Writeback:", "pages that are being written to a disk"),
    gauge("swap_total_bytes", "bytes", "SwapTotal:", "swap space there is").otel("system.paging.usage"),
    gauge("swap_free_bytes", "bytes", "SwapFree:", "swap space that is free").otel("system.paging.usage"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/memory",
    about: "memory available, what it is used for, swap (/proc/meminfo)",
    needs: "nothing",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
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
        fill(METRICS, &mut snapshot.host, |key| Some(number_after(meminfo, key.as_bytes())?.saturating_mul(1024)));
        snapshot.memory_available_bytes = snapshot.host.of("memory_available_bytes");
        snapshot.slab_bytes = snapshot.host.of("slab_bytes");
        snapshot.memory_available_bytes.map(|_| ()).ok_or_else(|| SampleError::lacks(path, "'MemAvailable'"))
    }
}
