//! What stands between a connection's protocol and its socket: nothing (here), or TLS (`tls`).
//!
//! A [`Protocol`] is written against [`Io`] and compiled once for each link, so a server without TLS
//! makes the system calls it would make alone, `sendfile` among them. Not here: any buffer.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, getpeername, recv, send, sendmsg, shutdown};

use crate::counters::Counters;
use crate::defects::{Defective, Defects};
use crate::error::ServeError;
use crate::limits;
use crate::options::ServeOptions;
use crate::reactor::{Accepting, Next, Outgoing, Service, Wake};
use crate::slab::Token;
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use crate::tls::{self, Tls};
use crate::workers::{Ready, run_reactors};

/// One connection's bytes, as its protocol sees them.
pub(crate) trait Io {
    /// Receives once; no bytes are the peer's end. `thorough`: a short receive proves nothing.
    /// [`Errno::AGAIN`]: nothing comes before the next edge; [`Errno::INTR`]: nothing yet, ask again.
    fn recv(&mut self, buffer: &mut [u8], thorough: bool) -> rustix::io::Result<Received>;

    /// Takes some of `head` and then of `body`, at least one byte; their sum. Not both may be empty.
    fn send(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize>;

    /// The same, where the body is `file` from `from` to `to`. `piece` is scratch.
    fn send_file(
        &mut self,
        head: &[u8],
        file: &OwnedFd,
        from: u64,
        to: u64,
        piece: &mut Vec<u8>,
    ) -> rustix::io::Result<usize>;

    /// The peer's address, where there is one (there is none behind a unix socket).
    fn peer(&self) -> Option<IpAddr>;

    /// Our end, behind what was sent. What is received from here on is only to be thrown away.
    fn end(&mut self);

    /// The socket below.
    fn socket(&self) -> BorrowedFd<'_>;

    /// As [`Self::send`]; on a bare socket by `write(2)`, which raises SIGPIPE where the peer is gone.
    fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        self.send(bytes, b"")
    }
}

/// What a receive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes; none at the peer's end.
    pub(crate) n: usize,
    /// Another receive may bring more without a new edge.
    pub(crate) more: bool,
}

/// What is done with connections, whatever link they come by.
pub(crate) trait Protocol {
    /// State of one connection.
    type Conn;

    /// The state a fresh connection starts with.
    fn connection(&mut self) -> Self::Conn;

    /// As [`Service::relieve`].
    fn relieve(&mut self) {}

    /// As [`Service::tick`].
    fn tick(&mut self, _now_ns: u64) {}

    /// As [`Service::accepting`].
    fn accepting(&self) -> Option<Accepting> {
        None
    }

    /// From here on each reply is its connection's last, and says so, where the protocol has such a thing.
    fn keep_no_connection(&mut self) {}
    /// As [`Service::attach`].
    fn attach(&mut self, _outgoing: Outgoing) {}

    /// As [`Service::outgoing`].
    fn outgoing(&mut self, _id: Token, _wake: Wake) -> Option<Token> {
        None
    }

    /// As [`Service::closed`].
    fn closed(&mut self, _conn: Self::Conn) {}

    /// Whether it has to do also while nothing can be sent. Then it is driven, and its sends would block.
    const WORKS_WHILE_BLOCKED: bool = false;

    /// As [`Service::drive`].
    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Self::Conn, wake: Wake, counters: &mut Counters) -> Next;
}

/// Serves `make`'s protocol over the link that `options` ask for, with the defects they ask for. `alpn`: the protocol's names in TLS.
pub(crate) fn run<P: Protocol>(
    name: &str,
    alpn: &[&str],
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    make: impl Fn() -> P + Sync,
) -> Result<Counters, ServeError> {
    let mut options = options.clone();
    let defects = Defects::new(name, &mut options)?;
    if defects.is_empty() {
        return run_linked(name, alpn, &options, stop, ready, make);
    }
    run_linked(name, alpn, &options, stop, ready, || Defective::new(make(), defects.clone(), stop.clone()))
}

fn run_linked<P: Protocol>(
    name: &str,
    alpn: &[&str],
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    make: impl Fn() -> P + Sync,
) -> Result<Counters, ServeError> {
    let Some(tls) = &options.tls else {
        return run_reactors(name, options, stop, ready, || Plain(make()));
    };
    let config = Arc::new(tls::config(tls, &options.listen, alpn)?);
    let idle_ns = idle_ns(options);
    run_reactors(name, options, stop, ready, || Tls::new(make(), Arc::clone(&config), idle_ns))
}

/// The idle timeout in nanoseconds.
pub(crate) fn idle_ns(options: &ServeOptions) -> Option<u64> {
    options.idle_timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NEVER_NS))
}

/// The protocol straight on its socket.
struct Plain<P>(P);

impl<P: Protocol> Service for Plain<P> {
    type Conn = P::Conn;

    fn connection(&mut self) -> P::Conn {
        self.0.connection()
    }

    fn relieve(&mut self) {
        self.0.relieve();
    }

    fn tick(&mut self, now_ns: u64) {
        self.0.tick(now_ns);
    }

    fn accepting(&self) -> Option<Accepting> {
        self.0.accepting()
    }

    fn attach(&mut self, outgoing: Outgoing) {
        self.0.attach(outgoing);
    }

    fn outgoing(&mut self, id: Token, wake: Wake) -> Option<Token> {
        self.0.outgoing(id, wake)
    }

    fn closed(&mut self, conn: P::Conn) {
        self.0.closed(conn);
    }

    fn drive(&mut self, fd: BorrowedFd<'_>, conn: &mut P::Conn, wake: Wake, counters: &mut Counters) -> Next {
        self.0.drive(&mut Socket(fd), conn, wake, counters)
    }
}

/// The address at the other end of `fd`.
pub(crate) fn peer_of(fd: BorrowedFd<'_>) -> Option<IpAddr> {
    SocketAddr::try_from(getpeername(fd).ok()??).ok().map(|addr| addr.ip())
}

struct Socket<'a>(BorrowedFd<'a>);

impl Io for Socket<'_> {
    fn recv(&mut self, buffer: &mut [u8], thorough: bool) -> rustix::io::Result<Received> {
        let (n, _) = recv(self.0, &mut *buffer, RecvFlags::empty())?;
        // On a stream a short receive means it was emptied (epoll(7)); a later byte is a new edge.
        // It does not when the peer's end or urgent data came along.
        Ok(Received { n, more: n == buffer.len() || thorough })
    }

    fn send(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize> {
        if head.is_empty() || body.is_empty() {
            let one = if head.is_empty() { body } else { head };
            return send(self.0, one, SendFlags::NOSIGNAL);
        }
        let parts = [std::io::IoSlice::new(head), std::io::IoSlice::new(body)];
        sendmsg(self.0, &parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
    }

    fn send_file(
        &mut self,
        head: &[u8],
        file: &OwnedFd,
        from: u64,
        to: u64,
        _piece: &mut Vec<u8>,
    ) -> rustix::io::Result<usize> {
        if !head.is_empty() {
            // The head alone, marked so that it shares segments with what `sendfile` brings next.
            return send(self.0, head, SendFlags::NOSIGNAL | SendFlags::MORE);
        }
        let most = (to - from).min(limits::SENDFILE_BYTES_MAX as u64) as usize;
        let mut offset = from;
        match sendfile(self.0, file, Some(&mut offset), most) {
            // The file was cut after its length was promised.
            Ok(0) => Err(Errno::IO),
            sent => sent,
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        peer_of(self.0)
    }

    fn end(&mut self) {
        // A failure shows at the next receive.
        let _ = shutdown(self.0, Shutdown::Write);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        rustix::io::write(self.0, bytes)
    }
}
