//! Processes moved into a control group that is made for them, with limits, and moved back (cgroups(7)).
//!
//! Of version 1 or 2, whichever has the controller. In version 1 the group is made below the first process's own, so the
//! limits of that hold on. In version 2 a group with processes can have no children with controllers: the new one stands
//! beside the process's own, below the nearest ancestor that hands the controller down, and limits of the process's own group
//! do not hold meanwhile. Undone: all that is in it goes back where it was (what was born there, where the first one was),
//! and it is removed. The journal names group, files and processes with their start times. What a process had charged to its
//! old group (memory) stays charged there.

use crate::change::{Change, Reversible};
use crate::error::{ApplyError, plain};
use crate::faults::{Around, Deed, Fault};
use crate::limits::{GROUP_LOOK, GROUP_LOOKS};
use crate::place;
use crate::process::{Process, Who, is_there};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Where control groups are.
pub(crate) const GROUPS: &str = "/sys/fs/cgroup";
/// How the names of groups begin that are made here: no other is ever removed.
const NAME: &str = "plimsoll-fault-";
/// The files that are written to limit.
const FILES: &[&str] = &[
    "cpu.max",
    "cpu.cfs_quota_us",
    "cpuset.cpus",
    "cpuset.mems",
    "memory.max",
    "memory.limit_in_bytes",
    "pids.max",
    "io.max",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
];
/// The value before: each is where it was.
const BEFORE: &str = "in its own group";

/// A file of a group, and what is written into it; `None`: what its parent has.
pub(crate) type Limits = Vec<(&'static str, Option<String>)>;

/// A fault that is a group with limits.
#[derive(Debug)]
pub(crate) struct InGroup {
    /// Who is moved.
    pub(crate) who: Who,
    /// The controller's name in version 1 and in version 2.
    pub(crate) controller: [&'static str; 2],
    /// The limits in version 1 and in version 2.
    pub(crate) limits: [Limits; 2],
}

impl InGroup {
    pub(crate) fn shared(who: Who, controller: [&'static str; 2], limits: [Limits; 2]) -> Arc<dyn Fault> {
        Arc::new(InGroup { who, controller, limits })
    }
}

impl Fault for InGroup {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        Ok(vec![Deed::Change(Change::Group(Group::planned(&all, self.controller, &self.limits)?))])
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// A group, its limits, and who is moved into it from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    folder: String,
    limits: Vec<Limit>,
    members: Vec<Member>,
}

/// A file of a group and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Limit {
    file: String,
    value: String,
}

/// A process and the group it was in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    pid: u32,
    started: u64,
    from: String,
}

impl Group {
    /// What would be made for these processes, in whichever version has the controller.
    pub(crate) fn planned(
        all: &[Process],
        [one, two]: [&'static str; 2],
        [limits_one, limits_two]: &[Limits; 2],
    ) -> Result<Self, ApplyError> {
        let mounts = Mounts::read();
        let (controller, limits, is_unified) = match (&mounts.two, mounts.of_version_1(one)) {
            (Some(root), _) if has_word(&root.join("cgroup.controllers"), two) => (two, limits_two, true),
            (_, Some(_)) => (one, limits_one, false),
            _ => {
                let reason = format!("no control group of version 1 or 2 here has it (see {GROUPS} and /proc/cgroups)");
                return Err(missing(all, format!("the controller {two}"), reason));
            }
        };
        let of = |process: &Process| mounts.group_of(process.pid, controller, is_unified);
        let members: Result<Vec<Member>, ApplyError> = all
            .iter()
            .map(|process| {
                let from = of(process).ok_or_else(|| {
                    missing(
                        all,
                        "its control group to be seen".to_owned(),
                        format!(
                            "/proc/{}/cgroup names one that is not below {GROUPS}: run outside the container",
                            process.pid
                        ),
                    )
                })?;
                Ok(Member { pid: process.pid, started: process.started, from: from.display().to_string() })
            })
            .collect();
        let members = members?;
        let own = members.first().map(|member| PathBuf::from(&member.from)).unwrap_or_default();
        let parent = match (is_unified, &mounts.two) {
            (true, Some(root)) => handing_down(&own, root, controller).ok_or_else(|| {
                let reason = format!(
                    "no group above it hands it down: as root, `echo +{controller} > {}`",
                    root.join("cgroup.subtree_control").display()
                );
                missing(all, format!("the controller {controller}"), reason)
            })?,
            _ => own,
        };
        let limits: Result<Vec<Limit>, ApplyError> = limits
            .iter()
            .map(|(file, value)| {
                let value = match value {
                    Some(value) => value.clone(),
                    None => read(&parent.join(file))?,
                };
                Ok(Limit { file: (*file).to_owned(), value })
            })
            .collect();
        let folder = parent.join(format!("{NAME}{}", place::mark())).display().to_string();
        Ok(Group { folder, limits: limits?, members })
    }

    /// Each process that is in it goes back, and it is removed.
    fn put_back(&self) -> Result<(), ApplyError> {
        let folder = Path::new(&self.folder);
        let mut last: io::Error = io::Error::other("processes stay in it");
        for _ in 0..GROUP_LOOKS {
            let Ok(inside) = read(&folder.join("cgroup.procs")) else { return Ok(()) };
            for pid in inside.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()) {
                let member = self.members.iter().find(|member| member.pid == pid && is_there(pid, member.started));
                let Some(Member { from, .. }) = member.or(self.members.first()) else { continue };
                // One that has ended meanwhile needs none; where its group is gone, the parent of ours is there.
                if write(&Path::new(from).join("cgroup.procs"), &pid.to_string()).is_err_and(|error| !is_gone(&error)) {
                    let parent = folder.parent().unwrap_or(folder);
                    if let Err(error) = write(&parent.join("cgroup.procs"), &pid.to_string())
                        && !is_gone(&error)
                    {
                        last = error;
                    }
                }
            }
            match std::fs::remove_dir(folder) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                Err(error) => last = error,
            }
            std::thread::sleep(GROUP_LOOK);
        }
        Err(ApplyError::of_write(&self.name(), BEFORE, &last))
    }

    fn move_in(&self) -> Result<(), ApplyError> {
        let folder = Path::new(&self.folder);
        let failed = |what: &str, error: &io::Error| ApplyError::of_write(&self.name(), what, error);
        std::fs::create_dir(folder).map_err(|error| failed(&self.folder, &error))?;
        for Limit { file, value } in &self.limits {
            write(&folder.join(file), value).map_err(|error| failed(&format!("{file} = {value}"), &error))?;
        }
        for Member { pid, started, .. } in &self.members {
            if !is_there(*pid, *started) {
                continue;
            }
            match write(&folder.join("cgroup.procs"), &pid.to_string()) {
                Err(error) if !is_gone(&error) => return Err(failed(&format!("process {pid}"), &error)),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Reversible for Group {
    fn name(&self) -> String {
        let pids: Vec<String> = self.members.iter().map(|member| member.pid.to_string()).collect();
        format!("process {}", pids.join(", "))
    }

    fn identity(&self) -> String {
        self.folder.clone()
    }

    fn before(&self) -> String {
        BEFORE.to_owned()
    }

    fn after(&self) -> String {
        let limits: Vec<String> = self.limits.iter().map(|limit| format!("{} = {}", limit.file, limit.value)).collect();
        format!("in {} with {}", self.folder, limits.join(", "))
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        Ok(Some(if Path::new(&self.folder).exists() { self.after() } else { self.before() }))
    }

    fn may(&self) -> Result<(), ApplyError> {
        let parent = Path::new(&self.folder).parent().map(Path::to_owned).unwrap_or_default();
        let files = self.members.iter().map(|member| Path::new(&member.from).join("cgroup.procs"));
        for path in files.chain([parent]) {
            if let Err(error) = access(&path, Access::WRITE_OK) {
                return Err(ApplyError::NotPermitted {
                    name: path.display().to_string(),
                    reason: plain(&error.into()),
                });
            }
        }
        Ok(())
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        if value == BEFORE { self.put_back() } else { self.move_in() }
    }

    /// Only groups that were made here are moved into or removed, and only limits are written.
    fn check(&self) -> Result<(), ApplyError> {
        let name = Path::new(&self.folder).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_ours = name.strip_prefix(NAME).is_some_and(place::is_mark) && is_below(&self.folder);
        let are_limits = self.limits.iter().all(|limit| FILES.contains(&&*limit.file));
        match is_ours && are_limits && self.members.iter().all(|member| is_below(&member.from) && member.pid > 1) {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.folder, "a group of ours")),
        }
    }

    fn is_in_parts(&self) -> bool {
        true
    }
}

/// Where the hierarchies are mounted.
struct Mounts {
    /// Of version 1: controllers and folder.
    one: Vec<(String, PathBuf)>,
    two: Option<PathBuf>,
}

impl Mounts {
    fn read() -> Self {
        let mut mounts = Mounts { one: Vec::new(), two: None };
        for line in std::fs::read_to_string("/proc/mounts").unwrap_or_default().lines() {
            let mut words = line.split(' ').skip(1);
            match (words.next(), words.next(), words.next()) {
                (Some(folder), Some("cgroup"), Some(options)) => mounts.one.push((options.to_owned(), folder.into())),
                (Some(folder), Some("cgroup2"), _) => mounts.two = Some(folder.into()),
                _ => {}
            }
        }
        mounts
    }

    fn of_version_1(&self, controller: &str) -> Option<&Path> {
        let has = |options: &str| options.split(',').any(|option| option == controller);
        self.one.iter().find(|(options, _)| has(options)).map(|(_, folder)| folder.as_path())
    }

    /// The folder of a process's group (cgroups(7), `/proc/PID/cgroup`).
    fn group_of(&self, pid: u32, controller: &str, is_unified: bool) -> Option<PathBuf> {
        let root = if is_unified { self.two.as_deref()? } else { self.of_version_1(controller)? };
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let is_it = |controllers: &str| match is_unified {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|name| name == controller),
        };
        let group = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, group) = (parts.next()?, parts.next()?);
            is_it(controllers).then_some(group)
        })?;
        let folder = root.join(group.trim_start_matches('/'));
        // In a container the group's path may be one of outside.
        let has_it = |folder: &Path| {
            let inside = read(&folder.join("cgroup.procs")).unwrap_or_default();
            inside.split_whitespace().any(|word| word == pid.to_string())
        };
        [folder, root.to_owned()].into_iter().find(|folder| has_it(folder))
    }
}

/// The nearest group from which a new one would have the controller, and in which no process is in the way.
fn handing_down(own: &Path, root: &Path, controller: &str) -> Option<PathBuf> {
    let from = if own == root { own } else { own.parent()? };
    let hands = |folder: &&Path| has_word(&folder.join("cgroup.subtree_control"), controller);
    from.ancestors().take_while(|folder| folder.starts_with(root)).find(hands).map(Path::to_owned)
}

fn has_word(file: &Path, word: &str) -> bool {
    read(file).is_ok_and(|text| text.split(' ').any(|have| have == word))
}

/// A file of a group, one blank between words.
pub(crate) fn read(file: &Path) -> Result<String, ApplyError> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| ApplyError::unreadable(&file.display().to_string(), &error))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Written, never made: a file that is none of the kernel's must not come to be.
fn write(file: &Path, value: &str) -> io::Result<()> {
    use std::io::Write;
    std::fs::OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

/// The process has ended.
fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// Whether a path leads below the groups, and cannot lead elsewhere.
pub(crate) fn is_below(path: &str) -> bool {
    let path = Path::new(path);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    // Links are followed by the kernel: where they lead must be there, too.
    let leads_below = std::fs::canonicalize(path).map_or(path.starts_with(GROUPS), |real| real.starts_with(GROUPS));
    is_plain && leads_below && path.starts_with(GROUPS)
}

fn missing(all: &[Process], expected: String, reason: String) -> ApplyError {
    let name = all.first().map(Process::words).unwrap_or_default();
    ApplyError::Missing { name, expected, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Group {
        Group {
            folder: format!("{GROUPS}/cpu/{NAME}{}", place::mark()),
            limits: vec![Limit { file: "cpu.cfs_quota_us".to_owned(), value: "1000".to_owned() }],
            members: vec![Member { pid: 7, started: 1, from: format!("{GROUPS}/cpu") }],
        }
    }

    #[test]
    fn only_groups_of_ours_and_limits_are_obeyed() {
        assert!(group().check().is_ok());
        let bad: [fn(&mut Group); 6] = [
            |group| group.folder = format!("{GROUPS}/cpu/system.slice"),
            |group| group.folder = format!("/tmp/{NAME}{}", place::mark()),
            |group| group.folder = format!("{GROUPS}/../../tmp/{NAME}{}", place::mark()),
            |group| group.limits[0].file = "release_agent".to_owned(),
            |group| group.limits[0].file = "../cpu.max".to_owned(),
            |group| group.members[0].from = "/tmp".to_owned(),
        ];
        for spoil in bad {
            let mut spoilt = group();
            spoil(&mut spoilt);
            assert!(spoilt.check().is_err(), "{spoilt:?}");
        }
    }

    #[test]
    fn in_version_2_the_new_group_is_where_the_controller_is_handed_down() {
        let folder = tempfile::tempdir().unwrap();
        let (root, own) = (folder.path(), folder.path().join("a/b"));
        std::fs::create_dir_all(&own).unwrap();
        assert_eq!(handing_down(&own, root, "cpu"), None);
        std::fs::write(root.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        assert_eq!(handing_down(&own, root, "cpu").as_deref(), Some(root));
        assert_eq!(handing_down(root, root, "memory").as_deref(), Some(root));
        std::fs::write(root.join("a/cgroup.subtree_control"), "memory\n").unwrap();
        assert_eq!(handing_down(&own, root, "memory"), Some(root.join("a")));
        assert_eq!(handing_down(&own, root, "io"), None);
        // The process's own group, though it hands it down, has a process in it.
        std::fs::write(own.join("cgroup.subtree_control"), "cpu\n").unwrap();
        assert_eq!(handing_down(&own, root, "cpu").as_deref(), Some(root));
    }
}
