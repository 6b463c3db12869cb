//! Echo by a fixed number of processes (`workers`) that take connections from the same sockets, one at a time each.
//!
//! As with `pool`, idle connections starve it; unlike there, a process that dies takes one connection with it and is
//! replaced. The parent serves nobody: it keeps the number of processes and ends them.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::acceptor::Acceptor;
use super::blocking::{self, Manners, attend, converse};
use super::fork::{settle, wait_for_all};
use super::process::{self, Child};
use super::threads::{Shared, shared_listeners};
use super::{Design, EchoOptions};
use crate::counters::{Counters, Published};
use crate::defects::beside::{self, Carried, Carries, Sound};
use crate::defects::{Able, Among, Defects};
use crate::error::ServeError;
use crate::limits;
use crate::listen;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::{Ready, pin};

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "prefork",
        about: "a fixed number of processes, each serving one connection at a time; more wait",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Connections,
            Able::Replies,
            Able::Writes,
            Able::Lasting,
            Able::Workers,
            Able::Queues,
            Able::Parallel,
        ],
    },
    serve,
};

fn serve(options: &ServeOptions, _: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    listen::check_bounds("workers", options.workers, 1, limits::WORKERS_MAX)?;
    let mut options = options.clone();
    let defects = Defects::new("echo", Among::Processes, &mut options)?;
    let carried = beside::descriptors(&defects);
    if defects.is_empty() {
        return serve_carrying(&options, stop, ready, carried, || Sound);
    }
    serve_carrying(&options, stop, ready, carried, || Carried::new(&defects))
}

fn serve_carrying<C: Carries>(
    options: &ServeOptions,
    stop: &Stop,
    ready: Ready<'_>,
    carried: Vec<RawFd>,
    carrying: impl Fn() -> C,
) -> Result<Counters, ServeError> {
    // The unix socket's file is removed when this function ends, however it does.
    let Shared { listeners, addrs, unix_file: _unix_file } = shared_listeners(options)?;
    let published = options.live.open(options.workers)?;
    let Some(buffer) = blocking::buffer(options.buffer_bytes) else {
        return Err(blocking::failed("have its buffer")(Errno::NOMEM));
    };
    let mut parent = Parent {
        options,
        stop,
        listeners,
        buffer,
        published,
        children: (0..options.workers).map(|_| None).collect(),
        carried,
        carrying,
    };
    let started = (0..options.workers).try_for_each(|number| parent.start(number));
    if started.is_ok() {
        ready(&addrs);
    }
    let watched = started.and_then(|()| parent.watch());
    // Also where starting or watching failed: the children that exist must end.
    parent.children.iter().flatten().for_each(Child::end);
    let cut = wait_for_all(parent.children.iter_mut().zip(&parent.published));
    watched?;
    let mut counters = Counters { cut_at_stop: cut, ..Counters::default() };
    for published in &parent.published {
        counters.add(&published.counters());
    }
    Ok(counters)
}

struct Parent<'a, F> {
    options: &'a ServeOptions,
    stop: &'a Stop,
    listeners: Vec<Arc<OwnedFd>>,
    /// To receive into; a child gets its own copy of the pages it writes to (copy on write).
    buffer: Box<[MaybeUninit<u8>]>,
    published: Vec<Published>,
    children: Vec<Option<Child>>,
    /// Descriptors of defects, which children keep.
    carried: Vec<RawFd>,
    /// Makes what a child carries.
    carrying: F,
}

impl<C: Carries, F: Fn() -> C> Parent<'_, F> {
    fn start(&mut self, number: usize) -> Result<(), ServeError> {
        // Only this child has it after the fork: its set of events is its own.
        let mut acceptor =
            Acceptor::new(self.listeners.clone(), self.stop).map_err(blocking::failed("watch its listeners"))?;
        let mut keep: Vec<RawFd> = acceptor.descriptors().chain(self.carried.iter().copied()).collect();
        keep.sort_unstable();
        let published = &self.published[number];
        let mut counters = published.counters();
        let (buffer, idle) = (&mut self.buffer, self.options.idle_timeout);
        let mut carries = (self.carrying)();
        let child = Child::spawn(&keep, None, || {
            let manners = Manners { idle, drain: &process::DRAIN, published };
            let one = |connection: OwnedFd, counters: &mut Counters| {
                process::serves(Some(connection.as_raw_fd()));
                converse(connection.as_fd(), buffer, &manners, &mut carries, counters);
                process::serves(None);
            };
            if attend(&mut acceptor, &process::DRAIN, published, &mut counters, one).is_err() {
                counters.work_error += 1;
                published.sleep(&counters);
            }
        });
        let child = child.map_err(|source| ServeError::Worker { doing: "start its process", source })?;
        let cpus = self.options.pin.as_ref().filter(|cpus| !cpus.is_empty());
        let pinned = cpus.map_or(Ok(()), |cpus| pin(Some(child.pid()), cpus[number % cpus.len()]));
        self.children[number] = Some(child);
        pinned
    }

    /// Replaces children that die, until the stop.
    fn watch(&mut self) -> Result<(), ServeError> {
        loop {
            let mut fds = vec![PollFd::new(self.stop, PollFlags::IN)];
            fds.extend(self.children.iter().flatten().map(|child| PollFd::new(child, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(blocking::failed("watch its processes")(error)),
            }
            let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ended[0] {
                return Ok(());
            }
            for number in 0..self.children.len() {
                // All are there whenever the descriptors are listed: the one at `number + 1` is this child's.
                if ended[number + 1]
                    && let Some(child) = self.children[number].take()
                {
                    settle(child.reap(), &self.published[number]);
                    // A child that dies as soon as it was started must not make the parent spin.
                    thread::sleep(limits::ACCEPT_PAUSE);
                    self.start(number)?;
                }
            }
        }
    }
}
