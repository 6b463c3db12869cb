//! The layer that carries defects: between a protocol and its link, TLS or none.
//!
//! A protocol goes on as it always does; this layer sees its receives, its sends and its end, and lets the defects that
//! are on act there. The first send after a receive is taken for a reply that begins (which it is, but where a client
//! sends requests behind each other: then it is several). Bytes that a defect changed and the peer did not take are
//! kept here. A request that others are to serve (`deferred`) is one whose first send would block, to the protocol.
//! Cost: one more buffer a connection while such bytes wait.

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::active::Defects;
use super::deferred::{Done, Inbox};
use super::hook::{After, Kept, Manner, Request};
use super::stay;
use crate::clock;
use crate::counters::Counters;
use crate::limits;
use crate::link::{Io, Received};
use crate::reactor::{Accepting, Next, Outgoing, Protocol, Wake};
use crate::slab::Token;
use crate::stop::Stop;
use crate::timers::NEVER_NS;

/// One worker's protocol, with defects.
pub(crate) struct Defective<P> {
    protocol: P,
    defects: Defects,
    worker: usize,
    now_ns: u64,
    /// Defects that begin before this moment have had their `Hook::begin` called.
    begun_ns: u64,
    stop: Stop,
    /// Where those tell of it who serve requests in this worker's place; none where no descriptor was left for it.
    inbox: Option<Arc<Inbox>>,
}

/// One connection: its protocol's state and what the defects hold of it.
pub(crate) struct Conn<C> {
    protocol: C,
    /// What it holds; `None`: it is closed at once.
    kept: Option<Vec<Kept>>,
    replies: Replies,
    /// Wake-ups that came while a changed reply was still being sent; the protocol gets them after it.
    missed: Wake,
    /// The protocol closed it, and a defect keeps its socket open.
    is_leaked: bool,
}

#[derive(Default)]
struct Replies {
    /// Something was received since the last reply began.
    received: bool,
    /// The peer's end was received.
    ended: bool,
    /// Bytes of a changed reply that the peer has not taken yet.
    left: Vec<u8>,
    /// The connection is closed once `left` is sent.
    closes: bool,
    /// What the protocol sends is thrown away until the next reply begins.
    swallows: bool,
    /// How the request that came last begins, and its length (`Manner::hears`).
    text: Vec<u8>,
    length: usize,
    handed: Handed,
}

/// Whether somebody else than its worker serves a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Handed {
    /// Nobody does.
    #[default]
    No,
    /// It was handed over, and is not done.
    Over,
    /// It is done: its reply may leave.
    Back,
}

impl<P> Defective<P> {
    /// The protocol of one worker, with these defects.
    pub(crate) fn new(protocol: P, defects: Defects, stop: Stop) -> Self {
        let worker = defects.next_worker();
        Self { protocol, defects, worker, now_ns: clock::monotonic_ns(), begun_ns: 0, stop, inbox: None }
    }
}

impl<P: Protocol> Protocol for Defective<P> {
    type Conn = Conn<P::Conn>;

    fn connection(&mut self) -> Self::Conn {
        Conn {
            protocol: self.protocol.connection(),
            kept: self.defects.accepted(),
            replies: Replies::default(),
            missed: Wake::default(),
            is_leaked: false,
        }
    }

    fn relieve(&mut self) {
        self.protocol.relieve();
    }

    fn tick(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        for hook in self.defects.between(self.begun_ns, now_ns) {
            hook.begin();
        }
        self.begun_ns = now_ns + 1;
        self.protocol.tick(now_ns);
    }

    fn accepting(&self) -> Option<Accepting> {
        let mut accepting = Accepting::default();
        self.defects.on(self.now_ns).for_each(|hook| hook.accepting(&mut accepting));
        Some(accepting)
    }

    const WORKS_WHILE_BLOCKED: bool = P::WORKS_WHILE_BLOCKED;

    fn attach(&mut self, outgoing: Outgoing) {
        let inbox = Inbox::new().ok();
        self.inbox = inbox.filter(|inbox| outgoing.watch(&inbox.event, Token::from_bits(Inbox::ID)).is_ok());
        self.protocol.attach(outgoing);
    }

    fn outgoing(&mut self, id: Token, wake: Wake) -> Option<Token> {
        match &self.inbox {
            Some(inbox) if id.bits() == Inbox::ID => {
                inbox.settle();
                None
            }
            _ => self.protocol.outgoing(id, wake),
        }
    }

    fn due(&mut self) -> Option<Token> {
        self.inbox.as_ref().and_then(|inbox| inbox.take()).or_else(|| self.protocol.due())
    }

    fn limit_outgoing(&mut self, connections: usize) {
        self.protocol.limit_outgoing(connections);
    }

    fn closed(&mut self, conn: Self::Conn) {
        self.protocol.closed(conn.protocol);
    }

    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Self::Conn, wake: Wake, counters: &mut Counters) -> Next {
        let mut wake = wake;
        loop {
            self.now_ns = wake.now_ns;
            let mut manner = Manner::default();
            for hook in self.defects.on(self.now_ns) {
                hook.woken();
                hook.manner(&mut manner);
            }
            let recv_before = counters.recv;
            let next = self.advance(io, conn, wake, counters, &manner);
            if !manner.stays || wake.draining || conn.is_leaked {
                return next;
            }
            let is_read = !wake.readable || counters.recv > recv_before;
            match stay::wait(io.socket(), next, is_read, &self.stop) {
                Some(later) => wake = later,
                None => return next,
            }
        }
    }
}

impl<P: Protocol> Defective<P> {
    fn advance<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn<P::Conn>,
        wake: Wake,
        counters: &mut Counters,
        manner: &Manner,
    ) -> Next {
        if conn.is_leaked && !wake.draining {
            return Next::Wait { until_ns: NEVER_NS, write: false };
        }
        if conn.kept.is_none() {
            return Next::Close;
        }
        if manner.keeps_none {
            self.protocol.keep_no_connection();
        }
        if let Some(most) = manner.outgoing_max {
            self.protocol.limit_outgoing(most);
        }
        if conn.replies.handed == Handed::Over {
            if wake.dead {
                return Next::Close;
            }
            if !wake.due {
                conn.misses(wake);
                return Next::Wait { until_ns: NEVER_NS, write: false };
            }
            conn.replies.handed = Handed::Back;
        }
        match conn.replies.flush(io, manner) {
            Ok(true) => {}
            Ok(false) if !wake.expired => {
                // What came meanwhile is not lost: the protocol is told when it has its turn.
                conn.misses(wake);
                return Next::Wait { until_ns: NEVER_NS, write: true };
            }
            Ok(false) | Err(_) => return Next::Close,
        }
        if conn.replies.closes {
            return self.close(conn, wake);
        }
        let missed = std::mem::take(&mut conn.missed);
        let wake =
            Wake { readable: wake.readable | missed.readable, thorough: wake.thorough | missed.thorough, ..wake };
        let next = self.protocol_hears(io, conn, wake, counters, manner);
        if conn.replies.handed == Handed::Over && !matches!(next, Next::Close | Next::Reset) {
            return Next::Wait { until_ns: NEVER_NS, write: false };
        }
        if !conn.replies.left.is_empty() {
            conn.replies.closes |= next == Next::Close;
            return Next::Wait { until_ns: NEVER_NS, write: true };
        }
        if next == Next::Close || conn.replies.closes {
            return self.close(conn, wake);
        }
        next
    }

    fn protocol_hears<I: Io>(
        &mut self,
        io: &mut I,
        conn: &mut Conn<P::Conn>,
        wake: Wake,
        counters: &mut Counters,
        manner: &Manner,
    ) -> Next {
        let Self { protocol, defects, worker, now_ns, inbox, .. } = self;
        let Conn { protocol: state, replies, .. } = conn;
        let (worker, now_ns) = (*worker, *now_ns);
        let inbox = inbox.as_ref().filter(|_| manner.hands_over).map(|inbox| (inbox, wake.token));
        let mut layer = Layer { io, replies, defects, worker, now_ns, manner, inbox, has_received: false };
        protocol.drive(&mut layer, state, wake, counters)
    }

    fn close(&self, conn: &mut Conn<P::Conn>, wake: Wake) -> Next {
        if conn.replies.ended && !wake.draining && self.defects.on(self.now_ns).any(|hook| !hook.closes()) {
            conn.is_leaked = true;
            conn.kept = Some(Vec::new());
            return Next::Wait { until_ns: NEVER_NS, write: false };
        }
        Next::Close
    }
}

impl<C> Conn<C> {
    /// The protocol is told later of what came now.
    fn misses(&mut self, wake: Wake) {
        self.missed.readable |= wake.readable;
        self.missed.thorough |= wake.thorough;
    }
}

impl Replies {
    /// Sends what is left. True when nothing is any more.
    fn flush<I: Io>(&mut self, io: &mut I, manner: &Manner) -> rustix::io::Result<bool> {
        while !self.left.is_empty() {
            match write(io, manner, &self.left) {
                Ok(n) => drop(self.left.drain(..n)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// What is kept of a request's text: more than the request line of any usual one.
const TEXT_BYTES: usize = 512;

/// A link as the protocol sees it while defects are on.
struct Layer<'a, I> {
    io: &'a mut I,
    replies: &'a mut Replies,
    defects: &'a Defects,
    worker: usize,
    now_ns: u64,
    manner: &'a Manner,
    /// The worker's inbox and the connection, where requests are handed over.
    inbox: Option<(&'a Arc<Inbox>, Token)>,
    has_received: bool,
}

impl<I: Io> Layer<'_, I> {
    /// Lets the defects act on a reply that begins. False if none does; [`Errno::AGAIN`]: it may not begin before others
    /// have served the request.
    fn begins(&mut self) -> rustix::io::Result<bool> {
        if !self.replies.received {
            return Ok(false);
        }
        if std::mem::take(&mut self.replies.handed) != Handed::Back
            && let Some((inbox, connection)) = self.inbox
            && self.defects.on(self.now_ns).any(|hook| hook.hands_over(Done::of(inbox, connection)))
        {
            self.replies.handed = Handed::Over;
            return Err(Errno::AGAIN);
        }
        self.replies.received = false;
        self.replies.swallows = false;
        let Replies { text, length, .. } = &*self.replies;
        for hook in self.defects.on(self.now_ns) {
            hook.request(&Request { socket: Some(self.io.socket()), worker: self.worker, text, length: *length });
        }
        Ok(true)
    }

    /// Keeps what is known of a request of which these bytes came.
    fn hear(&mut self, bytes: &[u8]) {
        let replies = &mut *self.replies;
        if !replies.received {
            replies.text.clear();
            replies.text.extend_from_slice(&bytes[..bytes.len().min(TEXT_BYTES)]);
            replies.length = 0;
        }
        replies.length += bytes.len();
    }

    /// Sends a reply as the defects change it. What the protocol gave is all taken.
    fn rewrite(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize> {
        let mut bytes = [head, body].concat();
        let taken = bytes.len();
        for hook in self.defects.on(self.now_ns) {
            match hook.reply(&mut bytes) {
                After::GoOn => {}
                After::Close => self.replies.closes = true,
                After::Swallow => {
                    bytes.clear();
                    self.replies.swallows = true;
                }
            }
        }
        let mut rest = bytes;
        if self.manner.splits && rest.len() > 1 {
            let second = rest.split_off(first_write(&rest));
            self.replies.left = rest;
            self.replies.flush(self.io, self.manner)?;
            rest = second;
        }
        self.replies.left.append(&mut rest);
        self.replies.flush(self.io, self.manner)?;
        Ok(taken)
    }
}

impl<I: Io> Io for Layer<'_, I> {
    fn recv(&mut self, buffer: &mut [u8], thorough: bool) -> rustix::io::Result<Received> {
        let received = match self.manner.receive_once {
            Some(_) if self.has_received => return Err(Errno::AGAIN),
            Some(most) => {
                let most = most.clamp(1, buffer.len());
                let Received { n, .. } = self.io.recv(&mut buffer[..most], thorough)?;
                Received { n, more: false }
            }
            None => self.io.recv(buffer, thorough)?,
        };
        self.has_received = true;
        if self.manner.hears {
            self.hear(&buffer[..received.n]);
        }
        self.replies.received |= received.n > 0;
        self.replies.ended |= received.n == 0 && !buffer.is_empty();
        Ok(received)
    }

    fn send(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize> {
        if !self.replies.left.is_empty() || self.replies.closes || self.replies.handed == Handed::Over {
            return Err(Errno::AGAIN);
        }
        let begins = self.begins()?;
        if begins && self.manner.rewrites {
            return self.rewrite(head, body);
        }
        if self.replies.swallows {
            return Ok(head.len() + body.len());
        }
        if begins && self.manner.splits && head.len() + body.len() > 1 {
            let bytes = [head, body].concat();
            let (first, second) = bytes.split_at(first_write(&bytes));
            let n = write(self.io, self.manner, first)?;
            if n < first.len() {
                return Ok(n);
            }
            return match write(self.io, self.manner, second) {
                Ok(more) => Ok(n + more),
                Err(Errno::AGAIN | Errno::INTR) => Ok(n),
                Err(error) => Err(error),
            };
        }
        if self.manner.raises_sigpipe {
            return write(self.io, self.manner, if head.is_empty() { body } else { head });
        }
        self.io.send(head, body)
    }

    fn send_file(
        &mut self,
        head: &[u8],
        file: &OwnedFd,
        from: u64,
        to: u64,
        piece: &mut Vec<u8>,
    ) -> rustix::io::Result<usize> {
        if !self.replies.left.is_empty() || self.replies.closes || self.replies.handed == Handed::Over {
            return Err(Errno::AGAIN);
        }
        if self.begins()? && self.manner.rewrites {
            piece.resize(limits::GENERATED_PIECE_BYTES.min(usize::try_from(to - from).unwrap_or(usize::MAX)), 0);
            return match rustix::io::pread(file, &mut piece[..], from)? {
                // The file was cut after its length was promised.
                0 => Err(Errno::IO),
                n => self.rewrite(head, &piece[..n]),
            };
        }
        if self.replies.swallows {
            return Ok(head.len() + usize::try_from(to - from).unwrap_or(usize::MAX - head.len()));
        }
        self.io.send_file(head, file, from, to, piece)
    }

    fn is_midway(&self) -> bool {
        self.io.is_midway()
    }

    fn peer(&self) -> Option<IpAddr> {
        self.io.peer()
    }

    fn end(&mut self) {
        self.io.end();
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.io.socket()
    }

    fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        self.io.write(bytes)
    }
}

fn write<I: Io>(io: &mut I, manner: &Manner, bytes: &[u8]) -> rustix::io::Result<usize> {
    if manner.raises_sigpipe { io.write(bytes) } else { io.send(bytes, b"") }
}

/// How much of a reply leaves in its first write: an HTTP head, else half; some in any case, and not all.
fn first_write(bytes: &[u8]) -> usize {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4).filter(|end| *end < bytes.len());
    head.unwrap_or(bytes.len() / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_cut_behind_its_head_or_in_the_middle() {
        assert_eq!(first_write(b"HTTP/1.1 200 OK\r\n\r\nbody"), 19);
        assert_eq!(first_write(b"HTTP/1.1 200 OK\r\n\r\n"), 9);
        assert_eq!(first_write(b"abcd"), 2);
        assert_eq!(first_write(b"ab"), 1);
    }
}
