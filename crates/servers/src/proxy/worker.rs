//! One worker of the proxy and its clients' connections; bytes from a client and to it.
//!
//! What is sent leaves at once as far as the client takes it, the rest is kept in its chain.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::cache::{Cache, Stored};
use super::chain::{Bounds, Chain};
use super::counters::ProxyCounters;
use super::exchange::Exchange;
use super::origins::Origins;
use super::pool::Pool;
use crate::counters::Counters;
use crate::http::reply::Stamp;
use crate::link::Io;
use crate::slab::Token;
use crate::timers::NEVER_NS;
use crate::transfer::{self, Came, Sent};

/// What the workers of a proxy have in common.
pub(super) struct Shared {
    pub(super) origins: Origins,
    pub(super) cache: Option<Cache>,
    pub(super) bounds: Bounds,
    pub(super) timeout_ns: u64,
    pub(super) keep: bool,
    /// What the workers that have ended counted.
    pub(super) sum: Mutex<ProxyCounters>,
}

/// One worker.
pub(super) struct Proxy {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Pool,
    pub(super) stamp: Stamp,
    /// Received into.
    pub(super) scratch: Vec<u8>,
    /// What is to be sent to a client next.
    pub(super) wire: Vec<u8>,
    /// A body without its framing.
    pub(super) body: Vec<u8>,
    pub(super) piece: Vec<u8>,
    pub(super) tally: ProxyCounters,
    pub(super) idle_ns: Option<u64>,
    pub(super) head_ns: u64,
    pub(super) draining: bool,
    pub(super) now_ns: u64,
    /// Of the connection being driven.
    pub(super) token: Token,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.sum.lock().unwrap_or_else(PoisonError::into_inner).add(&self.tally);
    }
}

/// One client's connection.
pub(super) struct Conn {
    /// Received and not consumed yet.
    pub(super) input: Vec<u8>,
    /// How far the end of the next head was looked for.
    pub(super) scanned: usize,
    pub(super) empty_lines: u8,
    pub(super) readable: bool,
    pub(super) thorough: bool,
    /// The client's address, looked up when it is first needed; the inner `None`: it has none (a unix socket).
    pub(super) peer: Option<Option<IpAddr>>,
    /// When the client last took or gave something.
    pub(super) moved_ns: u64,
    /// Until when a head that has begun must be whole; [`NEVER_NS`]: none has.
    pub(super) head_until_ns: u64,
    pub(super) out: Chain,
    /// Behind `out`: a body from the cache, and how much of it was sent.
    pub(super) cached: Option<(Arc<Stored>, usize)>,
    pub(super) exchange: Option<Box<Exchange>>,
    pub(super) stage: Stage,
}

/// What is done with a connection next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for the next request, or reads its head.
    Receiving,
    Exchanging,
    /// Once the output is sent, the connection is closed, in this way.
    Closing(Close),
    /// Everything is said; the rest of the input is thrown away, until then at most.
    Lingering {
        until_ns: u64,
    },
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    AtOnce,
    /// Input may still come, and closing on it would lose the reply.
    Lingering,
    /// The reply is not whole, and only a reset says so.
    Reset,
}

impl Conn {
    /// A fresh connection.
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            input: Vec::new(),
            scanned: 0,
            empty_lines: 0,
            readable: false,
            thorough: false,
            peer: None,
            moved_ns: now_ns,
            head_until_ns: NEVER_NS,
            out: Chain::default(),
            cached: None,
            exchange: None,
            stage: Stage::Receiving,
        }
    }

    /// Whether something is still to be sent to the client.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.cached.is_some()
    }
}

impl Proxy {
    /// Receives once from the client: bytes, none yet (0), or its end (`None`).
    pub(super) fn receive<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        buffer: &mut [u8],
        counters: &mut Counters,
    ) -> Option<usize> {
        if !conn.readable {
            return Some(0);
        }
        match transfer::receive(io, buffer, &mut conn.readable, conn.thorough, counters) {
            Came::Bytes(n) => {
                conn.moved_ns = self.now_ns;
                Some(n)
            }
            Came::Nothing => Some(0),
            Came::End => None,
        }
    }

    /// Sends `self.wire` and `plain`; what the client does not take is kept. False if it has gone.
    pub(super) fn deliver<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn,
        plain: &[u8],
        counters: &mut Counters,
    ) -> bool {
        let (mut head, mut plain) = (&self.wire[..], plain);
        if !(conn.has_output() || head.is_empty() && plain.is_empty()) {
            match transfer::send(io, head, plain, counters) {
                Sent::Bytes(n) => {
                    conn.moved_ns = self.now_ns;
                    plain = &plain[n.saturating_sub(head.len())..];
                    head = &head[n.min(head.len())..];
                }
                Sent::Blocked => {}
                Sent::Failed => return false,
            }
        }
        let bounds = &self.shared.bounds;
        let is_kept = conn.out.push(head, bounds, &mut self.tally) && conn.out.push(plain, bounds, &mut self.tally);
        counters.memory_error += u64::from(!is_kept);
        is_kept
    }
}
