//! Sockets driven by io_uring: one system call a batch hands over all sends, sleeps, and brings all completions.
//!
//! Single issuer with deferred task work, so completions are made only when this thread asks; a multishot receive
//! into shared buffers on each connection; the next send of a connection is handed over only when the last one is
//! done, so bytes never overtake each other. Sends that are small and alone post no completion, and name their socket by
//! its place in the ring's table: a fortieth of a request's cost is to look it up by its descriptor. Larger ones do not, for
//! one that waits for room would keep sockets of the table from being closed (before Linux 6.13). Of a large one
//! [`super::SENT_BYTES_MAX`] go at a time, so that no connection has the kernel to itself.
//!
//! Received bytes are stamped when a batch of completions is taken, once for all of it. What goes to the kernel is in
//! `handing`, what comes back in `completions`.

pub(super) mod buffers;
mod completions;
mod handing;
#[cfg(test)]
mod tests;

pub use buffers::available;
pub(super) use handing::{ATTEMPTS_MAX, is_passing, refused, stuck};

use super::clock::monotonic_ns;
use super::outbox::Outbox;
use super::socket::{Sources, errno, kernel_address, local};
use super::stamps::{CONTROL_BYTES, WallClock};
use super::{Driver, Event, Setup, Slot, Wake, ahead};
use buffers::Buffers;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::{SockAddr, Socket};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use wire::Payload;

/// Sends handed over together while events are being worked through: small enough that none waits long. Where replies
/// are reaped in batches, sends may wait as well: for twice a batch, so that mostly all of a turn go with its wait.
const SUBMIT_CHUNK: usize = 16;
/// A send of at most so many bytes fits any socket buffer that is empty.
const SMALL_SEND_BYTES: u32 = 4096;
/// [`Entry::quiet_sends`] of a connection whose socket is in the ring's table of files. One that sends less often in its
/// life is not worth the two calls.
const IN_TABLE: u8 = 8;
/// Of bytes that will be looked at next, so many are fetched into the cache: a head.
const FETCHED_BYTES: usize = 256;
/// Completions taken from the ring at once.
const TAKEN: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Connect = 1,
    Receive = 2,
    Send = 3,
    Ignore = 4,
    Timer = 5,
    /// A send of which only a failure is told.
    QuietSend = 6,
}

/// What each request needs to know of a connection; the rest is in [`Rest`].
#[derive(Default)]
struct Entry {
    socket: Option<Socket>,
    generation: u32,
    connecting: bool,
    receiving: bool,
    sending: Sending,
    /// Quiet sends in this life, up to the one before [`IN_TABLE`]; or that.
    quiet_sends: u8,
}

/// How the send that is with the kernel will complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sending {
    /// There is none whose completion is told.
    #[default]
    Nothing,
    /// While it is handed over, whole or not: it does not wait for room.
    AtOnce,
    /// When the kernel has taken all of it.
    InTime,
}

/// What is needed where sends are waited for.
#[derive(Default)]
struct Rest {
    /// The first is with the kernel, the others wait for it.
    unsent: VecDeque<Payload>,
    /// A send failed; reported when the receive ends, so that a last reply is not lost.
    send_errno: i32,
}

/// A buffer whose connection was closed while the kernel read it: it comes back with the completion.
struct Orphan {
    slot: Slot,
    generation: u32,
    payload: Payload,
    sending: Sending,
}

/// The io_uring driver. See the module's head.
pub struct Uring {
    // First, so that it is dropped first: nothing below is used by the kernel once the ring is closed.
    ring: IoUring,
    buffers: Buffers,
    entries: Vec<Entry>,
    rests: Vec<Rest>,
    addresses: Box<[SockAddr]>,
    sources: Sources,
    outbox: Outbox,
    orphans: Vec<Orphan>,
    /// Sends whose completions are there as soon as they are handed over: waits are not to be ended by them.
    at_once: usize,
    taken: Vec<cqueue::Entry>,
    cursor: usize,
    taken_at_ns: u64,
    queued: usize,
    /// How many are handed over together while events are being worked through.
    chunk: usize,
    /// The buffer whose bytes were last handed out: its id, where they begin, how many.
    held: Option<(u16, usize, usize)>,
    /// For receive stamps, where they are used: the shape of what the kernel writes into a buffer.
    stamping: Option<(WallClock, Box<libc::msghdr>)>,
    immediate: VecDeque<Event>,
    /// Connections whose receive ended for want of buffers.
    starved: Vec<Slot>,
    alone: bool,
    /// Whether sockets can be put into the ring's table of files, by their slot.
    has_table: bool,
    has_min_wait: bool,
    /// When the earliest timer with the kernel will fire; `u64::MAX`: there is none.
    timer_ns: u64,
    /// The timers' moment: the kernel reads it when the entry is submitted.
    timer: Box<types::Timespec>,
    /// Bytes that the kernel has taken since [`Driver::take_sent_bytes`] was last asked.
    sent_bytes: u64,
    origin_ns: u64,
    /// Calls in a row that the kernel refused for want of memory or of room for completions.
    refused: u32,
    /// Why nothing can be handed over any more: the next wait says so.
    broken: Option<io::Error>,
}

pub(super) fn build(submissions: u32, completions: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions)
        .build(submissions)
}

impl Uring {
    /// A driver with no socket yet. Must be made on the thread that uses it.
    ///
    /// # Errors
    /// The kernel's; [`available`] puts it into words.
    pub fn new(setup: &Setup) -> io::Result<Self> {
        let completions = (setup.slots.saturating_mul(4)).next_power_of_two().clamp(512, 65_536);
        // A burst goes to the kernel in one call, if it fits into a queue of the largest size (io_uring_setup(2)).
        let submissions = if setup.is_burst { setup.slots.next_power_of_two().clamp(512, 32_768) } else { 512 };
        let ring = build(submissions, completions.max(submissions))?;
        // Saves the look-up of the ring's descriptor in each call; where it is refused, nothing is lost.
        let _ = ring.submitter().register_ring_fd();
        let buffers = Buffers::register(&ring, setup.slots)?;
        let alone = setup.pipeline == 1;
        Ok(Uring {
            // It may be refused for want of descriptors (`ulimit -n`).
            has_table: alone && !setup.is_burst && ring.submitter().register_files_sparse(setup.slots).is_ok(),
            has_min_wait: ring.params().is_feature_min_timeout(),
            ring,
            buffers,
            entries: (0..setup.slots).map(|_| Entry::default()).collect(),
            rests: (0..setup.slots).map(|_| Rest::default()).collect(),
            addresses: setup.addresses.iter().map(kernel_address).collect::<io::Result<_>>()?,
            sources: Sources::of(setup),
            outbox: Outbox::new(setup.blobs.clone()),
            orphans: Vec::new(),
            at_once: 0,
            taken: Vec::with_capacity(TAKEN),
            cursor: 0,
            taken_at_ns: 0,
            queued: 0,
            chunk: if setup.is_burst { usize::MAX } else { SUBMIT_CHUNK },
            held: None,
            stamping: setup.receive_stamps.then(|| (WallClock::default(), Box::new(stamped_header()))),
            immediate: VecDeque::with_capacity(setup.slots as usize),
            starved: Vec::with_capacity(setup.slots as usize),
            alone,
            timer_ns: u64::MAX,
            timer: Box::new(types::Timespec::new()),
            sent_bytes: 0,
            origin_ns: 0,
            refused: 0,
            broken: None,
        })
    }

    /// Fetches what the next completion needs: its slot, and the head of what was received.
    #[inline]
    fn fetch_upcoming(&self) {
        let Some(next) = self.taken.get(self.cursor) else { return };
        if let Some(entry) = self.entries.get(parts(next.user_data()).1 as usize) {
            ahead::fetch(entry);
        }
        if let Some(id) = cqueue::buffer_select(next.flags())
            && next.result() > 0
        {
            ahead::fetch(self.buffers.bytes(id, (next.result() as usize).min(FETCHED_BYTES)));
        }
    }

    fn release_held(&mut self) {
        if let Some((id, ..)) = self.held.take() {
            self.buffers.recycle(id);
        }
    }
}

impl Driver for Uring {
    const NAME: &'static str = "uring";
    const STAMPS_EACH_READ: bool = false;

    fn begin(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    #[inline]
    fn now_ns(&mut self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    fn connect(&mut self, slot: Slot, address: usize) {
        if let Err(e) = self.start_connect(slot, address) {
            self.entries[slot as usize].socket = None;
            self.immediate.push_back(Event::ConnectFailed { slot, errno: errno(&e) });
        }
    }

    #[inline]
    fn send(&mut self, slot: Slot, payload: Payload) {
        if self.alone && payload.length <= SMALL_SEND_BYTES {
            // Nobody waits for it: the reply says that it left.
            self.count_quiet_send(slot);
            self.sent_bytes += u64::from(payload.length);
            self.start_send(slot, payload, Sending::Nothing);
        } else {
            self.queue_send(slot, payload);
        }
        if self.queued >= self.chunk {
            self.submit();
        }
    }

    fn lend(&mut self) -> Vec<u8> {
        self.outbox.lend()
    }

    fn send_bytes(&mut self, slot: Slot, bytes: Vec<u8>) {
        if self.entries[slot as usize].socket.is_none() {
            return self.outbox.take_back(bytes);
        }
        // Never quiet: the buffer may be used again only when the kernel has said that it has read it.
        let payload = self.outbox.keep(bytes, 0);
        self.queue_send(slot, payload);
        if self.queued >= self.chunk {
            self.submit();
        }
    }

    #[inline]
    fn unsent_bytes(&self, slot: Slot) -> u64 {
        match self.entries[slot as usize].sending {
            Sending::Nothing => 0,
            Sending::AtOnce | Sending::InTime => {
                self.rests[slot as usize].unsent.iter().map(|payload| u64::from(payload.length)).sum()
            }
        }
    }

    fn take_sent_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sent_bytes)
    }

    fn local(&self, slot: Slot) -> Option<SocketAddr> {
        self.entries[slot as usize].socket.as_ref().and_then(local)
    }

    fn close(&mut self, slot: Slot) {
        let (entry, rest) = (&mut self.entries[slot as usize], &mut self.rests[slot as usize]);
        let Some(socket) = entry.socket.take() else { return };
        let (connecting, receiving, sending) = (entry.connecting, entry.receiving, entry.sending);
        let generation = entry.generation;
        entry.generation = generation.wrapping_add(1) & GENERATION_MASK;
        entry.connecting = false;
        entry.receiving = false;
        entry.sending = Sending::Nothing;
        let was_in_table = std::mem::take(&mut entry.quiet_sends) == IN_TABLE;
        let mut unsent = rest.unsent.drain(..);
        // The first is with the kernel, which may go on reading it until the cancelled send has completed.
        if let Some(payload) = unsent.next() {
            self.orphans.push(Orphan { slot, generation, payload, sending });
        }
        unsent.for_each(|payload| self.outbox.release(payload));
        rest.send_errno = 0;
        // Operations hold the socket open past its descriptor: they are cancelled, or the peer would see no close.
        for (op, pending) in
            [(Op::Connect, connecting), (Op::Receive, receiving), (Op::Send, sending == Sending::InTime)]
        {
            if pending {
                let cancel = opcode::AsyncCancel::new(key(op, slot, generation))
                    .build()
                    .flags(squeue::Flags::SKIP_SUCCESS)
                    .user_data(key(Op::Ignore, slot, generation));
                self.push(&cancel);
            }
        }
        // Requests still in the submission queue name the descriptor by number: they go before the number is reused.
        self.submit();
        if was_in_table {
            self.take_out_of_table(slot);
        }
        drop(socket);
        self.starved.retain(|s| *s != slot);
        self.immediate.retain(|event| event.slot() != slot);
    }

    fn wait(&mut self, until_ns: u64, wake: Wake) -> io::Result<()> {
        self.release_held();
        if !self.immediate.is_empty() || self.cursor < self.taken.len() {
            return Ok(());
        }
        if !self.starved.is_empty() {
            self.buffers.grow();
            while let Some(slot) = self.starved.pop() {
                self.start_receive(slot);
            }
        }
        let completions = match wake {
            Wake::First => return self.wait_for_one(until_ns),
            Wake::Batch { completions, .. } => {
                self.chunk = self.chunk.max(2 * completions as usize);
                completions as usize
            }
            Wake::Never => usize::try_from(self.ring.params().cq_entries()).unwrap_or(1),
        };
        let left_ns = until_ns.saturating_sub(self.now_ns());
        match wake {
            Wake::Batch { delay_ns, .. } if self.has_min_wait => {
                self.wait_for(completions, left_ns, (delay_ns.min(left_ns) / 1000) as u32)
            }
            Wake::Batch { delay_ns, .. } => self.wait_for(completions, left_ns.min(delay_ns), 0),
            Wake::First | Wake::Never => self.wait_for(completions, left_ns, 0),
        }
    }

    fn next(&mut self) -> Option<Event> {
        self.release_held();
        if let Some(event) = self.immediate.pop_front() {
            return Some(event);
        }
        while self.cursor < self.taken.len() {
            let completion = self.taken[self.cursor].clone();
            self.cursor += 1;
            self.fetch_upcoming();
            if let Some(event) = self.on_completion(&completion) {
                return Some(event);
            }
        }
        None
    }

    #[inline]
    fn upcoming(&self) -> Option<Slot> {
        self.taken.get(self.cursor).map(|completion| parts(completion.user_data()).1)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.held.map_or(&[], |(id, start, length)| &self.buffers.bytes(id, start + length)[start..])
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self.held {
            Some((id, start, length)) => &mut self.buffers.bytes_mut(id, start + length)[start..],
            None => &mut [],
        }
    }
}

/// The shape of a stamped receive: no address, a control message, then the bytes.
fn stamped_header() -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_controllen = CONTROL_BYTES;
    header
}

const GENERATION_MASK: u32 = 0x00ff_ffff;

fn key(op: Op, slot: Slot, generation: u32) -> u64 {
    (op as u64) << 56 | u64::from(generation) << 32 | u64::from(slot)
}

fn parts(key: u64) -> (u8, Slot, u32) {
    ((key >> 56) as u8, key as u32, (key >> 32) as u32 & GENERATION_MASK)
}
