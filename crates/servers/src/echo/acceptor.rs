//! The listening sockets as the blocking designs wait on them: one connection at a time, until the stop.
//!
//! Several processes or threads may wait, each with an acceptor of its own on the same sockets: a connection wakes one
//! of them. Without descriptors or memory it takes none for a while, so that nothing spins.
//! After [`Acceptor::new`] nothing allocates: forked processes wait here, too.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::drain::Drain;
use crate::clock;
use crate::counters::{Counters, Published};
use crate::limits;
use crate::stop::Stop;
use crate::timers::NEVER_NS;

/// Epoll data of the stop; tokens given to [`Acceptor::watch`] must be below it.
const STOP: u64 = 1 << 63;
const LISTENER_FIRST: u64 = STOP + 1;
/// Paused, without a time at which it goes on.
const UNTIL_RESUMED_NS: u64 = NEVER_NS - 1;

/// What the wait ended with.
pub(super) enum Came {
    /// A connection, whose calls block.
    Connection(OwnedFd),
    /// The server is to end.
    Stop,
    /// A descriptor given to [`Acceptor::watch`] is readable: its token.
    Other(u64),
}

/// The listening sockets of one thread or process that waits at them, in an epoll set of its own.
pub(super) struct Acceptor {
    epoll: OwnedFd,
    listeners: Vec<Arc<OwnedFd>>,
    /// When it takes connections again; [`NEVER_NS`] while it does.
    resume_ns: u64,
}

impl Acceptor {
    pub(super) fn new(listeners: Vec<Arc<OwnedFd>>, stop: &Stop) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        let acceptor = Self { epoll, listeners, resume_ns: NEVER_NS };
        acceptor.watch_listeners()?;
        Ok(acceptor)
    }

    /// Ends the wait with [`Came::Other`] of `token` when `fd` is readable.
    pub(super) fn watch(&self, fd: impl AsFd, token: u64) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
    }

    /// Stops watching `fd`. Closing it does so, too, unless another process has it open.
    pub(super) fn forget(&self, fd: impl AsFd) {
        // It cannot fail for a descriptor that is watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// The descriptors it needs; a forked child must keep them open.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.listeners.iter().map(|listener| listener.as_raw_fd()).chain([self.epoll.as_raw_fd()])
    }

    /// Waits for a connection, the stop, or what is watched beside. `published` is told of each sleep.
    pub(super) fn wait(
        &mut self,
        drain: &Drain,
        counters: &mut Counters,
        published: &Published,
    ) -> rustix::io::Result<Came> {
        // A child process may also be told to end by a signal to it alone.
        while !drain.has_begun() {
            let mut events = [MaybeUninit::uninit(); 1];
            let timeout = self.timeout();
            published.sleep(counters);
            let waited = epoll::wait(&self.epoll, &mut events, timeout.as_ref());
            published.wake();
            let token = match waited {
                Ok((events, _)) => events.first().map(|event| event.data.u64()),
                Err(Errno::INTR) => None,
                Err(error) => return Err(error),
            };
            if self.resume_ns <= clock::monotonic_ns() {
                self.resume()?;
            }
            match token {
                None => {}
                Some(STOP) => return Ok(Came::Stop),
                Some(listener) if listener >= LISTENER_FIRST => {
                    if let Some(connection) = self.accept((listener - LISTENER_FIRST) as usize, counters)? {
                        return Ok(Came::Connection(connection));
                    }
                }
                Some(other) => return Ok(Came::Other(other)),
            }
        }
        Ok(Came::Stop)
    }

    /// A connection that already stands in an accept queue, without waiting.
    pub(super) fn take(&mut self, counters: &mut Counters) -> rustix::io::Result<Option<OwnedFd>> {
        for index in 0..self.listeners.len() {
            if let Some(connection) = self.accept(index, counters)? {
                return Ok(Some(connection));
            }
        }
        Ok(None)
    }

    /// Takes no connection for `limits::ACCEPT_PAUSE`, or until [`Self::resume`].
    pub(super) fn pause(&mut self) -> rustix::io::Result<()> {
        if self.resume_ns == NEVER_NS {
            for listener in &self.listeners {
                epoll::delete(&self.epoll, listener)?;
            }
        }
        self.resume_ns = clock::monotonic_ns().saturating_add(limits::ACCEPT_PAUSE.as_nanos() as u64);
        Ok(())
    }

    /// Takes no connection until [`Self::resume`].
    pub(super) fn pause_until_resumed(&mut self) -> rustix::io::Result<()> {
        self.pause()?;
        self.resume_ns = UNTIL_RESUMED_NS;
        Ok(())
    }

    /// Takes connections again, at once.
    pub(super) fn resume(&mut self) -> rustix::io::Result<()> {
        if self.resume_ns == NEVER_NS {
            return Ok(());
        }
        self.resume_ns = NEVER_NS;
        self.watch_listeners()
    }

    fn accept(&mut self, index: usize, counters: &mut Counters) -> rustix::io::Result<Option<OwnedFd>> {
        let Some(listener) = self.listeners.get(index) else { return Ok(None) };
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(connection) => return Ok(Some(connection)),
            // Another took it.
            Err(Errno::AGAIN) => {}
            // The peer went away between connecting and here: the next one may be fine.
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => counters.accept_error += 1,
            Err(_) => {
                counters.accept_error += 1;
                self.pause()?;
            }
        }
        Ok(None)
    }

    fn watch_listeners(&self) -> rustix::io::Result<()> {
        for (listener, token) in self.listeners.iter().zip(LISTENER_FIRST..) {
            // Exclusive: a connection wakes one of those who wait, and not all.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
            epoll::add(&self.epoll, listener, epoll::EventData::new_u64(token), flags)?;
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Timespec> {
        if self.resume_ns >= UNTIL_RESUMED_NS {
            return None;
        }
        let wait_ns = self.resume_ns.saturating_sub(clock::monotonic_ns());
        Some(Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 })
    }
}
