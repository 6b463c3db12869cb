//! CPU time of the target's control group, where the target is all that is in it: then the kernel has summed up every
//! process, also those that nobody waits for. Files of `cpuacct` (version 1) or `cpu.stat` (version 2).
//!
//! It counts between two readings at both of which the group held all of the target's processes, no other and no group of
//! its own. Cost: three files and one folder a tick, where the target is in a group below the mount; else one file.

use crate::census::Used;
use crate::limits::SUMMED_MAX;
use crate::source::cgroup::{Group, groups_of, number_of};
use crate::source::proc::{Buffers, number, words};
use crate::source::setting::Root;
use crate::source::stat::Stat;

/// The group, and what it had used.
#[derive(Debug, Default)]
pub(crate) struct TargetGroup {
    /// What the kernel last said of the process's groups: where they are mounted is looked up when that changes.
    own: String,
    group: Option<Group>,
    last: Option<Reading>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    total_ns: u64,
    /// By which the total is divided.
    user_ns: u64,
    system_ns: u64,
}

impl TargetGroup {
    /// User and system time since the last call, nanoseconds; `None` where the group is not the target's alone.
    pub(crate) fn grown_ns(
        &mut self,
        buffers: &mut Buffers,
        targets: &[u32],
        is_target: impl Fn(u32) -> Option<bool>,
    ) -> Option<Used> {
        let own = targets.first().and_then(|pid| buffers.read(format_args!("/proc/{pid}/cgroup")).ok());
        let own = own.map(|own| String::from_utf8_lossy(own).into_owned()).unwrap_or_default();
        if own != self.own {
            let group = group_of(buffers, &own);
            if group != self.group {
                (self.group, self.last) = (group, None);
            }
            self.own = own;
        }
        let now = self
            .group
            .as_ref()
            .and_then(|group| is_alone(buffers, group, targets, is_target).then(|| used(buffers, group)).flatten());
        let before = std::mem::replace(&mut self.last, now)?;
        let now = now?;
        let total_ns = now.total_ns.checked_sub(before.total_ns)?;
        let user_ns = now.user_ns.saturating_sub(before.user_ns);
        let system_ns = now.system_ns.saturating_sub(before.system_ns);
        Some(Used::divided(total_ns, user_ns, system_ns))
    }
}

/// Of a process's groups (`/proc/<pid>/cgroup`) the one that counts CPU time, where it is not the whole hierarchy.
fn group_of(buffers: &mut Buffers, own: &str) -> Option<Group> {
    // Most targets are in the root of the hierarchy, or in none.
    if own.lines().all(|line| line.ends_with(":/")) {
        return None;
    }
    let mounts = String::from_utf8_lossy(buffers.read(format_args!("/proc/self/mountinfo")).ok()?).into_owned();
    let unified = own.lines().find(|line| line.starts_with("0::")).unwrap_or_default();
    let below_mount = |text: &str, controller: &str| {
        let groups = groups_of(text, &mounts, controller).known().cloned().unwrap_or_default();
        (groups.len() > 1).then(|| groups.into_iter().next()).flatten()
    };
    below_mount(own, "cpuacct").or_else(|| below_mount(unified, "cpu"))
}

/// Whether the target's processes are in it, all of them, and nothing else is.
fn is_alone(buffers: &mut Buffers, group: &Group, targets: &[u32], is_target: impl Fn(u32) -> Option<bool>) -> bool {
    let root = Root::at(if buffers.root().is_empty() { "/" } else { buffers.root() });
    let Ok(text) = buffers.read(format_args!("{}/cgroup.procs", group.folder)) else { return false };
    let inside: Vec<u32> = words(text).filter_map(|word| u32::try_from(number(word)?).ok()).collect();
    if inside.len() > SUMMED_MAX || !targets.iter().all(|pid| inside.contains(pid)) {
        return false;
    }
    let is_ours = |pid: &u32| {
        is_target(*pid).unwrap_or_else(|| {
            // It began since the processes were listed: its parent is known, or it has ended.
            let parent = buffers.read_single(format_args!("/proc/{pid}/stat")).ok().and_then(Stat::parse);
            parent.is_none_or(|stat| is_target(stat.parent) == Some(true))
        })
    };
    inside.iter().all(is_ours) && !root.has_folders(&group.folder)
}

fn used(buffers: &Buffers, group: &Group) -> Option<Reading> {
    let root = Root::at(if buffers.root().is_empty() { "/" } else { buffers.root() });
    let folder = &group.folder;
    if group.is_v2 {
        let stat = root.text(&format!("{folder}/cpu.stat")).known()?.clone();
        let ns = |name: &str| Some(number_of(&stat, name)?.saturating_mul(1000));
        return Some(Reading { total_ns: ns("usage_usec")?, user_ns: ns("user_usec")?, system_ns: ns("system_usec")? });
    }
    let number = |name: &str| root.number(&format!("{folder}/{name}")).known().copied();
    let total_ns = number("cpuacct.usage")?;
    Some(Reading {
        total_ns,
        user_ns: number("cpuacct.usage_user").unwrap_or(0),
        system_ns: number("cpuacct.usage_sys").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_counts_only_where_the_target_is_alone_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("proc/7/cgroup", "0::/web\n");
        let usage = |us: u64| {
            write(
                "sys/fs/cgroup/web/cpu.stat",
                &format!("usage_usec {us}\nuser_usec {}\nsystem_usec {}\n", us / 4, us / 4),
            );
        };
        let mut buffers = Buffers::below(folder.path());
        let mut group = TargetGroup::default();
        let mut grown = |targets: &[u32]| {
            group.grown_ns(&mut buffers, targets, |pid| if pid < 10 { Some(true) } else { Some(false) })
        };
        usage(1000);
        write("sys/fs/cgroup/web/cgroup.procs", "7\n8\n");
        assert_eq!(grown(&[7, 8]), None, "nothing to compare with");
        usage(3000);
        assert_eq!(grown(&[7, 8]), Some(Used { user_ns: 1_000_000, system_ns: 1_000_000 }));
        write("sys/fs/cgroup/web/cgroup.procs", "7\n8\n77\n");
        assert_eq!(grown(&[7, 8]), None, "another process is there");
        write("sys/fs/cgroup/web/cgroup.procs", "7\n");
        assert_eq!(grown(&[7, 8]), None, "one of the target's is elsewhere");
        write("sys/fs/cgroup/web/cgroup.procs", "7\n8\n");
        assert_eq!(grown(&[7, 8]), None, "it was not alone before");
        usage(5000);
        assert_eq!(grown(&[7, 8]), Some(Used { user_ns: 1_000_000, system_ns: 1_000_000 }));
        write("sys/fs/cgroup/web/below/cgroup.procs", "");
        assert_eq!(grown(&[7, 8]), None, "a group below it may hold others");
        write("proc/7/cgroup", "0::/\n");
        assert_eq!(grown(&[7, 8]), None, "the whole machine");
    }
}
