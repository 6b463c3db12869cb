//! One connection of the link: a socket that never blocks, TLS, and frames both ways, on one thread.
//!
//! What waits to be sent is bounded by the caller, who looks at [`Channel::is_behind`] before he sends what may be left
//! out; what has come is at most a frame and a read. A peer that takes nothing is an error after a while.

use super::frame::{Decoder, FrameError, encode};
use super::limits::STALL_MAX;
use super::token::{Binding, EXPORTER_LABEL};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes from the beginning of a connection that are shown where they are no TLS.
const BEGINNING: usize = 24;
/// The content types of TLS records (RFC 8446, section 5.1): what begins with anything else is no TLS.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=24;

/// Reads from the socket in a row, so that a peer that sends without end does not keep this side from all else.
const READS_MAX: usize = 32;

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The kernel says so.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// TLS says so.
    #[error("TLS failed: {0}")]
    Tls(#[from] rustls::Error),
    /// What came first is no TLS.
    #[error("what came is no TLS (it begins with '{0}')")]
    NotTls(String),
    /// What came is not this protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// The other side takes nothing.
    #[error("the other side took nothing for {} s", STALL_MAX.as_secs())]
    Stalled,
    /// The other side says nothing.
    #[error("the other side said nothing for {0} s")]
    Silent(u64),
    /// The other side was given so long, seconds, to prove to have the token.
    #[error("it did not prove to have the token within {0} s")]
    Unproved(u64),
    /// The other side said why.
    #[error("{0}")]
    Told(String),
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    socket: TcpStream,
    tls: Connection,
    decoder: Decoder,
    /// Longest frame it sends.
    sends_most: usize,
    /// Whether it reads while something waits to be sent.
    reads_always: bool,
    is_closed: bool,
    /// The first bytes that came, as they may be shown.
    began: Option<Vec<u8>>,
    /// Since when something waits to be sent and the kernel takes none of it.
    stuck_since: Option<Instant>,
}

impl Channel {
    /// Takes a connected socket. `reads_always`: also while the peer is behind with taking what was sent to it.
    ///
    /// # Errors
    /// [`LinkError::Io`].
    pub fn new(
        socket: TcpStream,
        mut tls: Connection,
        takes_most: usize,
        sends_most: usize,
        reads_always: bool,
    ) -> Result<Self, LinkError> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // Its bound is ours: a frame is handed over as a whole, and no other before it is gone.
        tls.set_buffer_limit(None);
        let decoder = Decoder::new(takes_most);
        Ok(Channel { socket, tls, decoder, sends_most, reads_always, is_closed: false, began: None, stuck_since: None })
    }

    /// The peer may send longer frames from now on.
    pub fn allow(&mut self, takes_most: usize) {
        self.decoder.allow(takes_most);
    }

    /// The exported keying material that proofs are made of; `None` before the handshake is done.
    pub fn binding(&self) -> Option<Binding> {
        if self.tls.is_handshaking() {
            return None;
        }
        self.tls.export_keying_material(Binding::default(), EXPORTER_LABEL, Some(b"")).ok()
    }

    /// What both sides agreed to speak; `None` before the handshake is done, and where the other side does not say.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// Whether nothing more can come, and all messages that came were taken.
    pub fn is_over(&self) -> bool {
        self.is_closed && !self.decoder.is_ready()
    }

    /// The socket, to be waited for with others.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to wait for.
    pub fn interest(&self) -> PollFlags {
        let mut interest = PollFlags::empty();
        if self.tls.wants_write() {
            interest |= PollFlags::OUT;
        }
        if self.reads_always || self.tls.is_handshaking() || !self.tls.wants_write() {
            interest |= PollFlags::IN;
        }
        interest
    }

    /// Reads and sends as far as it goes, after a wait has ended so.
    ///
    /// # Errors
    /// [`LinkError`]; an end is none, see [`Channel::is_over`].
    pub fn came(&mut self, came: PollFlags) -> Result<(), LinkError> {
        if came.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.read()?;
        }
        self.flush()
    }

    /// Whether something waits to be sent.
    pub fn is_behind(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends a message, or as much of it as the kernel takes; the rest goes with [`Channel::wait`].
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        let frame = encode(message, self.sends_most)?;
        self.tls.writer().write_all(&frame)?;
        self.flush()
    }

    /// Waits until something came or went, or the waker was written to, or the time is up.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::Closed`] only once all messages that came before were taken.
    pub fn wait(&mut self, at_most: Duration, waker: Option<&UnixStream>) -> Result<(), LinkError> {
        if self.decoder.is_ready() {
            return Ok(());
        }
        if self.is_closed {
            return Err(LinkError::Closed);
        }
        let mut polled = vec![PollFd::new(&self.socket, self.interest())];
        polled.extend(waker.map(|waker| PollFd::new(waker, PollFlags::IN)));
        let timeout = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LinkError::Io(error.into())),
        }
        let came = polled[0].revents();
        if let Some(mut waker) = waker {
            // What was written is not looked at: that it was is all.
            let mut drained = [0; 16];
            while matches!(waker.read(&mut drained), Ok(1..)) {}
        }
        self.came(came)
    }

    /// The next message that has come whole.
    ///
    /// # Errors
    /// [`LinkError::Frame`].
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LinkError> {
        Ok(self.decoder.take()?)
    }

    /// Says goodbye, as far as the kernel takes it.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        // Whether or not the goodbye can be sent, the connection is closed next.
        let _ = self.flush();
    }

    fn read(&mut self) -> Result<(), LinkError> {
        self.look_at_beginning();
        for _ in 0..READS_MAX {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => {
                    self.is_closed = true;
                    break;
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            if let Err(error) = self.tls.process_new_packets() {
                // The alert that says why is best effort.
                let _ = self.flush();
                return Err(self.no_tls().unwrap_or(LinkError::Tls(error)));
            }
            self.take_plain()?;
            if self.decoder.is_ready() {
                break;
            }
        }
        Ok(())
    }

    /// Keeps what is about to be read first: TLS does not say what it was where it was none.
    fn look_at_beginning(&mut self) {
        let mut bytes = [0; BEGINNING];
        if self.began.is_none()
            && let Ok(count @ 1..) = self.socket.peek(&mut bytes)
        {
            self.began = Some(bytes[..count].to_vec());
        }
    }

    fn no_tls(&self) -> Option<LinkError> {
        let began = self.began.as_ref()?;
        let is_none = began.first().is_some_and(|first| !RECORD_TYPES.contains(first));
        is_none.then(|| LinkError::NotTls(began.escape_ascii().to_string()))
    }

    fn take_plain(&mut self) -> Result<(), LinkError> {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.tls.reader().read(&mut bytes) {
                Ok(0) => {
                    self.is_closed = true;
                    return Ok(());
                }
                Ok(count) => self.decoder.push(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The socket ended without TLS saying so; what came before stands.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.is_closed = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(_) => self.stuck_since = None,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let since = *self.stuck_since.get_or_insert_with(Instant::now);
                    return if since.elapsed() > STALL_MAX { Err(LinkError::Stalled) } else { Ok(()) };
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.stuck_since = None;
        Ok(())
    }
}
