//! Sockets in the file tables of many rings: more connections than the process may have descriptors, and next to no
//! memory for one that rests.
//!
//! A socket is made, bound and connected inside the ring and never gets a descriptor. Slot `s` is file `s % table` of
//! ring `s / table`. A receive is armed only while a reply is due ([`Driver::rest`]); between, a sweep of receives that
//! do not wait finds out who has closed. The worker sleeps on an epoll set of the rings'
//! signals. Bytes come through buffers
//! shared by a ring; an idle connection is four bytes here. For many connections that speak seldom: for few that speak
//! much the `uring` driver is cheaper, which arms one receive for good.

mod completions;
mod making;
mod ring;

use super::alarm::{Alarm, timespec};
use super::clock::monotonic_ns;
use super::outbox::Outbox;
use super::socket::{Sources, kernel_address};
use super::uring::buffers::GROUP;
use super::uring::{ATTEMPTS_MAX, stuck};
use super::{Driver, Event, Idle, SENT_BYTES_MAX, Setup, Slot, Wake};
use io_uring::types::Fixed;
use io_uring::{cqueue, opcode, squeue};
use making::Making;
use ring::Ring;
use rustix::event::epoll;
use rustix::io::Errno;
use socket2::SockAddr;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use wire::Payload;

/// A send of at most so many bytes fits any socket buffer and is not waited for.
const SMALL_SEND_BYTES: u32 = 4096;
/// Completions taken at once.
const TAKEN: usize = 1024;
/// The alarm's key; no ring has it.
const ALARM: u64 = u64::MAX;
/// Entries of a table, at the most, whatever the descriptor limit.
const TABLE_MAX: u64 = 65_536;
/// Connections looked at in one step of a sweep, of which there is one a turn: messages that are due wait no longer.
const SWEEP_STEP: u32 = 64;
/// Sends handed over together while events are being worked through.
const HAND_OVER: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Prepare = 1,
    Connect = 2,
    Receive = 3,
    Send = 4,
    Ignore = 5,
    Look = 6,
}

/// A slot: its life, and what is going on with it.
#[derive(Clone, Copy, Default)]
struct Entry {
    generation: u16,
    flags: u8,
}

const OPEN: u8 = 1;
const CONNECTING: u8 = 2;
const RECEIVING: u8 = 4;
const LOOKING: u8 = 8;
/// A reply is due: a receive is to be armed.
const DUE: u8 = 16;

impl Entry {
    fn is(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.flags |= flag;
        } else {
            self.flags &= !flag;
        }
    }
}

/// The driver. See the module's head.
pub struct Rings {
    rings: Vec<Ring>,
    table: u32,
    making: Making,
    epoll: OwnedFd,
    alarm: Alarm,
    ready: Vec<epoll::Event>,
    entries: Vec<Entry>,
    addresses: Box<[SockAddr]>,
    sources: Sources,
    outbox: Outbox,
    /// Sends that are waited for, of the few connections that have any.
    unsent: HashMap<Slot, VecDeque<Payload>>,
    /// Buffers whose connection was closed while the kernel read them: they come back with the completion.
    orphans: Vec<(Slot, u16, Payload)>,
    send_errors: HashMap<Slot, i32>,
    is_alone: bool,
    idle: Idle,
    sweep_next: Slot,
    sweep_due_ns: u64,
    taken: Vec<cqueue::Entry>,
    cursor: usize,
    taken_at_ns: u64,
    /// Rings that may have completions, or work that makes some.
    dirty: Vec<bool>,
    queued: usize,
    /// How many are handed over together while events are being worked through.
    chunk: usize,
    /// Why nothing can be handed over any more: the next wait says so.
    broken: Option<io::Error>,
    /// The buffer whose bytes were last handed out: ring, id, length; and whose they are.
    held: Option<(usize, u16, usize, Slot)>,
    immediate: VecDeque<Event>,
    starved: Vec<Slot>,
    /// Where a look puts the byte it sees; never read.
    seen: Box<[u8; 64]>,
    /// Bytes that the kernel has taken since [`Driver::take_sent_bytes`] was last asked.
    sent_bytes: u64,
    origin_ns: u64,
}

impl Rings {
    /// A driver with no socket yet. Must be made on the thread that uses it.
    ///
    /// # Errors
    /// The kernel's; [`super::uring::available`] puts it into words.
    pub fn new(setup: &Setup) -> io::Result<Self> {
        Self::with(setup, files_max(), None)
    }

    /// The same with tables of at most `table` files, for tests.
    ///
    /// # Errors
    /// As [`Rings::new`].
    #[doc(hidden)]
    pub fn with_table(setup: &Setup, table: u32) -> io::Result<Self> {
        Self::with(setup, table, None)
    }

    /// The same without the operations that only a newer kernel has, for tests.
    ///
    /// # Errors
    /// As [`Rings::new`].
    #[doc(hidden)]
    pub fn by_system_calls(setup: &Setup) -> io::Result<Self> {
        Self::with(setup, files_max(), Some(Making::BySystemCalls))
    }

    fn with(setup: &Setup, table: u32, making: Option<Making>) -> io::Result<Self> {
        let table = table.clamp(1, setup.slots.max(1));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let alarm = Alarm::new()?;
        epoll::add(&epoll, alarm.descriptor(), epoll::EventData::new_u64(ALARM), edges)?;
        let mut rings = Vec::new();
        let mut left = setup.slots.max(1);
        while left > 0 {
            let files = left.min(table);
            let ring = Ring::new(files, setup.is_burst)?;
            epoll::add(&epoll, ring.signal(), epoll::EventData::new_u64(rings.len() as u64), edges)?;
            rings.push(ring);
            left -= files;
        }
        let making = making.unwrap_or_else(Making::of_this_kernel);
        Ok(Rings {
            dirty: vec![false; rings.len()],
            ready: Vec::with_capacity(rings.len().clamp(8, 256)),
            chunk: if setup.is_burst { usize::MAX } else { HAND_OVER * rings.len().min(8) },
            broken: None,
            rings,
            table,
            making,
            epoll,
            alarm,
            entries: vec![Entry::default(); setup.slots as usize],
            addresses: setup.addresses.iter().map(kernel_address).collect::<io::Result<_>>()?,
            sources: Sources::of(setup),
            outbox: Outbox::new(setup.blobs.clone()),
            orphans: Vec::new(),
            unsent: HashMap::new(),
            send_errors: HashMap::new(),
            is_alone: setup.pipeline == 1,
            idle: setup.idle,
            sweep_next: 0,
            sweep_due_ns: 0,
            taken: Vec::with_capacity(TAKEN),
            cursor: 0,
            taken_at_ns: 0,
            queued: 0,
            held: None,
            immediate: VecDeque::with_capacity(256),
            starved: Vec::new(),
            seen: Box::new([0; 64]),
            sent_bytes: 0,
            origin_ns: 0,
        })
    }

    fn ring_of(&self, slot: Slot) -> usize {
        (slot / self.table) as usize
    }

    fn file(&self, slot: Slot) -> Fixed {
        Fixed(slot % self.table)
    }

    fn push(&mut self, slot: Slot, entries: &[squeue::Entry]) {
        let ring = self.ring_of(slot);
        // SAFETY: every pointer in an entry made here is to a blob, a buffer of the outbox (released by its send's
        // completion alone), a socket address, the option's value, the buffer of
        // looks or nothing: these never move, and are dropped after the rings (which come first in the driver).
        let is_in = unsafe { self.rings[ring].push(entries) };
        if !is_in && !self.push_later(ring, entries) {
            return;
        }
        self.dirty[ring] = true;
        self.queued += entries.len();
        if self.queued >= self.chunk {
            self.hand_over();
        }
    }

    /// Makes room in a full submission queue.
    #[cold]
    fn push_later(&mut self, ring: usize, entries: &[squeue::Entry]) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            if self.broken.is_some() {
                return false;
            }
            if let Err(error) = self.rings[ring].hand_over() {
                self.broken = Some(error);
            }
            // SAFETY: as in `push`.
            if unsafe { self.rings[ring].push(entries) } {
                return true;
            }
            // It may take no more because its completions have no room (EBUSY).
            self.rings[ring].take(&mut self.taken, usize::MAX);
        }
        self.broken.get_or_insert_with(stuck);
        false
    }

    fn hand_over(&mut self) {
        self.queued = 0;
        for (ring, dirty) in self.rings.iter_mut().zip(&mut self.dirty) {
            // The kernel does a bounded part of the work that was put off (20 items, Linux 6.14) and does not signal what
            // is left: a ring is entered until nothing more comes.
            if ring.is_queued() || *dirty {
                if let Err(error) = ring.hand_over() {
                    // What cannot be handed over now never can; the worker hears of it when it waits.
                    self.broken.get_or_insert(error);
                }
                *dirty = true;
            }
        }
    }

    fn start_receive(&mut self, slot: Slot) {
        let file = self.file(slot);
        let entry = &mut self.entries[slot as usize];
        entry.set(RECEIVING, true);
        let op = opcode::Recv::new(file, std::ptr::null_mut(), 0)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT)
            .user_data(key(Op::Receive, slot, entry.generation));
        self.push(slot, &[op]);
    }

    fn start_send(&mut self, slot: Slot, payload: Payload, quiet: bool) {
        let bytes = self.outbox.bytes(payload);
        let flags = if quiet { squeue::Flags::SKIP_SUCCESS } else { squeue::Flags::empty() };
        let op = opcode::Send::new(self.file(slot), bytes.as_ptr(), bytes.len().min(SENT_BYTES_MAX) as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(flags)
            .user_data(key(Op::Send, slot, self.entries[slot as usize].generation));
        self.push(slot, &[op]);
    }

    /// Looks at the next connections that rest, when it is time to: a receive that neither waits nor takes anything.
    fn sweep(&mut self, now_ns: u64) {
        let Idle::Swept(every_ns) = self.idle else { return };
        let slots = self.entries.len() as u32;
        if self.sweep_due_ns <= now_ns {
            let step_ns = every_ns.saturating_mul(u64::from(SWEEP_STEP.min(slots))) / u64::from(slots.max(1));
            // Behind by more than a round: what was missed is not made up for.
            self.sweep_due_ns = (self.sweep_due_ns + step_ns.max(1)).max(now_ns.saturating_sub(every_ns));
            for _ in 0..SWEEP_STEP.min(slots) {
                let slot = self.sweep_next;
                self.sweep_next = if slot + 1 >= slots { 0 } else { slot + 1 };
                let entry = self.entries[slot as usize];
                if entry.is(OPEN) && !entry.is(RECEIVING) && !entry.is(LOOKING) {
                    self.entries[slot as usize].set(LOOKING, true);
                    let op = opcode::Recv::new(self.file(slot), self.seen.as_mut_ptr(), 1)
                        .flags(libc::MSG_DONTWAIT | libc::MSG_PEEK)
                        .build()
                        .user_data(key(Op::Look, slot, entry.generation));
                    self.push(slot, &[op]);
                }
            }
        }
    }

    fn take(&mut self) {
        self.taken.clear();
        self.cursor = 0;
        for (ring, dirty) in self.rings.iter_mut().zip(&mut self.dirty) {
            if *dirty && self.taken.len() < TAKEN {
                let before = self.taken.len();
                ring.take(&mut self.taken, TAKEN - before);
                *dirty = self.taken.len() > before;
            }
        }
        self.taken_at_ns = monotonic_ns().saturating_sub(self.origin_ns);
    }

    fn reply_is_due(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        entry.set(DUE, true);
        if !entry.is(RECEIVING) && self.held.is_none_or(|(.., held)| held != slot) {
            self.start_receive(slot);
        }
    }

    fn release_held(&mut self) {
        if let Some((ring, id, _, slot)) = self.held.take() {
            self.rings[ring].buffers.recycle(id);
            let entry = self.entries[slot as usize];
            let wanted = entry.is(DUE) || self.idle == Idle::Watched;
            if entry.is(OPEN) && wanted && !entry.is(RECEIVING) {
                self.start_receive(slot);
            }
        }
    }
}

/// Files a table may have: the kernel holds tables to the descriptor limit (io_uring_register(2)).
pub fn files_max() -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(TABLE_MAX);
    limit.clamp(1, TABLE_MAX) as u32
}

impl Driver for Rings {
    const NAME: &'static str = "rings";
    const STAMPS_EACH_READ: bool = false;

    fn begin(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    fn now_ns(&mut self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    fn connect(&mut self, slot: Slot, address: usize) {
        let entry = &mut self.entries[slot as usize];
        *entry = Entry { generation: entry.generation.wrapping_add(1), flags: CONNECTING };
        if let Err(e) = self.start_connect(slot, address) {
            self.entries[slot as usize].flags = 0;
            self.immediate.push_back(Event::ConnectFailed { slot, errno: super::socket::errno(&e) });
        }
    }

    fn send(&mut self, slot: Slot, payload: Payload) {
        if self.is_alone && payload.length <= SMALL_SEND_BYTES {
            self.sent_bytes += u64::from(payload.length);
            self.start_send(slot, payload, true);
        } else {
            let queue = self.unsent.entry(slot).or_default();
            queue.push_back(payload);
            if queue.len() == 1 {
                self.start_send(slot, payload, false);
            }
        }
        self.reply_is_due(slot);
    }

    fn lend(&mut self) -> Vec<u8> {
        self.outbox.lend()
    }

    fn send_bytes(&mut self, slot: Slot, bytes: Vec<u8>) {
        if !self.entries[slot as usize].is(OPEN) {
            return self.outbox.take_back(bytes);
        }
        // Never quiet: the buffer may be used again only when the kernel has said that it has read it.
        let payload = self.outbox.keep(bytes, 0);
        let queue = self.unsent.entry(slot).or_default();
        queue.push_back(payload);
        if queue.len() == 1 {
            self.start_send(slot, payload, false);
        }
        self.reply_is_due(slot);
    }

    fn unsent_bytes(&self, slot: Slot) -> u64 {
        self.unsent.get(&slot).map_or(0, |queue| queue.iter().map(|payload| u64::from(payload.length)).sum())
    }

    fn take_sent_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sent_bytes)
    }

    fn rest(&mut self, slot: Slot) {
        self.entries[slot as usize].set(DUE, false);
    }

    fn close(&mut self, slot: Slot) {
        let entry = self.entries[slot as usize];
        if !entry.is(OPEN | CONNECTING) {
            return;
        }
        let generation = entry.generation;
        let cancel = |op| {
            opcode::AsyncCancel::new(key(op, slot, generation))
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(key(Op::Ignore, slot, generation))
        };
        let mut unsent = self.unsent.remove(&slot).unwrap_or_default().into_iter();
        let first = unsent.next();
        let is_sending = first.is_some();
        // The first is with the kernel, which may go on reading it until the cancelled send has completed.
        if let Some(first) = first.filter(|payload| Outbox::is_owned(*payload)) {
            self.orphans.push((slot, generation, first));
        }
        unsent.for_each(|payload| self.outbox.release(payload));
        for (op, pending) in
            [(Op::Connect, entry.is(CONNECTING)), (Op::Receive, entry.is(RECEIVING)), (Op::Send, is_sending)]
        {
            if pending {
                self.push(slot, &[cancel(op)]);
            }
        }
        let close = opcode::Close::new(self.file(slot)).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(key(
            Op::Ignore,
            slot,
            generation,
        ));
        self.push(slot, &[close]);
        self.entries[slot as usize] = Entry { generation: generation.wrapping_add(1), flags: 0 };
        self.send_errors.remove(&slot);
        self.starved.retain(|s| *s != slot);
        self.immediate.retain(|event| event.slot() != slot);
    }

    fn wait(&mut self, until_ns: u64, wake: Wake) -> io::Result<()> {
        self.release_held();
        if !self.immediate.is_empty() || self.cursor < self.taken.len() {
            return Ok(());
        }
        while let Some(slot) = self.starved.pop() {
            self.start_receive(slot);
        }
        let now_ns = self.now_ns();
        self.sweep(now_ns);
        self.hand_over();
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if self.cursor < self.taken.len() {
            // Taken to make room.
            return Ok(());
        }
        self.take();
        if !self.taken.is_empty() {
            return Ok(());
        }
        let sweep_ns = if matches!(self.idle, Idle::Swept(_)) { self.sweep_due_ns } else { u64::MAX };
        let (now_ns, until_ns) = (self.now_ns(), until_ns.min(sweep_ns));
        let timeout = if wake == Wake::Never {
            super::clock::sleep_ns(until_ns.saturating_sub(now_ns));
            Some(timespec(0))
        } else {
            self.alarm.set(until_ns, now_ns, self.origin_ns)?
        };
        self.ready.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        for event in &self.ready {
            if event.data.u64() == ALARM {
                self.alarm.fired();
                continue;
            }
            let ring = event.data.u64() as usize;
            self.rings[ring].hand_over()?;
            self.dirty[ring] = true;
        }
        self.take();
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        self.release_held();
        if let Some(event) = self.immediate.pop_front() {
            return Some(event);
        }
        while self.cursor < self.taken.len() {
            let completion = self.taken[self.cursor].clone();
            self.cursor += 1;
            if let Some(event) = self.on_completion(&completion) {
                return Some(event);
            }
        }
        None
    }

    fn bytes(&self) -> &[u8] {
        self.held.map_or(&[], |(ring, id, length, _)| self.rings[ring].buffers.bytes(id, length))
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self.held {
            Some((ring, id, length, _)) => self.rings[ring].buffers.bytes_mut(id, length),
            None => &mut [],
        }
    }
}

fn key(op: Op, slot: Slot, generation: u16) -> u64 {
    (op as u64) << 56 | u64::from(generation) << 32 | u64::from(slot)
}

fn parts(key: u64) -> (u8, Slot, u16) {
    ((key >> 56) as u8, key as u32, (key >> 32) as u16)
}
