//! Resident memory (`/proc/<pid>/statm`, second field) and open descriptors (`/proc/<pid>/fd`) of each process.
//! Since Linux 6.2 the directory's size is the number of descriptors, for anybody to see; before, its entries are
//! counted, for which another user's process needs CAP_SYS_PTRACE. Shared pages count in every process that has them.
//! Cost: one file opened and one directory looked at for each process a tick.

use crate::metric::{Metric, gauge};
use crate::samplers::{EACH, Entry, Sampler, first_failure, living_id};
use crate::source::proc::{Buffers, SampleError, number, words};
use model::Snapshot;

const METRICS: &[Metric] = &[
    gauge("rss_bytes", "bytes", "statm, 2nd field", "resident memory").otel("process.memory.usage"),
    gauge("descriptors", "descriptors", "fd", "open descriptors").otel("process.unix.file_descriptor.count"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/memory",
    about: "resident memory and open descriptors of the target and of the generator (/proc/<pid>/statm, fd)",
    needs: "nothing; before Linux 6.2 CAP_SYS_PTRACE for another user's descriptors",
    cost: "1 file, 1 folder a process a tick",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(Memory),
};

#[derive(Debug)]
struct Memory;

impl Sampler for Memory {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let mut outcome = Ok(());
        for process in &mut snapshot.processes {
            let id = living_id(process);
            match rss_bytes(buffers, id) {
                Ok(bytes) => process.rss_bytes = Some(bytes),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            match descriptors(id) {
                Ok(count) => process.descriptors = Some(count),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        first_failure(outcome)
    }
}

fn rss_bytes(buffers: &mut Buffers, pid: u32) -> Result<u64, SampleError> {
    let pages = words(buffers.read_single(format_args!("/proc/{pid}/statm"))?).nth(1).and_then(number);
    let pages = pages.ok_or_else(|| SampleError::lacks(format!("/proc/{pid}/statm"), "its second field"))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

fn descriptors(pid: u32) -> Result<u64, SampleError> {
    let path = format!("/proc/{pid}/fd");
    let failed = |source| SampleError::of(&path, source);
    let size = std::fs::metadata(&path).map_err(failed)?.len();
    if size > 0 {
        return Ok(size);
    }
    Ok(std::fs::read_dir(&path).map_err(failed)?.count() as u64)
}
