//! Requests, bytes and busy time of each disk, from `/proc/diskstats` (Documentation/admin-guide/iostats.rst).
//! Whole disks that were ever used; partitions, RAM disks and loop devices are left out, as their I/O is that of what is
//! below them. A container sees the machine's. Cost: one read a second, and a look at `/sys/block` for each new name.
//! Needs no privilege.

use crate::limits::DEVICES_MAX;
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, number, words};
use model::Snapshot;
use model::metrics::Metrics;
use std::collections::BTreeMap;

/// By their column after the name.
const METRICS: &[Metric] = &[
    counter("reads", "requests", "1st field", "reads completed").otel("system.disk.operations"),
    counter("read_bytes", "bytes", "3rd field × 512", "read").otel("system.disk.io"),
    counter("read_ns", "ns", "4th field", "all reads' time together").otel("system.disk.operation_time"),
    counter("writes", "requests", "5th field", "writes completed").otel("system.disk.operations"),
    counter("write_bytes", "bytes", "7th field × 512", "written").otel("system.disk.io"),
    counter("write_ns", "ns", "8th field", "all writes' time together").otel("system.disk.operation_time"),
    gauge("in_flight", "requests", "9th field", "under way"),
    counter("busy_ns", "ns", "10th field", "time with a request under way").otel("system.disk.io_time"),
];
/// The column of each, and what a number in it stands for.
const COLUMNS: [(usize, u64); 8] =
    [(0, 1), (2, 512), (3, 1_000_000), (4, 1), (6, 512), (7, 1_000_000), (8, 1), (9, 1_000_000)];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/disks",
    about: "requests, bytes, busy time of each disk (/proc/diskstats)",
    needs: "nothing",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Disks { diskstats: HotFile::new("/proc/diskstats"), is_disk: BTreeMap::new(), left_out: 0 }),
};

#[derive(Debug)]
struct Disks {
    diskstats: HotFile,
    /// Whether a name is a whole disk's.
    is_disk: BTreeMap<String, bool>,
    left_out: usize,
}

impl Sampler for Disks {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let root = buffers.root().to_owned();
        self.left_out = 0;
        for line in lines(buffers.read_hot(&mut self.diskstats)?) {
            let Some((name, metrics)) = parse(line) else { continue };
            if metrics.of("reads") == Some(0) && metrics.of("writes") == Some(0) {
                continue;
            }
            let is_disk = self.is_disk.entry(name.to_owned()).or_insert_with(|| {
                let is_other = ["loop", "ram", "zram"].iter().any(|other| name.starts_with(other));
                !is_other && std::path::Path::new(&format!("{root}/sys/block/{}", name.replace('/', "!"))).exists()
            });
            if !*is_disk {
                continue;
            }
            if snapshot.disks.len() == DEVICES_MAX {
                self.left_out += 1;
            } else {
                snapshot.disks.insert(name.to_owned(), metrics);
            }
        }
        Ok(())
    }

    fn leaves_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} disks beyond the first {DEVICES_MAX}", self.left_out))
    }
}

/// `8 0 sda 1 2 3 …`.
fn parse(line: &[u8]) -> Option<(&str, Metrics)> {
    let mut columns = words(line).skip(2);
    let name = std::str::from_utf8(columns.next()?).ok()?;
    let numbers: Vec<u64> = columns.map_while(number).collect();
    let mut metrics = Metrics::default();
    for (metric, (column, scale)) in METRICS.iter().zip(COLUMNS) {
        metrics.set(metric.name, numbers.get(column)?.saturating_mul(scale));
    }
    Some((name, metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_disks_that_were_used_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["proc", "sys/block/sda", "sys/block/sdb", "sys/block/loop0", "sys/block/cciss!c0d0"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let used = "100 1 8 30 200 2 16 40 3 50 70 0 0 0 0";
        let text = format!(
            "   8  0 sda {used}\n 8 1 sda1 {used}\n 8 16 sdb 0 0 0 0 0 0 0 0 0 0 0\n 7 0 loop0 {used}\n\
             104 0 cciss/c0d0 {used}\n 9 9 cut 1 2 3\n"
        );
        std::fs::write(folder.path().join("proc/diskstats"), text).unwrap();
        let mut snapshot = Snapshot::default();
        (ENTRY.make)().sample(&mut Buffers::below(folder.path()), &mut snapshot).unwrap();
        assert_eq!(snapshot.disks.keys().collect::<Vec<_>>(), ["cciss/c0d0", "sda"]);
        let values: Vec<_> = METRICS.iter().map(|metric| snapshot.disks["sda"].of(metric.name).unwrap()).collect();
        assert_eq!(values, [100, 4096, 30_000_000, 200, 8192, 40_000_000, 3, 50_000_000]);
    }
}
