//! The connections of one ring: what each waits for, receiving and sending, closing.
//!
//! A connection that idles holds a slot (under 30 bytes) and one operation with the kernel: a poll, which costs the
//! kernel 256 bytes. An armed receive would cost 725, single or multishot (6.18, slope over 9,000 connections), so
//! only a connection whose bytes come at least every second has one; it saves a turn for each message.
//!
//! Bytes go back from the buffer they came in, by a send that does not wait. Only what the peer does not take is kept
//! in memory of the connection's own, and nothing more is received until it is gone: at most the rest of one buffer,
//! and the one that was already under way.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{opcode, squeue};

use super::pool::{self, GROUP, Pool};
use super::ring::{Completion, Key, Op, Ring};
use crate::counters::Counters;
use crate::defects::beside::{Answer, Carries};

/// What all tables of a worker share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counters: Counters,
    /// The time in ticks; it wraps.
    pub(super) tick: u32,
    /// A connection whose last bytes came at most so many ticks ago is fast: a receive is armed on it.
    pub(super) fast_ticks: u32,
    /// The server ends: finish what is in flight, begin nothing.
    pub(super) draining: bool,
    /// Accepting may go on where it could not before, or must be taken up again.
    pub(super) accept_changed: bool,
    /// An accept failed for want of something: leave the listeners alone for a while.
    pub(super) accept_failed: bool,
}

/// A ring, its pool of buffers, and its connections.
pub(super) struct Table {
    // First, so that it ends first: what is below is not used by the kernel after that.
    ring: Ring,
    pool: Pool,
    conns: Vec<Conn>,
    /// When bytes last moved on each, in ticks.
    moved: Vec<u32>,
    /// Connections with a send from the pool in what was queued last.
    sends: Vec<u32>,
    /// Completions that were taken and not acted on.
    taken: Vec<Completion>,
    /// Connections whose receive found no buffer.
    starved: VecDeque<u32>,
    slots: u32,
    live: u32,
    /// Accepts with the kernel, for each listener; each has a slot that is free for it.
    accepts: Vec<u32>,
    accepts_sum: u32,
    /// While draining: the connections before this one were asked whether they are idle.
    asked: usize,
    /// Of those, the ones that have not answered yet.
    answers_due: u32,
}

#[derive(Default)]
struct Conn {
    kept: Option<Box<Kept>>,
    /// The send from the pool: which buffer, how many bytes.
    buffer: u16,
    state: u16,
    length: u32,
}

/// What the peer has not taken yet.
#[derive(Default)]
struct Kept {
    /// With the kernel, from `sent` on.
    bytes: Box<[u8]>,
    sent: usize,
    /// Behind it: came while the first was being sent.
    next: Box<[u8]>,
}

/// `IORING_RECVSEND_POLL_FIRST`: behind an answer, nothing is there yet.
const POLL_FIRST: u16 = 1;

const LIVE: u16 = 1;
/// Operations with the kernel.
const POLLING: u16 = 1 << 1;
const RECEIVING: u16 = 1 << 2;
const SENDING_POOL: u16 = 1 << 3;
const SENDING_KEPT: u16 = 1 << 4;
const IN_FLIGHT: u16 = POLLING | RECEIVING | SENDING_POOL | SENDING_KEPT;
/// Its bytes come often.
const FAST: u16 = 1 << 5;
/// Its first bytes have come: from the next on, the time between is known.
const SPOKEN: u16 = 1 << 10;
/// Its receive found no buffer; it will be armed again.
const STARVED: u16 = 1 << 11;
/// The peer will send no more.
const ENDED: u16 = 1 << 6;
/// To be closed once nothing is in flight.
const CLOSING: u16 = 1 << 7;
/// While draining: a last look for bytes is due or under way.
const ASKED: u16 = 1 << 8;
/// Was moving when the server was told to stop: it ends when it falls quiet.
const SETTLING: u16 = 1 << 9;

impl Conn {
    fn is(&self, state: u16) -> bool {
        self.state & state != 0
    }

    fn is_sending(&self) -> bool {
        self.is(SENDING_POOL | SENDING_KEPT) || self.kept.is_some()
    }
}

impl Table {
    /// Makes the ring, for the calling thread.
    pub(super) fn new(slots: u32, listeners: usize, buffer_bytes: usize) -> io::Result<Self> {
        let ring = Ring::new(slots)?;
        let pool = Pool::register(&ring, buffer_bytes)?;
        Ok(Self {
            ring,
            pool,
            conns: Vec::new(),
            moved: Vec::new(),
            sends: Vec::new(),
            taken: Vec::new(),
            starved: VecDeque::new(),
            slots,
            live: 0,
            accepts: vec![0; listeners],
            accepts_sum: 0,
            asked: 0,
            answers_due: 0,
        })
    }

    pub(super) fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Slots without a connection.
    pub(super) fn free(&self) -> u32 {
        self.slots.saturating_sub(self.live)
    }

    /// Whether accepts are with the kernel.
    pub(super) fn is_accepting(&self) -> bool {
        self.accepts_sum > 0
    }

    /// Whether a connection from any listener would be let in.
    pub(super) fn accepts_from_all(&self) -> bool {
        self.accepts.iter().all(|count| *count > 0)
    }

    /// Lets up to `depth` connections in from a listener. Each accept has a slot of its own: the kernel closes a
    /// connection it finds no slot for, which is also how a multishot accept would end.
    pub(super) fn accept(&mut self, listener: usize, fd: BorrowedFd<'_>, depth: u32) {
        let null = std::ptr::null_mut;
        while self.accepts[listener] < depth && self.accepts_sum < self.free() {
            let entry = opcode::Accept::new(Fd(fd.as_raw_fd()), null(), null().cast())
                .file_index(Some(DestinationSlot::auto_target()))
                .build();
            // SAFETY: points to nothing.
            unsafe { self.ring.push(entry, Key::new(Op::Accept, listener as u32)) };
            self.accepts[listener] += 1;
            self.accepts_sum += 1;
        }
    }

    /// Ends all accepts.
    pub(super) fn stop_accepting(&mut self) {
        for (count, listener) in self.accepts.iter().zip(0..) {
            if *count > 0 {
                self.ring.cancel(Key::new(Op::Accept, listener));
            }
        }
    }

    /// Acts on what the ring brought, after it was entered. Returns what was for the worker.
    pub(super) fn reap(&mut self, shared: &mut Shared, carries: &mut impl Carries, mut other: impl FnMut(Op)) {
        self.ring.take(&mut self.taken);
        if !self.ring.is_handed_over() {
            // The kernel had no memory for the rest, and it is not known which sends are done.
            return;
        }
        // A send from the pool does not wait: it is done. Those that tell of themselves took less than all; they come
        // first, so that bytes which were received behind a send find it done.
        let taken = std::mem::take(&mut self.taken);
        for completion in taken.iter().filter(|completion| completion.key.op == Op::SendPool) {
            self.sent_from_pool(completion.key.slot as usize, completion.result, shared);
        }
        let mut sends = std::mem::take(&mut self.sends);
        for slot in sends.drain(..) {
            let conn = &self.conns[slot as usize];
            if conn.is(SENDING_POOL) {
                self.sent_from_pool(slot as usize, conn.length as i32, shared);
            }
        }
        self.sends = sends;
        for completion in &taken {
            let slot = completion.key.slot as usize;
            match completion.key.op {
                Op::Accept => self.accepted(slot, completion.result, shared),
                Op::Poll => self.polled(slot, shared),
                Op::Receive => self.received(completion, carries, shared),
                Op::SendKept => self.sent_kept(slot, completion.result, shared),
                Op::SendPool | Op::Ignore => {}
                Op::Stop | Op::Wake | Op::Timer => other(completion.key.op),
            }
        }
        self.taken = taken;
        self.taken.clear();
        self.feed(shared);
    }

    /// Lets those receive that found no buffer, no more than there are buffers: all of them would fail again and again.
    fn feed(&mut self, shared: &Shared) {
        let at_most = self.starved.len().min(usize::from(pool::COUNT));
        for _ in 0..at_most {
            let Some(slot) = self.starved.pop_front() else { return };
            // The connection may have been closed, and its slot given to another.
            if self.conns[slot as usize].is(STARVED) {
                self.receive(slot as usize, shared);
            }
        }
    }

    /// Closes the connections on which nothing moved for more than `ticks`.
    pub(super) fn sweep(&mut self, ticks: u32, shared: &mut Shared) {
        for slot in 0..self.moved.len() {
            if shared.tick.wrapping_sub(self.moved[slot]) <= ticks {
                continue;
            }
            let conn = &self.conns[slot];
            let spared = shared.draining && (!conn.is(SETTLING) || conn.is_sending());
            if conn.is(LIVE) && !conn.is(CLOSING) && !spared {
                shared.counters.idle_closed += u64::from(!shared.draining);
                self.close(slot, shared);
            }
        }
    }

    /// While draining: looks for bytes on up to `at_most` more connections; those that are idle will be closed.
    /// Returns whether some have still to be asked or to answer.
    pub(super) fn ask(&mut self, at_most: usize, shared: &Shared) -> bool {
        let until = self.conns.len().min(self.asked.saturating_add(at_most));
        for slot in self.asked..until {
            let conn = &mut self.conns[slot];
            if !conn.is(LIVE) || conn.is(CLOSING | SETTLING) {
                continue;
            }
            self.moved[slot] = shared.tick;
            if conn.is_sending() {
                // More may stand behind it at the peer.
                conn.state |= SETTLING;
                continue;
            }
            conn.state |= ASKED;
            self.answers_due += 1;
            // The end of what it waits for leads to the look; bytes that are faster are as good.
            match conn.state & (POLLING | RECEIVING) {
                POLLING => self.ring.cancel(Key::new(Op::Poll, slot as u32)),
                RECEIVING => self.ring.cancel(Key::new(Op::Receive, slot as u32)),
                _ => self.receive(slot, shared),
            }
        }
        self.asked = until;
        self.has_to_ask() || self.answers_due > 0
    }

    /// While draining: whether [`Self::ask`] has more to do.
    pub(super) fn has_to_ask(&self) -> bool {
        self.asked < self.conns.len()
    }

    /// Counts the sends that are queued as if they were done.
    pub(super) fn count_queued_sends(&self, counters: &mut Counters) {
        for slot in &self.sends {
            let conn = &self.conns[*slot as usize];
            if conn.is(SENDING_POOL) {
                counters.send += 1;
                counters.bytes_out += u64::from(conn.length);
            }
        }
    }

    fn accepted(&mut self, listener: usize, result: i32, shared: &mut Shared) {
        self.accepts[listener] -= 1;
        self.accepts_sum -= 1;
        shared.accept_changed = true;
        if result < 0 {
            match -result {
                libc::ECANCELED => {}
                // The peer went away between connecting and here: the next one may be fine.
                libc::EINTR | libc::EAGAIN | libc::ECONNABORTED | libc::EPROTO => shared.counters.accept_error += 1,
                _ => {
                    shared.counters.accept_error += 1;
                    shared.accept_failed = true;
                }
            }
            return;
        }
        let slot = result as usize;
        if self.conns.len() <= slot {
            self.conns.resize_with(slot + 1, Conn::default);
            self.moved.resize(slot + 1, 0);
        }
        shared.counters.accepted += 1;
        self.live += 1;
        self.conns[slot] = Conn { state: LIVE, ..Conn::default() };
        self.moved[slot] = shared.tick;
        self.wait(slot, shared);
    }

    /// Waits for bytes, in the way that fits how often they come.
    fn wait(&mut self, slot: usize, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        conn.state &= !STARVED;
        if shared.draining || conn.is(FAST) {
            return self.receive(slot, shared);
        }
        conn.state |= POLLING;
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        // SAFETY: points to nothing.
        unsafe {
            self.ring.push(opcode::PollAdd::new(Fixed(slot as u32), events).build(), Key::new(Op::Poll, slot as u32));
        }
    }

    fn receive(&mut self, slot: usize, shared: &Shared) {
        let conn = &mut self.conns[slot];
        conn.state = conn.state & !STARVED | RECEIVING;
        // The last look does not wait; nobody looks again.
        let is_last = shared.draining && !conn.is(SETTLING);
        let flags = if is_last { libc::MSG_DONTWAIT } else { 0 };
        let entry = opcode::Recv::new(Fixed(slot as u32), std::ptr::null_mut(), 0)
            .ioprio(if conn.is(SENDING_POOL) && !is_last { POLL_FIRST } else { 0 })
            .flags(flags)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        // SAFETY: the kernel takes a buffer of the pool, which is not touched until it is told of.
        unsafe { self.ring.push(entry, Key::new(Op::Receive, slot as u32)) };
    }

    fn polled(&mut self, slot: usize, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        conn.state &= !POLLING;
        if conn.is(CLOSING) {
            return self.close_if_idle(slot, shared);
        }
        // Whatever was seen, an error too: receiving tells what it is.
        self.receive(slot, shared);
    }

    fn received(&mut self, completion: &Completion, carries: &mut impl Carries, shared: &mut Shared) {
        let (slot, result, buffer) = (completion.key.slot as usize, completion.result, completion.buffer);
        let conn = &mut self.conns[slot];
        conn.state &= !RECEIVING;
        if result > 0
            && let Some(buffer) = buffer
            && !conn.is(CLOSING)
        {
            return self.echo(slot, buffer, result as usize, carries, shared);
        }
        if let Some(buffer) = buffer {
            self.pool.give_back(buffer);
        }
        let conn = &mut self.conns[slot];
        if conn.is(CLOSING) {
            return self.close_if_idle(slot, shared);
        }
        match -result {
            0 => {
                conn.state |= ENDED;
                shared.counters.shutdown += 1;
                if !conn.is_sending() {
                    // Everything went back; closing sends our end.
                    self.close(slot, shared);
                }
            }
            libc::EAGAIN if shared.draining && !conn.is(SETTLING) => self.close(slot, shared),
            libc::ENOBUFS => {
                conn.state |= STARVED;
                self.starved.push_back(slot as u32);
            }
            // Called off for the last look.
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => self.receive(slot, shared),
            _ => {
                shared.counters.recv_error += 1;
                self.close(slot, shared);
            }
        }
    }

    /// Sends what came back from where it is, and waits for more behind it.
    fn echo(&mut self, slot: usize, buffer: u16, length: usize, carries: &mut impl Carries, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        shared.counters.recv += 1;
        shared.counters.bytes_in += length as u64;
        let is_fast = conn.is(SPOKEN) && shared.tick.wrapping_sub(self.moved[slot]) <= shared.fast_ticks;
        conn.state = conn.state & !FAST | SPOKEN | if is_fast { FAST } else { 0 };
        self.moved[slot] = shared.tick;
        if shared.draining {
            conn.state |= SETTLING;
            self.answered(slot);
        }
        if let Some(answer) = carries.answer(None, self.pool.bytes(buffer, length)) {
            self.pool.give_back(buffer);
            return self.send_other(slot, answer, shared);
        }
        let conn = &mut self.conns[slot];
        if conn.is_sending() {
            // It was under way when an earlier send blocked. Nothing is received until all is gone.
            let kept = keep(self.pool.bytes(buffer, length));
            self.pool.give_back(buffer);
            let Some(bytes) = kept else { return self.out_of_memory(slot, shared) };
            conn.kept.get_or_insert_default().next = bytes;
            return;
        }
        conn.state |= SENDING_POOL;
        (conn.buffer, conn.length) = (buffer, length as u32);
        let start = self.pool.bytes(buffer, length).as_ptr();
        // It takes what fits and does not wait; less than all is a failure (MSG_WAITALL), and told.
        let entry = opcode::Send::new(Fixed(slot as u32), start, length as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL)
            .build();
        // SAFETY: the buffer is given back only when the send has been handed over, and with that is done.
        unsafe { self.ring.push_quietly(entry, Key::new(Op::SendPool, slot as u32)) };
        self.sends.push(slot as u32);
        self.wait(slot, shared);
    }

    /// Sends what leaves in place of what came.
    fn send_other(&mut self, slot: usize, answer: Answer, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        if answer.closes {
            conn.state |= ENDED;
        }
        if conn.is_sending() {
            conn.kept.get_or_insert_default().next = answer.bytes.into_boxed_slice();
        } else if answer.bytes.is_empty() {
            self.sent_all(slot, shared);
        } else {
            conn.kept = Some(Box::new(Kept { bytes: answer.bytes.into_boxed_slice(), ..Kept::default() }));
            self.send_kept(slot);
        }
    }

    fn sent_from_pool(&mut self, slot: usize, result: i32, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        conn.state &= !SENDING_POOL;
        let (buffer, length) = (conn.buffer, conn.length as usize);
        let sent = match result {
            sent if sent >= 0 => {
                shared.counters.send += 1;
                shared.counters.bytes_out += sent as u64;
                Some((sent as usize).min(length))
            }
            blocked if matches!(-blocked, libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => Some(0),
            _ => None,
        };
        let rest = sent.map(|sent| &self.pool.bytes(buffer, length)[sent..]);
        let kept = rest.filter(|rest| !rest.is_empty()).map(keep);
        self.pool.give_back(buffer);
        match (sent, kept) {
            _ if conn.is(CLOSING) => self.close_if_idle(slot, shared),
            (None, _) => self.send_failed(slot, shared),
            (_, Some(None)) => self.out_of_memory(slot, shared),
            (_, Some(Some(bytes))) => {
                conn.kept.get_or_insert_default().bytes = bytes;
                self.send_kept(slot);
            }
            (_, None) => self.sent_all(slot, shared),
        }
    }

    fn sent_kept(&mut self, slot: usize, result: i32, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        conn.state &= !SENDING_KEPT;
        if conn.is(CLOSING) {
            return self.close_if_idle(slot, shared);
        }
        let Some(kept) = &mut conn.kept else { return };
        match result {
            sent if sent >= 0 => {
                shared.counters.send += 1;
                shared.counters.bytes_out += sent as u64;
                self.moved[slot] = shared.tick;
                kept.sent += sent as usize;
            }
            again if matches!(-again, libc::EAGAIN | libc::EINTR) => {}
            _ => return self.send_failed(slot, shared),
        }
        if kept.sent < kept.bytes.len() { self.send_kept(slot) } else { self.sent_all(slot, shared) }
    }

    fn send_kept(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        let Some(kept) = &conn.kept else { return };
        conn.state |= SENDING_KEPT;
        let rest = &kept.bytes[kept.sent..];
        let entry = opcode::Send::new(Fixed(slot as u32), rest.as_ptr(), rest.len().min(i32::MAX as usize) as u32)
            .flags(libc::MSG_NOSIGNAL)
            .build();
        // SAFETY: what is kept lives on the heap and is replaced only when the send has completed.
        unsafe { self.ring.push(entry, Key::new(Op::SendKept, slot as u32)) };
    }

    /// All that was being sent has gone: what came meanwhile is next, then the peer.
    fn sent_all(&mut self, slot: usize, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        match conn.kept.as_mut() {
            Some(kept) if !kept.next.is_empty() => {
                kept.bytes = std::mem::take(&mut kept.next);
                kept.sent = 0;
                return self.send_kept(slot);
            }
            _ => conn.kept = None,
        }
        if conn.is(ENDED) {
            self.close(slot, shared);
        } else if !conn.is(POLLING | RECEIVING) {
            self.wait(slot, shared);
        }
    }

    fn send_failed(&mut self, slot: usize, shared: &mut Shared) {
        shared.counters.send_error += 1;
        self.close(slot, shared);
    }

    fn out_of_memory(&mut self, slot: usize, shared: &mut Shared) {
        shared.counters.memory_error += 1;
        self.close(slot, shared);
    }

    /// Calls off what is in flight; the connection is closed when that is done.
    fn close(&mut self, slot: usize, shared: &mut Shared) {
        let conn = &mut self.conns[slot];
        if !conn.is(LIVE) || conn.is(CLOSING) {
            return;
        }
        conn.state |= CLOSING;
        let state = conn.state;
        // A send from the pool does not wait, so there is none to call off: it is done at the next turn.
        for (in_flight, op) in [(POLLING, Op::Poll), (RECEIVING, Op::Receive), (SENDING_KEPT, Op::SendKept)] {
            if state & in_flight != 0 {
                self.ring.cancel(Key::new(op, slot as u32));
            }
        }
        self.close_if_idle(slot, shared);
    }

    /// Closes a connection that is to be closed and has nothing in flight. Its slot is the kernel's to give again
    /// from the close on, and no completion of this connection can come after it.
    fn close_if_idle(&mut self, slot: usize, shared: &mut Shared) {
        let conn = &self.conns[slot];
        if !conn.is(LIVE) || !conn.is(CLOSING) || conn.is(IN_FLIGHT) {
            return;
        }
        self.answered(slot);
        // SAFETY: points to nothing.
        unsafe {
            self.ring.push_quietly(opcode::Close::new(Fixed(slot as u32)).build(), Key::new(Op::Ignore, slot as u32));
        }
        self.conns[slot] = Conn::default();
        self.live -= 1;
        shared.counters.closed += 1;
        shared.accept_changed = true;
    }

    fn answered(&mut self, slot: usize) {
        let conn = &mut self.conns[slot];
        if conn.is(ASKED) {
            conn.state &= !ASKED;
            self.answers_due -= 1;
        }
    }
}

/// Bytes in memory of their own, if there is any.
fn keep(bytes: &[u8]) -> Option<Box<[u8]>> {
    let mut kept = Vec::new();
    kept.try_reserve_exact(bytes.len()).ok()?;
    kept.extend_from_slice(bytes);
    Some(kept.into_boxed_slice())
}
