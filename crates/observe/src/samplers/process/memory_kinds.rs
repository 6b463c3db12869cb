//! Kinds of memory of each process of the target: anonymous, of files, shared, swapped (`/proc/<pid>/status`), and its
//! proportional share of shared pages (`Pss` of `/proc/<pid>/smaps_rollup`). And who traces it, as that stands beside them.
//! The kernel walks through all pages for the share: it is read every ten seconds at the most, and not of a process
//! that has more than 128 MiB resident; where it was not just read it is absent.
//! Cost: one file opened for each process a second. The share of another user's process needs CAP_SYS_PTRACE.

use crate::limits::{SHARE_BYTES_MAX, SHARE_EVERY_NS};
use crate::metric::{Metric, fill, gauge};
use crate::samplers::{Entry, SECOND, Sampler, first_failure, living_id, of_target};
use crate::source::proc::{Buffers, SampleError, number_after};
use model::Snapshot;

const METRICS: &[Metric] = &[
    gauge("rss_anonymous_bytes", "bytes", "RssAnon:", "resident pages that are of no file"),
    gauge("rss_file_bytes", "bytes", "RssFile:", "resident pages of files"),
    gauge("rss_shared_bytes", "bytes", "RssShmem:", "resident pages of shared memory"),
    gauge("rss_peak_bytes", "bytes", "VmHWM:", "most that was ever resident"),
    gauge("swapped_bytes", "bytes", "VmSwap:", "in swap"),
    gauge("virtual_bytes", "bytes", "VmSize:", "address space").otel("process.memory.virtual"),
];
const SHARE: Metric =
    gauge("pss_bytes", "bytes", "Pss:", "resident, each shared page divided by who shares it; only when just read");
const WALKED: Metric =
    gauge("rss_walked_bytes", "bytes", "Rss:", "resident, counted page by page; only when just read");
/// It stands in the same file.
const TRACER: Metric =
    gauge("tracer_pid", "pid", "TracerPid:", "the process that traces it by ptrace(2); 0: none does");
const ALL: &[Metric] = &[METRICS[0], METRICS[1], METRICS[2], METRICS[3], METRICS[4], METRICS[5], TRACER, SHARE, WALKED];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/memory_kinds",
    about: "kinds of the target's memory, swap, share of shared pages, who traces it (/proc/<pid>/status, smaps_rollup)",
    needs: "CAP_SYS_PTRACE for another user's share of pages",
    cost: "1 file a process a second; a walk through its pages every 10 s",
    every_ns: SECOND,
    metrics: ALL,
    make: || Box::new(MemoryKinds::default()),
};

#[derive(Debug, Default)]
struct MemoryKinds {
    read_ns: Option<i64>,
    too_large: usize,
}

impl Sampler for MemoryKinds {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let is_due = self.read_ns.is_none_or(|read| snapshot.at_ns.saturating_sub(read) >= SHARE_EVERY_NS);
        let now_ns = snapshot.at_ns;
        let mut outcome = Ok(());
        let processes = of_target(snapshot)?;
        if is_due {
            self.read_ns = Some(now_ns);
            self.too_large = 0;
        }
        for process in processes {
            let id = living_id(process);
            match buffers.read_single(format_args!("/proc/{id}/status")) {
                Ok(status) => {
                    let bytes = |key: &str| Some(number_after(status, key.as_bytes())?.saturating_mul(1024));
                    fill(METRICS, &mut process.metrics, bytes);
                    process.metrics.set_if(TRACER.name, number_after(status, TRACER.source.as_bytes()));
                }
                Err(error) => {
                    outcome = outcome.and(Err(error));
                    continue;
                }
            }
            if is_due && process.rss_bytes.unwrap_or(0) > SHARE_BYTES_MAX {
                self.too_large += 1;
            } else if is_due {
                match buffers.read(format_args!("/proc/{id}/smaps_rollup")) {
                    Ok(text) => {
                        let bytes = |key: &str| number_after(text, key.as_bytes());
                        for metric in [SHARE, WALKED] {
                            process
                                .metrics
                                .set_if(metric.name, bytes(metric.source).map(|kib| kib.saturating_mul(1024)));
                        }
                    }
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
        first_failure(outcome)
    }

    fn leaves_out(&self) -> Option<String> {
        let what = "has more than 128 MiB resident: its share of shared pages is not counted";
        (self.too_large > 0).then(|| format!("{} of the processes {what}", self.too_large))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::process_of_target;
    use model::snapshot::ProcessSample;

    fn process(rss_bytes: u64) -> ProcessSample {
        ProcessSample { rss_bytes: Some(rss_bytes), ..process_of_target(7) }
    }

    #[test]
    fn the_share_is_read_seldom_and_never_of_the_large() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/7")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join("proc/7").join(name), text).unwrap();
        write("status", "Name:\tx\nVmHWM:\t 9 kB\nRssAnon:\t 4 kB\nRssFile:\t 5 kB\nVmSwap:\t 0 kB\n");
        write("smaps_rollup", "55 rollup\nRss: 12 kB\nPss: 3 kB\n");
        let mut buffers = Buffers::below(folder.path());
        let mut sampler = MemoryKinds::default();
        let mut sample = |at_s: i64, rss: u64| {
            let mut snapshot =
                Snapshot { at_ns: at_s * 1_000_000_000, processes: vec![process(rss)], ..Snapshot::default() };
            sampler.sample(&mut buffers, &mut snapshot).unwrap();
            (snapshot.processes.remove(0).metrics, sampler.leaves_out())
        };
        let (first, _) = sample(0, 1);
        assert_eq!((first.of("rss_anonymous_bytes"), first.of("swapped_bytes")), (Some(4096), Some(0)));
        assert_eq!((first.of("rss_shared_bytes"), first.of("pss_bytes")), (None, Some(3072)));
        write("smaps_rollup", "Pss: 8 kB\n");
        assert_eq!(sample(9, 1).0.of("pss_bytes"), None, "it was not read");
        assert_eq!(sample(10, 1).0.of("pss_bytes"), Some(8192));
        let (large, left_out) = sample(20, SHARE_BYTES_MAX + 1);
        assert_eq!(large.of("pss_bytes"), None);
        assert!(left_out.unwrap().contains("128 MiB"));
    }
}
