//! TLS between a driver and the worker: a driver that is made of another one and a rustls connection for each slot.
//!
//! The worker asks of it what it asks of any driver and sees plain bytes. Below, records are decrypted in the buffer
//! they were read into, and what is sent is encrypted into a buffer that the driver below takes over and lends again:
//! one `send` a request. A worker without TLS has none of this in it: the layer is a type, chosen where workers start.
//! Versions, suites, groups and trust are rustls' (unbuffered API) with aws-lc-rs; nothing of TLS is written here.
//!
//! Not done: early data, renegotiation, and close_notify when we close: the peer sees the end of the stream alone.

mod config;
mod fault;
mod names;
mod session;
mod store;
mod verify;

pub use config::{TlsConfig, certificates, check, private_key};
pub use model::tls::TlsError;
pub use names::{cipher_name, default_ciphers, default_groups, group_name, known_ciphers, known_groups};

use crate::driver::outbox::Outbox;
use crate::driver::{Driver, Event, Note, Slot, Wake};
use model::event::{Details, TLS_AGREED, TLS_FAILED};
use model::tls::TlsNames;
use rustls::client::UnbufferedClientConnection;
use session::{Session, Step};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Payload;
use wire::tls::Fault;

/// What whoever makes a plan asks of this library.
pub const NAMES: TlsNames =
    TlsNames { default_ciphers, default_groups, cipher: cipher_name, group: group_name, certificates, check };

/// Plain bytes encrypted at once: what a peer that does not read can make us hold of a large request, about twice.
const CHUNK_BYTES: usize = 64 * 1024;
/// A connection's rest of a record is given back to the allocator beyond this, bytes.
const REST_KEPT_BYTES: usize = 32 * 1024;

/// The TLS layer over another driver. See the module's head.
pub struct Tls<D> {
    inner: D,
    config: TlsConfig,
    /// What waits to be encrypted, by its name, and memory for plain bytes.
    outbox: Outbox,
    /// The origin of each address that may be connected to.
    origins: Vec<u16>,
    sessions: Vec<Session>,
    /// What the last record or records held.
    plain: Vec<u8>,
    /// What TLS has to say on its own account.
    out: Vec<u8>,
    /// Plain bytes that the kernel has taken, in their records, since [`Driver::take_sent_bytes`] was last asked.
    sent_bytes: u64,
    /// Events that one event below led to, oldest first.
    queue: VecDeque<Event>,
    note: Option<Note>,
    /// Whether what was agreed on, and the first failure, have been told.
    has_told: (bool, bool),
}

impl<D: Driver> Tls<D> {
    /// Puts TLS over a driver. `origins` names the origin of each address the driver knows.
    pub fn new(inner: D, config: TlsConfig, slots: u32, blobs: Vec<Arc<[u8]>>, origins: Vec<u16>) -> Self {
        Tls {
            inner,
            config,
            outbox: Outbox::new(blobs),
            origins,
            sessions: (0..slots).map(|_| Session::default()).collect(),
            plain: Vec::with_capacity(CHUNK_BYTES),
            out: Vec::new(),
            sent_bytes: 0,
            queue: VecDeque::with_capacity(8),
            note: None,
            has_told: (false, false),
        }
    }

    /// TCP is there: the first flight leaves.
    fn start(&mut self, slot: Slot) {
        self.queue.push_back(Event::Handshaking { slot });
        let session = &mut self.sessions[slot as usize];
        let name = self.config.server_name(session.origin);
        match UnbufferedClientConnection::new(self.config.client(), name) {
            Ok(connection) => {
                session.connection = Some(Box::new(connection));
                self.step(slot, None);
            }
            Err(error) => self.fail(slot, &error),
        }
    }

    /// Takes what the driver below has just received (`at_ns`: when), or nothing, and does what follows from it.
    fn step(&mut self, slot: Slot, at_ns: Option<u64>) {
        let session = &mut self.sessions[slot as usize];
        self.plain.clear();
        let mut rest = std::mem::take(&mut session.rest);
        let Step { closed, error, .. } = if at_ns.is_none() {
            session.step(&mut [], &mut self.plain, &mut self.out)
        } else if rest.is_empty() {
            let incoming = self.inner.bytes_mut();
            let step = session.step(incoming, &mut self.plain, &mut self.out);
            rest.extend_from_slice(&incoming[step.used..]);
            step
        } else {
            rest.extend_from_slice(self.inner.bytes());
            let step = session.step(&mut rest, &mut self.plain, &mut self.out);
            rest.drain(..step.used);
            step
        };
        if !rest.is_empty() || rest.capacity() <= REST_KEPT_BYTES {
            session.rest = rest;
        }
        self.speak(slot);
        let session = &mut self.sessions[slot as usize];
        if !session.secured && session.is_ready() {
            session.secured = true;
            let resumed = session.is_resumed();
            let ticket_follows = self.config.resumes() && session.is_v13() && session.tickets() == 0;
            session.ticket_due = ticket_follows;
            self.queue.push_back(Event::Secured { slot, resumed, ticket_follows });
            if !std::mem::replace(&mut self.has_told.0, true)
                && let Some(connection) = &session.connection
            {
                let (text, details) = (names::agreed(connection), names::certificate(connection));
                self.note = Some(Note { kind: TLS_AGREED, text, details });
            }
        } else if session.ticket_due && session.tickets() > 0 {
            session.ticket_due = false;
            self.queue.push_back(Event::Ticket { slot });
        }
        if let (false, Some(at_ns)) = (self.plain.is_empty(), at_ns) {
            self.queue.push_back(Event::Received { slot, at_ns });
        }
        if let Some(error) = error {
            self.fail(slot, &error);
        } else if closed {
            self.queue.push_back(Event::Closed { slot });
        }
    }

    /// Sends what TLS has to say.
    fn speak(&mut self, slot: Slot) {
        if !self.out.is_empty() {
            let next = self.inner.lend();
            let said = std::mem::replace(&mut self.out, next);
            self.hand_down(slot, said, 0);
        }
    }

    /// TLS failed, by a fault of either side.
    fn fail(&mut self, slot: Slot, error: &rustls::Error) {
        let fault = fault::of(error);
        self.tell_failure(|| fault::sentence(error, fault));
        let in_handshake = !self.sessions[slot as usize].secured;
        self.queue.push_back(Event::Refused { slot, detail: fault.number(), in_handshake });
    }

    /// A handshake failed without TLS's own word.
    fn refuse(&mut self, slot: Slot, fault: Fault) {
        self.tell_failure(|| wire::tls::words(fault.number()).unwrap_or_default().into_owned());
        self.queue.push_back(Event::Refused { slot, detail: fault.number(), in_handshake: true });
    }

    /// The first failure is told in words.
    fn tell_failure(&mut self, words: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.has_told.1, true) {
            self.note = Some(Note { kind: TLS_FAILED, text: words(), details: Details::default() });
        }
    }

    /// Encrypts what waits, as long as the driver below takes it.
    fn encrypt(&mut self, slot: Slot) {
        loop {
            let session = &mut self.sessions[slot as usize];
            let Some(payload) = session.unsent.front().copied() else { return };
            let length = (payload.length as usize).min(CHUNK_BYTES);
            let mut records = self.inner.lend();
            let outcome = session.encrypt(&self.outbox.bytes(payload)[..length], &mut records);
            match session.unsent.front_mut() {
                Some(payload) if length < payload.length as usize => {
                    payload.start += length as u32;
                    payload.length -= length as u32;
                }
                _ => {
                    session.unsent.pop_front();
                    self.outbox.release(payload);
                }
            }
            match outcome {
                Ok(()) => self.hand_down(slot, records, length),
                Err(error) => {
                    self.forget_unsent(slot);
                    return self.fail(slot, &error);
                }
            }
            // The rest follows when the kernel has taken this: see `Event::Drained`.
            if self.inner.unsent_bytes(slot) > CHUNK_BYTES as u64 {
                return;
            }
        }
    }

    /// What waits to be encrypted never will be.
    fn forget_unsent(&mut self, slot: Slot) {
        self.sessions[slot as usize].unsent.drain(..).for_each(|payload| self.outbox.release(payload));
    }

    /// Gives records, made of so many plain bytes, to the driver below.
    fn hand_down(&mut self, slot: Slot, records: Vec<u8>, plain: usize) {
        let sealed = records.len() as u64;
        self.inner.send_bytes(slot, records);
        self.sessions[slot as usize].handed.push_back((plain as u64, sealed));
        self.count_sent(slot);
    }

    /// Counts what the kernel has taken since this was last done.
    fn count_sent(&mut self, slot: Slot) {
        let session = &mut self.sessions[slot as usize];
        let left = session.not_taken(self.inner.unsent_bytes(slot));
        let taken = session.handed.len() - left;
        self.sent_bytes += session.handed.drain(..taken).map(|(plain, _)| plain).sum::<u64>();
    }

    /// What an event below means above. `None`: nothing, or what is in the queue.
    fn rise(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Connected { slot } => self.start(slot),
            Event::Received { slot, at_ns } => {
                let session = &mut self.sessions[slot as usize];
                if session.connection.is_some() {
                    if let Some(fault) = session.look_at_first(self.inner.bytes()) {
                        self.refuse(slot, fault);
                    } else {
                        self.step(slot, Some(at_ns));
                    }
                }
            }
            Event::Closed { slot } => {
                if self.sessions[slot as usize].secured {
                    return Some(Event::Truncated { slot });
                }
                self.refuse(slot, Fault::ClosedInHandshake);
            }
            Event::Drained { slot } => {
                self.count_sent(slot);
                self.encrypt(slot);
            }
            other => return Some(other),
        }
        None
    }
}

impl<D: Driver> Driver for Tls<D> {
    const NAME: &'static str = D::NAME;
    /// Decrypting takes microseconds: the stamp of a read is not the time after it.
    const STAMPS_EACH_READ: bool = false;

    fn begin(&mut self, origin_ns: u64) {
        self.inner.begin(origin_ns);
    }

    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.inner.now_ns()
    }

    fn connect(&mut self, slot: Slot, address: usize) {
        self.sessions[slot as usize].begin(self.origins.get(address).copied().unwrap_or(0));
        self.inner.connect(slot, address);
    }

    #[inline]
    fn send(&mut self, slot: Slot, payload: Payload) {
        let session = &mut self.sessions[slot as usize];
        let is_first = session.unsent.is_empty();
        session.unsent.push_back(payload);
        if is_first {
            self.encrypt(slot);
        }
    }

    fn lend(&mut self) -> Vec<u8> {
        self.outbox.lend()
    }

    /// Encrypted at once, whatever the driver below takes: what one such call sends is bounded by the worker. Only where a
    /// large blob is not wholly encrypted yet it waits behind that.
    fn send_bytes(&mut self, slot: Slot, bytes: Vec<u8>) {
        if !self.sessions[slot as usize].unsent.is_empty() {
            let payload = self.outbox.keep(bytes, 0);
            return self.sessions[slot as usize].unsent.push_back(payload);
        }
        let mut records = self.inner.lend();
        match self.sessions[slot as usize].encrypt(&bytes, &mut records) {
            Ok(()) => self.hand_down(slot, records, bytes.len()),
            Err(error) => self.fail(slot, &error),
        }
        self.outbox.take_back(bytes);
    }

    fn unsent_bytes(&self, slot: Slot) -> u64 {
        let session = &self.sessions[slot as usize];
        let waiting = session.unsent.iter().map(|payload| u64::from(payload.length)).sum::<u64>();
        let left = session.not_taken(self.inner.unsent_bytes(slot));
        waiting + session.handed.iter().rev().take(left).map(|(plain, _)| *plain).sum::<u64>()
    }

    fn take_sent_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sent_bytes)
    }

    fn rest(&mut self, slot: Slot) {
        self.inner.rest(slot);
    }

    fn spin_until(&mut self, at_ns: u64) {
        self.inner.spin_until(at_ns);
    }

    fn local(&self, slot: Slot) -> Option<SocketAddr> {
        self.inner.local(slot)
    }

    fn close(&mut self, slot: Slot) {
        self.inner.close(slot);
        self.forget_unsent(slot);
        self.sessions[slot as usize].end();
        self.queue.retain(|event| event.slot() != slot);
    }

    fn wait(&mut self, until_ns: u64, wake: Wake) -> io::Result<()> {
        if self.queue.is_empty() { self.inner.wait(until_ns, wake) } else { Ok(()) }
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            let event = self.inner.next()?;
            if let Some(event) = self.rise(event) {
                return Some(event);
            }
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.plain
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.plain
    }

    fn take_note(&mut self) -> Option<Note> {
        self.note.take()
    }

    fn cpu_ns(&self) -> (u64, u64) {
        self.inner.cpu_ns()
    }

    fn cpu_wait_ns(&self) -> u64 {
        self.inner.cpu_wait_ns()
    }
}
