//! Echo by poll(2): every connection is handed to the kernel, and looked at, in every turn.
//!
//! What a turn costs grows with the connections that are there, whether or not they speak: the design that epoll was
//! made to replace.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;

use super::level::{self, Poller};
use super::{Design, EchoOptions};
use crate::counters::Counters;
use crate::defects::Able;
use crate::error::ServeError;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "poll",
        about: "each worker asks poll(2) about all its connections in every turn",
        tls: false,
        able: Able::LEVEL,
    },
    serve,
};

fn serve(options: &ServeOptions, _: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    level::serve::<Poll>(options, stop, ready)
}

/// The place of a descriptor that is not in the list.
const NOWHERE: u32 = u32::MAX;

#[derive(Default)]
struct Poll {
    /// The list given to poll(2).
    list: Vec<libc::pollfd>,
    /// The token of each entry of `list`.
    tokens: Vec<u64>,
    /// The place in `list` of each descriptor, indexed by its number.
    places: Vec<u32>,
}

impl Poll {
    fn place(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let place = self.places.get(fd.as_raw_fd() as usize).copied().unwrap_or(NOWHERE);
        if place == NOWHERE { Err(Errno::NOENT) } else { Ok(place as usize) }
    }
}

impl Poller for Poll {
    fn new() -> rustix::io::Result<Self> {
        Ok(Self::default())
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: u64) -> rustix::io::Result<()> {
        let fd = fd.as_raw_fd();
        if self.places.len() <= fd as usize {
            self.places.resize(fd as usize + 1, NOWHERE);
        }
        self.places[fd as usize] = self.list.len() as u32;
        self.list.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        self.tokens.push(token);
        Ok(())
    }

    fn change(&mut self, fd: BorrowedFd<'_>, _: u64, write: bool) -> rustix::io::Result<()> {
        let place = self.place(fd)?;
        self.list[place].events = if write { libc::POLLOUT } else { libc::POLLIN };
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let place = self.place(fd)?;
        self.places[fd.as_raw_fd() as usize] = NOWHERE;
        self.list.swap_remove(place);
        self.tokens.swap_remove(place);
        if let Some(moved) = self.list.get(place) {
            self.places[moved.fd as usize] = place as u32;
        }
        Ok(())
    }

    fn wait(&mut self, timeout_ns: Option<u64>, ready: &mut Vec<u64>) -> rustix::io::Result<()> {
        let timeout = timeout_ns.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: pointer and length describe the valid, writable list; the timeout is null or lives over the call.
        let count =
            unsafe { libc::ppoll(self.list.as_mut_ptr(), self.list.len() as libc::nfds_t, timeout, ptr::null()) };
        if count < 0 {
            let error = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
            return if error == Errno::INTR { Ok(()) } else { Err(error) };
        }
        let asked = self.list.iter().zip(&self.tokens);
        ready.extend(asked.filter(|(fd, _)| fd.revents != 0).map(|(_, token)| *token).take(count as usize));
        Ok(())
    }
}
