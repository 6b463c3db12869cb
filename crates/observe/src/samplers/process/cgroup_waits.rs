//! What the control groups of the target's processes wait for and hold: pressure stall information, kinds of memory with
//! refaults and reclaim, bytes and calls on disks with their limits. Versions 1 and 2, and hybrids.
//! Pressure is of the process's group of version 2, wherever that is mounted: in the root of the hierarchy it is the whole
//! machine's. Memory and disks are of the process's own group and those below it. A limit on a disk is the lowest that any
//! group from its own to the mount sets on any disk; how long it held somebody the kernel does not count, so set bytes
//! against it, and pressure of I/O beside it. Processes of one group share one reading.
//! Cost: for each process one file opened a second, for each group about six. Needs no privilege.

use super::cgroup::{Folders, KnownGroups, text};
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::cgroup::number_of;
use crate::source::proc::{Buffers, SampleError};
use crate::source::setting::Root;
use model::Snapshot;
use model::metrics::Metrics;

const METRICS: &[Metric] = &[
    counter("cgroup_pressure_cpu_some_ns", "ns", "cpu.pressure some total", "a task of the group waited for a CPU"),
    counter("cgroup_pressure_cpu_full_ns", "ns", "cpu.pressure full total", "all did that could run"),
    counter("cgroup_pressure_memory_some_ns", "ns", "memory.pressure some total", "a task waited for memory"),
    counter("cgroup_pressure_memory_full_ns", "ns", "memory.pressure full total", "all did"),
    counter("cgroup_pressure_io_some_ns", "ns", "io.pressure some total", "a task waited for I/O"),
    counter("cgroup_pressure_io_full_ns", "ns", "io.pressure full total", "all did"),
    gauge(
        "cgroup_pressure_cpu_some_avg10_hundredths",
        "hundredths",
        "cpu.pressure some avg10",
        "per cent of ten seconds",
    ),
    gauge(
        "cgroup_pressure_memory_some_avg10_hundredths",
        "hundredths",
        "memory.pressure some avg10",
        "the same of memory",
    ),
    gauge("cgroup_pressure_io_some_avg10_hundredths", "hundredths", "io.pressure some avg10", "the same of I/O"),
    gauge("cgroup_memory_anonymous_bytes", "bytes", "memory.stat anon; v1 total_rss", "memory that is of no file"),
    gauge(
        "cgroup_memory_file_bytes",
        "bytes",
        "memory.stat file; v1 total_cache",
        "page cache, shared memory included",
    ),
    counter(
        "cgroup_refaults_anonymous",
        "pages",
        "memory.stat workingset_refault_anon",
        "needed again soon after swapped out",
    ),
    counter(
        "cgroup_refaults_file",
        "pages",
        "memory.stat workingset_refault_file",
        "of files, needed again soon after dropped",
    ),
    counter("cgroup_major_faults", "faults", "memory.stat pgmajfault", "page faults that waited for a disk"),
    counter("cgroup_reclaim_scanned_pages", "pages", "memory.stat pgscan", "looked at for reclaim; version 2 only"),
    gauge("cgroup_swapped_bytes", "bytes", "memory.swap.current; v1 total_swap", "in swap"),
    counter("cgroup_io_read_bytes", "bytes", "io.stat rbytes; v1 io_service_bytes", "read from disks by the group"),
    counter("cgroup_io_write_bytes", "bytes", "io.stat wbytes; v1 io_service_bytes", "written to disks"),
    counter("cgroup_io_reads", "requests", "io.stat rios; v1 io_serviced", "requests that read"),
    counter("cgroup_io_writes", "requests", "io.stat wios; v1 io_serviced", "requests that write"),
    gauge(
        "cgroup_io_read_limit_bytes_per_s",
        "bytes/s",
        "io.max rbps; v1 read_bps_device",
        "lowest limit; absent: none",
    ),
    gauge(
        "cgroup_io_write_limit_bytes_per_s",
        "bytes/s",
        "io.max wbps; v1 write_bps_device",
        "lowest limit; absent: none",
    ),
    gauge(
        "cgroup_io_reads_limit_per_s",
        "requests/s",
        "io.max riops; v1 read_iops_device",
        "lowest limit; absent: none",
    ),
    gauge(
        "cgroup_io_writes_limit_per_s",
        "requests/s",
        "io.max wiops; v1 write_iops_device",
        "lowest limit; absent: none",
    ),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/cgroup_waits",
    about: "pressure, kinds of memory, refaults, disk bytes and disk limits of the target's control groups (cgroup v1, v2)",
    needs: "control groups mounted, version 1 or 2; CONFIG_PSI for pressure",
    cost: "1 file a process, some 6 a group a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(CgroupWaits::default()),
};

#[derive(Debug, Default)]
struct CgroupWaits(KnownGroups);

impl Sampler for CgroupWaits {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        self.0.read(buffers, snapshot, |folders, root| {
            let mut metrics = Metrics::default();
            read_pressure(folders, root, &mut metrics);
            read_memory(folders, root, &mut metrics);
            read_io(folders, root, &mut metrics);
            metrics
        })
    }
}

/// Of each kind of pressure: its file, the names of its totals, and that of its average.
const PRESSURE: [(&str, [&str; 2], &str); 3] = [
    (
        "cpu.pressure",
        ["cgroup_pressure_cpu_some_ns", "cgroup_pressure_cpu_full_ns"],
        "cgroup_pressure_cpu_some_avg10_hundredths",
    ),
    (
        "memory.pressure",
        ["cgroup_pressure_memory_some_ns", "cgroup_pressure_memory_full_ns"],
        "cgroup_pressure_memory_some_avg10_hundredths",
    ),
    (
        "io.pressure",
        ["cgroup_pressure_io_some_ns", "cgroup_pressure_io_full_ns"],
        "cgroup_pressure_io_some_avg10_hundredths",
    ),
];

fn read_pressure(folders: &Folders, root: &Root, metrics: &mut Metrics) {
    let Some(group) = folders.unified.first() else { return };
    for (file, [some, full], average) in PRESSURE {
        let Some(text) = text(root, group, file) else { continue };
        metrics.set_if(some, pressure(&text, "some", "total=").map(|us| us.saturating_mul(1000)));
        metrics.set_if(full, pressure(&text, "full", "total=").map(|us| us.saturating_mul(1000)));
        metrics.set_if(average, pressure(&text, "some", "avg10="));
    }
}

/// A figure of a line such as `some avg10=0.12 avg60=0.00 avg300=0.00 total=5`: totals in microseconds, averages in
/// hundredths, which is how they are written.
fn pressure(text: &str, line: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.split_whitespace().next() == Some(line))?;
    let figure = line.split_whitespace().find_map(|word| word.strip_prefix(key))?;
    match figure.split_once('.') {
        None => figure.parse().ok(),
        Some((whole, hundredths)) if hundredths.len() == 2 => {
            let (whole, hundredths) = (whole.parse::<u64>().ok()?, hundredths.parse::<u64>().ok()?);
            whole.checked_mul(100)?.checked_add(hundredths)
        }
        Some(_) => None,
    }
}

fn read_memory(folders: &Folders, root: &Root, metrics: &mut Metrics) {
    let Some(group) = folders.memory.first() else { return };
    let Some(stat) = text(root, group, "memory.stat") else { return };
    // Of version 1 the sums with the groups below, as version 2 has them.
    let of = |v2: &str, v1: &str| number_of(&stat, if group.is_v2 { v2 } else { v1 });
    metrics.set_if("cgroup_memory_anonymous_bytes", of("anon", "total_rss"));
    metrics.set_if("cgroup_memory_file_bytes", of("file", "total_cache"));
    metrics.set_if("cgroup_refaults_anonymous", of("workingset_refault_anon", "total_workingset_refault_anon"));
    metrics.set_if("cgroup_refaults_file", of("workingset_refault_file", "total_workingset_refault_file"));
    metrics.set_if("cgroup_major_faults", of("pgmajfault", "total_pgmajfault"));
    metrics.set_if("cgroup_reclaim_scanned_pages", of("pgscan", "total_pgscan"));
    let swapped = match group.is_v2 {
        true => text(root, group, "memory.swap.current").and_then(|text| text.trim().parse().ok()),
        false => number_of(&stat, "total_swap"),
    };
    metrics.set_if("cgroup_swapped_bytes", swapped);
}

fn read_io(folders: &Folders, root: &Root, metrics: &mut Metrics) {
    let Some(own) = folders.io.first() else { return };
    if own.is_v2 {
        // In the root of the hierarchy there is none.
        let stat = text(root, own, "io.stat");
        for (name, key) in [
            ("cgroup_io_read_bytes", "rbytes="),
            ("cgroup_io_write_bytes", "wbytes="),
            ("cgroup_io_reads", "rios="),
            ("cgroup_io_writes", "wios="),
        ] {
            metrics.set_if(name, stat.as_deref().and_then(|stat| after_key(stat, key).reduce(u64::saturating_add)));
        }
    } else {
        for (file, read, written) in [
            ("blkio.throttle.io_service_bytes_recursive", "cgroup_io_read_bytes", "cgroup_io_write_bytes"),
            ("blkio.throttle.io_serviced_recursive", "cgroup_io_reads", "cgroup_io_writes"),
        ] {
            let Some(text) = text(root, own, file) else { continue };
            metrics.set(read, of_devices(&text, "Read"));
            metrics.set(written, of_devices(&text, "Write"));
        }
    }
    for (name, key, file) in [
        ("cgroup_io_read_limit_bytes_per_s", "rbps=", "blkio.throttle.read_bps_device"),
        ("cgroup_io_write_limit_bytes_per_s", "wbps=", "blkio.throttle.write_bps_device"),
        ("cgroup_io_reads_limit_per_s", "riops=", "blkio.throttle.read_iops_device"),
        ("cgroup_io_writes_limit_per_s", "wiops=", "blkio.throttle.write_iops_device"),
    ] {
        let lowest = folders.io.iter().filter_map(|group| match group.is_v2 {
            true => after_key(&text(root, group, "io.max")?, key).min(),
            false => text(root, group, file)?.lines().filter_map(|l| l.split_once(' ')?.1.trim().parse().ok()).min(),
        });
        metrics.set_if(name, lowest.min());
    }
}

/// The figures of all devices after a key, of lines such as `8:0 rbytes=1 wbytes=2`; `max` is none.
fn after_key(text: &str, key: &str) -> impl Iterator<Item = u64> {
    text.split_whitespace().filter_map(move |word| word.strip_prefix(key)?.parse().ok())
}

/// The sum over all devices, of lines such as `8:0 Read 4096`. A group that did nothing has no such line.
fn of_devices(text: &str, what: &str) -> u64 {
    let figure = |line: &str| {
        let mut words = line.split_whitespace();
        let is_wanted = words.nth(1) == Some(what);
        words.next().filter(|_| is_wanted)?.parse::<u64>().ok()
    };
    text.lines().filter_map(figure).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn check(own: &str, mounts: &str, files: &[(&str, &str)], expected: &[(&str, u64)]) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (folders, root) = (Folders::of(own, mounts), Root::at(folder.path()));
        let mut metrics = Metrics::default();
        read_pressure(&folders, &root, &mut metrics);
        read_memory(&folders, &root, &mut metrics);
        read_io(&folders, &root, &mut metrics);
        let found: BTreeMap<_, _> =
            metrics.iter().map(|(n, v)| (n.trim_start_matches("cgroup_").to_owned(), v)).collect();
        let expected: BTreeMap<_, _> = expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn version_2_sums_over_disks_and_takes_the_lowest_limit() {
        check(
            "0::/a/b\n",
            "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            &[
                ("sys/fs/cgroup/a/b/cpu.pressure", "some avg10=12.05 avg60=0.00 avg300=0.00 total=7\n"),
                (
                    "sys/fs/cgroup/a/b/io.pressure",
                    "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=8\n",
                ),
                (
                    "sys/fs/cgroup/a/b/memory.stat",
                    "anon 10\nfile 20\nworkingset_refault_anon 1\nworkingset_refault_file 2\npgscan 3\npgmajfault 4\n",
                ),
                ("sys/fs/cgroup/a/b/memory.swap.current", "4096\n"),
                (
                    "sys/fs/cgroup/a/b/io.stat",
                    "8:0 rbytes=100 wbytes=200 rios=3 wios=4 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=5 dios=5\n",
                ),
                ("sys/fs/cgroup/a/b/io.max", "8:0 rbps=max wbps=2000 riops=max wiops=max\n"),
                (
                    "sys/fs/cgroup/a/io.max",
                    "8:0 rbps=max wbps=1000 riops=50 wiops=max\n8:16 rbps=max wbps=9 riops=max\n",
                ),
            ],
            &[
                ("pressure_cpu_some_ns", 7000),
                ("pressure_cpu_some_avg10_hundredths", 1205),
                ("pressure_io_some_ns", 9000),
                ("pressure_io_full_ns", 8000),
                ("pressure_io_some_avg10_hundredths", 0),
                ("memory_anonymous_bytes", 10),
                ("memory_file_bytes", 20),
                ("refaults_anonymous", 1),
                ("refaults_file", 2),
                ("reclaim_scanned_pages", 3),
                ("major_faults", 4),
                ("swapped_bytes", 4096),
                ("io_read_bytes", 101),
                ("io_write_bytes", 202),
                ("io_reads", 4),
                ("io_writes", 5),
                ("io_write_limit_bytes_per_s", 9),
                ("io_reads_limit_per_s", 50),
            ],
        );
    }

    #[test]
    fn a_hybrid_has_disks_in_version_1_and_pressure_in_version_2() {
        check(
            "4:memory:/box\n3:blkio:/box\n0::/\n",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             34 31 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            &[
                (
                    "sys/fs/cgroup/unified/memory.pressure",
                    "some avg10=1.00 avg60=0.00 avg300=0.00 total=3\nfull garbage\n",
                ),
                (
                    "sys/fs/cgroup/memory/box/memory.stat",
                    "cache 1\nrss 2\ntotal_cache 11\ntotal_rss 12\ntotal_swap 13\n",
                ),
                (
                    "sys/fs/cgroup/blkio/box/blkio.throttle.io_service_bytes_recursive",
                    "254:0 Read 4096\n254:0 Write 512\n254:0 Total 4608\n7:0 Read 1\n7:0 Write x\nTotal 4609\n",
                ),
                ("sys/fs/cgroup/blkio/box/blkio.throttle.io_serviced_recursive", "Total 0\n"),
                ("sys/fs/cgroup/blkio/box/blkio.throttle.write_bps_device", "254:0 1048576\n"),
                ("sys/fs/cgroup/blkio/box/blkio.throttle.read_bps_device", ""),
            ],
            &[
                ("pressure_memory_some_ns", 3000),
                ("pressure_memory_some_avg10_hundredths", 100),
                ("memory_anonymous_bytes", 12),
                ("memory_file_bytes", 11),
                ("swapped_bytes", 13),
                ("io_read_bytes", 4097),
                ("io_write_bytes", 512),
                ("io_reads", 0),
                ("io_writes", 0),
                ("io_write_limit_bytes_per_s", 1_048_576),
            ],
        );
    }

    #[test]
    fn garbage_is_absent() {
        for text in ["", "some", "some total=", "some total=x", "full total=5", "some avg10=1.2 total=-1"] {
            assert_eq!(pressure(text, "some", "total="), None, "{text}");
        }
        assert_eq!(pressure("some avg10=1.234", "some", "avg10="), None);
        assert_eq!(pressure("some avg10=999999999999999999.00", "some", "avg10="), None);
    }
}
