//! Echo by a process for each connection, up to a stated number of them, each reaped when it ends.
//!
//! The parent accepts and forks; a fault in one connection's process harms no other. Where no process can be made the
//! connection is closed and counted, and nobody is let in for a while; with all taken, who comes waits.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::acceptor::{Acceptor, Came};
use super::blocking::{self, Manners, converse};
use super::drain::Drain;
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
        name: "fork",
        about: "a process for each connection, as many as --connections-max says (16,384 at most); more wait",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Connections,
            Able::Replies,
            Able::Writes,
            Able::Queues,
            Able::Parallel,
        ],
    },
    serve,
};

fn serve(options: &ServeOptions, echo: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    blocking::check_one_worker(DESIGN.info.name, options.workers)?;
    let mut options = options.clone();
    let defects = Defects::new("echo", Among::Processes, &mut options)?;
    let carried = beside::descriptors(&defects);
    if defects.is_empty() {
        return serve_carrying(&options, echo, stop, ready, carried, || Sound);
    }
    serve_carrying(&options, echo, stop, ready, carried, || Carried::new(&defects))
}

fn serve_carrying<C: Carries>(
    options: &ServeOptions,
    echo: &EchoOptions,
    stop: &Stop,
    ready: Ready<'_>,
    carried: Vec<RawFd>,
    carrying: impl Fn() -> C,
) -> Result<Counters, ServeError> {
    listen::check_bounds("connections", echo.connections_max, 1, limits::CONNECTIONS_MAX)?;
    let children_max = echo.connections_max.min(limits::HANDLERS_MAX);
    // The unix socket's file is removed when this function ends, however it does.
    let Shared { listeners, addrs, unix_file: _unix_file } = shared_listeners(options)?;
    let mut published = options.live.open(children_max + 1)?;
    let Some(own) = published.pop() else { return Ok(Counters::default()) };
    let Some(buffer) = blocking::buffer(options.buffer_bytes) else {
        return Err(blocking::failed("have its buffer")(rustix::io::Errno::NOMEM));
    };
    let mut acceptor = Acceptor::new(listeners, stop).map_err(blocking::failed("watch its listeners"))?;
    let mut parent = Parent {
        options,
        buffer,
        free: (0..children_max).rev().collect(),
        children: (0..children_max).map(|_| None).collect(),
        published,
        carried,
        carrying,
    };
    for cpu in options.pin.iter().flatten() {
        // Tried before anybody is served, because this process itself is bound to each CPU for a moment.
        check_cpu(*cpu)?;
    }
    ready(&addrs);
    parent.run(&mut acceptor, &own).map_err(blocking::failed("wait for connections"))
}

/// Whether a process may be bound to this CPU. The caller stays where it may be now.
fn check_cpu(cpu: usize) -> Result<(), ServeError> {
    let before = rustix::thread::sched_getaffinity(None);
    pin(None, cpu)?;
    if let Ok(before) = before {
        // Cannot fail: the process was bound to these CPUs before.
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    Ok(())
}

struct Parent<'a, F> {
    options: &'a ServeOptions,
    /// To receive into; a child gets its own copy of the pages it writes to (copy on write).
    buffer: Box<[std::mem::MaybeUninit<u8>]>,
    /// Indices of `published` that belong to no child now.
    free: Vec<usize>,
    children: Vec<Option<Child>>,
    published: Vec<Published>,
    /// Descriptors of defects, which children keep.
    carried: Vec<RawFd>,
    /// Makes what a child carries.
    carrying: F,
}

impl<C: Carries, F: Fn() -> C> Parent<'_, F> {
    fn run(&mut self, acceptor: &mut Acceptor, own: &Published) -> rustix::io::Result<Counters> {
        let mut counters = Counters::default();
        let drain = Drain::new();
        loop {
            match acceptor.wait(&drain, &mut counters, own)? {
                Came::Connection(connection) => self.hand_over(acceptor, connection, &mut counters)?,
                Came::Other(number) => {
                    self.reap(acceptor, number as usize);
                    acceptor.resume()?;
                }
                Came::Stop => break,
            }
        }
        // Who already stands in the accept queue is let in: closing the listener would reset them.
        for _ in 0..limits::ACCEPT_BATCH * 64 {
            if self.free.is_empty() {
                break;
            }
            let Some(connection) = acceptor.take(&mut counters)? else { break };
            self.hand_over(acceptor, connection, &mut counters)?;
        }
        for child in self.children.iter().flatten() {
            child.end();
        }
        own.sleep(&counters);
        counters.cut_at_stop += wait_for_all(self.children.iter_mut().zip(&self.published));
        for published in &self.published {
            counters.add(&published.counters());
        }
        Ok(counters)
    }

    /// Makes a child for a connection, which the parent then closes.
    fn hand_over(
        &mut self,
        acceptor: &mut Acceptor,
        connection: OwnedFd,
        counters: &mut Counters,
    ) -> rustix::io::Result<()> {
        let Some(number) = self.free.pop() else { return Ok(()) };
        let published = &self.published[number];
        let mut served = published.counters();
        served.accepted += 1;
        let (buffer, idle) = (&mut self.buffer, self.options.idle_timeout);
        let raw = connection.as_raw_fd();
        let mut keep = self.carried.clone();
        keep.push(raw);
        keep.sort_unstable();
        let mut carries = (self.carrying)();
        let child = Child::spawn(&keep, Some(connection), || {
            published.wake();
            process::serves(Some(raw));
            let manners = Manners { idle, drain: &process::DRAIN, published };
            // SAFETY: open in this process until the close below.
            converse(unsafe { BorrowedFd::borrow_raw(raw) }, buffer, &manners, &mut carries, &mut served);
            process::serves(None);
            served.closed += 1;
            // SAFETY: its owner is not dropped in this process, which ends.
            unsafe { libc::close(raw) };
            published.sleep(&served);
        });
        let watched = child.ok().and_then(|child| match acceptor.watch(&child, number as u64) {
            Ok(()) => Some(child),
            Err(_) => {
                child.kill();
                child.reap();
                None
            }
        });
        let Some(child) = watched else {
            counters.accepted += 1;
            counters.closed += 1;
            counters.work_error += 1;
            self.free.push(number);
            return acceptor.pause();
        };
        let cpus = self.options.pin.as_ref().filter(|cpus| !cpus.is_empty());
        if let Some(cpus) = cpus {
            // Cannot fail: every CPU was tried at the start.
            counters.work_error += u64::from(pin(Some(child.pid()), cpus[number % cpus.len()]).is_err());
        }
        self.children[number] = Some(child);
        if self.free.is_empty() {
            counters.accept_error += 1;
            acceptor.pause_until_resumed()?;
        }
        Ok(())
    }

    fn reap(&mut self, acceptor: &Acceptor, number: usize) {
        let Some(child) = self.children.get_mut(number).and_then(Option::take) else { return };
        acceptor.forget(&child);
        settle(child.reap(), &self.published[number]);
        self.free.push(number);
    }
}

/// Takes the counters over from a child that has ended. One that was killed could not count its last.
pub(super) fn settle(in_order: bool, published: &Published) -> u64 {
    let mut counters = published.counters();
    let left = counters.open();
    if !in_order {
        counters.work_error += 1;
    }
    counters.closed = counters.accepted;
    published.sleep(&counters);
    left
}

/// Waits for children that were told to end, at most so long as draining takes and a little; then kills the rest.
/// Returns how many connections were cut by that.
pub(super) fn wait_for_all<'a>(children: impl Iterator<Item = (&'a mut Option<Child>, &'a Published)>) -> u64 {
    let until = Instant::now() + limits::DRAIN + limits::PROCESS_GRACE;
    let mut cut = 0;
    for (child, published) in children {
        let Some(child) = child.take() else { continue };
        let mut is_late = false;
        while !is_late && !has_ended(&child, until.saturating_duration_since(Instant::now())) {
            is_late = Instant::now() >= until;
        }
        if is_late {
            child.kill();
        }
        // One that is killed here is cut, and nothing failed.
        let in_order = child.reap() || is_late;
        cut += settle(in_order, published);
    }
    cut
}

fn has_ended(child: &Child, within: Duration) -> bool {
    let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    matches!(poll(&mut [PollFd::new(child, PollFlags::IN)], Some(&timeout)), Ok(n) if n > 0)
}
