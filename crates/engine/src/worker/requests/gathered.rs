//! What a protocol writes, gathered so that it leaves in one piece: requests that follow each other on one connection, and
//! what it says beside them. The memory goes to the driver with the bytes, and comes back by its loan.

use crate::driver::{Driver, Slot, send_request};
use wire::{Protocol, Source, Stream};

/// So many bytes leave at once at the most, but for what is longer by itself.
const GATHERED_BYTES: usize = 64 * 1024;

/// What is said and is no longer than this is copied into a buffer of its own.
const COPIED_BYTES_MAX: usize = 4096;

/// Bytes of one connection that wait to be sent together. Empty between the worker's steps.
#[derive(Debug)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// Whether requests are gathered.
    is_on: bool,
    /// The most that is written at once.
    longest: usize,
    /// Room for all that may be gathered.
    room: usize,
}

impl Gathered {
    /// Nothing, of a protocol that writes at most `longest` bytes at once, `count` times before they are sent.
    pub fn new(longest: usize, count: u16) -> Self {
        let room = (longest * usize::from(count)).min(GATHERED_BYTES) + longest;
        Gathered { bytes: Vec::new(), is_on: false, longest, room }
    }

    /// The next `count` requests leave together.
    #[inline]
    pub fn begin(&mut self, count: u16) {
        if count > 1 {
            self.is_on = true;
            self.bytes.reserve(self.room);
        }
    }

    /// Whether requests are gathered.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Sends what was gathered, and gathers no more.
    #[inline]
    pub fn end<D: Driver>(&mut self, driver: &mut D, slot: Slot) {
        if self.is_on {
            self.is_on = false;
            self.send(driver, slot);
        }
    }

    /// Adds a request to those that leave together, or sends it behind them. Says how many bytes it has.
    #[inline]
    pub fn request<P: Protocol<Transport = Stream>, D: Driver>(
        &mut self,
        driver: &mut D,
        protocol: &P,
        connection: &mut P::Connection,
        slot: Slot,
        number: u32,
        request: P::Request,
    ) -> u64 {
        if protocol.source(request) != Source::Template {
            self.send(driver, slot);
            return send_request(driver, protocol, connection, slot, number, request);
        }
        let before = self.bytes.len();
        protocol.write(connection, number, request, self.with_room());
        let length = self.bytes.len() - before;
        if self.is_full() {
            self.send(driver, slot);
        }
        length as u64
    }

    /// The bytes, with room for more: what is appended is sent with them.
    #[inline]
    pub fn with_room(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes.reserve(self.room);
        }
        &mut self.bytes
    }

    /// Whether there may be no room for more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() + self.longest > self.room
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Sends what waits and is no request. What is short is copied: to a peer that does not read it may wait for long, and
    /// many such must not keep as much memory as there is room for here.
    pub fn send_said<D: Driver>(&mut self, driver: &mut D, slot: Slot) {
        if self.bytes.len() > COPIED_BYTES_MAX {
            return self.send(driver, slot);
        }
        let mut copy = driver.lend();
        copy.extend_from_slice(&self.bytes);
        self.bytes.clear();
        driver.send_bytes(slot, copy);
    }

    /// Sends what waits.
    pub fn send<D: Driver>(&mut self, driver: &mut D, slot: Slot) {
        if !self.bytes.is_empty() {
            let empty = driver.lend();
            driver.send_bytes(slot, std::mem::replace(&mut self.bytes, empty));
        }
    }
}
