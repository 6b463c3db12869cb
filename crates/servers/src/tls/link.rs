//! One connection's TLS: ciphertext in and out of its socket, records in and out of rustls.
//!
//! rustls' unbuffered interface is used, so that a connection at rest keeps its keys and no buffer. What is
//! kept: ciphertext of a message that has not come whole, plain bytes its protocol had no room for,
//! ciphertext the peer does not take. While the last of these is there, nothing is received.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};
use rustls::{HandshakeKind, ServerConfig};

use super::scratch::{Outgoing, Scratch};
use crate::limits;

/// Its keys and what is kept between two wakes.
pub(super) struct Link {
    /// Made with the first byte that comes: until then the connection costs nothing here.
    tls: Option<Box<UnbufferedServerConnection>>,
    /// Ciphertext rustls has not let go of yet, as it left it.
    input: Vec<u8>,
    /// Decrypted, not taken yet from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    /// Ciphertext the socket has not taken yet from `output_at` on.
    output: Vec<u8>,
    output_at: usize,
    /// Receiving may bring something.
    readable: bool,
    /// A short receive does not mean that the socket is empty.
    thorough: bool,
    /// The peer has ended its side, with an alert or by its FIN alone.
    peer_ended: bool,
    /// Ours has ended, in order or by a fatal alert.
    ended: bool,
    /// The socket is to be shut down behind `output`.
    shutdown_due: bool,
    /// TLS broke off; an alert may stand in the scratch's `out`.
    broken: bool,
}

/// Whether everything given is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    Blocked,
}

/// What receiving ciphertext brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// Bytes came, and rustls has seen them.
    Some,
    /// None are there.
    Nothing,
    /// The peer's end.
    End,
    /// TLS broke off.
    Broken,
}

/// Where plain bytes go: as far as they fit into `buffer`, the others into the link.
struct Sink<'a> {
    buffer: &'a mut [u8],
    n: usize,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            tls: None,
            input: Vec::new(),
            plain: Vec::new(),
            plain_at: 0,
            output: Vec::new(),
            output_at: 0,
            readable: false,
            thorough: false,
            peer_ended: false,
            ended: false,
            shutdown_due: false,
            broken: false,
        }
    }

    pub(super) fn wake(&mut self, readable: bool, thorough: bool) {
        self.readable |= readable;
        self.thorough |= thorough;
    }

    /// Whether a receive may bring something without a new edge.
    pub(super) fn may_receive(&self) -> bool {
        self.readable || !self.plain.is_empty() || self.peer_ended
    }

    pub(super) fn is_blocked(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether a record has begun that has not come whole.
    pub(super) fn is_midway(&self) -> bool {
        !self.input.is_empty()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    /// How the handshake was done; `None` while it is not.
    pub(super) fn handshake(&self) -> Option<HandshakeKind> {
        let tls = self.tls.as_ref()?;
        // While it goes on, the kind may be known already.
        if tls.is_handshaking() { None } else { Some(tls.handshake_kind().unwrap_or(HandshakeKind::Full)) }
    }

    /// Receives ciphertext and lets rustls see it; plain bytes are kept, for `receive`.
    pub(super) fn fill(
        &mut self,
        fd: BorrowedFd<'_>,
        config: &Arc<ServerConfig>,
        scratch: &mut Scratch,
    ) -> rustix::io::Result<Filled> {
        self.fill_into(fd, config, scratch, &mut Sink { buffer: &mut [], n: 0 })
    }

    /// Plain bytes: those kept, or what one receive of ciphertext brings. As [`crate::link::Io::recv`].
    pub(super) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        config: &Arc<ServerConfig>,
        scratch: &mut Scratch,
        buffer: &mut [u8],
    ) -> rustix::io::Result<usize> {
        if self.ended && !self.broken {
            // What still comes is only thrown away: there is no use in opening it.
            return self.receive_raw(fd, buffer);
        }
        let mut sink = Sink { buffer, n: 0 };
        if !self.plain.is_empty() {
            let left = &self.plain[self.plain_at..];
            let n = sink.take(left);
            self.plain_at += n;
            if self.plain_at == self.plain.len() {
                self.plain = Vec::new();
                self.plain_at = 0;
            }
            return Ok(n);
        }
        if self.broken {
            return Err(Errno::PROTO);
        }
        if self.peer_ended {
            return Ok(0);
        }
        if !self.readable {
            return Err(Errno::AGAIN);
        }
        match self.fill_into(fd, config, scratch, &mut sink)? {
            _ if sink.n > 0 => Ok(sink.n),
            Filled::Broken => Err(Errno::PROTO),
            Filled::End => Ok(0),
            Filled::Some | Filled::Nothing if self.peer_ended => Ok(0),
            // A part of a record, or one without plain bytes.
            Filled::Some | Filled::Nothing if self.readable => Err(Errno::INTR),
            Filled::Some | Filled::Nothing => Err(Errno::AGAIN),
        }
    }

    /// Receives into `buffer` what nobody will look at.
    pub(super) fn receive_raw(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match recv(fd, &mut *buffer, RecvFlags::empty()) {
            Ok((n, _)) => {
                self.readable = n == buffer.len() || self.thorough;
                Ok(n)
            }
            Err(error) => {
                self.readable &= error != Errno::AGAIN;
                Err(error)
            }
        }
    }

    /// Seals some of `head` and `body` behind what is in `out` and sends it all. Returns how much was taken:
    /// all of it, up to [`limits::TLS_WRITE_BYTES`], since what the socket refuses is kept.
    pub(super) fn transmit(
        &mut self,
        fd: BorrowedFd<'_>,
        scratch: &mut Scratch,
        head: &[u8],
        body: &[u8],
    ) -> rustix::io::Result<usize> {
        if self.ended {
            return Err(Errno::PIPE);
        }
        if self.flush(fd)? == Sent::Blocked {
            return Err(Errno::AGAIN);
        }
        let head = &head[..head.len().min(limits::TLS_WRITE_BYTES)];
        let body = &body[..body.len().min(limits::TLS_WRITE_BYTES - head.len())];
        // The tail of the head shares its record with the beginning of the body.
        let whole_records = head.len() / limits::TLS_RECORD_BYTES * limits::TLS_RECORD_BYTES;
        let (first, tail) = head.split_at(if body.is_empty() { head.len() } else { whole_records });
        let (beginning, rest) = match tail.is_empty() {
            true => (&body[..0], body),
            false => body.split_at(body.len().min(limits::TLS_RECORD_BYTES - tail.len())),
        };
        scratch.joined.clear();
        scratch.joined.extend_from_slice(tail);
        scratch.joined.extend_from_slice(beginning);
        for part in [first, &scratch.joined, rest] {
            if !part.is_empty() && !self.seal(part, &mut scratch.out) {
                return Err(Errno::PROTO);
            }
        }
        self.send_out(fd, scratch)?;
        Ok(head.len() + body.len())
    }

    /// Our end in order: close_notify behind what is in `out`, and the socket shut down behind that.
    pub(super) fn end(&mut self, fd: BorrowedFd<'_>, scratch: &mut Scratch) -> rustix::io::Result<Sent> {
        self.close_notify(scratch);
        self.shut_down(fd, scratch)
    }

    /// Shuts our side of the socket down behind everything that is to be sent.
    pub(super) fn shut_down(&mut self, fd: BorrowedFd<'_>, scratch: &mut Scratch) -> rustix::io::Result<Sent> {
        self.shutdown_due = true;
        self.settle(fd, scratch)
    }

    /// Puts close_notify into `out`, once, where TLS is still whole.
    pub(super) fn close_notify(&mut self, scratch: &mut Scratch) {
        if self.ended || self.broken {
            return;
        }
        self.ended = true;
        self.plain = Vec::new();
        self.plain_at = 0;
        self.write(&mut scratch.out, |traffic, out| match traffic.queue_close_notify(out.room(ALERT_BYTES)) {
            Ok(n) => {
                out.advance(n);
                true
            }
            Err(_) => false,
        });
        self.input = Vec::new();
    }

    /// Sends what is in `out` and what was kept, as far as it goes.
    pub(super) fn settle(&mut self, fd: BorrowedFd<'_>, scratch: &mut Scratch) -> rustix::io::Result<Sent> {
        self.send_out(fd, scratch)?;
        self.flush(fd)
    }

    /// Sends what was kept, until the socket would block.
    pub(super) fn flush(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<Sent> {
        while self.output_at < self.output.len() {
            match send(fd, &self.output[self.output_at..], SendFlags::NOSIGNAL) {
                Ok(n) => self.output_at += n,
                Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if !self.output.is_empty() {
            self.output = Vec::new();
            self.output_at = 0;
        }
        if self.shutdown_due {
            self.shutdown_due = false;
            // A failure shows at the next receive.
            let _ = shutdown(fd, Shutdown::Write);
        }
        Ok(Sent::All)
    }

    /// Sends `out` once; what the socket does not take is kept behind what was.
    fn send_out(&mut self, fd: BorrowedFd<'_>, scratch: &mut Scratch) -> rustix::io::Result<()> {
        let out = &mut scratch.out;
        let mut sent = 0;
        if !out.is_empty() && self.output.is_empty() {
            sent = loop {
                match send(fd, out.filled(), SendFlags::NOSIGNAL) {
                    Ok(n) => break n,
                    Err(Errno::AGAIN) => break 0,
                    Err(Errno::INTR) => {}
                    Err(error) => {
                        out.clear();
                        return Err(error);
                    }
                }
            };
        }
        let kept = self.output.try_reserve_exact(out.filled().len() - sent);
        if kept.is_ok() {
            self.output.extend_from_slice(&out.filled()[sent..]);
        }
        out.clear();
        kept.map_err(|_| Errno::NOMEM)
    }

    fn fill_into(
        &mut self,
        fd: BorrowedFd<'_>,
        config: &Arc<ServerConfig>,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
    ) -> rustix::io::Result<Filled> {
        let kept = self.input.len();
        if kept >= scratch.wire.len() {
            // A message longer than the buffer can never be read whole.
            self.broken = true;
            return Ok(Filled::Broken);
        }
        let room = &mut scratch.wire[kept..];
        let room_bytes = room.len();
        let n = match recv(fd, room, RecvFlags::empty()) {
            Ok((0, _)) => {
                self.peer_ended = true;
                self.readable = false;
                return Ok(Filled::End);
            }
            Ok((n, _)) => n,
            Err(Errno::AGAIN) => {
                self.readable = false;
                return Ok(Filled::Nothing);
            }
            Err(Errno::INTR) => return Ok(Filled::Nothing),
            Err(error) => return Err(error),
        };
        self.readable = n == room_bytes || self.thorough;
        if self.tls.is_none() {
            match UnbufferedServerConnection::new(Arc::clone(config)) {
                Ok(tls) => self.tls = Some(Box::new(tls)),
                Err(_) => {
                    self.broken = true;
                    return Ok(Filled::Broken);
                }
            }
        }
        Ok(if self.open(kept + n, scratch, sink)? { Filled::Some } else { Filled::Broken })
    }

    /// Lets rustls see `wire[..filled]`, of which the beginning is `input`. False if TLS broke off.
    fn open(&mut self, filled: usize, scratch: &mut Scratch, sink: &mut Sink<'_>) -> rustix::io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        let Scratch { wire, out, .. } = scratch;
        wire[..self.input.len()].copy_from_slice(&self.input);
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = tls.process_tls_records(&mut wire[at..filled]);
            let mut is_over = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let Ok(record) = record else { break };
                        discard += record.discard;
                        let n = sink.take(record.payload);
                        let left = &record.payload[n..];
                        self.plain.try_reserve(left.len()).map_err(|_| Errno::NOMEM)?;
                        self.plain.extend_from_slice(left);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(out, |room| data.encode(room))?,
                // It goes out before anything else can, when the caller sends.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_ended = true,
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => is_over = true,
                // Closed, or early data, which was never allowed.
                Ok(_) => is_over = true,
                Err(_) => {
                    self.broken = true;
                    is_over = true;
                }
            }
            at = (at + discard).min(filled);
            if is_over {
                break;
            }
        }
        self.input.clear();
        if self.broken {
            self.ended = true;
            // What rustls has to say about it. Only that: it must not look at the input once more.
            while tls.wants_write() {
                let UnbufferedStatus { state, .. } = tls.process_tls_records(&mut wire[at..filled]);
                let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { break };
                encode(out, |room| data.encode(room))?;
            }
        }
        if at == filled || self.broken || self.peer_ended {
            self.input = Vec::new();
            return Ok(!self.broken);
        }
        self.input.try_reserve_exact(filled - at).map_err(|_| Errno::NOMEM)?;
        self.input.extend_from_slice(&wire[at..filled]);
        Ok(true)
    }

    fn seal(&mut self, plain: &[u8], out: &mut Outgoing) -> bool {
        self.write(out, |traffic, out| {
            let records = plain.len() / limits::TLS_RECORD_BYTES + 1;
            let mut room = plain.len() + records * RECORD_OVERHEAD_BYTES;
            loop {
                match traffic.encrypt(plain, out.room(room)) {
                    Ok(n) => {
                        out.advance(n);
                        return true;
                    }
                    Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size }))
                        if required_size > room =>
                    {
                        room = required_size;
                    }
                    Err(_) => return false,
                }
            }
        })
    }

    /// Lets `act` write application data or an alert, behind what rustls itself has to say. False if it cannot.
    fn write(
        &mut self,
        out: &mut Outgoing,
        mut act: impl FnMut(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
            &mut Outgoing,
        ) -> bool,
    ) -> bool {
        let Some(tls) = &mut self.tls else { return false };
        loop {
            // rustls knows by position what it kept of the input: it must be shown that.
            let UnbufferedStatus { discard, state } = tls.process_tls_records(&mut self.input);
            let done = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(act(&mut traffic, out)),
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(out, |room| data.encode(room)).is_err().then_some(false)
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_ended = true;
                    None
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        self.plain.extend_from_slice(record.payload);
                    }
                    None
                }
                Ok(_) | Err(_) => Some(false),
            };
            if discard > 0 {
                self.input.drain(..discard.min(self.input.len()));
            }
            if let Some(done) = done {
                return done;
            }
        }
    }
}

/// Header, explicit nonce or type, and tag of a record, of every suite there is.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// An alert in a record of its own.
const ALERT_BYTES: usize = 2 + RECORD_OVERHEAD_BYTES;

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> usize {
        let room = &mut self.buffer[self.n..];
        let n = bytes.len().min(room.len());
        room[..n].copy_from_slice(&bytes[..n]);
        self.n += n;
        n
    }
}

fn encode(
    out: &mut Outgoing,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> rustix::io::Result<()> {
    let mut room = 0;
    loop {
        match encode(out.room(room)) {
            Ok(n) => {
                out.advance(n);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) if required_size > room => {
                room = required_size;
            }
            Err(_) => return Err(Errno::PROTO),
        }
    }
}
