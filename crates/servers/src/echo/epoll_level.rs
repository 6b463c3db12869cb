//! Echo by level-triggered epoll: a few threads, any number of connections, one receive and one send a turn each.
//!
//! Beside `epoll-edge`: a connection that is ready is told again in every turn, so nothing need be remembered of it, and
//! a change of what it waits for is a system call.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::level::{self, Poller};
use super::{Design, EchoOptions};
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::limits;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "epoll-level",
        about: "each worker serves all its connections from one level-triggered epoll loop",
        tls: false,
        able: Able::LEVEL,
    },
    serve,
};

fn serve(options: &ServeOptions, _: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    level::serve::<Epoll>(options, stop, ready)
}

struct Epoll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller for Epoll {
    fn new() -> rustix::io::Result<Self> {
        let events = Vec::with_capacity(limits::EVENTS_MAX);
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: u64) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, write: bool) -> rustix::io::Result<()> {
        let flags = if write { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
        epoll::delete(&self.epoll, fd)
    }

    fn wait(&mut self, timeout_ns: Option<u64>, ready: &mut Vec<u64>) -> rustix::io::Result<()> {
        self.events.clear();
        let timeout =
            timeout_ns.map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        // Copied out: the kernel's struct is packed on x86-64.
        ready.extend(self.events.iter().map(|event| { event.data }.u64()));
        Ok(())
    }
}
