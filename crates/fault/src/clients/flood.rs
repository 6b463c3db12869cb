//! Connections made at a rate, and left as soon as they are made: what a server pays for accepting alone.
//!
//! Each is left by a reset (SO_LINGER 0, socket(7)), so that the client's ports are not used up by TIME_WAIT. At most
//! [`ON_THEIR_WAY_MAX`] are on their way at a time: beyond, what would be due is counted as not begun, and the server is as
//! full as this can make it. Cost: three system calls a connection.

use super::{allow, connecting};
use crate::helper::job::Work;
use crate::helper::report::{Connections, Report};
use crate::helper::why;
use crate::limits::ON_THEIR_WAY_MAX;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two batches.
const TICK: Duration = Duration::from_millis(2);

/// So many connections a second.
#[derive(Debug)]
pub(crate) struct Flood {
    to: SocketAddr,
    due: Due,
    epoll: OwnedFd,
    on_their_way: BTreeMap<u64, Socket>,
    next: u64,
    counts: Connections,
}

/// How many of a rate are due: none that was missed in a long pause is made up for.
#[derive(Debug)]
pub(crate) struct Due {
    per_s: u32,
    since: Option<Instant>,
    part: f64,
}

impl Due {
    pub(crate) fn new(per_s: u32) -> Self {
        Due { per_s, since: None, part: 0.0 }
    }

    pub(crate) fn now(&mut self, now: Instant) -> u32 {
        let Some(since) = self.since.replace(now) else { return 0 };
        let passed = (now - since).min(Duration::from_millis(100));
        self.part += passed.as_secs_f64() * f64::from(self.per_s);
        let whole = self.part.floor();
        self.part -= whole;
        whole as u32
    }
}

impl Flood {
    pub(crate) fn new(to: SocketAddr, per_s: u32) -> Result<Self, String> {
        allow(ON_THEIR_WAY_MAX as u64)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| format!("epoll: {}", why(error)))?;
        let counts = Connections::default();
        Ok(Flood { to, due: Due::new(per_s), epoll, on_their_way: BTreeMap::new(), next: 0, counts })
    }

    fn begin(&mut self) -> io::Result<()> {
        let socket = connecting(self.to, None)?;
        socket.set_linger(Some(Duration::ZERO))?;
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(self.next), flags)?;
        self.on_their_way.insert(self.next, socket);
        self.next += 1;
        Ok(())
    }

    fn ended(&mut self, error: Option<io::Error>) {
        match error {
            None => self.counts.opened += 1,
            Some(error) => {
                self.counts.failed += 1;
                self.counts.why.get_or_insert_with(|| why(io::Error::from(error.kind())));
            }
        }
    }

    fn take_events(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(1024);
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
            return;
        }
        for event in events {
            if let Some(socket) = self.on_their_way.remove(&event.data.u64()) {
                self.ended(socket.take_error().unwrap_or_else(Some));
            }
        }
    }
}

impl Work for Flood {
    fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn step(&mut self, now: Instant) -> Duration {
        self.take_events();
        for _ in 0..self.due.now(now) {
            if self.on_their_way.len() >= ON_THEIR_WAY_MAX {
                self.counts.skipped += 1;
            } else if let Err(error) = self.begin() {
                self.ended(Some(error));
            }
        }
        TICK
    }

    fn report(&self) -> Report {
        Report::Clients(Connections { open: self.on_their_way.len() as u64, ..self.counts.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_follows_the_clock_and_not_how_often_one_looks() {
        let start = Instant::now();
        let mut due = Due::new(1000);
        let looks = (0..=100).map(|n| due.now(start + Duration::from_micros(1300 * n)));
        assert_eq!(looks.sum::<u32>(), 130);
        // After a pause no more than a tenth of a second is made up for.
        assert_eq!(due.now(start + Duration::from_secs(60)), 100);
    }
}
