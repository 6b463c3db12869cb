//! Swapping, refaults, major faults, reclaim and OOM kills, from `/proc/vmstat`.
//! The whole machine's, also in a container. Names that a kernel does not have are absent; stalls of an allocation are
//! summed over the zones (`allocstall_dma32`, `allocstall_normal`, …).
//! Cost: one read a second, some 5 KiB. Needs no privilege.

use crate::metric::{Metric, counter, fill};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, number};
use model::Snapshot;

const METRICS: &[Metric] = &[
    counter("swap_in_pages", "pages", "pswpin", "read back from swap").otel("system.paging.operations"),
    counter("swap_out_pages", "pages", "pswpout", "written to swap").otel("system.paging.operations"),
    counter("refaults_anonymous", "pages", "workingset_refault_anon", "needed again soon after they were swapped out"),
    counter("refaults_file", "pages", "workingset_refault_file", "of files, needed again soon after they were dropped"),
    counter("page_faults", "faults", "pgfault", "page faults of all kinds").otel("system.paging.faults"),
    counter("major_faults", "faults", "pgmajfault", "page faults that had to wait for a disk")
        .otel("system.paging.faults"),
    counter("direct_reclaim_pages", "pages", "pgsteal_direct", "taken back by who needed memory, while it waited"),
    counter("allocation_stalls", "stalls", "allocstall", "allocations that had to take memory back first"),
    counter("compaction_stalls", "stalls", "compact_stall", "allocations that had to make room in one piece first"),
    counter("oom_kills", "processes", "oom_kill", "killed for want of memory"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/vmstat",
    about: "swapping, refaults, major faults, stalls of allocations (/proc/vmstat)",
    needs: "CONFIG_VM_EVENT_COUNTERS",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Vmstat { vmstat: HotFile::new("/proc/vmstat") }),
};

#[derive(Debug)]
struct Vmstat {
    vmstat: HotFile,
}

impl Sampler for Vmstat {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let path = self.vmstat.path();
        let text = buffers.read_hot(&mut self.vmstat)?;
        match fill(METRICS, &mut snapshot.host, |name| parse(text, name)) {
            0 => Err(SampleError::lacks(path, "every name that is looked for")),
            _ => Ok(()),
        }
    }
}

/// The number of a name, or the sum of those of the name with a zone behind it.
fn parse(text: &[u8], name: &str) -> Option<u64> {
    let mut sum = None;
    for line in lines(text) {
        let Some(rest) = line.strip_prefix(name.as_bytes()) else { continue };
        match rest.first() {
            Some(b' ') => return number(rest),
            Some(b'_') if name == "allocstall" => {
                let value = number(&rest[rest.iter().position(|b| *b == b' ')?..])?;
                sum = Some(sum.unwrap_or(0u64).saturating_add(value));
            }
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_and_zones_are_summed() {
        let text = b"pswpin 3\npswpout 4\npgfault 9\npgmajfault 2\nallocstall_dma 0\nallocstall_normal 5\nallocstall_movable 6\noom_kill 1\n";
        assert_eq!(parse(text, "pswpin"), Some(3));
        assert_eq!(parse(text, "pgfault"), Some(9));
        assert_eq!(parse(text, "allocstall"), Some(11));
        assert_eq!(parse(text, "pswp"), None);
        assert_eq!(parse(text, "workingset_refault_anon"), None, "absent, not zero");
        assert_eq!(parse(b"allocstall 7\n", "allocstall"), Some(7), "before zones");
    }
}
