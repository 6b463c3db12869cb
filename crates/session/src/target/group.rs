//! A control group for a target: how much CPU time and memory it may have (cgroups(7)).
//!
//! Of version 2 where the whole machine has it (`cpu.max`, `memory.max`), else of version 1 (`cpu.cfs_quota_us`,
//! `memory.limit_in_bytes`). Making and removing it are two commands in the journal of [`fault`], so that after a `kill -9`
//! `plimsoll fault undo` removes it too; whatever still runs in it is then ended, by id. Needs the right to make groups,
//! which is root's unless it was given away. Not made: limits on anything else.

use crate::made::MadeError;
use fault::faults::command::Commands;
use fault::{Begun, Change, Deed};
use std::path::Path;

/// Where control groups are.
const ROOT: &str = "/sys/fs/cgroup";
/// The time of which a share is given, microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// What a target may use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// CPUs' worth of time; `None`: all.
    pub cpus: Option<f64>,
    /// Memory, bytes; `None`: all.
    pub memory_bytes: Option<u64>,
}

/// A group that was made, and is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    folders: Vec<String>,
    made: Begun,
}

impl Group {
    /// Makes a group with these limits; `None` where there are none.
    pub(super) fn make(limits: &Limits, journal: &Path) -> Result<Option<Self>, MadeError> {
        if *limits == Limits::default() {
            return Ok(None);
        }
        let is_unified = Path::new(ROOT).join("cgroup.controllers").exists();
        let files = files(limits, is_unified, &format!("plimsoll-{}", std::process::id()));
        let folders: Vec<String> = files.iter().map(|file| file.folder.clone()).collect();
        let commands = Commands { after: with(&files), before: without(&folders) };
        let made = Begun::make(journal, vec![Deed::Change(Change::Command(commands))], &mut |_| {})?;
        Ok(Some(Group { folders, made }))
    }

    /// What a shell does to put itself into the group.
    pub(super) fn join(&self) -> String {
        self.folders.iter().map(|folder| format!("echo $$ > {folder}/cgroup.procs && ")).collect()
    }

    /// Removes it.
    pub(super) fn undo(self) -> Result<(), MadeError> {
        Ok(self.made.end().map(drop)?)
    }
}

/// A file that holds a limit.
struct LimitFile {
    folder: String,
    file: &'static str,
    value: String,
}

fn files(limits: &Limits, is_unified: bool, name: &str) -> Vec<LimitFile> {
    let mut files = Vec::new();
    let folder = |controller: &str| match is_unified {
        true => format!("{ROOT}/{name}"),
        false => format!("{ROOT}/{controller}/{name}"),
    };
    if let Some(cpus) = limits.cpus {
        let quota_us = (cpus * PERIOD_US as f64).round();
        let (file, value) = match is_unified {
            true => ("cpu.max", format!("{quota_us} {PERIOD_US}")),
            false => ("cpu.cfs_quota_us", quota_us.to_string()),
        };
        files.push(LimitFile { folder: folder("cpu"), file, value });
    }
    if let Some(bytes) = limits.memory_bytes {
        let file = if is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        files.push(LimitFile { folder: folder("memory"), file, value: bytes.to_string() });
    }
    files
}

fn with(files: &[LimitFile]) -> String {
    let one =
        |LimitFile { folder, file, value }: &LimitFile| format!("mkdir -p {folder} && echo {value} > {folder}/{file}");
    files.iter().map(one).collect::<Vec<_>>().join(" && ")
}

/// Ends what still runs in the groups, by id, and removes them; nothing where they are gone.
fn without(folders: &[String]) -> String {
    let one = |folder: &String| {
        format!(
            "if test -d {folder}; then for i in 1 2 3 4 5 6 7 8 9 10; do \
             for pid in $(cat {folder}/cgroup.procs); do kill -9 $pid; done; rmdir {folder} && break; sleep 0.1; done; \
             test ! -d {folder}; fi"
        )
    };
    folders.iter().map(one).collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_have_their_files() {
        let limits = Limits { cpus: Some(1.5), memory_bytes: Some(1 << 20) };
        assert_eq!(
            with(&files(&limits, true, "p")),
            "mkdir -p /sys/fs/cgroup/p && echo 150000 100000 > /sys/fs/cgroup/p/cpu.max && \
             mkdir -p /sys/fs/cgroup/p && echo 1048576 > /sys/fs/cgroup/p/memory.max"
        );
        assert_eq!(
            with(&files(&limits, false, "p")),
            "mkdir -p /sys/fs/cgroup/cpu/p && echo 150000 > /sys/fs/cgroup/cpu/p/cpu.cfs_quota_us && \
             mkdir -p /sys/fs/cgroup/memory/p && echo 1048576 > /sys/fs/cgroup/memory/p/memory.limit_in_bytes"
        );
        assert!(files(&Limits::default(), true, "p").is_empty());
    }
}
