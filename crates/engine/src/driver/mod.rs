//! The seam between the worker and the kernel: what a worker may ask of sockets, and what it hears back.
//!
//! Completion-shaped: the worker asks (`connect`, `send`, `close`), sleeps in [`Driver::wait`], then takes events one
//! by one with [`Driver::next`]. Three implementations sit side by side: [`epoll`], [`uring`] and [`sim`]; the same
//! worker and the same tests run on each. Slots are the worker's own small numbers; what belongs to a slot's earlier
//! life is dropped inside the driver and never seen.

pub(crate) mod ahead;
mod alarm;
pub mod clock;
pub mod epoll;
pub mod outbox;
pub mod rings;
pub mod sim;
pub mod socket;
pub mod stamps;
pub mod thread;
pub mod uring;

use model::plan::Address;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wire::{Payload, Protocol, Source, Stream};

/// Sends a connection's request: a range of a blob, or what the protocol writes now. Says how many bytes.
#[inline]
pub fn send_request<D: Driver, P: Protocol<Transport = Stream>>(
    driver: &mut D,
    protocol: &P,
    connection: &mut P::Connection,
    slot: Slot,
    number: u32,
    request: P::Request,
) -> u64 {
    match protocol.source(request) {
        Source::Blob(payload) => {
            driver.send(slot, payload);
            u64::from(payload.length)
        }
        Source::Template => {
            let mut bytes = driver.lend();
            // A buffer that grows with what is drawn would do so at any time of a run.
            bytes.reserve(protocol.written_bytes_max());
            protocol.write(connection, number, request, &mut bytes);
            let length = bytes.len() as u64;
            driver.send_bytes(slot, bytes);
            length
        }
    }
}

/// Bytes of one connection that are handed to the kernel in one turn: a large request must hold up neither the others nor
/// what is due by the clock. So much takes the kernel some 50 µs to copy.
pub const SENT_BYTES_MAX: usize = 256 * 1024;

/// A connection's place in the worker's slab, and in the driver's.
pub type Slot = u32;

/// Something that happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is established.
    Connected {
        /// The connection it happened to.
        slot: Slot,
    },
    /// It is established, and the TLS handshake has begun; [`Event::Secured`] or [`Event::Refused`] follows.
    Handshaking {
        /// The connection it happened to.
        slot: Slot,
    },
    /// The TLS handshake is done: what is asked may be sent.
    Secured {
        /// The connection it happened to.
        slot: Slot,
        /// Whether it resumed an earlier session.
        resumed: bool,
        /// Whether this connection can still bring a ticket that a later one needs: [`Event::Ticket`] says when.
        ticket_follows: bool,
    },
    /// A ticket has come, with which a later connection resumes this one's session (TLS 1.3).
    Ticket {
        /// The connection it happened to.
        slot: Slot,
    },
    /// TLS failed: the connection cannot be used any further.
    Refused {
        /// The connection it happened to.
        slot: Slot,
        /// Why, as [`wire::tls::Fault::number`].
        detail: u32,
        /// Whether our side of the handshake was not done yet.
        in_handshake: bool,
    },
    /// The peer closed its side without TLS's close_notify: what came may have been cut off.
    Truncated {
        /// The connection it happened to.
        slot: Slot,
    },
    /// It could not be established; the slot is free of any socket again.
    ConnectFailed {
        /// The connection it happened to.
        slot: Slot,
        /// The kernel's error number.
        errno: i32,
    },
    /// Bytes came; [`Driver::bytes`] has them until the next call of [`Driver::next`].
    Received {
        /// The connection it happened to.
        slot: Slot,
        /// When they came: the kernel's receive stamp where one is used, else when they were read.
        at_ns: u64,
    },
    /// The kernel has taken what was given to [`Driver::send_bytes`]. Not said where it took all of it at once.
    Drained {
        /// The connection it happened to.
        slot: Slot,
    },
    /// The peer closed its side; no more bytes will come.
    Closed {
        /// The connection it happened to.
        slot: Slot,
    },
    /// The connection broke.
    Failed {
        /// The connection it happened to.
        slot: Slot,
        /// The kernel's error number.
        errno: i32,
    },
}

impl Event {
    /// Whose it is.
    pub fn slot(&self) -> Slot {
        match self {
            Event::Connected { slot }
            | Event::Handshaking { slot }
            | Event::Secured { slot, .. }
            | Event::Ticket { slot }
            | Event::Refused { slot, .. }
            | Event::Truncated { slot }
            | Event::ConnectFailed { slot, .. }
            | Event::Received { slot, .. }
            | Event::Drained { slot }
            | Event::Closed { slot }
            | Event::Failed { slot, .. } => *slot,
        }
    }
}

/// What ends a wait, apart from its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The first completion.
    First,
    /// So many completions, or the delay after which fewer will do.
    Batch {
        /// How many.
        completions: u32,
        /// At most so long, nanoseconds.
        delay_ns: u64,
    },
    /// Nothing: sleep to the end of the time, then take what is there.
    Never,
}

/// Something worth an event of the recording, said once: in words, for they are made only then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// A fixed kebab-case word.
    pub kind: &'static str,
    /// A sentence.
    pub text: String,
    /// What is known of it, field by field.
    pub details: model::event::Details,
}

/// What a driver can be told at the start.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Slots `0..slots` will be used.
    pub slots: u32,
    /// All addresses that may be connected to, by index.
    pub addresses: Vec<Address>,
    /// All that may be sent ([`wire::Protocol::blobs`]).
    pub blobs: Vec<Arc<[u8]>>,
    /// Requests outstanding on one connection.
    pub pipeline: u16,
    /// Whether `Received` carries the kernel's receive stamp.
    pub receive_stamps: bool,
    /// Addresses that connections come from, in turn; empty: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// Whether all slots send at one moment: what is sent is then handed over together, at the next wait.
    pub is_burst: bool,
    /// How a connection on which no reply is due is looked after ([`Driver::rest`]).
    pub idle: Idle,
}

/// How a driver looks after a connection that rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// As any other: its close is seen at once.
    Watched,
    /// Nothing is armed on it, which saves the kernel's memory: it is looked at once in so many nanoseconds, so its
    /// close is seen so much later at the most. Drivers that watch at no cost watch all the same.
    Swept(u64),
}

/// Drives the sockets of one worker.
pub trait Driver {
    /// The name in flags and reports.
    const NAME: &'static str;

    /// Whether each read is stamped as it returns: the stamp of the last event is then the time, but for the work done
    /// on that event (some 100 ns), and the worker saves itself three readings of the clock a request.
    const STAMPS_EACH_READ: bool;

    /// Starts the clock: the moment the run began, on CLOCK_MONOTONIC, nanoseconds.
    fn begin(&mut self, origin_ns: u64);

    /// Nanoseconds since the run began, monotonic.
    fn now_ns(&mut self) -> u64;

    /// Begins to connect a slot that has no socket; the outcome comes as an event, whatever it is.
    fn connect(&mut self, slot: Slot, address: usize);

    /// Sends on an established connection. Taken whole: what the kernel does not take now is sent when it can be;
    /// failure comes as an event.
    fn send(&mut self, slot: Slot, payload: Payload);

    /// An empty buffer for [`Driver::send_bytes`], with the memory of an earlier one where there is one.
    fn lend(&mut self) -> Vec<u8>;

    /// Sends bytes that are in no blob, as [`Driver::send`] does; takes the buffer over, to lend it again.
    fn send_bytes(&mut self, slot: Slot, bytes: Vec<u8>);

    /// Bytes that were given to be sent and that the kernel is not known to have taken, as they were given: of TLS in plain.
    fn unsent_bytes(&self, slot: Slot) -> u64;

    /// Bytes that the kernel has taken since this was last asked, of all slots and as they were given. A small send that
    /// is not waited for counts when it is handed over.
    fn take_sent_bytes(&mut self) -> u64;

    /// Says that no reply is due on a connection; the next [`Driver::send`] ends that.
    fn rest(&mut self, _slot: Slot) {}

    /// Our end of an established connection over TCP, by which the target's kernel knows it too; `None`: it has none, or it
    /// cannot be asked for. A system call, so for few.
    fn local(&self, _slot: Slot) -> Option<SocketAddr> {
        None
    }

    /// Closes a slot's socket, if it has one. No event of it will be seen any more.
    fn close(&mut self, slot: Slot);

    /// Hands over what was asked, then sleeps until `until_ns` or until woken as `wake` says.
    ///
    /// # Errors
    /// The kernel's error where it will not wait at all; the worker cannot go on then.
    fn wait(&mut self, until_ns: u64, wake: Wake) -> std::io::Result<()>;

    /// Does nothing until a moment, without sleeping: a sleep ends late.
    fn spin_until(&mut self, at_ns: u64) {
        while self.now_ns() < at_ns {
            std::hint::spin_loop();
        }
    }

    /// The next event, without sleeping; `None`: wait again.
    fn next(&mut self) -> Option<Event>;

    /// Whose event probably comes next, where that is known: what is kept of it can be fetched into the cache meanwhile.
    #[inline]
    fn upcoming(&self) -> Option<Slot> {
        None
    }

    /// The bytes of the last [`Event::Received`]. Sending and closing leave them as they are.
    fn bytes(&self) -> &[u8];

    /// The same bytes, to be changed in place.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Something that is worth telling, once.
    fn take_note(&mut self) -> Option<Note> {
        None
    }

    /// User and system CPU time of the worker so far, nanoseconds.
    fn cpu_ns(&self) -> (u64, u64) {
        thread::cpu_ns()
    }

    /// Time the worker was runnable and had no CPU so far, nanoseconds.
    fn cpu_wait_ns(&self) -> u64 {
        thread::wait_ns()
    }
}
