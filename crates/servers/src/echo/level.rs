//! The loop of the level-triggered designs: what is ready is told again and again until it is dealt with.
//!
//! So a connection is asked for once a turn, one receive and one send, and never starves another; but what it waits for
//! must be said exactly: with bytes its peer does not take it waits for room and for nothing else.
//! How readiness is learnt is the design's ([`Poller`]). Idle connections are found by looking at all now and then.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use crate::clock;
use crate::counters::{Counters, Published};
use crate::defects::beside::{Carried, Carries, Sound};
use crate::defects::{Among, Defects};
use crate::error::ServeError;
use crate::limits;
use crate::listen::{self, Bound};
use crate::options::ServeOptions;
use crate::slab::{Slab, Token};
use crate::stop::Stop;
use crate::timers::NEVER_NS;
use crate::workers::{Ready, run_threads};

use super::blocking::failed;

/// Tells which descriptors are ready. Ready for what they wait for, failed, or at their end: the call will say.
pub(super) trait Poller: Sized {
    fn new() -> rustix::io::Result<Self>;

    /// Waits for bytes on `fd` from here on.
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64) -> rustix::io::Result<()>;

    /// Waits for room to send, in place of bytes, or the other way round.
    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, write: bool) -> rustix::io::Result<()>;

    /// Waits for nothing on `fd`.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<()>;

    /// Adds to `ready` the tokens of those that are, after at most `timeout_ns`. An interruption is no event.
    fn wait(&mut self, timeout_ns: Option<u64>, ready: &mut Vec<u64>) -> rustix::io::Result<()>;
}

/// Tokens with the top bit set are not a connection's: the stop, then the listeners.
const STOP: u64 = 1 << 63;
const LISTENER_FIRST: u64 = STOP + 1;
/// How many times within one idle timeout idle connections are looked for.
const LOOKS: u64 = 64;

/// Serves with one loop a worker, each on listeners of its own.
pub(super) fn serve<P: Poller>(options: &ServeOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    let mut options = options.clone();
    let defects = Defects::new("echo", Among::Threads, &mut options)?;
    if defects.is_empty() {
        return serve_carrying::<P, _>(&options, stop, ready, || Sound);
    }
    let ready = defects.told(ready);
    serve_carrying::<P, _>(&options, stop, ready, || Carried::new(&defects))
}

fn serve_carrying<P: Poller, C: Carries>(
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    carrying: impl Fn() -> C + Sync,
) -> Result<Counters, ServeError> {
    // The unix socket's file is removed when this function ends, however it does.
    let Bound { workers, addrs, unix_file: _unix_file } = listen::open(options)?;
    let published = options.live.open(options.workers)?;
    let seeds = workers.into_iter().zip(published).collect();
    let start = |(listeners, published): (listen::Listeners, Published)| {
        Worker::<P, C>::new(listeners.sockets, stop, options, published, carrying())
            .map_err(failed("watch its listeners"))
    };
    let run = |worker: Worker<P, C>| worker.run().map_err(failed("wait for events"));
    run_threads("echo", options, stop, ready, &addrs, seeds, start, run)
}

struct Conn<K> {
    fd: OwnedFd,
    /// What defects have it hold.
    _kept: K,
    /// It is closed once `pending` is sent.
    closes: bool,
    /// What the peer has not taken yet, from `sent` on.
    pending: Option<Box<[u8]>>,
    sent: usize,
    moved_ns: u64,
}

enum Goes {
    On { write: bool },
    Close,
}

impl Goes {
    /// When all that was to be sent has gone.
    fn after<K>(conn: &Conn<K>) -> Self {
        if conn.closes { Self::Close } else { Self::On { write: false } }
    }
}

struct Worker<P, C: Carries> {
    poller: P,
    listeners: Vec<Arc<OwnedFd>>,
    stop: Stop,
    published: Published,
    buffer: Box<[u8]>,
    conns: Slab<Conn<C::Kept>>,
    carries: C,
    counters: Counters,
    now_ns: u64,
    idle_ns: Option<u64>,
    look_ns: u64,
    /// When paused listeners are taken up again; [`NEVER_NS`] while they are not paused.
    accept_resume_ns: u64,
    drain_until_ns: u64,
}

impl<P: Poller, C: Carries> Worker<P, C> {
    fn new(
        listeners: Vec<Arc<OwnedFd>>,
        stop: &Stop,
        options: &ServeOptions,
        published: Published,
        carries: C,
    ) -> rustix::io::Result<Self> {
        let mut poller = P::new()?;
        let now_ns = clock::monotonic_ns();
        poller.add(stop.as_fd(), STOP)?;
        let idle_ns = options.idle_ns();
        let mut worker = Self {
            poller,
            listeners,
            stop: stop.clone(),
            published,
            buffer: vec![0; options.buffer_bytes].into_boxed_slice(),
            conns: Slab::new(),
            carries,
            counters: Counters::default(),
            now_ns,
            idle_ns,
            look_ns: NEVER_NS,
            accept_resume_ns: NEVER_NS,
            drain_until_ns: NEVER_NS,
        };
        worker.plan_look();
        worker.watch_listeners()?;
        Ok(worker)
    }

    fn run(mut self) -> rustix::io::Result<Counters> {
        let mut ready = Vec::new();
        while !self.is_drained() {
            ready.clear();
            let timeout_ns = self.timeout_ns();
            self.published.sleep(&self.counters);
            self.poller.wait(timeout_ns, &mut ready)?;
            self.published.wake();
            self.now_ns = clock::monotonic_ns();
            for token in &ready {
                match *token {
                    STOP => self.begin_drain()?,
                    listener if listener >= LISTENER_FIRST => {
                        self.accept((listener - LISTENER_FIRST) as usize, limits::ACCEPT_BATCH)?;
                    }
                    token => self.drive(Token::from_bits(token)),
                }
            }
            if self.look_ns <= self.now_ns {
                self.look_for_idle();
            }
            if self.accept_resume_ns <= self.now_ns {
                self.accept_resume_ns = NEVER_NS;
                self.watch_listeners()?;
            }
        }
        let left = self.conns.len() as u64;
        self.counters.cut_at_stop += left;
        self.counters.closed += left;
        self.published.sleep(&self.counters);
        Ok(self.counters)
    }

    fn accept(&mut self, index: usize, at_most: usize) -> rustix::io::Result<()> {
        let Some(listener) = self.listeners.get(index).map(Arc::clone) else { return Ok(()) };
        for _ in 0..at_most {
            if self.carries.is_full() {
                return self.pause_accepting();
            }
            match accept_with(&listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) => self.enter(fd),
                Err(Errno::AGAIN) => return Ok(()),
                // The peer went away between connecting and here: the next one may be fine.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => self.counters.accept_error += 1,
                // Out of descriptors or memory, or anything else: the listener stays ready, so going on would spin.
                Err(_) => {
                    self.counters.accept_error += 1;
                    return self.pause_accepting();
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, fd: OwnedFd) {
        self.counters.accepted += 1;
        let Some(kept) = self.carries.accepted() else {
            self.counters.closed += 1;
            return;
        };
        let moved_ns = self.now_ns;
        let conn = Conn { fd, _kept: kept, closes: false, pending: None, sent: 0, moved_ns };
        let token = self.conns.insert(conn);
        let Some(conn) = self.conns.get_mut(token) else { return };
        if self.poller.add(conn.fd.as_fd(), token.bits()).is_err() {
            self.counters.work_error += 1;
            self.close(token);
        }
    }

    /// Moves a connection: one receive and one send at most.
    fn drive(&mut self, token: Token) {
        let Some(conn) = self.conns.get_mut(token) else { return };
        let waited_for_room = conn.pending.is_some();
        let counters = &mut self.counters;
        let goes = if waited_for_room {
            send_pending(conn, counters)
        } else {
            echo(conn, &mut self.buffer, &mut self.carries, counters)
        };
        conn.moved_ns = self.now_ns;
        match goes {
            Goes::Close => self.close(token),
            Goes::On { write } if write != waited_for_room => {
                if self.poller.change(conn.fd.as_fd(), token.bits(), write).is_err() {
                    self.counters.work_error += 1;
                    self.close(token);
                }
            }
            Goes::On { .. } => {}
        }
    }

    fn close(&mut self, token: Token) {
        let Some(conn) = self.conns.remove(token) else { return };
        // It fails only for a descriptor that was never added.
        let _ = self.poller.remove(conn.fd.as_fd());
        drop(conn);
        self.counters.closed += 1;
        if self.accept_resume_ns != NEVER_NS {
            self.accept_resume_ns = self.now_ns;
        }
    }

    fn plan_look(&mut self) {
        let every_ns = match (self.drain_until_ns, self.idle_ns) {
            (NEVER_NS, None) => return,
            (NEVER_NS, Some(idle_ns)) => (idle_ns / LOOKS).clamp(1_000_000, 1_000_000_000),
            _ => limits::DRAIN_QUIET.as_nanos() as u64 / 8,
        };
        self.look_ns = self.now_ns.saturating_add(every_ns);
    }

    fn look_for_idle(&mut self) {
        let is_draining = self.drain_until_ns != NEVER_NS;
        let idle_ns = if is_draining { Some(nanos(limits::DRAIN_QUIET)) } else { self.idle_ns };
        for token in idle_ns.map(|_| self.conns.tokens()).unwrap_or_default() {
            let Some(conn) = self.conns.get_mut(token) else { continue };
            let is_idle = self.now_ns.saturating_sub(conn.moved_ns) >= idle_ns.unwrap_or(NEVER_NS);
            let spared = is_draining && conn.pending.is_some();
            if is_idle && !spared {
                self.counters.idle_closed += u64::from(!is_draining);
                self.close(token);
            }
        }
        self.plan_look();
    }

    fn begin_drain(&mut self) -> rustix::io::Result<()> {
        self.poller.remove(self.stop.as_fd())?;
        // Who already stands in the accept queue is let in: closing the listener would reset them.
        for index in 0..self.listeners.len() {
            if self.accept_resume_ns == NEVER_NS {
                self.accept(index, limits::ACCEPT_BATCH * 64)?;
            }
        }
        if self.accept_resume_ns == NEVER_NS {
            self.unwatch_listeners()?;
        }
        self.listeners.clear();
        self.accept_resume_ns = NEVER_NS;
        self.drain_until_ns = self.now_ns.saturating_add(nanos(limits::DRAIN));
        for token in self.conns.tokens() {
            let Some(conn) = self.conns.get_mut(token) else { continue };
            // What has arrived counts as in flight, whether or not it was told of yet: who has nothing falls quiet.
            conn.moved_ns = self.now_ns;
        }
        self.plan_look();
        Ok(())
    }

    fn pause_accepting(&mut self) -> rustix::io::Result<()> {
        if self.accept_resume_ns == NEVER_NS {
            self.unwatch_listeners()?;
        }
        self.accept_resume_ns = self.now_ns.saturating_add(nanos(limits::ACCEPT_PAUSE));
        Ok(())
    }

    fn watch_listeners(&mut self) -> rustix::io::Result<()> {
        for (listener, token) in self.listeners.iter().zip(LISTENER_FIRST..) {
            self.poller.add(listener.as_fd(), token)?;
        }
        Ok(())
    }

    fn unwatch_listeners(&mut self) -> rustix::io::Result<()> {
        for listener in &self.listeners {
            self.poller.remove(listener.as_fd())?;
        }
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.drain_until_ns != NEVER_NS && (self.conns.len() == 0 || self.now_ns >= self.drain_until_ns)
    }

    fn timeout_ns(&self) -> Option<u64> {
        let next_ns = self.look_ns.min(self.accept_resume_ns).min(self.drain_until_ns);
        (next_ns != NEVER_NS).then(|| next_ns.saturating_sub(clock::monotonic_ns()))
    }
}

/// Receives once and sends that back; what the peer does not take is kept.
fn echo<C: Carries>(conn: &mut Conn<C::Kept>, buffer: &mut [u8], carries: &mut C, counters: &mut Counters) -> Goes {
    let n = match recv(&conn.fd, &mut *buffer, RecvFlags::empty()) {
        Ok((0, _)) => {
            counters.shutdown += 1;
            return Goes::Close;
        }
        Ok((n, _)) => n,
        Err(Errno::AGAIN | Errno::INTR) => return Goes::On { write: false },
        Err(_) => {
            counters.recv_error += 1;
            return Goes::Close;
        }
    };
    counters.recv += 1;
    counters.bytes_in += n as u64;
    match carries.answer(Some(conn.fd.as_fd()), &buffer[..n]) {
        None => send_back(conn, &buffer[..n], counters),
        Some(answer) => {
            conn.closes = answer.closes;
            if answer.bytes.is_empty() { Goes::after(conn) } else { send_back(conn, &answer.bytes, counters) }
        }
    }
}

/// Sends, and keeps what the peer does not take.
fn send_back<K>(conn: &mut Conn<K>, bytes: &[u8], counters: &mut Counters) -> Goes {
    let sent = match send_counted(conn, bytes, counters) {
        Ok(sent) => sent,
        Err(Failed) => return Goes::Close,
    };
    if sent == bytes.len() {
        return Goes::after(conn);
    }
    let mut kept = Vec::new();
    if kept.try_reserve_exact(bytes.len() - sent).is_err() {
        counters.memory_error += 1;
        return Goes::Close;
    }
    kept.extend_from_slice(&bytes[sent..]);
    conn.pending = Some(kept.into_boxed_slice());
    conn.sent = 0;
    Goes::On { write: true }
}

fn send_pending<K>(conn: &mut Conn<K>, counters: &mut Counters) -> Goes {
    let Some(pending) = conn.pending.take() else { return Goes::On { write: false } };
    match send_counted(conn, &pending[conn.sent..], counters) {
        Ok(sent) => conn.sent += sent,
        Err(Failed) => return Goes::Close,
    }
    if conn.sent < pending.len() {
        conn.pending = Some(pending);
        return Goes::On { write: true };
    }
    Goes::after(conn)
}

/// The connection is to be closed; why has been counted.
struct Failed;

fn send_counted<K>(conn: &Conn<K>, bytes: &[u8], counters: &mut Counters) -> Result<usize, Failed> {
    match send(&conn.fd, bytes, SendFlags::NOSIGNAL) {
        Ok(n) => {
            counters.send += 1;
            counters.bytes_out += n as u64;
            Ok(n)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(_) => {
            counters.send_error += 1;
            Err(Failed)
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER_NS)
}
