//! Whether small writes to a server's connections wait for those before them (`TCP_NODELAY`, tcp(7)): set on its listening sockets.
//!
//! A connection has the option from the socket that took it, so that each one accepted from then on has it, of a server that sets none itself.
//! Those that are open keep what they have. The socket is reached through a copy of the server's descriptor (pidfd_getfd(2), Linux 5.6),
//! which is the same socket and is closed at once; nothing runs within the server. One that several processes share is set once.

use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::{Change, Reversible};
use crate::error::ApplyError;
use crate::process::{CAP_SYS_PTRACE, Process, Who, gone, has_capability, id_of, is_of_same_user, is_there};
use rustix::net::sockopt::{set_tcp_nodelay, socket_acceptconn, socket_domain, tcp_nodelay};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is said of it.
pub(crate) const KIND: Kind = Kind {
    name: "nodelay",
    takes: "WHO on|off",
    example: "target on",
    does: "sets TCP_NODELAY of listening sockets, which connections accepted from then on have from them",
    needs: "the right to trace the process (CAP_SYS_PTRACE, or its own user), Linux 5.6",
    undone: Undoing::Back("the sockets as they were; a connection keeps what it has"),
    parse: |words| {
        let who = words.who()?;
        let is_on = words.parsed("on or off", parsed)?;
        Ok(Arc::new(Delaying { who, is_on }))
    },
};

const ON: &str = "on";
const OFF: &str = "off";

fn parsed(word: &str) -> Option<bool> {
    match word {
        ON => Some(true),
        OFF => Some(false),
        _ => None,
    }
}

fn shown(is_on: bool) -> String {
    if is_on { ON } else { OFF }.to_owned()
}

#[derive(Debug)]
struct Delaying {
    who: Who,
    is_on: bool,
}

impl Fault for Delaying {
    fn plan(&self, around: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let all = self.who.find(around)?;
        let mut seen = BTreeSet::new();
        let mut deeds = Vec::new();
        for process in &all {
            for (fd, inode) in sockets(process.pid)? {
                let Some(socket) = listening(process.pid, fd)?.filter(|_| seen.insert(inode)) else { continue };
                let before = of(process.pid, &socket)?;
                deeds.push(Deed::Change(Change::Nodelay(Nodelay {
                    pid: process.pid,
                    started: process.started,
                    fd,
                    inode,
                    before: shown(before),
                    after: shown(self.is_on),
                })));
            }
        }
        if deeds.is_empty() {
            let named = all.first().map_or_else(|| self.who.words(), Process::words);
            return Err(ApplyError::NobodyNamed { named, reason: "it listens on no TCP socket".to_owned() });
        }
        Ok(deeds)
    }

    fn who(&self) -> Option<&Who> {
        Some(&self.who)
    }
}

/// `TCP_NODELAY` of a listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodelay {
    pid: u32,
    started: u64,
    fd: i32,
    inode: u64,
    before: String,
    after: String,
}

impl Nodelay {
    /// A copy of the socket; `None`: it is not there any more.
    fn socket(&self) -> Result<Option<OwnedFd>, ApplyError> {
        let is_same = is_there(self.pid, self.started) && inode(self.pid, self.fd) == Some(self.inode);
        if is_same { listening(self.pid, self.fd) } else { Ok(None) }
    }
}

impl Reversible for Nodelay {
    fn name(&self) -> String {
        format!("TCP_NODELAY of the listening socket {} of process {}", self.fd, self.pid)
    }

    fn identity(&self) -> String {
        format!("{} of {}, {}", self.name(), self.started, self.inode)
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn found(&self) -> Result<Option<String>, ApplyError> {
        self.socket()?.map(|socket| of(self.pid, &socket).map(shown)).transpose()
    }

    fn may(&self) -> Result<(), ApplyError> {
        match has_capability(CAP_SYS_PTRACE) || is_of_same_user(self.pid) {
            true => Ok(()),
            false => {
                Err(ApplyError::missing_right(&self.name(), "it is another user's, and CAP_SYS_PTRACE is missing"))
            }
        }
    }

    fn set(&self, value: &str) -> Result<(), ApplyError> {
        let is_on = parsed(value).ok_or_else(|| ApplyError::not_ours(&self.name(), value))?;
        let socket = self.socket()?.ok_or_else(|| gone(self.pid))?;
        set_tcp_nodelay(&socket, is_on).map_err(|error| ApplyError::of_write(&self.name(), value, &error.into()))
    }

    fn check(&self) -> Result<(), ApplyError> {
        match parsed(&self.before).is_some() && parsed(&self.after).is_some() {
            true => Ok(()),
            false => Err(ApplyError::not_ours(&self.name(), &self.after)),
        }
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
fn listening(pid: u32, fd: i32) -> Result<Option<OwnedFd>, ApplyError> {
    let refused = |error: io::Error| unreadable(pid, &error);
    let handle = pidfd_open(id_of(pid)?, PidfdFlags::empty()).map_err(|_| gone(pid))?;
    let socket = match pidfd_getfd(&handle, fd, PidfdGetfdFlags::empty()) {
        // Closed in between.
        Err(rustix::io::Errno::BADF) => return Ok(None),
        other => other.map_err(|error| refused(error.into()))?,
    };
    let is_listening = socket_acceptconn(&socket).unwrap_or(false);
    let is_stream = rustix::net::sockopt::socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let is_ip =
        socket_domain(&socket).is_ok_and(|family| [AddressFamily::INET, AddressFamily::INET6].contains(&family));
    Ok((is_listening && is_stream && is_ip).then_some(socket))
}

fn of(pid: u32, socket: &OwnedFd) -> Result<bool, ApplyError> {
    tcp_nodelay(socket).map_err(|error| unreadable(pid, &error.into()))
}

fn unreadable(pid: u32, error: &io::Error) -> ApplyError {
    ApplyError::unreadable(&format!("sockets of process {pid}"), error)
}
