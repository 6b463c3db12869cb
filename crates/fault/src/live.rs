//! What is changed of something that runs: a process's limit of descriptors, its niceness, whether it is stopped; a control
//! group's share of the CPUs; or whatever two commands of the user's do and undo.
//!
//! As with settings: read what is, ask for the right, write the journal, change, mark it made. A process is known by id and
//! start time, so that another one of the same id is never touched (proc_pid_stat(5), field 22). A command is undone by the
//! other command, whatever is found: what it did, nobody else knows.

use crate::apply::Step;
use crate::error::{ApplyError, plain};
use crate::journal::{Change, Closed, Journal};
use crate::place;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::io;
use std::path::{Component, Path};
use std::process::{Command, Stdio};

/// Where control groups are (cgroups(7)).
const GROUPS: &str = "/sys/fs/cgroup";
/// Files of them that hold a CPU limit, of version 2 and 1.
const CPU_LIMITS: [&str; 2] = ["cpu.max", "cpu.cfs_quota_us"];

/// What is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// The soft limit of open descriptors of a process; the hard one is raised with it only where that must be.
    Descriptors {
        /// The process.
        pid: u32,
        /// The limit; `None`: the hard one.
        limit: Option<u64>,
    },
    /// A process's niceness, that of all its threads.
    Nice {
        /// The process.
        pid: u32,
        /// -20 (first) to 19 (last).
        nice: i32,
    },
    /// A process is stopped (SIGSTOP), and goes on when that is undone (SIGCONT).
    Stop {
        /// The process.
        pid: u32,
    },
    /// A control group's CPU limit: `cpu.max` or `cpu.cfs_quota_us`.
    CpuLimit {
        /// The file, under `/sys/fs/cgroup`.
        file: String,
        /// The value, as the file takes it.
        value: String,
    },
    /// A command of the user's, and the one that undoes it. For `sh -c`.
    Command {
        /// The command that makes the change.
        with: String,
        /// The command that puts things back as they were.
        without: String,
    },
}

/// Makes a change, journalled. The entry's number; `None` where it was so before, and nothing is to be undone.
///
/// # Errors
/// [`ApplyError`]: nothing was changed.
pub fn change(journal: &mut Journal, live: &Live, watch: &mut dyn FnMut(Step)) -> Result<Option<u64>, ApplyError> {
    let change = planned(live)?;
    if before_of(&change) == after_of(&change) {
        return Ok(None);
    }
    watch(Step::Permitted);
    let id = journal.begin(change.clone(), place::boot(), None)?;
    watch(Step::Journalled);
    if let Err(refused) = set(&change, after_of(&change)) {
        // A command that failed may have done half of it: then the other one puts that right, too.
        if matches!(change, Change::Command { .. }) {
            set(&change, before_of(&change))?;
        }
        journal.close(id, Closed::Refused)?;
        return Err(refused);
    }
    watch(Step::Changed);
    if journal.done(id).is_ok() {
        watch(Step::Marked);
    }
    Ok(Some(id))
}

/// The change with what is before it; nothing is made.
///
/// # Errors
/// [`ApplyError`]: it cannot be looked at, or is none that is made.
pub fn planned(live: &Live) -> Result<Change, ApplyError> {
    let started = |pid: u32| start_of(pid).ok_or_else(|| gone(pid));
    Ok(match live {
        Live::Descriptors { pid, limit } => {
            let (soft, hard) = descriptors(*pid)?;
            let limit = limit.or(hard).map_or("unlimited".to_owned(), |limit| limit.to_string());
            let hard = hard.map_or("unlimited".to_owned(), |hard| hard.to_string());
            let soft = soft.map_or("unlimited".to_owned(), |soft| soft.to_string());
            let needed = match (number(&limit), number(&hard)) {
                (Some(limit), Some(hard)) if limit <= hard => hard.to_string(),
                (None, Some(_)) => "unlimited".to_owned(),
                _ => limit.clone(),
            };
            let (before, after) = (format!("{soft} {hard}"), format!("{limit} {needed}"));
            Change::Descriptors { pid: *pid, started: started(*pid)?, before, after }
        }
        Live::Nice { pid, nice } => {
            if !(-20..=19).contains(nice) {
                return Err(not_ours(&format!("niceness of process {pid}"), &nice.to_string()));
            }
            let (before, after) = (niceness(*pid)?.to_string(), nice.to_string());
            Change::Nice { pid: *pid, started: started(*pid)?, before, after }
        }
        Live::Stop { pid } => {
            let before = if is_stopped(*pid).ok_or_else(|| gone(*pid))? { "stopped" } else { "running" };
            if *pid <= 1 || *pid == std::process::id() {
                return Err(not_ours(&format!("process {pid}"), "stopped"));
            }
            Change::Stop { pid: *pid, started: started(*pid)?, before: before.to_owned(), after: "stopped".to_owned() }
        }
        Live::CpuLimit { file, value } => {
            check_group(file)?;
            let before = read_group(file)?;
            let after = value.split_whitespace().collect::<Vec<_>>().join(" ");
            // Version 2 keeps the period where only a quota is written.
            let period = before.split(' ').nth(1).filter(|_| !after.contains(' ') && file.ends_with(CPU_LIMITS[0]));
            let after = period.map_or(after.clone(), |period| format!("{after} {period}"));
            if !is_cpu_limit(&after) {
                return Err(not_ours(file, &after));
            }
            Change::CpuLimit { file: file.clone(), before, after }
        }
        Live::Command { with, without } => Change::Command { before: without.clone(), after: with.clone() },
    })
}

/// What there was before.
pub(crate) fn before_of(change: &Change) -> &str {
    match change {
        Change::Sysctl { before, .. }
        | Change::Descriptors { before, .. }
        | Change::Nice { before, .. }
        | Change::Stop { before, .. }
        | Change::CpuLimit { before, .. }
        | Change::Command { before, .. } => before,
    }
}

/// What was made of it.
pub(crate) fn after_of(change: &Change) -> &str {
    match change {
        Change::Sysctl { after, .. }
        | Change::Descriptors { after, .. }
        | Change::Nice { after, .. }
        | Change::Stop { after, .. }
        | Change::CpuLimit { after, .. }
        | Change::Command { after, .. } => after,
    }
}

/// What is now; `None` where the process or group is gone. A command's doing cannot be read: it is taken to be done.
pub(crate) fn found(change: &Change) -> Result<Option<String>, ApplyError> {
    let is_there = |pid: u32, started: u64| start_of(pid) == Some(started);
    Ok(match change {
        Change::Sysctl { name, .. } => Some(crate::sysctl::read(name)?),
        Change::Descriptors { pid, started, .. } if is_there(*pid, *started) => {
            let shown = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
            let (soft, hard) = descriptors(*pid)?;
            Some(format!("{} {}", shown(soft), shown(hard)))
        }
        Change::Nice { pid, started, .. } if is_there(*pid, *started) => Some(niceness(*pid)?.to_string()),
        Change::Stop { pid, started, .. } if is_there(*pid, *started) => {
            is_stopped(*pid).map(|is| if is { "stopped" } else { "running" }.to_owned())
        }
        Change::CpuLimit { file, .. } => {
            check_group(file)?;
            if Path::new(file).exists() { Some(read_group(file)?) } else { None }
        }
        Change::Command { after, .. } => Some(after.clone()),
        Change::Descriptors { .. } | Change::Nice { .. } | Change::Stop { .. } => None,
    })
}

/// Makes it so: the value before, or the one after.
pub(crate) fn set(change: &Change, value: &str) -> Result<(), ApplyError> {
    match change {
        Change::Sysctl { name, .. } => crate::sysctl::Writable::open(name)?.set(value),
        Change::Descriptors { pid, .. } => {
            let (soft, hard) = value.split_once(' ').ok_or_else(|| not_ours("descriptors", value))?;
            let limit = Rlimit { current: number(soft), maximum: number(hard) };
            let what = format!("descriptors of process {pid}");
            rustix::process::prlimit(Some(id_of(*pid)?), Resource::Nofile, limit)
                .map(drop)
                .map_err(|error| ApplyError::of_write(&what, value, &error.into()))
        }
        Change::Nice { pid, .. } => {
            let nice: i32 = value.parse().map_err(|_| not_ours("niceness", value))?;
            let what = format!("niceness of process {pid}");
            let refused = |error: rustix::io::Errno| ApplyError::of_write(&what, value, &error.into());
            // Threads have their own (setpriority(2), "C library/kernel differences"); one that has just ended needs none.
            for thread in threads(*pid) {
                match rustix::process::setpriority_process(Some(id_of(thread)?), nice) {
                    Err(error) if error != rustix::io::Errno::SRCH => return Err(refused(error)),
                    _ => {}
                }
            }
            Ok(())
        }
        Change::Stop { pid, .. } => {
            let signal = if value == "stopped" { Signal::STOP } else { Signal::CONT };
            let what = format!("process {pid}");
            rustix::process::kill_process(id_of(*pid)?, signal)
                .map_err(|error| ApplyError::of_write(&what, value, &error.into()))
        }
        Change::CpuLimit { file, .. } => {
            check_group(file)?;
            if !is_cpu_limit(value) {
                return Err(not_ours(file, value));
            }
            std::fs::write(file, value).map_err(|error| ApplyError::of_write(file, value, &error))
        }
        Change::Command { .. } => {
            let done = Command::new("sh").args(["-c", value]).stdin(Stdio::null()).stdout(Stdio::null()).status();
            match done {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(ApplyError::Command { command: value.to_owned(), reason: status.to_string() }),
                Err(error) => Err(ApplyError::Command { command: value.to_owned(), reason: plain(&error) }),
            }
        }
    }
}

/// When a process began, clock ticks since boot (proc_pid_stat(5), field 22); `None` where there is none, or it has ended.
fn start_of(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

/// Whether it is stopped by a signal; `None` where there is none.
fn is_stopped(pid: u32) -> Option<bool> {
    Some(stat(pid)?.starts_with('T'))
}

/// The fields behind the name, from the state on.
fn stat(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.to_owned())
}

fn threads(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Soft and hard limit; `None` is unlimited.
fn descriptors(pid: u32) -> Result<(Option<u64>, Option<u64>), ApplyError> {
    let name = format!("descriptors of process {pid}");
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits"))
        .map_err(|error| if start_of(pid).is_none() { gone(pid) } else { ApplyError::unreadable(&name, &error) })?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut words = line.unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(soft), Some(hard)) => Ok((number(soft), number(hard))),
        _ => Err(ApplyError::unreadable(&name, &io::Error::other("its limits have no line 'Max open files'"))),
    }
}

fn niceness(pid: u32) -> Result<i32, ApplyError> {
    rustix::process::getpriority_process(Some(id_of(pid)?)).map_err(|_| gone(pid))
}

/// `None` of `unlimited`.
fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn id_of(pid: u32) -> Result<Pid, ApplyError> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| gone(pid))
}

fn gone(pid: u32) -> ApplyError {
    let reason = "there is no such process (any more)".to_owned();
    ApplyError::Unreadable { name: format!("process {pid}"), reason }
}

fn not_ours(name: &str, value: &str) -> ApplyError {
    ApplyError::NotOurs { name: name.to_owned(), value: value.to_owned() }
}

fn read_group(file: &str) -> Result<String, ApplyError> {
    let text = std::fs::read_to_string(file).map_err(|error| ApplyError::unreadable(file, &error))?;
    Ok(crate::sysctl::words(&text))
}

/// Only the CPU limit of a group: a journal names files, and this is run as root.
fn check_group(file: &str) -> Result<(), ApplyError> {
    let path = Path::new(file);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let is_limit = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| CPU_LIMITS.contains(&name));
    // Links are followed by the kernel: where they lead must be there, too.
    let is_below = std::fs::canonicalize(path).map_or(path.starts_with(GROUPS), |real| real.starts_with(GROUPS));
    if is_plain && is_limit && is_below && path.starts_with(GROUPS) {
        Ok(())
    } else {
        Err(not_ours(file, "a CPU limit"))
    }
}

/// `max`, -1 or a quota, microseconds, with a period behind it or without.
fn is_cpu_limit(value: &str) -> bool {
    let words: Vec<&str> = value.split(' ').collect();
    let is_number = |word: &str| !word.is_empty() && word.len() <= 12 && word.bytes().all(|b| b.is_ascii_digit());
    match words.as_slice() {
        [quota] => *quota == "max" || *quota == "-1" || is_number(quota),
        [quota, period] => (*quota == "max" || is_number(quota)) && is_number(period),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cpu_limits_of_groups_are_files_of_ours() {
        for file in [
            "/etc/passwd",
            "/sys/fs/cgroup/../../../etc/cpu.max",
            "/sys/fs/cgroup/x/memory.max",
            "cpu.max",
            "/tmp/cpu.max",
            "",
        ] {
            assert!(check_group(file).is_err(), "{file}");
        }
        assert!(
            check_group("/sys/fs/cgroup/a/cpu.max").is_ok()
                && check_group("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us").is_ok()
        );
        for value in ["", "max max", "1;2", "1 2 3", "-2", "9999999999999"] {
            assert!(!is_cpu_limit(value), "{value}");
        }
        assert!(["max", "-1", "50000", "max 100000", "50000 100000"].into_iter().all(is_cpu_limit));
    }

    #[test]
    fn a_process_that_is_none_is_said() {
        for live in [
            Live::Descriptors { pid: 4_000_000_000, limit: None },
            Live::Nice { pid: 0, nice: 0 },
            Live::Stop { pid: 4_000_000_000 },
        ] {
            let error = planned(&live).unwrap_err().to_string();
            assert!(error.contains("no such process"), "{error}");
        }
        assert!(matches!(planned(&Live::Stop { pid: std::process::id() }), Err(ApplyError::NotOurs { .. })));
        assert!(matches!(planned(&Live::Nice { pid: std::process::id(), nice: 20 }), Err(ApplyError::NotOurs { .. })));
    }
}
