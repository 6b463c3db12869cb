//! A worker's connections to its origins: made without waiting, kept between requests, dropped when they end.
//!
//! Each is registered once, for both directions; what it became ready for is remembered here. An idle one on
//! which anything happens is closed: its origin has ended it, or spoke out of turn. Where their number is limited, who
//! comes later waits for one in the order of coming. Not here: HTTP.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with, sockopt};

use crate::limits;
use crate::reactor::{Outgoing, Wake};
use crate::slab::{Slab, Token};

/// One connection to an origin.
pub(super) struct Upstream {
    pub(super) fd: OwnedFd,
    pub(super) origin: usize,
    /// The client's connection it works for; none while it is idle.
    owner: Option<Token>,
    pub(super) readable: bool,
    /// A short receive proves nothing.
    pub(super) thorough: bool,
    /// Established, and a send may bring something.
    pub(super) writable: bool,
    /// It has carried a request before this one.
    pub(super) reused: bool,
    idle_since_ns: u64,
}

/// Why no connection could be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// Descriptors, ports or memory of this process or host.
    Exhausted,
    /// The origin or the way there.
    Origin,
    /// There are as many as there may be: the client's connection is driven when it is its turn.
    Full,
}

/// The connections of one worker.
pub(super) struct Pool {
    outgoing: Option<Outgoing>,
    all: Slab<Upstream>,
    /// For each origin, the latest last.
    idle: Vec<Vec<Token>>,
    idle_max: usize,
    swept_ns: u64,
    /// Connections to each origin, idle ones too; as many as there may be of them.
    open: Vec<usize>,
    open_max: usize,
    /// For each origin, the clients' connections that wait for one of it.
    waiting: Vec<VecDeque<Token>>,
}

impl Pool {
    pub(super) fn new(origins: usize, idle_max: usize) -> Self {
        Self {
            outgoing: None,
            all: Slab::new(),
            idle: vec![Vec::new(); origins],
            idle_max,
            swept_ns: 0,
            open: vec![0; origins],
            open_max: usize::MAX,
            waiting: vec![VecDeque::new(); origins],
        }
    }

    /// At most so many to each origin from here on. Idle ones beyond that are closed, those in use end with their reply.
    pub(super) fn limit(&mut self, connections: usize) {
        if self.open_max == connections {
            return;
        }
        self.open_max = connections;
        for origin in 0..self.open.len() {
            while self.open[origin] > connections
                && let Some(oldest) = self.idle[origin].first().copied()
            {
                self.drop(oldest);
            }
        }
    }

    /// A client's connection whose turn it is. One that has gone since it waited leaves the turn to the next.
    pub(super) fn due(&mut self) -> Option<Token> {
        if self.open_max == usize::MAX {
            return None;
        }
        let Self { waiting, idle, open, open_max, .. } = self;
        let mut origins = waiting.iter_mut().zip(idle).zip(open);
        let ((waiting, ..), _) =
            origins.find(|((waiting, idle), open)| !waiting.is_empty() && (!idle.is_empty() || **open < *open_max))?;
        waiting.pop_front()
    }

    pub(super) fn attach(&mut self, outgoing: Outgoing) {
        self.outgoing = Some(outgoing);
    }

    pub(super) fn get_mut(&mut self, id: Token) -> Option<&mut Upstream> {
        self.all.get_mut(id)
    }

    /// Whom to drive for what happened on `id`.
    pub(super) fn event(&mut self, id: Token, wake: Wake) -> Option<Token> {
        let upstream = self.all.get_mut(id)?;
        upstream.readable |= wake.readable;
        upstream.thorough |= wake.thorough;
        // Room to send has no flag of its own: it is tried.
        upstream.writable = true;
        let owner = upstream.owner;
        if owner.is_none() && upstream.readable {
            self.drop(id);
        }
        owner
    }

    /// A connection kept to that origin.
    pub(super) fn take(&mut self, origin: usize, owner: Token) -> Option<Token> {
        while let Some(id) = self.idle[origin].pop() {
            if let Some(upstream) = self.all.get_mut(id) {
                upstream.owner = Some(owner);
                upstream.reused = true;
                return Some(id);
            }
        }
        None
    }

    /// Begins a connection to that origin.
    pub(super) fn connect(&mut self, origin: usize, addr: SocketAddr, owner: Token) -> Result<Token, Failed> {
        if self.open[origin] >= self.open_max {
            if !self.waiting[origin].contains(&owner) {
                self.waiting[origin].push_back(owner);
            }
            return Err(Failed::Full);
        }
        let fd = match socket(addr) {
            Err(Errno::MFILE | Errno::NFILE) if self.relieve() => socket(addr),
            other => other,
        };
        let fd = fd.map_err(judge)?;
        // Replies must not wait for acknowledgements; refused, they are slower, and right.
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        let writable = match connect(&fd, &addr) {
            Ok(()) => true,
            Err(Errno::INPROGRESS) => false,
            Err(error) => return Err(judge(error)),
        };
        let upstream = Upstream {
            fd,
            origin,
            owner: Some(owner),
            readable: false,
            thorough: false,
            writable,
            reused: false,
            idle_since_ns: 0,
        };
        let id = self.all.insert(upstream);
        self.open[origin] += 1;
        let (Some(outgoing), Some(upstream)) = (&self.outgoing, self.all.get_mut(id)) else {
            return Err(Failed::Exhausted);
        };
        if let Err(error) = outgoing.watch(&upstream.fd, id) {
            self.drop(id);
            return Err(judge(error));
        }
        Ok(id)
    }

    /// Keeps a connection whose reply was read to its end, if it may be kept.
    pub(super) fn park(&mut self, id: Token, now_ns: u64) {
        let Some(upstream) = self.all.get_mut(id) else { return };
        // Bytes behind the reply, or the end: then it is of no use.
        let is_quiet = !upstream.readable
            || matches!(recv(&upstream.fd, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        if !is_quiet || self.idle_max == 0 || self.open[upstream.origin] > self.open_max {
            return self.drop(id);
        }
        upstream.readable = false;
        upstream.owner = None;
        upstream.idle_since_ns = now_ns;
        let idle = &mut self.idle[upstream.origin];
        idle.push(id);
        if idle.len() > self.idle_max {
            let oldest = idle.remove(0);
            self.drop(oldest);
        }
    }

    /// Closes a connection.
    pub(super) fn drop(&mut self, id: Token) {
        let Some(upstream) = self.all.remove(id) else { return };
        self.open[upstream.origin] -= 1;
        if upstream.owner.is_none() {
            self.idle[upstream.origin].retain(|&idle| idle != id);
        }
    }

    /// Closes what has been idle for too long; looks at most once a second.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.swept_ns) < 1_000_000_000 {
            return;
        }
        self.swept_ns = now_ns;
        let stale: Vec<Token> = self.idle.iter().flatten().copied().collect();
        for id in stale {
            let since_ns = self.all.get_mut(id).map_or(0, |upstream| upstream.idle_since_ns);
            if now_ns.saturating_sub(since_ns) > limits::UPSTREAM_IDLE.as_nanos() as u64 {
                self.drop(id);
            }
        }
    }

    /// Closes all that is idle; whether anything was.
    pub(super) fn relieve(&mut self) -> bool {
        let idle: Vec<Token> = self.idle.iter().flatten().copied().collect();
        idle.iter().for_each(|&id| self.drop(id));
        !idle.is_empty()
    }
}

fn socket(addr: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

fn judge(error: Errno) -> Failed {
    match error {
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC | Errno::ADDRNOTAVAIL => {
            Failed::Exhausted
        }
        _ => Failed::Origin,
    }
}
