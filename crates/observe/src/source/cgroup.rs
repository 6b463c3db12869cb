//! The groups of a process, and the limits that they set on this one: versions 1 and 2 (cgroups(7), Documentation/admin-guide/cgroup-v2).
//!
//! A limit of any group above holds, too: the tightest from this process's group up to where the hierarchy is mounted.
//! Inside a container what lies above its mount cannot be seen; its own group's limit, which is what binds there, can.

use super::setting::Root;
use model::readings::{GroupCpus, GroupLimit, Reading};
use model::snapshot::Quota;

/// From this on a version 1 memory limit is none: `PAGE_COUNTER_MAX` is 2^63 less a page (mm/page_counter.c).
pub(crate) const V1_UNLIMITED: u64 = 1 << 62;

/// A control group's folder as this process sees it, and in which version its files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) folder: String,
    pub(crate) is_v2: bool,
}

/// What the groups leave of memory.
pub(crate) fn memory(root: &Root) -> Reading<GroupLimit> {
    tightest(root, "memory", |group| {
        let folder = &group.folder;
        let (limit, used, idle) = match group.is_v2 {
            true => ("memory.max", "memory.current", "inactive_file"),
            false => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        };
        let used = root.number(&format!("{folder}/{used}"));
        // Pages of files that nobody used lately are given back before the limit hurts.
        let stat = root.text(&format!("{folder}/memory.stat"));
        let idle = stat.known().and_then(|stat| number_of(stat, idle)).unwrap_or(0);
        limit_of(root, format!("{folder}/{limit}"), used.and_then(|used| Some(used.saturating_sub(idle)), ""))
    })
}

/// What they leave of processes and threads.
pub(crate) fn pids(root: &Root) -> Reading<GroupLimit> {
    tightest(root, "pids", |group| {
        let used = root.number(&format!("{}/pids.current", group.folder));
        limit_of(root, format!("{}/pids.max", group.folder), used)
    })
}

/// What they leave of CPU time.
pub(crate) fn cpus(root: &Root) -> Reading<GroupCpus> {
    let left = |group: &GroupCpus| group.cpus.unwrap_or(f64::INFINITY);
    of_all(
        groups(root, "cpu"),
        |group| cpus_of(root, group),
        |all| all.into_iter().min_by(|a, b| left(a).total_cmp(&left(b))),
        |file| GroupCpus { cpus: None, file },
    )
}

/// The groups of this process that bound its CPU time, kept from reading to reading.
#[derive(Debug, Default)]
pub(crate) struct OwnGroups {
    /// `/proc/self/cgroup`, when they were looked up.
    own: Reading<String>,
    groups: Reading<Vec<Group>>,
}

impl OwnGroups {
    /// Looked up again where this process was moved; what is mounted where stays so for a run.
    fn now(&mut self, root: &Root) -> Reading<Vec<Group>> {
        let own = root.text("/proc/self/cgroup");
        if own != self.own {
            (self.own, self.groups) = (own, groups(root, "cpu"));
        }
        self.groups.clone()
    }
}

/// The tightest CPU quota of this process's groups, and how it held them; `None`: there is none.
pub(crate) fn quota(root: &Root, known: &mut OwnGroups) -> Reading<Option<Quota>> {
    let cpus = |group: &(Option<f64>, Option<Group>)| group.0.unwrap_or(f64::INFINITY);
    let tightest = of_all(
        known.now(root),
        |group| cpus_of(root, group).and_then(|cpus| Some((cpus.cpus, Some(group.clone()))), ""),
        |all| all.into_iter().min_by(|a, b| cpus(a).total_cmp(&cpus(b))),
        |_| (None, None),
    );
    let held = |(cpus, group): &(Option<f64>, Option<Group>)| {
        let (cpus, group) = (cpus.as_ref()?, group.as_ref()?);
        let stat = root.text(&format!("{}/cpu.stat", group.folder)).known().cloned().unwrap_or_default();
        let throttled_ns = match group.is_v2 {
            true => number_of(&stat, "throttled_usec").map(|us| us.saturating_mul(1000)),
            false => number_of(&stat, "throttled_time"),
        };
        let throttled = number_of(&stat, "nr_throttled").unwrap_or(0);
        Some(Quota { cpus: *cpus, throttled, throttled_ns: throttled_ns.unwrap_or(0) })
    };
    tightest.and_then(|tightest| Some(held(&tightest)), "")
}

fn cpus_of(root: &Root, group: &Group) -> Reading<GroupCpus> {
    let folder = &group.folder;
    let name = if group.is_v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
    let file = format!("{folder}/{name}");
    let garbled = format!("{file} is not of the known form");
    let (quota, period) = match (root.text(&file), group.is_v2) {
        (Reading::Known(text), true) => match text.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            None => return Reading::Unreadable(garbled),
        },
        (Reading::Known(quota), false) if quota == "-1" => (quota, String::new()),
        (Reading::Known(quota), false) => {
            (quota, root.text(&format!("{folder}/cpu.cfs_period_us")).known().cloned().unwrap_or_default())
        }
        (Reading::Absent, _) => return Reading::Absent,
        (Reading::Unreadable(reason), _) => return Reading::Unreadable(reason),
    };
    match (&*quota, quota.parse::<f64>(), period.parse::<f64>()) {
        ("max" | "-1", ..) => Reading::Known(GroupCpus { cpus: None, file }),
        (_, Ok(quota), Ok(period)) if quota > 0.0 && period > 0.0 => {
            Reading::Known(GroupCpus { cpus: Some(quota / period), file })
        }
        _ => Reading::Unreadable(garbled),
    }
}

fn limit_of(root: &Root, file: String, used: Reading<u64>) -> Reading<GroupLimit> {
    let limit = root.text(&file).and_then(
        |text| match &*text {
            "max" => Some(None),
            number => Some(Some(number.parse::<u64>().ok()?).filter(|limit| *limit < V1_UNLIMITED)),
        },
        &format!("{file} holds no limit"),
    );
    match (limit, used) {
        (Reading::Known(None), _) => Reading::Known(GroupLimit { limit: None, used: 0, file }),
        (Reading::Known(limit), Reading::Known(used)) => Reading::Known(GroupLimit { limit, used, file }),
        (Reading::Known(_), Reading::Absent) => Reading::Unreadable(format!("what {file} bounds is not shown")),
        (Reading::Absent, _) => Reading::Absent,
        (Reading::Unreadable(reason), _) | (_, Reading::Unreadable(reason)) => Reading::Unreadable(reason),
    }
}

fn tightest(root: &Root, controller: &str, read: impl Fn(&Group) -> Reading<GroupLimit>) -> Reading<GroupLimit> {
    let left = |group: &GroupLimit| group.limit.map_or(u64::MAX, |limit| limit.saturating_sub(group.used));
    of_all(
        groups(root, controller),
        read,
        |all| all.into_iter().min_by_key(left),
        |file| GroupLimit { limit: None, used: 0, file },
    )
}

/// The tightest of all groups. One that cannot be read may be the tightest; one without the file bounds nothing: it is
/// the root of the hierarchy, or the controller is not enabled in it.
fn of_all<T>(
    groups: Reading<Vec<Group>>,
    read: impl Fn(&Group) -> Reading<T>,
    tightest: impl FnOnce(Vec<T>) -> Option<T>,
    none: impl FnOnce(String) -> T,
) -> Reading<T> {
    let groups = match groups {
        Reading::Known(groups) => groups,
        Reading::Absent => return Reading::Absent,
        Reading::Unreadable(reason) => return Reading::Unreadable(reason),
    };
    let mut all = Vec::new();
    for group in &groups {
        match read(group) {
            Reading::Known(limit) => all.push(limit),
            Reading::Absent => {}
            Reading::Unreadable(reason) => return Reading::Unreadable(reason),
        }
    }
    let own = groups.into_iter().next().map(|group| group.folder).unwrap_or_default();
    Reading::Known(tightest(all).unwrap_or_else(|| none(own)))
}

/// The groups of this process that a controller knows, from its own up to the mount.
fn groups(root: &Root, controller: &str) -> Reading<Vec<Group>> {
    let own = root.text("/proc/self/cgroup");
    let mounts = root.text("/proc/self/mountinfo");
    let (own, mounts) = match (&own, &mounts) {
        (Reading::Known(own), Reading::Known(mounts)) => (own, mounts),
        (Reading::Absent, _) | (_, Reading::Absent) => return Reading::Absent,
        (Reading::Unreadable(reason), _) | (_, Reading::Unreadable(reason)) => {
            return Reading::Unreadable(reason.clone());
        }
    };
    groups_of(own, mounts, controller)
}

/// The groups of a process that a controller knows, from its own up to the mount: `own` is its `/proc/<pid>/cgroup`,
/// `mounts` this process's `/proc/self/mountinfo`.
pub(crate) fn groups_of(own: &str, mounts: &str, controller: &str) -> Reading<Vec<Group>> {
    // `4:memory:/path` of version 1 goes before `0::/path` of version 2: a controller is in one of them only.
    let lines = || own.lines().filter_map(|line| line.splitn(3, ':').collect::<Vec<_>>().try_into().ok());
    let v1 = lines().find(|[_, names, _]: &[&str; 3]| names.split(',').any(|name| name == controller));
    let found = v1.map(|line| (line, false)).or_else(|| {
        lines().find(|[hierarchy, names, _]: &[&str; 3]| *hierarchy == "0" && names.is_empty()).map(|line| (line, true))
    });
    let Some(([_, _, path], is_v2)) = found else { return Reading::Absent };
    let is_meant = |mount: &Mount<'_>| match is_v2 {
        true => mount.kind == "cgroup2",
        false => mount.kind == "cgroup" && mount.options.split(',').any(|name| name == controller),
    };
    let all = || mounts.lines().filter_map(Mount::parse).filter(is_meant);
    // In a container there may be two: a part of the hierarchy, and all of it where the host's was mounted too. In that one the group
    // is to be found, with most of those above it.
    let holding = all().filter(|mount| mount.below(path).is_some()).min_by_key(|mount| mount.root.len());
    let Some(mount) = holding.or_else(|| all().next()) else { return Reading::Absent };
    // What is mounted may be a part of the hierarchy; seen from within a group namespace both begin at its root.
    let below = mount.below(path).unwrap_or(path).trim_matches('/');
    let mut folders = vec![mount.at.to_owned()];
    // A path that leads above the mount (`/..`) belongs to another group namespace: only the mount is left.
    for name in below.split('/').filter(|name| !name.is_empty()).take_while(|name| *name != "..") {
        folders.push(format!("{}/{name}", folders[folders.len() - 1]));
    }
    Reading::Known(folders.into_iter().rev().map(|folder| Group { folder, is_v2 }).collect())
}

/// A line of `/proc/self/mountinfo`, proc_pid_mountinfo(5).
struct Mount<'a> {
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let root = before.next()?.trim_end_matches('/');
        Some(Mount { root, at: before.next()?, kind: after.next()?, options: after.nth(1)? })
    }

    /// The way from what is mounted down to a group; `None`: it does not lead down.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = path.strip_prefix(self.root)?;
        (below.is_empty() || below.starts_with('/') && !below.starts_with("/..")).then_some(below)
    }
}

/// The number after a key, in lines `key number`.
pub(crate) fn number_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    const V2: (&str, &str) =
        ("proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");

    #[test]
    fn version_2_takes_the_tightest_of_all_groups_above() {
        let (_folder, root) = host(&[
            V2,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "70\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "400\n"),
            ("sys/fs/cgroup/a/memory.stat", "file 300\ninactive_file 100\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/pids.max", "max\n"),
            ("sys/fs/cgroup/a/b/pids.current", "3\n"),
        ]);
        let file = "/sys/fs/cgroup/a/memory.max".to_owned();
        assert_eq!(memory(&root), Reading::Known(GroupLimit { limit: Some(1000), used: 300, file }));
        let file = "/sys/fs/cgroup/a/b/cpu.max".to_owned();
        assert_eq!(cpus(&root), Reading::Known(GroupCpus { cpus: Some(1.5), file }));
        let file = "/sys/fs/cgroup/a/b/pids.max".to_owned();
        assert_eq!(pids(&root), Reading::Known(GroupLimit { limit: None, used: 0, file }));
    }

    #[test]
    fn version_1_has_its_own_files_and_no_limit_is_a_huge_one() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 /box /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n";
        let (_folder, root) = host(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "4:memory:/box/x\n1:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "5\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        let file = "/sys/fs/cgroup/memory/x/memory.limit_in_bytes".to_owned();
        assert_eq!(memory(&root), Reading::Known(GroupLimit { limit: None, used: 0, file }));
        let file = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us".to_owned();
        assert_eq!(cpus(&root), Reading::Known(GroupCpus { cpus: None, file }));
        assert_eq!(pids(&root), Reading::Absent, "no hierarchy has it");
        std::fs::write(_folder.path().join("sys/fs/cgroup/cpu/cpu.cfs_quota_us"), "50000\n").unwrap();
        assert_eq!(cpus(&root).known().unwrap().cpus, Some(0.5));
    }

    #[test]
    fn of_two_mounts_that_one_is_taken_in_which_the_group_is() {
        let folder = |own: &str, mounts: &str| match groups_of(own, mounts, "cpu") {
            Reading::Known(groups) => groups[0].folder.clone(),
            _ => String::new(),
        };
        // Version 1: the container's own groups, and the host's whole hierarchy.
        let own = "40 31 0:29 /pods/a/c /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n";
        let hosts = "50 31 0:29 / /host/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n";
        let both = format!("{own}{hosts}");
        assert_eq!(folder("1:cpu,cpuacct:/pods/b/c\n", &both), "/host/cgroup/cpu/pods/b/c");
        assert_eq!(folder("1:cpu,cpuacct:/pods/a/c\n", &both), "/host/cgroup/cpu/pods/a/c", "with all groups above");
        assert_eq!(
            folder("1:cpu,cpuacct:/pods/a/cc\n", &both),
            "/host/cgroup/cpu/pods/a/cc",
            "another's name begins so"
        );
        assert_eq!(folder("1:cpu,cpuacct:/pods/a/c/x\n", own), "/sys/fs/cgroup/cpu/x");
        // Version 2, from within a namespace of groups, where the host's begins above its root.
        let own = "40 31 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let both = format!("{own}50 31 0:30 /../../.. /host/cgroup ro - cgroup2 cgroup2 rw\n");
        assert_eq!(folder("0::/../../../pods/b\n", &both), "/host/cgroup/pods/b");
        assert_eq!(folder("0::/../../../pods/b\n", own), "/sys/fs/cgroup", "out of sight");
        assert_eq!(folder("0::/x\n", &both), "/sys/fs/cgroup/x");
    }

    #[test]
    fn what_is_garbled_is_not_a_limit() {
        let (_folder, root) =
            host(&[("proc/self/mountinfo", "nonsense\n35 24 0:30 /\n"), ("proc/self/cgroup", "0\n::\n0::/../other\n")]);
        assert_eq!(memory(&root), Reading::Absent);
        let (_folder, root) = host(&[
            V2,
            ("proc/self/cgroup", "0::/../other\n"),
            ("sys/fs/cgroup/memory.max", "lots\n"),
            ("sys/fs/cgroup/memory.current", "1\n"),
            ("sys/fs/cgroup/cpu.max", "1 0\n"),
        ]);
        assert!(matches!(memory(&root), Reading::Unreadable(_)));
        assert!(matches!(cpus(&root), Reading::Unreadable(_)));
        let file = "/sys/fs/cgroup".to_owned();
        assert_eq!(pids(&root), Reading::Known(GroupLimit { limit: None, used: 0, file }), "no group has the file");
    }

    #[test]
    fn the_tightest_quota_is_found_with_how_it_held() {
        let files = [
            V2,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_usec 5\n"),
        ];
        let (_folder, root) = host(&files);
        assert_eq!(
            quota(&root, &mut OwnGroups::default()),
            Reading::Known(Some(Quota { cpus: 0.5, throttled: 4, throttled_ns: 5000 }))
        );
        let (_folder, root) = host(&files[..4]);
        assert_eq!(quota(&root, &mut OwnGroups::default()), Reading::Known(None));
        let (_folder, root) = host(&[]);
        assert_eq!(quota(&root, &mut OwnGroups::default()), Reading::Absent);
    }
}
