//! Processes as faults know them: by id and start time, never by name; whom a user named ([`Who`]), and their threads.
//!
//! Another process that was given the same id since is never touched (proc_pid_stat(5), field 22). Process 1 and plimsoll
//! itself are refused, whoever names them. Nothing is guessed: a process is named by its id, by a port it listens on, or as
//! the run's target. Not kept: what ends between the look and the deed; the kernel's answer says that.

use crate::error::ApplyError;
use crate::faults::Around;
use rustix::process::Pid;
use std::collections::BTreeMap;

/// CAP_NET_ADMIN, capabilities(7).
pub(crate) const CAP_NET_ADMIN: u32 = 12;
/// CAP_NET_RAW.
pub(crate) const CAP_NET_RAW: u32 = 13;
/// CAP_SYS_PTRACE.
pub(crate) const CAP_SYS_PTRACE: u32 = 19;
/// CAP_SYS_NICE.
pub(crate) const CAP_SYS_NICE: u32 = 23;
/// CAP_SYS_RESOURCE.
pub(crate) const CAP_SYS_RESOURCE: u32 = 24;
/// The name of the process that everything descends from.
const INIT: u32 = 1;

/// Whom a fault is about, as the user named them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// A process.
    Pid(u32),
    /// Whoever listens on this port.
    Port(u16),
    /// The run's target.
    Target,
}

/// Whom a fault is about, and whether their descendants are meant, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Those named.
    pub whom: Whom,
    /// With all that descends from them.
    pub with_tree: bool,
}

/// A process at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Clock ticks since boot.
    pub(crate) started: u64,
    pub(crate) name: String,
}

impl Process {
    pub(crate) fn of(pid: u32) -> Result<Self, ApplyError> {
        let started = start_of(pid).ok_or_else(|| gone(pid))?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Ok(Process { pid, started, name: name.trim_end().to_owned() })
    }

    /// `process 1234 (redis-server)`
    pub(crate) fn words(&self) -> String {
        format!("process {} ({})", self.pid, self.name)
    }

    pub(crate) fn is_there(&self) -> bool {
        is_there(self.pid, self.started)
    }
}

impl Who {
    /// Those who were named, as they are now. In the order of their ids, each once.
    ///
    /// # Errors
    /// Nobody is there, or it is process 1 or plimsoll itself.
    pub(crate) fn find(&self, around: &dyn Around) -> Result<Vec<Process>, ApplyError> {
        let not_found = |reason: String| ApplyError::NobodyNamed { named: self.words(), reason };
        let mut pids = match self.whom {
            Whom::Pid(pid) => vec![pid],
            Whom::Port(port) => around.listeners(port).map_err(not_found)?,
            Whom::Target => around.target().map_err(not_found)?,
        };
        if pids.is_empty() {
            return Err(not_found("there is none".to_owned()));
        }
        if self.with_tree {
            pids = with_descendants(pids);
        }
        pids.sort_unstable();
        pids.dedup();
        if let Some(pid) = pids.iter().find(|pid| **pid <= INIT || **pid == std::process::id()) {
            return Err(ApplyError::NeverTouched { pid: *pid });
        }
        let all: Vec<Process> = pids.into_iter().filter_map(|pid| Process::of(pid).ok()).collect();
        match (all.is_empty(), &self.whom) {
            (true, Whom::Pid(pid)) => Err(gone(*pid)),
            (true, _) => Err(not_found("its processes have ended".to_owned())),
            (false, _) => Ok(all),
        }
    }

    /// `process 1234`, `whoever listens on port 80`, `the target`; with its tree.
    pub fn words(&self) -> String {
        let whom = match self.whom {
            Whom::Pid(pid) => format!("process {pid}"),
            Whom::Port(port) => format!("whoever listens on port {port}"),
            Whom::Target => "the target".to_owned(),
        };
        if self.with_tree { format!("{whom} with its tree") } else { whom }
    }
}

/// When a process began, clock ticks since boot (proc_pid_stat(5), field 22); `None` where there is none, or it has ended.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if state == "Z" || state == "X" { None } else { fields.nth(18)?.parse().ok() }
}

/// Whether the very process lives that began then.
pub(crate) fn is_there(pid: u32, started: u64) -> bool {
    start_of(pid) == Some(started)
}

/// The fields behind the name, from the state on.
pub(crate) fn stat(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.to_owned())
}

/// Processes, and all that descends from them.
pub(crate) fn with_descendants(mut pids: Vec<u32>) -> Vec<u32> {
    if pids.is_empty() {
        return pids;
    }
    let children = children();
    let mut at = 0;
    while let Some(pid) = pids.get(at).copied() {
        let new: Vec<u32> = children.get(&pid).into_iter().flatten().copied().collect();
        pids.extend(new.into_iter().filter(|new| !pids.contains(new)).collect::<Vec<_>>());
        at += 1;
    }
    pids
}

/// All processes' children.
fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all() {
        if let Some(parent) = stat(pid).and_then(|fields| fields.split(' ').nth(1)?.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The ids of all processes that can be seen.
pub(crate) fn all() -> impl Iterator<Item = u32> {
    numbers_in("/proc")
}

/// The ids of a process's threads.
pub(crate) fn threads(pid: u32) -> impl Iterator<Item = u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

fn numbers_in(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The kernel's form of an id.
pub(crate) fn id_of(pid: u32) -> Result<Pid, ApplyError> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| gone(pid))
}

pub(crate) fn gone(pid: u32) -> ApplyError {
    let reason = "there is no such process (any more)".to_owned();
    ApplyError::Unreadable { name: format!("process {pid}"), reason }
}

/// Whether this process may send a signal to another.
pub(crate) fn may_signal(pid: u32) -> Result<(), ApplyError> {
    rustix::process::test_kill_process(id_of(pid)?).map_err(|error| match error {
        rustix::io::Errno::PERM => ApplyError::missing_right(&format!("process {pid}"), "it is another user's"),
        _ => gone(pid),
    })
}

/// Whether this process has a capability, by its number (proc_pid_status(5), `CapEff`).
pub(crate) fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits >> number & 1 == 1)
}

/// Whether all of a process's user and group ids are this process's own real ones: then it may do what prlimit(2) and
/// sched_setaffinity(2) ask no capability for.
pub(crate) fn is_of_same_user(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let are = |name: &str, own: u32| {
        let ids = status.lines().find_map(|line| line.strip_prefix(name));
        ids.is_some_and(|ids| ids.split_whitespace().take(3).all(|id| id.parse() == Ok(own)))
    };
    are("Uid:", rustix::process::getuid().as_raw()) && are("Gid:", rustix::process::getgid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Nobody;

    #[test]
    fn only_who_was_named_and_never_the_first_nor_itself() {
        let find = |whom: Whom, with_tree: bool| Who { whom, with_tree }.find(&Nobody);
        for pid in [0, 1, std::process::id()] {
            assert!(matches!(find(Whom::Pid(pid), false), Err(ApplyError::NeverTouched { .. })), "{pid}");
        }
        // A tree that has this process in it.
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned();
        assert!(matches!(find(Whom::Pid(parent), true), Err(ApplyError::NeverTouched { .. })));
        let error = find(Whom::Pid(4_000_000_000), false).unwrap_err().to_string();
        assert!(error.contains("no such process"), "{error}");
        assert!(find(Whom::Target, false).unwrap_err().to_string().contains("the target"), "nobody is guessed");
    }

    #[test]
    fn a_tree_is_all_descendants() {
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.args(["-c", "sh -c 'sleep 600; true' & wait"]).spawn().unwrap();
        let who = Who { whom: Whom::Pid(child.id()), with_tree: true };
        let found =
            testkit::wait_for("all of the tree", || Some(who.find(&Nobody).unwrap()).filter(|all| all.len() == 3));
        assert_eq!(who.words(), format!("process {} with its tree", child.id()));
        for process in found {
            assert!(process.is_there());
            rustix::process::kill_process(id_of(process.pid).unwrap(), rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
    }
}
