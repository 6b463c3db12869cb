//! What the control groups of the target's processes allow and use, and how often they bound it: CPU time and
//! throttling, memory with its limit and events, tasks. Versions 1 and 2, and hybrids, where each controller is in one.
//! Throttling is counted by the group that has the quota, so the counts of all groups up to the mount are summed; of
//! memory it is the group with the lowest limit; the kills are those of the process's own group. Processes of one group
//! share one reading. What lies above a container's mount is not seen.
//! Cost: for each process one file opened a second, for each group about six. Needs no privilege.

use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler, first_failure, of_target};
use crate::source::cgroup::{Group, V1_UNLIMITED, groups_of, number_of};
use crate::source::proc::{Buffers, SampleError};
use crate::source::setting::Root;
use model::Snapshot;
use model::metrics::Metrics;
use std::collections::BTreeMap;

const METRICS: &[Metric] = &[
    counter("cgroup_cpu_usage_ns", "ns", "cpu.stat usage_usec; v1 cpuacct.usage", "CPU time of the group"),
    counter("cgroup_cpu_periods", "periods", "cpu.stat nr_periods", "quota periods in which it ran"),
    counter("cgroup_cpu_throttled_periods", "periods", "cpu.stat nr_throttled", "of those, periods it was stopped in"),
    counter(
        "cgroup_cpu_throttled_ns",
        "ns",
        "cpu.stat throttled_usec; v1 throttled_time",
        "time its cores were stopped",
    ),
    gauge(
        "cgroup_memory_usage_bytes",
        "bytes",
        "memory.current; v1 memory.usage_in_bytes",
        "memory of the group with the lowest limit",
    ),
    gauge("cgroup_memory_limit_bytes", "bytes", "memory.max; v1 memory.limit_in_bytes", "its limit; absent: none"),
    counter("cgroup_memory_limit_hits", "times", "memory.events max; v1 memory.failcnt", "times it stood at its limit"),
    counter("cgroup_memory_high_hits", "times", "memory.events high", "times it was slowed at memory.high"),
    counter("cgroup_ooms", "times", "memory.events oom", "times an allocation was about to fail"),
    counter(
        "cgroup_oom_kills",
        "processes",
        "memory.events oom_kill; v1 memory.oom_control",
        "killed in the process's own group",
    ),
    gauge("cgroup_tasks", "tasks", "pids.current", "tasks of the group"),
    gauge("cgroup_tasks_limit", "tasks", "pids.max", "most it may have; absent: no limit"),
    counter("cgroup_tasks_limit_hits", "times", "pids.events max", "tasks it was refused for that"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/cgroup",
    about: "the target's control groups: CPU throttling, memory limit, usage, OOM kills, tasks (cgroup v1, v2)",
    needs: "control groups mounted, version 1 or 2",
    cost: "1 file a process, some 6 a group a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Cgroups::default()),
};

#[derive(Debug, Default)]
struct Cgroups(KnownGroups);

/// A process's groups, each from its own up to the mount; empty: no hierarchy has the controller.
#[derive(Debug, Clone, Default)]
pub(super) struct Folders {
    cpu: Vec<Group>,
    /// Where version 1 counts CPU time.
    cpuacct: Vec<Group>,
    pub(super) memory: Vec<Group>,
    /// `io` of version 2, `blkio` of version 1.
    pub(super) io: Vec<Group>,
    /// Those of version 2, whichever controllers it has.
    pub(super) unified: Vec<Group>,
    pids: Vec<Group>,
}

impl Sampler for Cgroups {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        self.0.read(buffers, snapshot, Folders::read)
    }
}

/// The folders for each text of `/proc/<pid>/cgroup`.
#[derive(Debug, Default)]
pub(super) struct KnownGroups(BTreeMap<String, Folders>);

impl KnownGroups {
    /// Reads something of the groups of each process of the target; processes of one group share one reading.
    pub(super) fn read(
        &mut self,
        buffers: &mut Buffers,
        snapshot: &mut Snapshot,
        read: fn(&Folders, &Root) -> Metrics,
    ) -> Result<(), SampleError> {
        let root = Root::at(if buffers.root().is_empty() { "/" } else { buffers.root() });
        let mut outcome = Ok(());
        let mut readings: BTreeMap<String, Metrics> = BTreeMap::new();
        for process in of_target(snapshot)? {
            let pid = process.pid;
            let text = match buffers.read(format_args!("/proc/{pid}/cgroup")) {
                Ok(text) => String::from_utf8_lossy(text).into_owned(),
                Err(error) => {
                    outcome = outcome.and(Err(error));
                    continue;
                }
            };
            if !self.0.contains_key(&text) {
                // A target that moves from group to group all the time would fill the map.
                if self.0.len() >= crate::limits::PROCESSES_MAX {
                    self.0.clear();
                }
                let mounts = buffers.read(format_args!("/proc/self/mountinfo"))?;
                self.0.insert(text.clone(), Folders::of(&text, &String::from_utf8_lossy(mounts)));
            }
            let Some(folders) = self.0.get(&text) else { continue };
            let metrics = readings.entry(text).or_insert_with(|| read(folders, &root));
            process.metrics.extend(metrics);
        }
        first_failure(outcome)?;
        match readings.values().all(Metrics::is_empty) && !readings.is_empty() {
            true => Err(SampleError::nothing("no control group's files are mounted where they can be read")),
            false => Ok(()),
        }
    }
}

impl Folders {
    pub(super) fn of(own: &str, mounts: &str) -> Self {
        let groups = |controller| groups_of(own, mounts, controller).known().cloned().unwrap_or_default();
        let own_unified = own.lines().find(|line| line.starts_with("0::")).unwrap_or_default();
        let unified = groups_of(own_unified, mounts, "cpu").known().cloned().unwrap_or_default();
        let mut cpu = groups("cpu");
        if cpu.is_empty() {
            // Where version 1 has the controller and is not mounted, version 2 still counts its groups' CPU time.
            cpu.clone_from(&unified);
        }
        let mut io = groups("blkio");
        // Version 2 has it by another name.
        if io.first().is_none_or(|group| group.is_v2) {
            io = groups("io");
        }
        Folders { cpu, cpuacct: groups("cpuacct"), memory: groups("memory"), pids: groups("pids"), io, unified }
    }

    fn read(&self, root: &Root) -> Metrics {
        let mut metrics = Metrics::default();
        self.read_cpu(root, &mut metrics);
        self.read_memory(root, &mut metrics);
        if let Some(group) = self.pids.first() {
            metrics.set_if("cgroup_tasks", number(root, group, "pids.current"));
            // "max" is no number, and no limit.
            metrics.set_if("cgroup_tasks_limit", number(root, group, "pids.max"));
            let events = text(root, group, "pids.events").unwrap_or_default();
            metrics.set_if("cgroup_tasks_limit_hits", number_of(&events, "max"));
        }
        metrics
    }

    fn read_cpu(&self, root: &Root, metrics: &mut Metrics) {
        let mut sums = [None::<u64>; 3];
        for (i, group) in self.cpu.iter().enumerate() {
            let Some(stat) = text(root, group, "cpu.stat") else { continue };
            let throttled = match group.is_v2 {
                true => number_of(&stat, "throttled_usec").map(|us| us.saturating_mul(1000)),
                false => number_of(&stat, "throttled_time"),
            };
            let counts = [number_of(&stat, "nr_periods"), number_of(&stat, "nr_throttled"), throttled];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = count.map_or(*sum, |count| Some(sum.unwrap_or(0).saturating_add(count)));
            }
            if i == 0 && group.is_v2 {
                let usage = number_of(&stat, "usage_usec").map(|us| us.saturating_mul(1000));
                metrics.set_if("cgroup_cpu_usage_ns", usage);
            }
        }
        let v1 = self.cpuacct.first().filter(|group| !group.is_v2);
        metrics.set_if("cgroup_cpu_usage_ns", v1.and_then(|group| number(root, group, "cpuacct.usage")));
        metrics.set_if("cgroup_cpu_periods", sums[0]);
        metrics.set_if("cgroup_cpu_throttled_periods", sums[1]);
        metrics.set_if("cgroup_cpu_throttled_ns", sums[2]);
    }

    fn read_memory(&self, root: &Root, metrics: &mut Metrics) {
        let limit = |group: &Group| {
            let name = if group.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
            number(root, group, name).filter(|limit| *limit < V1_UNLIMITED)
        };
        let limited =
            self.memory.iter().filter_map(|group| Some((limit(group)?, group))).min_by_key(|(limit, _)| *limit);
        let Some(own) = self.memory.first() else { return };
        let binding = limited.map_or(own, |(_, group)| group);
        metrics.set_if("cgroup_memory_limit_bytes", limited.map(|(limit, _)| limit));
        if binding.is_v2 {
            metrics.set_if("cgroup_memory_usage_bytes", number(root, binding, "memory.current"));
            let events = text(root, binding, "memory.events").unwrap_or_default();
            metrics.set_if("cgroup_memory_limit_hits", number_of(&events, "max"));
            metrics.set_if("cgroup_memory_high_hits", number_of(&events, "high"));
            metrics.set_if("cgroup_ooms", number_of(&events, "oom"));
        } else {
            metrics.set_if("cgroup_memory_usage_bytes", number(root, binding, "memory.usage_in_bytes"));
            metrics.set_if("cgroup_memory_limit_hits", number(root, binding, "memory.failcnt"));
        }
        let kills = text(root, own, if own.is_v2 { "memory.events" } else { "memory.oom_control" });
        metrics.set_if("cgroup_oom_kills", kills.and_then(|text| number_of(&text, "oom_kill")));
    }
}

pub(super) fn text(root: &Root, group: &Group, name: &str) -> Option<String> {
    root.text(&format!("{}/{name}", group.folder)).known().cloned()
}

fn number(root: &Root, group: &Group, name: &str) -> Option<u64> {
    root.number(&format!("{}/{name}", group.folder)).known().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> BTreeMap<String, u64> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let metrics = Folders::of(&text("cgroup"), &text("mountinfo")).read(&Root::at(folder.path()));
        metrics.iter().map(|(name, value)| (name.trim_start_matches("cgroup_").to_owned(), value)).collect()
    }

    fn check(files: &[(&str, &str)], expected: &[(&str, u64)]) {
        let expected: BTreeMap<_, _> = expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(read(files), expected);
    }

    const V2: (&str, &str) = ("mountinfo", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");

    #[test]
    fn version_2_sums_throttling_and_takes_the_lowest_limit() {
        check(
            &[
                V2,
                ("cgroup", "0::/a/b\n"),
                (
                    "sys/fs/cgroup/a/b/cpu.stat",
                    "usage_usec 7\nuser_usec 6\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
                ),
                ("sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/b/memory.current", "1\n"),
                ("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 3\noom_group_kill 0\n"),
                ("sys/fs/cgroup/a/memory.max", "1000\n"),
                ("sys/fs/cgroup/a/memory.current", "900\n"),
                ("sys/fs/cgroup/a/memory.events", "low 0\nhigh 2\nmax 8\noom 1\noom_kill 3\n"),
                ("sys/fs/cgroup/a/b/pids.current", "12\n"),
                ("sys/fs/cgroup/a/b/pids.max", "max\n"),
            ],
            &[
                ("cpu_usage_ns", 7000),
                ("cpu_periods", 10),
                ("cpu_throttled_periods", 4),
                ("cpu_throttled_ns", 5000),
                ("memory_limit_bytes", 1000),
                ("memory_usage_bytes", 900),
                ("memory_limit_hits", 8),
                ("memory_high_hits", 2),
                ("ooms", 1),
                ("oom_kills", 3),
                ("tasks", 12),
            ],
        );
    }

    #[test]
    fn a_hybrid_has_each_controller_where_it_is() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        check(
            &[
                ("mountinfo", mounts),
                ("cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n"),
                ("sys/fs/cgroup/cpu/box/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 77\n"),
                ("sys/fs/cgroup/cpu/box/cpuacct.usage", "123\n"),
                ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "67108864\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "67100000\n"),
                ("sys/fs/cgroup/memory/box/memory.failcnt", "41\n"),
                ("sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            ],
            &[
                ("cpu_usage_ns", 123),
                ("cpu_periods", 3),
                ("cpu_throttled_periods", 2),
                ("cpu_throttled_ns", 77),
                ("memory_limit_bytes", 67_108_864),
                ("memory_usage_bytes", 67_100_000),
                ("memory_limit_hits", 41),
                ("oom_kills", 1),
            ],
        );
    }

    #[test]
    fn what_is_garbled_or_elsewhere_is_absent() {
        check(&[("mountinfo", "nonsense\n"), ("cgroup", "0::/a\n")], &[]);
        check(&[V2, ("cgroup", "garbage")], &[]);
        check(
            &[
                V2,
                ("cgroup", "0::/../other\n"),
                ("sys/fs/cgroup/memory.max", "lots\n"),
                ("sys/fs/cgroup/cpu.stat", "x\n"),
            ],
            &[],
        );
    }
}
