//! The event loop of the edge-triggered designs: epoll, accepting, deadlines, draining.
//!
//! A [`Protocol`] moves one connection as far as it goes each time it is woken; the loop does the rest.
//! Edges are reported once, so a protocol must go on until the kernel says it would block, or ask to be
//! called again. One thread, no locks; an `epoll_wait` serves up to `EVENTS_MAX` connections.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, listen, sockopt};

use crate::clock;
use crate::counters::{Counters, Published};
use crate::limits;
use crate::link::{Io, Socket};
use crate::listen::Listeners;
use crate::slab::{Slab, Token};
use crate::stop::Stop;
use crate::timers::{NEVER_NS, Timers};

/// Why a connection is woken. Several may be true at once, or none (it asked to be called again).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wake {
    /// Bytes, or the peer's end, can be received.
    pub(crate) readable: bool,
    /// A short receive does not prove the socket empty: the peer's end or urgent data came with it.
    pub(crate) thorough: bool,
    /// Both directions are gone (reset, or shut down on both sides).
    pub(crate) dead: bool,
    /// The deadline asked for has come.
    pub(crate) expired: bool,
    /// The server ends: finish what is in flight, begin nothing.
    pub(crate) draining: bool,
    /// It was named by [`Protocol::due`].
    pub(crate) due: bool,
    /// Monotonic time, in nanoseconds.
    pub(crate) now_ns: u64,
    /// The connection woken; what [`Protocol::outgoing`] names to have it woken.
    pub(crate) token: Token,
}

/// Where a protocol registers sockets of its own (a proxy's to its origins): edges of both directions come
/// back to [`Protocol::outgoing`]. Closing the socket takes it out.
pub(crate) struct Outgoing {
    epoll: Arc<OwnedFd>,
}

impl Outgoing {
    /// Watches `fd`, for both directions and its end; `id` is the protocol's own name for it.
    pub(crate) fn watch(&self, fd: &OwnedFd, id: Token) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(OUTGOING | id.bits()), interest(true))
    }
}

/// What a connection waits for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// An edge, or `until_ns`; with `write`, also for room to send.
    Wait {
        /// Monotonic deadline, [`NEVER_NS`] for none.
        until_ns: u64,
        /// Sending would block.
        write: bool,
    },
    /// Its turn is over but it could go on: call again after the others.
    Again,
    /// It is over: close it.
    Close,
    /// It is over: close it with a reset, so that the peer does not take what it got for the whole.
    Reset,
}

/// How connections are taken from the listeners. The default is how a sound server does it; defects change it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accepting {
    /// The accept queue's length from here on.
    pub(crate) backlog: Option<i32>,
    /// The listeners are left alone for so long after each connection.
    pub(crate) pause_ns: u64,
    /// A listener is asked again at once when accepting failed.
    pub(crate) spins: bool,
    /// A connection wakes every worker that waits at the same listener.
    pub(crate) herds: bool,
    /// Connections stay in the accept queue for now.
    pub(crate) is_full: bool,
}

/// What a server does with its connections: one value a worker. It is written against [`Io`], so that the same protocol
/// runs on a bare socket and over TLS; a layer (TLS, defects) is a protocol that drives another.
pub(crate) trait Protocol {
    /// State of one connection.
    type Conn;

    /// Whether it has work also while nothing can be sent. Then TLS drives it all the same, and its sends would block.
    const WORKS_WHILE_BLOCKED: bool = false;

    /// The state a fresh connection starts with.
    fn connection(&mut self) -> Self::Conn;

    /// Called when a connection could not be accepted: give up descriptors that are held for speed alone.
    fn relieve(&mut self) {}

    /// Called before each batch of events.
    fn tick(&mut self, _now_ns: u64) {}

    /// How connections are to be taken. `None`, which costs nothing: as they should be, always.
    fn accepting(&self) -> Option<Accepting> {
        None
    }

    /// From here on each reply is its connection's last, and says so, where the protocol has such a thing.
    fn keep_no_connection(&mut self) {}

    /// Called once, before anything else: where sockets of the protocol's own are registered.
    fn attach(&mut self, _outgoing: Outgoing) {}

    /// Something happened on a socket registered with [`Outgoing::watch`]. The connection to be driven for
    /// it, if there is one.
    fn outgoing(&mut self, _id: Token, _wake: Wake) -> Option<Token> {
        None
    }

    /// A connection that is to be driven though nothing came on a socket of it: what it waited for elsewhere is there.
    /// Asked after each batch of events until there is none.
    fn due(&mut self) -> Option<Token> {
        None
    }

    /// From here on there are at most so many connections of its own to each server that it asks.
    fn limit_outgoing(&mut self, _connections: usize) {}

    /// A connection was closed; what it held elsewhere can be let go of.
    fn closed(&mut self, _conn: Self::Conn) {}

    /// Moves a connection as far as it goes. After a wake with `expired` it must not ask for a
    /// deadline that has passed.
    fn drive<I: Io>(&mut self, io: &mut I, conn: &mut Self::Conn, wake: Wake, counters: &mut Counters) -> Next;
}

/// A worker's epoll set with its listeners in it.
pub(crate) struct Reactor {
    epoll: Arc<OwnedFd>,
    listeners: Vec<Arc<OwnedFd>>,
    stop: Stop,
    published: Published,
}

impl Reactor {
    /// Makes the epoll set; connections are accepted from when [`Self::run`] is called.
    pub(crate) fn new(listeners: Listeners, stop: &Stop, published: Published) -> rustix::io::Result<Self> {
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        epoll::add(&epoll, stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        let reactor = Self { epoll, listeners: listeners.sockets, stop: stop.clone(), published };
        reactor.watch_listeners()?;
        Ok(reactor)
    }

    /// Serves until the stop is pulled and what was in flight is done, or `limits::DRAIN` is over.
    pub(crate) fn run<P: Protocol>(self, protocol: &mut P) -> rustix::io::Result<Counters> {
        protocol.attach(Outgoing { epoll: Arc::clone(&self.epoll) });
        let run = Run {
            epoll: self.epoll,
            listeners: self.listeners,
            stop: self.stop,
            published: self.published,
            protocol,
            entries: Slab::new(),
            timers: Timers::new(),
            again: Vec::new(),
            counters: Counters::default(),
            now_ns: clock::monotonic_ns(),
            accept_resume_ns: NEVER_NS,
            accepting: Accepting::default(),
            drain_until_ns: NEVER_NS,
        };
        run.until_stopped()
    }

    fn watch_listeners(&self) -> rustix::io::Result<()> {
        watch(&self.epoll, &self.listeners, EXCLUSIVELY)
    }
}

/// Epoll data with the top bit set is not a connection's: the stop, then the listeners.
const STOP: u64 = 1 << 63;
const LISTENER_FIRST: u64 = STOP + 1;
/// The bit below: a socket of the protocol's own. Tokens have neither ([`Token`]).
const OUTGOING: u64 = 1 << 62;

struct Entry<C> {
    fd: OwnedFd,
    conn: C,
    deadline_ns: u64,
    /// The two earliest entries in `timers` that are known; later ones are stale when they come up.
    timer_ns: u64,
    timer_second_ns: u64,
    write_armed: bool,
    queued: bool,
}

struct Run<'a, P: Protocol> {
    epoll: Arc<OwnedFd>,
    listeners: Vec<Arc<OwnedFd>>,
    stop: Stop,
    published: Published,
    protocol: &'a mut P,
    entries: Slab<Entry<P::Conn>>,
    timers: Timers,
    again: Vec<Token>,
    counters: Counters,
    now_ns: u64,
    /// When paused listeners are taken up again; [`NEVER_NS`] while they are not paused.
    accept_resume_ns: u64,
    /// What [`Protocol::accepting`] last asked for.
    accepting: Accepting,
    drain_until_ns: u64,
}

impl<P: Protocol> Run<'_, P> {
    fn until_stopped(mut self) -> rustix::io::Result<Counters> {
        let mut events = Vec::with_capacity(limits::EVENTS_MAX);
        self.tick()?;
        while !self.is_drained() {
            events.clear();
            let timeout = self.timeout();
            self.published.sleep(&self.counters);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            self.published.wake();
            self.tick()?;
            for event in &events {
                self.dispatch(event)?;
            }
            for token in std::mem::take(&mut self.again) {
                if let Some(entry) = self.entries.get_mut(token) {
                    entry.queued = false;
                }
                self.drive(token, Wake::default());
            }
            self.expire();
            while let Some(token) = self.protocol.due() {
                self.drive(token, Wake { due: true, ..Wake::default() });
            }
            if self.accept_resume_ns <= self.now_ns {
                self.resume_accepting()?;
            }
        }
        let left = self.entries.tokens();
        self.counters.cut_at_stop += left.len() as u64;
        self.counters.closed += left.len() as u64;
        self.published.sleep(&self.counters);
        Ok(self.counters)
    }

    fn tick(&mut self) -> rustix::io::Result<()> {
        self.now_ns = clock::monotonic_ns();
        self.protocol.tick(self.now_ns);
        match self.protocol.accepting() {
            Some(accepting) if accepting != self.accepting => self.accept_as(accepting),
            _ => Ok(()),
        }
    }

    fn accept_as(&mut self, accepting: Accepting) -> rustix::io::Result<()> {
        if let Some(backlog) = accepting.backlog {
            for listener in &self.listeners {
                // Of a listening socket it only changes the queue's length.
                listen(listener, backlog)?;
            }
        }
        let is_watched = self.accept_resume_ns == NEVER_NS;
        if is_watched && accepting.herds != self.accepting.herds {
            for listener in &self.listeners {
                epoll::delete(&self.epoll, listener)?;
            }
            watch(&self.epoll, &self.listeners, !accepting.herds)?;
        }
        self.accepting = accepting;
        Ok(())
    }

    fn dispatch(&mut self, event: &epoll::Event) -> rustix::io::Result<()> {
        // Copied out: the kernel's struct is packed on x86-64.
        let (data, flags) = (event.data, event.flags);
        match data.u64() {
            STOP => self.begin_drain(),
            listener if listener >= LISTENER_FIRST => {
                let index = (listener - LISTENER_FIRST) as usize;
                self.accept(index, limits::ACCEPT_BATCH)
            }
            token => {
                let dead = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
                let thorough = dead || flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::PRI);
                let readable = thorough || flags.contains(epoll::EventFlags::IN);
                let wake = Wake { readable, thorough, dead, ..Wake::default() };
                if token & OUTGOING == 0 {
                    self.drive(Token::from_bits(token), wake);
                } else if let Some(owner) = self.protocol.outgoing(Token::from_bits(token & !OUTGOING), wake) {
                    self.drive(owner, Wake::default());
                }
                Ok(())
            }
        }
    }

    fn accept(&mut self, index: usize, at_most: usize) -> rustix::io::Result<()> {
        let Some(listener) = self.listeners.get(index).map(Arc::clone) else { return Ok(()) };
        for _ in 0..at_most {
            if self.protocol.accepting().is_some_and(|accepting| accepting.is_full) {
                return self.pause_accepting(limits::ACCEPT_PAUSE.as_nanos() as u64);
            }
            match accept_with(&listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) => {
                    self.enter(fd);
                    if let Some(Accepting { pause_ns: pause_ns @ 1.., .. }) = self.protocol.accepting() {
                        return self.pause_accepting(pause_ns);
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                // The peer went away between connecting and here: the next one may be fine.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => self.counters.accept_error += 1,
                // Out of descriptors or memory, or anything else: the listener stays readable, so going
                // on would spin. Leave it until a connection closes or the pause is over.
                Err(_) => {
                    self.counters.accept_error += 1;
                    self.protocol.relieve();
                    if self.protocol.accepting().is_some_and(|accepting| accepting.spins) {
                        return Ok(());
                    }
                    return self.pause_accepting(limits::ACCEPT_PAUSE.as_nanos() as u64);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, fd: OwnedFd) {
        self.counters.accepted += 1;
        let conn = self.protocol.connection();
        let entry = Entry {
            fd,
            conn,
            deadline_ns: NEVER_NS,
            timer_ns: NEVER_NS,
            timer_second_ns: NEVER_NS,
            write_armed: false,
            queued: false,
        };
        let token = self.entries.insert(entry);
        let Some(entry) = self.entries.get_mut(token) else { return };
        let data = epoll::EventData::new_u64(token.bits());
        if epoll::add(&self.epoll, &entry.fd, data, interest(false)).is_err() {
            self.counters.work_error += 1;
            self.close(token);
            return;
        }
        // Nothing is readable as far as is known: this only sets the idle deadline.
        self.drive(token, Wake::default());
    }

    fn drive(&mut self, token: Token, wake: Wake) {
        let Some(entry) = self.entries.get_mut(token) else { return };
        let wake = Wake { now_ns: self.now_ns, draining: self.drain_until_ns != NEVER_NS, token, ..wake };
        match self.protocol.drive(&mut Socket(entry.fd.as_fd()), &mut entry.conn, wake, &mut self.counters) {
            Next::Close => self.close(token),
            Next::Reset => {
                // Where it is refused the close is an orderly one, which is all that is left.
                let _ = sockopt::set_socket_linger(&entry.fd, Some(Duration::ZERO));
                self.close(token);
            }
            Next::Again => {
                if !entry.queued {
                    entry.queued = true;
                    self.again.push(token);
                }
            }
            Next::Wait { until_ns, write } => {
                entry.deadline_ns = until_ns;
                if until_ns < entry.timer_ns {
                    entry.timer_second_ns = entry.timer_ns;
                    entry.timer_ns = until_ns;
                    self.timers.push(until_ns, token);
                }
                if write && !entry.write_armed {
                    // Modifying looks at the socket anew, so room made since the send is not missed.
                    entry.write_armed = true;
                    let data = epoll::EventData::new_u64(token.bits());
                    if epoll::modify(&self.epoll, &entry.fd, data, interest(true)).is_err() {
                        self.counters.work_error += 1;
                        self.close(token);
                    }
                }
            }
        }
    }

    fn close(&mut self, token: Token) {
        // Dropping the descriptor also takes it out of the epoll set.
        if let Some(entry) = self.entries.remove(token) {
            self.counters.closed += 1;
            self.protocol.closed(entry.conn);
            let is_slow = self.protocol.accepting().is_some_and(|accepting| accepting.pause_ns > 0);
            if self.accept_resume_ns != NEVER_NS && !is_slow {
                self.accept_resume_ns = self.now_ns;
            }
        }
    }

    fn expire(&mut self) {
        while let Some((at_ns, token)) = self.timers.pop_due(self.now_ns) {
            let Some(entry) = self.entries.get_mut(token) else { continue };
            if entry.timer_ns != at_ns {
                continue;
            }
            entry.timer_ns = std::mem::replace(&mut entry.timer_second_ns, NEVER_NS);
            if entry.deadline_ns <= self.now_ns {
                self.drive(token, Wake { expired: true, ..Wake::default() });
            } else if entry.deadline_ns < entry.timer_ns {
                entry.timer_second_ns = entry.timer_ns;
                entry.timer_ns = entry.deadline_ns;
                self.timers.push(entry.deadline_ns, token);
            }
        }
    }

    fn pause_accepting(&mut self, pause_ns: u64) -> rustix::io::Result<()> {
        if self.accept_resume_ns == NEVER_NS {
            for listener in &self.listeners {
                epoll::delete(&self.epoll, listener)?;
            }
        }
        self.accept_resume_ns = self.now_ns.saturating_add(pause_ns);
        Ok(())
    }

    fn resume_accepting(&mut self) -> rustix::io::Result<()> {
        self.accept_resume_ns = NEVER_NS;
        watch(&self.epoll, &self.listeners, !self.accepting.herds)
    }

    fn begin_drain(&mut self) -> rustix::io::Result<()> {
        epoll::delete(&self.epoll, &self.stop)?;
        // Who already stands in the accept queue is let in: closing the listener would reset them.
        for index in 0..self.listeners.len() {
            if self.accept_resume_ns == NEVER_NS {
                self.accept(index, limits::ACCEPT_BATCH * 64)?;
            }
        }
        self.listeners.clear();
        self.accept_resume_ns = NEVER_NS;
        self.drain_until_ns = self.now_ns.saturating_add(limits::DRAIN.as_nanos() as u64);
        for token in self.entries.tokens() {
            // A request that has arrived counts as in flight, whether or not its edge was seen yet.
            self.drive(token, Wake { readable: true, ..Wake::default() });
        }
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.drain_until_ns != NEVER_NS && (self.entries.len() == 0 || self.now_ns >= self.drain_until_ns)
    }

    fn timeout(&self) -> Option<Timespec> {
        if !self.again.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let next_ns = self.timers.next_ns().min(self.accept_resume_ns).min(self.drain_until_ns);
        if next_ns == NEVER_NS {
            return None;
        }
        // Time has passed since `now_ns` was read: what is overdue must not wait.
        let wait_ns = next_ns.saturating_sub(clock::monotonic_ns());
        Some(Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 })
    }
}

/// A listener shared by workers (the unix socket) wakes one of them and not all.
const EXCLUSIVELY: bool = true;

fn watch(epoll: &OwnedFd, listeners: &[Arc<OwnedFd>], exclusively: bool) -> rustix::io::Result<()> {
    // Level triggered, so that a batch that was cut short is reported again.
    let mut flags = epoll::EventFlags::IN;
    flags.set(epoll::EventFlags::EXCLUSIVE, exclusively);
    for (listener, data) in listeners.iter().zip(LISTENER_FIRST..) {
        epoll::add(epoll, listener, epoll::EventData::new_u64(data), flags)?;
    }
    Ok(())
}

/// Room to send is only watched once a send blocked: most connections never do, and watching from the
/// start would wake each new one for nothing.
fn interest(write: bool) -> epoll::EventFlags {
    let read = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::PRI | epoll::EventFlags::ET;
    if write { read | epoll::EventFlags::OUT } else { read }
}
