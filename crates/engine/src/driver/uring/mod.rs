//! Sockets driven by io_uring: one system call a batch hands over all sends, sleeps, and brings all completions.
//!
//! Single issuer with deferred task work, so completions are made only when this thread asks; a multishot receive
//! into shared buffers on each connection; the next send of a connection is handed over only when the last one is
//! done, so bytes never overtake each other. Sends that are small and alone post no completion.
//!
//! Received bytes are stamped when a batch of completions is taken, once for all of it.

pub(super) mod buffers;

pub use buffers::available;

use super::epoll::monotonic_ns;
use super::outbox::Outbox;
use super::socket::{Sources, bind_to, errno, kernel_address, stream};
use super::stamps::{CONTROL_BYTES, WallClock, stamp_of};
use super::{Driver, Event, Setup, Slot, Wake, stamps};
use buffers::{Buffers, GROUP, fd};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::{SockAddr, Socket};
use std::collections::VecDeque;
use std::io;
use wire::Payload;

/// Sends handed over together while events are being worked through: small enough that none waits long.
const SUBMIT_CHUNK: usize = 8;
/// A send of at most so many bytes fits any socket buffer and is not waited for.
const SMALL_SEND_BYTES: u32 = 4096;
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
}

#[derive(Default)]
struct Entry {
    socket: Option<Socket>,
    generation: u32,
    connecting: bool,
    receiving: bool,
    /// The first is with the kernel, the others wait for it.
    unsent: VecDeque<Payload>,
    /// Completed bytes of the first.
    send_errno: i32,
}

/// The io_uring driver. See the module's head.
pub struct Uring {
    // First, so that it is dropped first: nothing below is used by the kernel once the ring is closed.
    ring: IoUring,
    buffers: Buffers,
    entries: Vec<Entry>,
    addresses: Box<[SockAddr]>,
    sources: Sources,
    outbox: Outbox,
    /// Buffers whose connection was closed while the kernel read them: they come back with the completion.
    orphans: Vec<(Slot, u32, Payload)>,
    /// Small owned sends that will complete as soon as they are handed over: waits are not to be ended by them.
    small_sends: usize,
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
    has_min_wait: bool,
    /// When the earliest timer with the kernel will fire; `u64::MAX`: there is none.
    timer_ns: u64,
    /// The timers' moment: the kernel reads it when the entry is submitted.
    timer: Box<types::Timespec>,
    origin_ns: u64,
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
        Ok(Uring {
            has_min_wait: ring.params().is_feature_min_timeout(),
            ring,
            buffers,
            entries: (0..setup.slots).map(|_| Entry::default()).collect(),
            addresses: setup.addresses.iter().map(kernel_address).collect::<io::Result<_>>()?,
            sources: Sources::of(setup),
            outbox: Outbox::new(setup.blobs.clone()),
            orphans: Vec::new(),
            small_sends: 0,
            taken: Vec::with_capacity(TAKEN),
            cursor: 0,
            taken_at_ns: 0,
            queued: 0,
            chunk: if setup.is_burst { usize::MAX } else { SUBMIT_CHUNK },
            held: None,
            stamping: setup.receive_stamps.then(|| (WallClock::default(), Box::new(stamped_header()))),
            immediate: VecDeque::with_capacity(setup.slots as usize),
            starved: Vec::with_capacity(setup.slots as usize),
            alone: setup.pipeline == 1,
            timer_ns: u64::MAX,
            timer: Box::new(types::Timespec::new()),
            origin_ns: 0,
        })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: every pointer in an entry made here is to a blob, a buffer of the outbox, a socket address, the boxed
            // message header or nothing: these never move, are not changed or freed before the entry has completed (a
            // buffer is released by its send's completion alone), and outlive the ring (it is the first field). Descriptors are
            // checked by the kernel.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.queued += 1;
                return;
            }
            self.submit();
        }
    }

    fn submit(&mut self) {
        self.queued = 0;
        // EBUSY or EAGAIN: the completion queue is full; entries stay queued and go with the next wait.
        let _ = self.ring.submit();
    }

    fn start_connect(&mut self, slot: Slot, address: usize) -> io::Result<()> {
        let socket = stream(&self.addresses[address], false)?;
        if self.stamping.is_some() {
            stamps::enable(&socket)?;
        }
        if let Some(source) = self.sources.of_slot(slot, &self.addresses[address]) {
            bind_to(&socket, source)?;
        }
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1) & GENERATION_MASK;
        entry.connecting = true;
        let address = &self.addresses[address];
        let op = opcode::Connect::new(fd(&socket), address.as_ptr().cast(), address.len()).build().user_data(key(
            Op::Connect,
            slot,
            entry.generation,
        ));
        entry.socket = Some(socket);
        self.push(&op);
        Ok(())
    }

    fn start_receive(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        entry.receiving = true;
        let op = match &self.stamping {
            None => opcode::RecvMulti::new(fd(socket), GROUP).build(),
            Some((_, header)) => opcode::RecvMsgMulti::new(fd(socket), &raw const **header, GROUP).build(),
        };
        let op = op.user_data(key(Op::Receive, slot, entry.generation));
        self.push(&op);
    }

    fn start_send(&mut self, slot: Slot, payload: Payload, quiet: bool) {
        let entry = &self.entries[slot as usize];
        let Some(socket) = &entry.socket else { return };
        let bytes = self.outbox.bytes(payload);
        let flags = if quiet { squeue::Flags::SKIP_SUCCESS } else { squeue::Flags::empty() };
        let op = opcode::Send::new(fd(socket), bytes.as_ptr(), payload.length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(flags)
            .user_data(key(Op::Send, slot, entry.generation));
        self.small_sends += usize::from(is_small_owned(payload));
        self.push(&op);
    }

    /// Waits for one completion. The end of the wait is a timer that stays with the kernel over many waits: a timeout
    /// given to each would be started and cancelled for each reply.
    fn wait_for_one(&mut self, until_ns: u64) -> io::Result<()> {
        if until_ns < self.timer_ns {
            let at_ns = self.origin_ns + until_ns;
            *self.timer = types::Timespec::new().sec(at_ns / 1_000_000_000).nsec((at_ns % 1_000_000_000) as u32);
            let op = opcode::Timeout::new(&raw const *self.timer)
                .flags(types::TimeoutFlags::ABS)
                .build()
                .user_data(key(Op::Timer, 0, 0));
            // The moment is read at submission, so an entry that is not submitted yet must not see it change.
            self.push(&op);
            self.submit();
            self.timer_ns = until_ns;
        }
        self.queued = 0;
        let outcome = self.ring.submit_and_wait(1 + self.small_sends);
        self.take_after(outcome)
    }

    fn take_after(&mut self, waited: io::Result<usize>) -> io::Result<()> {
        match waited {
            Ok(_) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            Err(e) => return Err(e),
        }
        self.take();
        Ok(())
    }

    fn take(&mut self) {
        self.taken.clear();
        self.cursor = 0;
        let mut queue = self.ring.completion();
        while self.taken.len() < TAKEN
            && let Some(entry) = queue.next()
        {
            self.taken.push(entry);
        }
        drop(queue);
        self.taken_at_ns = monotonic_ns().saturating_sub(self.origin_ns);
    }

    fn on_completion(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let (op, slot, generation) = parts(completion.user_data());
        if op == Op::Timer as u8 {
            // One that is later than the earliest may still be on its way: it ends a wait early, which does no harm.
            self.timer_ns = u64::MAX;
            return None;
        }
        let (result, flags) = (completion.result(), completion.flags());
        let buffer = cqueue::buffer_select(flags);
        let entry = self.entries.get_mut(slot as usize)?;
        if op == Op::Send as u8 && entry.generation != generation {
            self.release_orphan(slot, generation);
            return None;
        }
        if op == Op::Ignore as u8 || entry.generation != generation || entry.socket.is_none() {
            if let Some(id) = buffer {
                self.buffers.recycle(id);
            }
            return None;
        }
        match op {
            op if op == Op::Connect as u8 => {
                entry.connecting = false;
                if result < 0 {
                    self.close(slot);
                    return Some(Event::ConnectFailed { slot, errno: -result });
                }
                self.start_receive(slot);
                Some(Event::Connected { slot })
            }
            op if op == Op::Send as u8 => self.on_sent(slot, result),
            _ => {
                let more = cqueue::more(flags);
                entry.receiving = more;
                if result > 0
                    && let Some(id) = buffer
                {
                    let (start, length, stamp_ns) = self.unpack(id, result as usize);
                    if length > 0 {
                        self.held = Some((id, start, length));
                        if !more {
                            self.start_receive(slot);
                        }
                        return Some(Event::Received { slot, at_ns: self.arrival_ns(stamp_ns) });
                    }
                    // With a header before the bytes, the end of the stream is a header alone.
                    self.buffers.recycle(id);
                    return Some(self.ended(slot));
                }
                if let Some(id) = buffer {
                    self.buffers.recycle(id);
                }
                match -result {
                    0 => Some(self.ended(slot)),
                    // All buffers hold bytes that are still to be looked at: go on when they are back.
                    libc::ENOBUFS => {
                        self.starved.push(slot);
                        None
                    }
                    errno => Some(Event::Failed { slot, errno }),
                }
            }
        }
    }

    /// The peer will send no more.
    fn ended(&self, slot: Slot) -> Event {
        match self.entries[slot as usize].send_errno {
            0 => Event::Closed { slot },
            errno => Event::Failed { slot, errno },
        }
    }

    /// Where the bytes are in a buffer of which the kernel filled `filled`, how many, and their stamp.
    fn unpack(&self, id: u16, filled: usize) -> (usize, usize, Option<u64>) {
        let Some((_, header)) = &self.stamping else { return (0, filled, None) };
        let buffer = self.buffers.bytes(id, filled);
        match types::RecvMsgOut::parse(buffer, header) {
            Ok(message) => {
                let length = message.payload_data().len();
                (buffer.len() - length, length, stamp_of(message.control_data()))
            }
            Err(()) => (0, 0, None),
        }
    }

    /// When bytes came, since the run's start: by the stamp where there is one, else when they were taken.
    fn arrival_ns(&mut self, stamp_ns: Option<u64>) -> u64 {
        let taken_ns = self.taken_at_ns + self.origin_ns;
        let moved_ns = match (&mut self.stamping, stamp_ns) {
            (Some((clock, _)), Some(stamp_ns)) => clock.monotonic_ns(stamp_ns, taken_ns),
            _ => None,
        };
        moved_ns.map_or(self.taken_at_ns, |ns| ns.saturating_sub(self.origin_ns))
    }

    fn on_sent(&mut self, slot: Slot, result: i32) -> Option<Event> {
        let entry = &mut self.entries[slot as usize];
        if let Some(first) = entry.unsent.front() {
            self.small_sends -= usize::from(is_small_owned(*first));
        }
        if result < 0 {
            // What the peer said before it closed may still be on its way: the receive reports the end.
            entry.send_errno = -result;
            entry.unsent.drain(..).for_each(|payload| self.outbox.release(payload));
            return (!entry.receiving).then_some(Event::Failed { slot, errno: -result });
        }
        let mut drained = false;
        let first = entry.unsent.front_mut()?;
        let sent = result as u32;
        if sent < first.length {
            first.start += sent;
            first.length -= sent;
        } else if let Some(done) = entry.unsent.pop_front() {
            drained = Outbox::is_owned(done);
            self.outbox.release(done);
        }
        if let Some(next) = entry.unsent.front().copied() {
            self.start_send(slot, next, false);
            return None;
        }
        drained.then_some(Event::Drained { slot })
    }

    /// A send of a connection's earlier life has completed: its buffer, if it had one, is free.
    fn release_orphan(&mut self, slot: Slot, generation: u32) {
        if let Some(at) = self.orphans.iter().position(|(s, g, _)| (*s, *g) == (slot, generation)) {
            let (.., payload) = self.orphans.swap_remove(at);
            self.small_sends -= usize::from(is_small_owned(payload));
            self.outbox.release(payload);
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
            self.start_send(slot, payload, true);
        } else {
            let unsent = &mut self.entries[slot as usize].unsent;
            unsent.push_back(payload);
            if unsent.len() == 1 {
                self.start_send(slot, payload, false);
            }
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
        let unsent = &mut self.entries[slot as usize].unsent;
        unsent.push_back(payload);
        if unsent.len() == 1 {
            self.start_send(slot, payload, false);
        }
        if self.queued >= SUBMIT_CHUNK {
            self.submit();
        }
    }

    fn unsent(&self, slot: Slot) -> usize {
        // The first is with the kernel, which may have taken all of it.
        self.entries[slot as usize].unsent.len().saturating_sub(1)
    }

    fn close(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let Some(socket) = entry.socket.take() else { return };
        let (connecting, receiving, sending) = (entry.connecting, entry.receiving, !entry.unsent.is_empty());
        let generation = entry.generation;
        entry.generation = generation.wrapping_add(1) & GENERATION_MASK;
        entry.connecting = false;
        entry.receiving = false;
        let mut unsent = entry.unsent.drain(..);
        // The first is with the kernel, which may go on reading it until the cancelled send has completed.
        if let Some(first) = unsent.next().filter(|payload| Outbox::is_owned(*payload)) {
            self.orphans.push((slot, generation, first));
        }
        unsent.for_each(|payload| self.outbox.release(payload));
        entry.send_errno = 0;
        // Operations hold the socket open past its descriptor: they are cancelled, or the peer would see no close.
        for (op, pending) in [(Op::Connect, connecting), (Op::Receive, receiving), (Op::Send, sending)] {
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
        drop(socket);
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
        if wake == Wake::First {
            return self.wait_for_one(until_ns);
        }
        self.queued = 0;
        let sends = self.small_sends;
        let left_ns = until_ns.saturating_sub(self.now_ns());
        let (want, left_ns, min_wait_us) = match wake {
            Wake::First | Wake::Never => (usize::try_from(self.ring.params().cq_entries()).unwrap_or(1), left_ns, 0),
            Wake::Batch { completions, delay_ns } if self.has_min_wait => {
                (completions as usize + sends, left_ns, (delay_ns.min(left_ns) / 1000) as u32)
            }
            Wake::Batch { completions, delay_ns } => (completions as usize + sends, left_ns.min(delay_ns), 0),
        };
        let timeout = types::Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        let mut args = types::SubmitArgs::new().timespec(&timeout);
        if min_wait_us > 0 {
            args = args.min_wait_usec(min_wait_us);
        }
        let outcome = self.ring.submitter().submit_with_args(want, &args);
        self.take_after(outcome)
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

/// Whether a send completes as soon as it is handed over, and says so: it is one of ours and fits any socket buffer.
fn is_small_owned(payload: Payload) -> bool {
    Outbox::is_owned(payload) && payload.length <= SMALL_SEND_BYTES
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
