//! The listening TCP sockets of processes that run, to be changed from outside.
//!
//! A socket is reached through a copy of the process's descriptor (pidfd_getfd(2), Linux 5.6): it is the same socket, and the copy is closed at
//! once; nothing runs within the process. One that several processes share is one.

use crate::error::ApplyError;
use crate::faults::Around;
use crate::process::{CAP_SYS_PTRACE, Process, Who, gone, has_capability, id_of, is_of_same_user, is_there};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

/// What these sockets need, for a fault's page.
pub(crate) const NEEDS: &str = "the right to trace the process (CAP_SYS_PTRACE, or its own user), Linux 5.6";

/// A listening socket of a process, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listening {
    pid: u32,
    started: u64,
    fd: i32,
    inode: u64,
}

/// The listening sockets of those who are named, each once, with a copy of each.
///
/// # Errors
/// There is none, or they cannot be reached.
pub(crate) fn of_all(who: &Who, around: &dyn Around) -> Result<Vec<(Listening, OwnedFd)>, ApplyError> {
    let all = who.find(around)?;
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for process in &all {
        for (fd, inode) in sockets(process.pid)? {
            if let Some(copy) = copy(process.pid, fd)?.filter(|_| seen.insert(inode)) {
                found.push((Listening { pid: process.pid, started: process.started, fd, inode }, copy));
            }
        }
    }
    if found.is_empty() {
        let named = all.first().map_or_else(|| who.words(), Process::words);
        return Err(ApplyError::NobodyNamed { named, reason: "it listens on no TCP socket".to_owned() });
    }
    Ok(found)
}

impl Listening {
    /// Whose it is.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its number in its network namespace's lists.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// `the listening socket 6 of process 1234`
    pub(crate) fn words(&self) -> String {
        format!("the listening socket {} of process {}", self.fd, self.pid)
    }

    /// What tells a change of it from that of another process or socket of the same numbers.
    pub(crate) fn identity(&self, name: &str) -> String {
        format!("{name} of {}, {}", self.started, self.inode)
    }

    /// A copy of its descriptor; `None`: it is not there any more.
    pub(crate) fn copy(&self) -> Result<Option<OwnedFd>, ApplyError> {
        let is_same = is_there(self.pid, self.started) && inode(self.pid, self.fd) == Some(self.inode);
        if is_same { copy(self.pid, self.fd) } else { Ok(None) }
    }

    /// Whether it may be reached.
    pub(crate) fn may(&self, name: &str) -> Result<(), ApplyError> {
        match has_capability(CAP_SYS_PTRACE) || is_of_same_user(self.pid) {
            true => Ok(()),
            false => Err(ApplyError::missing_right(name, "it is another user's, and CAP_SYS_PTRACE is missing")),
        }
    }

    /// That the kernel does not say what was asked of it.
    pub(crate) fn unreadable(&self, error: &io::Error) -> ApplyError {
        ApplyError::unreadable(&self.words(), error)
    }
}

/// A process's descriptors that are sockets, with their inodes, in order.
fn sockets(pid: u32) -> Result<Vec<(i32, u64)>, ApplyError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => gone(pid),
        _ => unreadable(pid, &error),
    })?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut all: Vec<(i32, u64)> = names.filter_map(|fd| Some((fd, inode(pid, fd)?))).collect();
    all.sort_unstable();
    Ok(all)
}

/// The inode of a socket (proc_pid_fd(5)); `None`: it is something else, or not there any more.
fn inode(pid: u32, fd: i32) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// A copy of a process's descriptor, where it is a TCP socket that listens.
fn copy(pid: u32, fd: i32) -> Result<Option<OwnedFd>, ApplyError> {
    let handle = pidfd_open(id_of(pid)?, PidfdFlags::empty()).map_err(|_| gone(pid))?;
    let socket = match pidfd_getfd(&handle, fd, PidfdGetfdFlags::empty()) {
        // Closed in between.
        Err(rustix::io::Errno::BADF) => return Ok(None),
        other => other.map_err(|error| unreadable(pid, &error.into()))?,
    };
    let is_listening = socket_acceptconn(&socket).unwrap_or(false);
    let is_stream = socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let is_ip =
        socket_domain(&socket).is_ok_and(|family| [AddressFamily::INET, AddressFamily::INET6].contains(&family));
    Ok((is_listening && is_stream && is_ip).then_some(socket))
}

fn unreadable(pid: u32, error: &io::Error) -> ApplyError {
    ApplyError::unreadable(&format!("sockets of process {pid}"), error)
}
