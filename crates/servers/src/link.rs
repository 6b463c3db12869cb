//! What a protocol sees of its connection ([`Io`]), and the bare socket under it. `tls` has the other link.
//!
//! A protocol is written against [`Io`] and compiled once for each link, so a server without TLS
//! makes the system calls it would make alone, `sendfile` among them. Not here: any buffer.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, getpeername, recv, send, sendmsg, shutdown};

use crate::limits;

/// One connection's bytes, as its protocol sees them.
pub(crate) trait Io {
    /// Receives once; 0 bytes are the peer's end. `thorough`: a short receive does not mean that the socket is empty.
    /// [`Errno::AGAIN`]: nothing comes before the next edge; [`Errno::INTR`]: nothing yet, ask again.
    fn recv(&mut self, buffer: &mut [u8], thorough: bool) -> rustix::io::Result<Received>;

    /// Takes some of `head` and then of `body`, at least one byte; their sum. Not both may be empty.
    fn send(&mut self, head: &[u8], body: &[u8]) -> rustix::io::Result<usize>;

    /// As [`Self::send`], where the body is `file` from `from` to `to`. `piece` may be used as a buffer.
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

    /// Shuts our side down behind what was sent. What is received from here on is only to be thrown away.
    fn end(&mut self);

    /// Whether a part of something has come of which nothing can be seen before it is whole: a record of TLS.
    fn is_midway(&self) -> bool {
        false
    }

    /// The socket under it.
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

/// The address at the other end of `fd`.
pub(crate) fn peer_of(fd: BorrowedFd<'_>) -> Option<IpAddr> {
    SocketAddr::try_from(getpeername(fd).ok()??).ok().map(|addr| addr.ip())
}

/// The link that adds nothing: each call is a system call on the socket.
pub(crate) struct Socket<'a>(pub(crate) BorrowedFd<'a>);

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
