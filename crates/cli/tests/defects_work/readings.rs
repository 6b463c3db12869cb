//! What the kernel says of a process: threads, processor time, the call each is in; and strace.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::process::Guard;

use testkit::wait_until;

/// A thread and its name.
#[derive(Debug, Clone)]
pub struct Task {
    pub tid: u32,
    pub name: String,
    folder: PathBuf,
}

/// The worker threads of a server: `http-0`, `http-1` and so on; those of `names` are all called as it is.
pub fn workers(pid: u32, server: &str) -> Vec<Task> {
    let prefix = format!("{server}-");
    tasks(pid).into_iter().filter(|task| task.name.starts_with(&prefix) || task.name == server).collect()
}

/// All its threads.
pub fn tasks(pid: u32) -> Vec<Task> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let mut tasks: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let folder = entry.unwrap().path();
            // It may have ended since.
            let name = std::fs::read_to_string(folder.join("comm")).ok()?.trim().to_owned();
            Some(Task { tid: folder.file_name()?.to_str()?.parse().ok()?, name, folder })
        })
        .collect();
    tasks.sort_by_key(|task| task.tid);
    tasks
}

impl Task {
    /// Processor time so far. Exact while the thread sleeps.
    pub fn cpu(&self) -> Duration {
        let schedstat = std::fs::read_to_string(self.folder.join("schedstat")).unwrap();
        Duration::from_nanos(schedstat.split_whitespace().next().unwrap().parse().unwrap())
    }

    /// Whether it sleeps, in whatever.
    pub fn is_asleep(&self) -> bool {
        let stat = std::fs::read_to_string(self.folder.join("stat")).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    /// The system call it waits in, by number, and that call's first argument.
    pub fn call(&self) -> Option<(i64, u64)> {
        let text = std::fs::read_to_string(self.folder.join("syscall")).ok()?;
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let first = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
        Some((number, first))
    }
}

/// What a descriptor of a process stands for, such as `pipe:[123]`.
pub fn descriptor(pid: u32, fd: u64) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}"));
    link.map(|target| target.display().to_string()).unwrap_or_default()
}

/// Resident memory.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// Bytes that wait in the receive queue of the socket with this port here and that one there.
pub fn unread_bytes(local: u16, remote: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (local, remote) = (format!(":{local:04X}"), format!(":{remote:04X}"));
    for line in table.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.len() > 4 && words[1].ends_with(&local) && words[2].ends_with(&remote) {
            return u64::from_str_radix(words[4].split_once(':').unwrap().1, 16).unwrap();
        }
    }
    0
}

/// Ports at both ends of the established connections of a process, as `ss` shows them.
pub fn connections(pid: u32) -> Vec<(u16, u16)> {
    let output = Command::new("ss").args(["-tnpH", "state", "established"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let port = |address: &str| address.rsplit_once(':').unwrap().1.parse().unwrap();
    let mine = text.lines().filter(|line| line.contains(&format!("pid={pid},")));
    mine.map(|line| line.split_whitespace().collect()).map(|words: Vec<_>| (port(words[2]), port(words[3]))).collect()
}

/// A tracer at all threads of a process.
pub struct Strace {
    process: Guard,
    log: tempfile::NamedTempFile,
}

impl Strace {
    /// Attached, and recording calls of these names. `None`, with the reason printed, where that cannot be.
    pub fn attach(pid: u32, calls: &str) -> Option<Self> {
        if testkit::program("strace").is_none() {
            testkit::skip("strace is not installed");
            return None;
        }
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.args(["-f", "-y", "-p", &pid.to_string(), "-e", &format!("trace={calls}"), "-o"]).arg(log.path());
        let mut process = Guard::spawn(command.stderr(Stdio::piped())).unwrap();
        let tracer = process.pid();
        let is_traced = |folder: &Path| {
            let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|id| id.trim() == tracer.to_string()))
        };
        let mut has_ended = false;
        wait_until("strace attached", || {
            has_ended = process.child().try_wait().unwrap().is_some();
            has_ended || tasks(pid).iter().all(|task| is_traced(&task.folder))
        });
        if has_ended {
            let why = BufReader::new(process.child().stderr.take().unwrap()).lines().map_while(Result::ok);
            testkit::skip(&why.collect::<Vec<_>>().join(" "));
            return None;
        }
        Some(Self { process, log })
    }

    /// Detaches. The calls that began: who made each, and what strace wrote of it.
    pub fn finish(mut self) -> Vec<(u32, String)> {
        self.process.signal(libc::SIGINT);
        assert!(self.process.wait(testkit::HANG_GUARD).is_some(), "strace does not end");
        let text = std::fs::read_to_string(self.log.path()).unwrap();
        let calls = text.lines().filter(|line| !line.contains(" resumed>"));
        calls
            .filter_map(|line| {
                let (tid, call) = line.split_once(' ')?;
                Some((tid.parse().ok()?, call.trim().to_owned()))
            })
            .collect()
    }
}
