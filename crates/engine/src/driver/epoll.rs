//! Sockets driven by epoll, edge-triggered: one `epoll_pwait2` a batch, one `recv` and one `send` a request.
//!
//! Each `recv` is stamped when it returns, so `done` is late only by the events handled before it in the batch.
//! Edge triggering with EPOLLRDHUP saves the second `recv` that would only say EAGAIN: a short read means that the
//! socket is drained, and a close is announced apart. Needs no privilege and works where io_uring is forbidden.
//!
//! In one turn (from one [`Driver::wait`] to the next) a connection is read once and sent [`SENT_BYTES_MAX`] at the most.
//! One that has more comes again in the next turn, which does not sleep: so a long body holds up neither the other
//! connections nor what is due by the clock.
//!
//! Room to send is an edge of its own. TCP signals it only to a sender that was refused room; a unix socket signals it
//! each time its peer reads, which would wake once more for each reply, so there it is asked for only while it is wanted.

use super::alarm::{Alarm, timespec};
use super::clock::{monotonic_ns, sleep_ns};
use super::outbox::Outbox;
use super::socket::{Sources, bind_to, errno, kernel_address, local, stream};
use super::stamps::{CONTROL_BYTES, Control, WallClock};
use super::{Driver, Event, SENT_BYTES_MAX, Setup, Slot, Wake, ahead, stamps};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, SockAddr, Socket};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use wire::Payload;

/// The timer's key; no slot has it.
const TIMER: u64 = u64::MAX;
/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// The receive buffer, shared by all connections of the worker, bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// What says that there is something to read, if only the end.
const READABLE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);
/// What says that the end is near: a short read then does not mean that nothing follows.
const ENDS: epoll::EventFlags = epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// What each request needs to know of a connection; the rest is in [`Rest`].
#[derive(Default)]
struct Entry {
    socket: Option<Socket>,
    generation: u32,
    connecting: bool,
    /// There are bytes the kernel did not take: see [`Rest::unsent`].
    has_unsent: bool,
    /// It is in [`Epoll::again`].
    comes_again: bool,
}

/// What is needed when something is not as usual.
struct Rest {
    /// Bytes the kernel did not take, oldest first.
    unsent: VecDeque<Payload>,
    /// A send failed; reported when the read side has been emptied, so that a last reply is not lost.
    send_errno: i32,
    /// What is left to do when it comes again.
    left: epoll::EventFlags,
    /// Room to send is watched for only while it is wanted: a unix socket.
    asks_for_room: bool,
    /// It is watched for.
    watches_room: bool,
}

impl Default for Rest {
    fn default() -> Self {
        let left = epoll::EventFlags::empty();
        Rest { unsent: VecDeque::new(), send_errno: 0, left, asks_for_room: false, watches_room: false }
    }
}

/// The epoll driver. See the module's head.
pub struct Epoll {
    epoll: OwnedFd,
    alarm: Alarm,
    entries: Vec<Entry>,
    rests: Vec<Rest>,
    addresses: Vec<SockAddr>,
    outbox: Outbox,
    sources: Sources,
    events: Vec<epoll::Event>,
    /// Next of `events` to look at.
    cursor: usize,
    /// A connection whose end was announced with the bytes that were just read: they come together.
    ending: Option<(Slot, epoll::EventFlags)>,
    /// Connections with more to read or to send than one turn allows, in the order in which they come again.
    again: VecDeque<Slot>,
    /// How many of those are left for this turn.
    again_now: usize,
    /// Outcomes known at once.
    immediate: VecDeque<Event>,
    buffer: Box<[u8]>,
    received: usize,
    /// For receive stamps, where they are used.
    stamping: Option<(WallClock, Control)>,
    /// Bytes that the kernel has taken since [`Driver::take_sent_bytes`] was last asked.
    sent_bytes: u64,
    origin_ns: u64,
}

impl Epoll {
    /// A driver with no socket yet.
    ///
    /// # Errors
    /// The kernel's, where it gives no epoll descriptor; an address that has no kernel form.
    pub fn new(setup: &Setup) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new()?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, alarm.descriptor(), epoll::EventData::new_u64(TIMER), flags)?;
        Ok(Epoll {
            epoll,
            alarm,
            entries: (0..setup.slots).map(|_| Entry::default()).collect(),
            rests: (0..setup.slots).map(|_| Rest::default()).collect(),
            addresses: setup.addresses.iter().map(kernel_address).collect::<io::Result<_>>()?,
            outbox: Outbox::new(setup.blobs.clone()),
            sources: Sources::of(setup),
            events: Vec::with_capacity(EVENTS),
            cursor: 0,
            ending: None,
            again: VecDeque::with_capacity(setup.slots as usize),
            again_now: 0,
            immediate: VecDeque::with_capacity(setup.slots as usize),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            received: 0,
            stamping: setup.receive_stamps.then(|| (WallClock::default(), Control([0; CONTROL_BYTES]))),
            sent_bytes: 0,
            origin_ns: 0,
        })
    }

    fn start_connect(&mut self, slot: Slot, address: usize) -> io::Result<bool> {
        let address = &self.addresses[address];
        let socket = stream(address, true)?;
        if self.stamping.is_some() {
            stamps::enable(&socket)?;
        }
        if let Some(source) = self.sources.of_slot(slot, address) {
            bind_to(&socket, source)?;
        }
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let at_once = match socket.connect(address) {
            Ok(()) => true,
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => false,
            Err(e) => return Err(e),
        };
        let rest = &mut self.rests[slot as usize];
        rest.asks_for_room = address.domain() == Domain::UNIX;
        rest.watches_room = !rest.asks_for_room;
        let data = epoll::EventData::new_u64(key(slot, entry.generation));
        epoll::add(&self.epoll, &socket, data, watched(rest.watches_room))?;
        entry.connecting = !at_once;
        entry.socket = Some(socket);
        Ok(at_once)
    }

    fn set_alarm(&mut self, until_ns: u64) -> io::Result<Option<Timespec>> {
        let now_ns = self.now_ns();
        self.alarm.set(until_ns, now_ns, self.origin_ns)
    }

    /// Queues what was not taken whole. What waits already has been refused room, or had its share of the turn.
    fn keep(&mut self, slot: Slot, payload: Payload) {
        self.rests[slot as usize].unsent.push_back(payload);
        if !std::mem::replace(&mut self.entries[slot as usize].has_unsent, true) {
            self.flush(slot);
        }
    }

    /// Sends what the kernel takes now and one turn allows, keeping the rest.
    fn flush(&mut self, slot: Slot) {
        let (entry, rest) = (&mut self.entries[slot as usize], &mut self.rests[slot as usize]);
        let Some(socket) = &entry.socket else { return };
        let mut allowed = SENT_BYTES_MAX;
        while let Some(payload) = rest.unsent.front_mut() {
            if allowed == 0 {
                return self.come_again(slot, epoll::EventFlags::OUT);
            }
            let bytes = self.outbox.bytes(*payload);
            match rustix::net::send(socket, &bytes[..bytes.len().min(allowed)], SendFlags::NOSIGNAL) {
                Ok(n) => {
                    self.sent_bytes += n as u64;
                    allowed -= n;
                    payload.start += n as u32;
                    payload.length -= n as u32;
                    if payload.length == 0 {
                        self.outbox.release(*payload);
                        rest.unsent.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return self.watch_room(slot, true),
                Err(Errno::INTR) => {}
                Err(e) => {
                    rest.send_errno = e.raw_os_error();
                    rest.unsent.drain(..).for_each(|payload| self.outbox.release(payload));
                }
            }
        }
        entry.has_unsent = false;
        self.watch_room(slot, false);
    }

    /// Where room to send is signalled more often than it is wanted, asks for that, or no longer.
    fn watch_room(&mut self, slot: Slot, wanted: bool) {
        let (entry, rest) = (&self.entries[slot as usize], &mut self.rests[slot as usize]);
        if !rest.asks_for_room || rest.watches_room == wanted {
            return;
        }
        rest.watches_room = wanted;
        if let Some(socket) = &entry.socket {
            let data = epoll::EventData::new_u64(key(slot, entry.generation));
            // Room that came since the refusal is signalled by this very call. It cannot fail for a socket in the set.
            if let Err(e) = epoll::modify(&self.epoll, socket, data, watched(wanted)) {
                rest.send_errno = e.raw_os_error();
                self.come_again(slot, READABLE);
            }
        }
    }

    /// A connection has more to do than one turn allows.
    fn come_again(&mut self, slot: Slot, left: epoll::EventFlags) {
        self.rests[slot as usize].left |= left;
        if !std::mem::replace(&mut self.entries[slot as usize].comes_again, true) {
            self.again.push_back(slot);
        }
    }

    /// Sends and reads once, as the flags say.
    fn serve(&mut self, slot: Slot, flags: epoll::EventFlags) -> Option<Event> {
        if flags.contains(epoll::EventFlags::OUT) && self.entries[slot as usize].has_unsent {
            let was_owned = self.rests[slot as usize].unsent.iter().any(|payload| Outbox::is_owned(*payload));
            self.flush(slot);
            let rest = &self.rests[slot as usize];
            if was_owned && rest.unsent.is_empty() && rest.send_errno == 0 {
                self.immediate.push_back(Event::Drained { slot });
            }
        }
        if flags.intersects(READABLE) { self.receive(slot, flags) } else { None }
    }

    /// What became of a connect whose socket is writable or in error.
    fn connected(&mut self, slot: Slot) -> Event {
        let entry = &mut self.entries[slot as usize];
        entry.connecting = false;
        let outcome = entry.socket.as_ref().map_or(Ok(None), Socket::take_error);
        match outcome {
            Ok(None) => Event::Connected { slot },
            Ok(Some(e)) | Err(e) => {
                self.close(slot);
                Event::ConnectFailed { slot, errno: errno(&e) }
            }
        }
    }

    fn receive(&mut self, slot: Slot, flags: epoll::EventFlags) -> Option<Event> {
        let socket = self.entries[slot as usize].socket.as_ref()?;
        loop {
            let received = match &mut self.stamping {
                None => rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty()).map(|(_, n)| (n, None)),
                Some((_, control)) => stamps::receive(socket, &mut self.buffer, control)
                    .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)),
            };
            return match received {
                Ok((0, _)) => match self.rests[slot as usize].send_errno {
                    0 => Some(Event::Closed { slot }),
                    errno => Some(Event::Failed { slot, errno }),
                },
                Ok((n, stamp_ns)) => {
                    self.received = n;
                    if n == self.buffer.len() {
                        self.come_again(slot, flags & READABLE);
                    } else if flags.intersects(ENDS) {
                        self.ending = Some((slot, flags));
                    }
                    Some(Event::Received { slot, at_ns: self.arrival_ns(stamp_ns) })
                }
                Err(Errno::AGAIN) => None,
                Err(Errno::INTR) => continue,
                Err(e) => Some(Event::Failed { slot, errno: e.raw_os_error() }),
            };
        }
    }

    /// When bytes came, since the run's start: by the stamp where there is one, else now.
    fn arrival_ns(&mut self, stamp_ns: Option<u64>) -> u64 {
        let now_ns = monotonic_ns();
        let moved_ns = match (&mut self.stamping, stamp_ns) {
            (Some((clock, _)), Some(stamp_ns)) => clock.monotonic_ns(stamp_ns, now_ns),
            _ => None,
        };
        moved_ns.unwrap_or(now_ns).saturating_sub(self.origin_ns)
    }
}

impl Driver for Epoll {
    const NAME: &'static str = "epoll";
    const STAMPS_EACH_READ: bool = true;

    fn begin(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    #[inline]
    fn now_ns(&mut self) -> u64 {
        monotonic_ns().saturating_sub(self.origin_ns)
    }

    fn connect(&mut self, slot: Slot, address: usize) {
        match self.start_connect(slot, address) {
            Ok(true) => self.immediate.push_back(Event::Connected { slot }),
            Ok(false) => {}
            Err(e) => self.immediate.push_back(Event::ConnectFailed { slot, errno: errno(&e) }),
        }
    }

    #[inline]
    fn send(&mut self, slot: Slot, payload: Payload) {
        let entry = &self.entries[slot as usize];
        if !entry.has_unsent
            && let Some(socket) = &entry.socket
        {
            // The common case, kept apart from the queue: the kernel takes it whole.
            let bytes = self.outbox.bytes(payload);
            if bytes.len() <= SENT_BYTES_MAX && rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) == Ok(bytes.len())
            {
                self.sent_bytes += bytes.len() as u64;
                return;
            }
        }
        self.keep(slot, payload);
    }

    fn lend(&mut self) -> Vec<u8> {
        self.outbox.lend()
    }

    #[inline]
    fn send_bytes(&mut self, slot: Slot, bytes: Vec<u8>) {
        let entry = &self.entries[slot as usize];
        let mut start = 0;
        if !entry.has_unsent
            && bytes.len() <= SENT_BYTES_MAX
            && let Some(socket) = &entry.socket
        {
            // What fails is tried again below, where an error is kept.
            if let Ok(n) = rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL) {
                self.sent_bytes += n as u64;
                if n == bytes.len() {
                    return self.outbox.take_back(bytes);
                }
                start = n;
            }
        }
        let payload = self.outbox.keep(bytes, start);
        self.keep(slot, payload);
    }

    #[inline]
    fn unsent_bytes(&self, slot: Slot) -> u64 {
        if !self.entries[slot as usize].has_unsent {
            return 0;
        }
        self.rests[slot as usize].unsent.iter().map(|payload| u64::from(payload.length)).sum()
    }

    fn take_sent_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sent_bytes)
    }

    fn local(&self, slot: Slot) -> Option<SocketAddr> {
        self.entries[slot as usize].socket.as_ref().and_then(local)
    }

    fn close(&mut self, slot: Slot) {
        let (entry, rest) = (&mut self.entries[slot as usize], &mut self.rests[slot as usize]);
        // Closing the last descriptor takes the socket out of the epoll set.
        entry.socket = None;
        entry.connecting = false;
        entry.has_unsent = false;
        entry.generation = entry.generation.wrapping_add(1);
        rest.unsent.drain(..).for_each(|payload| self.outbox.release(payload));
        rest.send_errno = 0;
        rest.left = epoll::EventFlags::empty();
        if self.ending.is_some_and(|(s, _)| s == slot) {
            self.ending = None;
        }
        self.immediate.retain(|event| event.slot() != slot);
    }

    fn wait(&mut self, until_ns: u64, wake: Wake) -> io::Result<()> {
        if !self.immediate.is_empty() || self.ending.is_some() || self.cursor < self.events.len() {
            return Ok(());
        }
        self.events.clear();
        self.cursor = 0;
        self.again_now = self.again.len();
        let timeout = match wake {
            _ if self.again_now > 0 => Some(timespec(0)),
            Wake::First => self.set_alarm(until_ns)?,
            Wake::Never => {
                sleep_ns(until_ns.saturating_sub(self.now_ns()));
                Some(timespec(0))
            }
            // epoll cannot wait for several, so the batch forms while we sleep: see `Wake::Batch`.
            Wake::Batch { delay_ns, .. } => {
                sleep_ns(delay_ns.min(until_ns.saturating_sub(self.now_ns())));
                self.set_alarm(until_ns)?
            }
        };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.immediate.pop_front() {
            return Some(event);
        }
        if let Some((slot, flags)) = self.ending.take()
            && let Some(event) = self.receive(slot, flags)
        {
            return Some(event);
        }
        while let Some(event) = self.events.get(self.cursor) {
            self.cursor += 1;
            let (flags, key) = (event.flags, event.data.u64());
            if let Some(entry) = self.upcoming().and_then(|next| self.entries.get(next as usize)) {
                ahead::fetch(entry);
            }
            if key == TIMER {
                self.alarm.fired();
                continue;
            }
            let slot = key as u32;
            let entry = &self.entries[slot as usize];
            if entry.generation != (key >> 32) as u32 || entry.socket.is_none() {
                continue;
            }
            if entry.connecting {
                let event = self.connected(slot);
                if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP)
                    && matches!(event, Event::Connected { .. })
                {
                    // The same edge said that there is something to read already.
                    self.ending = Some((slot, flags));
                }
                return Some(event);
            }
            if entry.comes_again {
                self.rests[slot as usize].left |= flags;
                continue;
            }
            if let Some(event) = self.serve(slot, flags) {
                return Some(event);
            }
        }
        while self.again_now > 0 {
            self.again_now -= 1;
            let Some(slot) = self.again.pop_front() else { break };
            self.entries[slot as usize].comes_again = false;
            // Nothing is left of one that was closed, whoever has the slot now.
            let left = std::mem::replace(&mut self.rests[slot as usize].left, epoll::EventFlags::empty());
            if let Some(event) = self.serve(slot, left) {
                return Some(event);
            }
        }
        self.immediate.pop_front()
    }

    #[inline]
    fn upcoming(&self) -> Option<Slot> {
        // Of the timer it is no slot that there is.
        self.events.get(self.cursor).map(|event| event.data.u64() as Slot)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.received]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.received]
    }
}

/// What a connection is watched for.
fn watched(room: bool) -> epoll::EventFlags {
    let always = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    if room { always | epoll::EventFlags::OUT } else { always }
}

fn key(slot: Slot, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}
