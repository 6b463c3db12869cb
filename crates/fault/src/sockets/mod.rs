//! Drops TCP connections of this network namespace by the address of their other end (`SOCK_DESTROY`, sock_diag(7)).
//!
//! One in TIME_WAIT is forgotten and its port is free; an established one is aborted: both ends learn by a reset, and a
//! blocked call of its owner ends in ECONNABORTED (`tcp_abort`, net/ipv4/tcp.c). Nothing of it can be undone. Needs
//! CAP_NET_ADMIN and a kernel with CONFIG_INET_DIAG_DESTROY. Cost: two system calls a socket.

mod message;

use crate::limits::{KERNEL_WAIT, SOCKETS_MAX};
use message::{Family, Id, Listed, Said};
use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The kernel fits the parts of its answer to the buffer they are read into, up to this (`netlink_recvmsg`).
const DATAGRAM_BYTES: usize = 32 << 10;
/// The state of sockets that listen (net/tcp_states.h).
const LISTEN: u8 = 10;

/// The state a connection is in, of those that can be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Closed by this side first, and kept for late segments.
    TimeWait,
    /// Open.
    Established,
}

impl State {
    /// The number of net/tcp_states.h.
    fn number(self) -> u8 {
        match self {
            State::Established => 1,
            State::TimeWait => 6,
        }
    }

    /// As netstat and ss call it.
    pub const fn name(self) -> &'static str {
        match self {
            State::TimeWait => "TIME_WAIT",
            State::Established => "ESTABLISHED",
        }
    }
}

/// What became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Connections that were found.
    pub found: u64,
    /// Of these, dropped.
    pub dropped: u64,
    /// Of these, gone by themselves in between.
    pub gone: u64,
}

/// Why none, or not all, were dropped.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    /// The right is missing.
    #[error(
        "expected the right to drop connections (CAP_NET_ADMIN), but the kernel refuses (EPERM) after {} of {}: run as root", so_far.dropped, so_far.found
    )]
    NotPermitted {
        /// How many connections were found and dropped before the error.
        so_far: Dropped,
    },
    /// The kernel cannot.
    #[error(
        "expected a kernel that drops {} connections, but it does not (EOPNOTSUPP) after {} of {}: it is built without CONFIG_INET_DIAG_DESTROY, or too old for this state", state.name(), so_far.dropped, so_far.found
    )]
    NotSupported {
        /// The state.
        state: State,
        /// How many connections were found and dropped before the error.
        so_far: Dropped,
    },
    /// Another error of the kernel.
    #[error("the kernel refused to drop connections ({reason}) after {} of {}: try again", so_far.dropped, so_far.found)]
    Refused {
        /// The error in the kernel's words.
        reason: String,
        /// How many connections were found and dropped before the error.
        so_far: Dropped,
    },
    /// The list cannot be read.
    #[error(
        "expected the kernel's list of connections (sock_diag), but {reason}: check that no sandbox forbids netlink"
    )]
    NoList {
        /// What the kernel said.
        reason: String,
    },
    /// Longer than this crate keeps.
    #[error("more than {SOCKETS_MAX} connections match: name one address and port")]
    TooMany,
}

/// How many there are in this state to these addresses and ports.
///
/// # Errors
/// [`DropError::NoList`] or [`DropError::TooMany`].
pub fn count(state: State, to: &[SocketAddr]) -> Result<u64, DropError> {
    Ok(find(&open()?, state, to)?.len() as u64)
}

/// Drops all that are in this state when it begins, to these addresses and ports. One that changed its state in between
/// is dropped all the same; one whose addresses were taken by another socket is not (it has another cookie).
///
/// # Errors
/// [`DropError`], with what was done before it.
pub fn drop_all(state: State, to: &[SocketAddr]) -> Result<Dropped, DropError> {
    let socket = open()?;
    let found = find(&socket, state, to)?;
    let mut so_far = Dropped { found: found.len() as u64, ..Dropped::default() };
    let mut buffer = vec![0; DATAGRAM_BYTES];
    for (sequence, id) in (1u32..).zip(&found) {
        match answer(&socket, &message::destroy(sequence, id, state.number()), sequence, &mut buffer) {
            Ok(Ok(())) => so_far.dropped += 1,
            Ok(Err(Errno::NOENT)) => so_far.gone += 1,
            Ok(Err(Errno::PERM | Errno::ACCESS)) => return Err(DropError::NotPermitted { so_far }),
            Ok(Err(Errno::OPNOTSUPP)) => return Err(DropError::NotSupported { state, so_far }),
            Ok(Err(errno)) => return Err(DropError::Refused { reason: plain(errno.into()), so_far }),
            Err(error) => return Err(DropError::Refused { reason: plain(error), so_far }),
        }
    }
    Ok(so_far)
}

fn plain(error: io::Error) -> String {
    crate::error::plain(&error)
}

fn open() -> Result<OwnedFd, DropError> {
    let open = || -> io::Result<OwnedFd> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(KERNEL_WAIT))?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(socket)
    };
    open().map_err(|error| DropError::NoList { reason: plain(error) })
}

/// All that match, of both families: a socket of IPv6 may hold an IPv4 connection.
fn find(socket: &OwnedFd, state: State, to: &[SocketAddr]) -> Result<Vec<Id>, DropError> {
    let to: Vec<SocketAddr> = to.iter().map(|a| SocketAddr::new(a.ip().to_canonical(), a.port())).collect();
    let mut ports: Vec<u16> = to.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    let mut found = Vec::new();
    let asked = ports.iter().flat_map(|port| [Family::V4, Family::V6].map(|family| (*port, family)));
    for (sequence, (port, family)) in (1u32..).zip(asked) {
        let mut take = |one: Listed| {
            if to.contains(&one.id.remote()) && found.len() <= SOCKETS_MAX {
                found.push(one.id);
            }
        };
        each(socket, (sequence, family, state.number(), port), &mut take)?;
        if found.len() > SOCKETS_MAX {
            return Err(DropError::TooMany);
        }
    }
    Ok(found)
}

/// Goes through the kernel's list of a family's sockets in a state, whose other end has this port.
fn each(
    socket: &OwnedFd,
    (sequence, family, state, port): (u32, Family, u8, u16),
    found: &mut dyn FnMut(Listed),
) -> Result<(), DropError> {
    let no_list = |reason: String| DropError::NoList { reason };
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let request = message::list(sequence, family, state, port);
    send_whole(socket, &request).map_err(|error| no_list(plain(error)))?;
    loop {
        let datagram = receive(socket, &mut buffer).map_err(|error| no_list(plain(error)))?;
        match message::read(datagram, sequence, state, &mut *found) {
            Some(Said::More) => {}
            Some(Said::Done) => return Ok(()),
            // A kernel without IPv6 has no such list.
            Some(Said::Answer(Err(Errno::NOENT | Errno::AFNOSUPPORT))) if family == Family::V6 => return Ok(()),
            Some(Said::Answer(Err(errno))) => return Err(no_list(plain(errno.into()))),
            Some(Said::Answer(Ok(()))) | None => return Err(no_list("its answer is not of the known form".into())),
        }
    }
}

/// How many connections may wait for accept in the listening TCP socket of this inode; `None`: there is none in this network namespace.
///
/// # Errors
/// [`DropError::NoList`].
pub(crate) fn backlog_of(inode: u64) -> Result<Option<u32>, DropError> {
    let socket = open()?;
    let mut found = None;
    for (sequence, family) in (1u32..).zip([Family::V4, Family::V6]) {
        let mut take = |one: Listed| {
            if u64::from(one.inode) == inode {
                found = Some(one.backlog);
            }
        };
        each(&socket, (sequence, family, LISTEN, 0), &mut take)?;
    }
    Ok(found)
}

/// Sends a request and waits for its acknowledgement.
fn answer(socket: &OwnedFd, request: &[u8], sequence: u32, buffer: &mut [u8]) -> io::Result<Result<(), Errno>> {
    send_whole(socket, request)?;
    match message::read(receive(socket, buffer)?, sequence, 0, |_| {}) {
        Some(Said::Answer(answer)) => Ok(answer),
        _ => Err(io::Error::other("its answer is not of the known form")),
    }
}

fn send_whole(socket: &OwnedFd, request: &[u8]) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| send(socket, request, SendFlags::empty()))? {
        n if n == request.len() => Ok(()),
        _ => Err(io::Error::other("it took a part of the request")),
    }
}

fn receive<'b>(socket: &OwnedFd, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    // With MSG_TRUNC the length is that of the datagram, also where the buffer is shorter.
    let (_, length) = rustix::io::retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::TRUNC))?;
    buffer.get(..length).ok_or_else(|| io::Error::other("its answer is longer than the buffer"))
}
