//! TLS under a protocol: the handshake before it, its ends behind it.
//!
//! A protocol is woken once the handshake is done; what comes out of the handshake last (tickets) waits
//! for the first reply and leaves with it. A handshake has the idle timeout as a whole, so that dripping
//! does not prolong it. One that fails is answered with its alert, then read on for a while, so that no
//! reset overtakes the alert.

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{Errno, pread};
use rustls::{HandshakeKind, ServerConfig};

use super::link::{Filled, Link, Sent};
use super::scratch::Scratch;
use crate::counters::Counters;
use crate::limits;
use crate::link::{self, Io, Received};
use crate::reactor::{Accepting, Next, Outgoing, Protocol, Wake};
use crate::slab::Token;
use crate::timers::NEVER_NS;

/// One worker's protocol, over TLS.
pub(crate) struct Tls<P> {
    protocol: P,
    records: Records,
    idle_ns: Option<u64>,
}

/// What a worker's links have in common.
struct Records {
    config: Arc<ServerConfig>,
    scratch: Scratch,
}

/// One connection: its protocol's state and its link's.
pub(crate) struct Conn<C> {
    protocol: C,
    link: Link,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Nothing has happened yet.
    Fresh,
    /// The handshake goes on.
    Shaking { until_ns: u64 },
    /// The handshake is done: the protocol is driven.
    Open,
    /// The protocol is done; what it said last is still to be sent.
    Ending,
    /// TLS broke off; the rest of the input is thrown away.
    Lingering { until_ns: u64 },
}

impl<P: Protocol> Tls<P> {
    pub(crate) fn new(protocol: P, config: Arc<ServerConfig>, idle_ns: Option<u64>) -> Self {
        Self { protocol, records: Records { config, scratch: Scratch::new() }, idle_ns }
    }
}

impl<P: Protocol> Protocol for Tls<P> {
    type Conn = Conn<P::Conn>;

    const WORKS_WHILE_BLOCKED: bool = P::WORKS_WHILE_BLOCKED;

    fn connection(&mut self) -> Self::Conn {
        Conn { protocol: self.protocol.connection(), link: Link::new(), stage: Stage::Fresh }
    }

    fn relieve(&mut self) {
        self.protocol.relieve();
    }

    fn tick(&mut self, now_ns: u64) {
        self.protocol.tick(now_ns);
    }

    fn accepting(&self) -> Option<Accepting> {
        self.protocol.accepting()
    }

    fn keep_no_connection(&mut self) {
        self.protocol.keep_no_connection();
    }

    fn attach(&mut self, outgoing: Outgoing) {
        self.protocol.attach(outgoing);
    }

    fn outgoing(&mut self, id: Token, wake: Wake) -> Option<Token> {
        self.protocol.outgoing(id, wake)
    }

    fn due(&mut self) -> Option<Token> {
        self.protocol.due()
    }

    fn limit_outgoing(&mut self, connections: usize) {
        self.protocol.limit_outgoing(connections);
    }

    fn closed(&mut self, conn: Self::Conn) {
        self.protocol.closed(conn.protocol);
    }

    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Self::Conn, wake: Wake, counters: &mut Counters) -> Next {
        let next = self.advance(io.socket(), conn, wake, counters);
        // The buffer is shared: what a connection that ends left in it must not be sent to the next one.
        self.records.scratch.out.clear();
        next
    }
}

impl<P: Protocol> Tls<P> {
    fn advance(&mut self, fd: BorrowedFd<'_>, conn: &mut Conn<P::Conn>, wake: Wake, counters: &mut Counters) -> Next {
        conn.link.wake(wake.readable, wake.thorough);
        let idle_until_ns = self.idle_ns.map_or(NEVER_NS, |idle_ns| wake.now_ns.saturating_add(idle_ns));
        if let Stage::Fresh = conn.stage {
            conn.stage = Stage::Shaking { until_ns: idle_until_ns };
        }
        if let Stage::Shaking { until_ns } = conn.stage {
            match self.shake(fd, conn, wake, until_ns, counters) {
                Some(next) => return next,
                None => conn.stage = Stage::Open,
            }
        }
        match conn.stage {
            Stage::Fresh | Stage::Shaking { .. } => Next::Close,
            Stage::Open => self.open(fd, conn, wake, idle_until_ns, counters),
            Stage::Ending => match conn.link.flush(fd) {
                Ok(Sent::Blocked) if !wake.expired || wake.draining => {
                    Next::Wait { until_ns: if wake.draining { NEVER_NS } else { idle_until_ns }, write: true }
                }
                Ok(_) | Err(_) => Next::Close,
            },
            Stage::Lingering { until_ns } => self.linger(fd, &mut conn.link, wake, until_ns),
        }
    }

    /// Goes on with the handshake. `None` once it is done.
    fn shake(
        &mut self,
        fd: BorrowedFd<'_>,
        conn: &mut Conn<P::Conn>,
        wake: Wake,
        until_ns: u64,
        counters: &mut Counters,
    ) -> Option<Next> {
        let Records { config, scratch } = &mut self.records;
        let link = &mut conn.link;
        if wake.expired {
            counters.idle_closed += u64::from(!wake.draining);
            counters.tls_failed += 1;
            return Some(Next::Close);
        }
        for _ in 0..limits::TURNS_MAX {
            match link.settle(fd, scratch) {
                // With the server ending, nothing is begun.
                Ok(Sent::Blocked) if !wake.draining => return Some(Next::Wait { until_ns, write: true }),
                Ok(Sent::All) if link.is_readable() => {}
                Ok(Sent::All) if !wake.draining => return Some(Next::Wait { until_ns, write: false }),
                Ok(_) => {
                    counters.tls_failed += 1;
                    return Some(Next::Close);
                }
                Err(_) => {
                    counters.send_error += 1;
                    counters.tls_failed += 1;
                    return Some(Next::Close);
                }
            }
            match link.fill(fd, config, scratch) {
                Ok(Filled::Some) => {}
                Ok(Filled::Nothing) => continue,
                Ok(Filled::End) => {
                    counters.shutdown += 1;
                    counters.tls_failed += 1;
                    return Some(Next::Close);
                }
                Ok(Filled::Broken) => {
                    counters.tls_failed += 1;
                    return Some(self.break_off(fd, conn, wake));
                }
                Err(_) => {
                    counters.recv_error += 1;
                    counters.tls_failed += 1;
                    return Some(Next::Close);
                }
            }
            match link.handshake() {
                None => {}
                Some(HandshakeKind::Resumed) => {
                    counters.tls_resumed += 1;
                    return None;
                }
                Some(_) => {
                    counters.tls_full += 1;
                    return None;
                }
            }
        }
        // What was said stays with the connection until its next turn.
        match link.settle(fd, scratch) {
            Ok(_) => Some(Next::Again),
            Err(_) => {
                counters.send_error += 1;
                counters.tls_failed += 1;
                Some(Next::Close)
            }
        }
    }

    /// Lets the protocol go on.
    fn open(
        &mut self,
        fd: BorrowedFd<'_>,
        conn: &mut Conn<P::Conn>,
        wake: Wake,
        idle_until_ns: u64,
        counters: &mut Counters,
    ) -> Next {
        if !wake.expired && conn.link.is_blocked() {
            match conn.link.flush(fd) {
                Ok(Sent::All) => {}
                Ok(Sent::Blocked) if !P::WORKS_WHILE_BLOCKED => {
                    return Next::Wait { until_ns: idle_until_ns, write: true };
                }
                Ok(Sent::Blocked) => {}
                Err(_) => {
                    counters.send_error += 1;
                    return Next::Close;
                }
            }
        }
        let inner = Wake { readable: conn.link.may_receive(), thorough: false, ..wake };
        let mut io = Sealed { fd, link: &mut conn.link, records: &mut self.records };
        let next = self.protocol.drive(&mut io, &mut conn.protocol, inner, counters);
        if next == Next::Close {
            return self.close(fd, conn, wake, idle_until_ns);
        }
        match (conn.link.settle(fd, &mut self.records.scratch), next) {
            (Ok(Sent::Blocked), Next::Wait { until_ns, .. }) => Next::Wait { until_ns, write: true },
            (Ok(_), next) => next,
            (Err(_), _) => {
                counters.send_error += 1;
                Next::Close
            }
        }
    }

    /// The protocol is done with the connection: close_notify goes behind what it said.
    fn close(&mut self, fd: BorrowedFd<'_>, conn: &mut Conn<P::Conn>, wake: Wake, idle_until_ns: u64) -> Next {
        if conn.link.is_broken() {
            return self.break_off(fd, conn, wake);
        }
        let scratch = &mut self.records.scratch;
        conn.link.close_notify(scratch);
        match conn.link.settle(fd, scratch) {
            Ok(Sent::Blocked) if !wake.expired || wake.draining => {
                conn.stage = Stage::Ending;
                Next::Wait { until_ns: if wake.draining { NEVER_NS } else { idle_until_ns }, write: true }
            }
            Ok(_) | Err(_) => Next::Close,
        }
    }

    /// TLS broke off: the alert goes out, and the socket is read until the peer has seen it.
    fn break_off(&mut self, fd: BorrowedFd<'_>, conn: &mut Conn<P::Conn>, wake: Wake) -> Next {
        if conn.link.shut_down(fd, &mut self.records.scratch).is_err() {
            return Next::Close;
        }
        let until_ns = wake.now_ns.saturating_add(limits::LINGER.as_nanos() as u64);
        conn.stage = Stage::Lingering { until_ns };
        self.linger(fd, &mut conn.link, wake, until_ns)
    }

    fn linger(&mut self, fd: BorrowedFd<'_>, link: &mut Link, wake: Wake, until_ns: u64) -> Next {
        if wake.expired || wake.draining || wake.now_ns >= until_ns {
            return Next::Close;
        }
        let Ok(sent) = link.flush(fd) else { return Next::Close };
        for _ in 0..limits::TURNS_MAX {
            if !link.is_readable() {
                return Next::Wait { until_ns, write: sent == Sent::Blocked };
            }
            match link.receive_raw(fd, &mut self.records.scratch.wire) {
                Ok(0) => return Next::Close,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Next::Close,
            }
        }
        Next::Again
    }
}

/// A connection's bytes, sealed.
struct Sealed<'a, 'fd> {
    fd: BorrowedFd<'fd>,
    link: &'a mut Link,
    records: &'a mut Records,
}

impl Io for Sealed<'_, '_> {
    fn recv(&mut self, buffer: &mut [u8], _thorough: bool) -> rustix::io::Result<Received> {
        let Records { config, scratch } = &mut *self.records;
        let n = self.link.receive(self.fd, config, scratch, buffer)?;
        Ok(Received { n, more: self.link.may_receive() })
    }

    fn send(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize> {
        self.link.transmit(self.fd, &mut self.records.scratch, head, body)
    }

    fn send_file(
        &mut self,
        head: &[u8],
        file: &OwnedFd,
        from: u64,
        to: u64,
        piece: &mut Vec<u8>,
    ) -> rustix::io::Result<usize> {
        // Before it is read: nothing is, for a peer that takes nothing.
        if self.link.flush(self.fd)? == Sent::Blocked {
            return Err(Errno::AGAIN);
        }
        let room = limits::TLS_WRITE_BYTES - head.len().min(limits::TLS_WRITE_BYTES);
        let most = (to - from).min(room as u64) as usize;
        if piece.len() < most {
            piece.resize(most, 0);
        }
        let n = if most == 0 { 0 } else { pread(file, &mut piece[..most], from)? };
        if n == 0 && most > 0 {
            // The file was cut after its length was promised.
            return Err(Errno::IO);
        }
        self.send(head, &piece[..n])
    }

    fn peer(&self) -> Option<IpAddr> {
        link::peer_of(self.fd)
    }

    fn is_midway(&self) -> bool {
        self.link.is_midway()
    }

    fn end(&mut self) {
        // A failure shows at the next receive.
        let _ = self.link.end(self.fd, &mut self.records.scratch);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.fd
    }
}
