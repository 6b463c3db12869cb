//! Echo by a thread for each connection, on a small stack, up to a stated number of them.
//!
//! One thread accepts. Where no thread can be made the connection is closed and counted, and nobody is let in for a
//! while; with all threads taken, who comes waits in the accept queue.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use super::acceptor::{Acceptor, Came};
use super::blocking::{self, Manners, converse};
use super::threads::{Roster, Shared, shared_listeners};
use super::{Design, EchoOptions};
use crate::counters::{Counters, Published};
use crate::defects::beside::{Carried, Carries, Sound};
use crate::defects::{Able, Among, Defects};
use crate::error::ServeError;
use crate::limits;
use crate::listen;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::{Ready, StopOnPanic, prepare, run_threads};

pub(super) const DESIGN: Design = Design {
    info: DesignInfo {
        name: "thread",
        about: "a thread for each connection, as many as --connections-max says (16,384 at most); more wait",
        tls: false,
        able: &[
            Able::Requests,
            Able::Wakes,
            Able::Connections,
            Able::Replies,
            Able::Writes,
            Able::Queues,
            Able::OneProcess,
            Able::Lasting,
            Able::Parallel,
        ],
    },
    serve,
};

/// Epoll data of the event that says a thread has ended.
const ROOM: u64 = 0;

fn serve(options: &ServeOptions, echo: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    blocking::check_one_worker(DESIGN.info.name, options.workers)?;
    let mut options = options.clone();
    let defects = Defects::new("echo", Among::Threads, &mut options)?;
    if defects.is_empty() {
        return serve_carrying(&options, echo, stop, ready, || Sound);
    }
    serve_carrying(&options, echo, stop, ready, || Carried::new(&defects))
}

fn serve_carrying<C: Carries>(
    options: &ServeOptions,
    echo: &EchoOptions,
    stop: &Stop,
    ready: Ready<'_>,
    carrying: impl Fn() -> C + Sync,
) -> Result<Counters, ServeError> {
    listen::check_bounds("connections", echo.connections_max, 1, limits::CONNECTIONS_MAX)?;
    let handlers = echo.connections_max.min(limits::HANDLERS_MAX);
    // The unix socket's file is removed when this function ends, however it does.
    let Shared { listeners, addrs, unix_file: _unix_file } = shared_listeners(options)?;
    let mut published = options.live.open(handlers + 1)?;
    let own = published.pop();
    let room = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let room = room.map_err(blocking::failed("watch for ended threads"))?;
    let acceptor = Acceptor::new(listeners, stop).map_err(blocking::failed("watch its listeners"))?;
    acceptor.watch(&room, ROOM).map_err(blocking::failed("watch for ended threads"))?;
    let dispatcher = Dispatcher {
        options,
        stop,
        roster: Roster::new(handlers),
        free: Mutex::new((0..handlers).rev().collect()),
        published,
        room,
        is_awaited: AtomicBool::new(false),
        carrying,
    };
    let run = |(mut acceptor, own): (Acceptor, Option<Published>)| match own {
        Some(own) => dispatcher.run(&mut acceptor, &own).map_err(blocking::failed("wait for connections")),
        None => Ok(Counters::default()),
    };
    run_threads("echo", options, stop, ready, &addrs, vec![(acceptor, own)], Ok, run)
}

/// What the accepting thread shares with those that serve.
struct Dispatcher<'a, F> {
    options: &'a ServeOptions,
    stop: &'a Stop,
    roster: Roster,
    /// Indices of `published` that belong to no thread now.
    free: Mutex<Vec<usize>>,
    published: Vec<Published>,
    /// An eventfd: signalled when a thread has ended while `is_awaited` is set.
    room: OwnedFd,
    is_awaited: AtomicBool,
    /// Makes what a thread carries.
    carrying: F,
}

impl<C: Carries, F: Fn() -> C + Sync> Dispatcher<'_, F> {
    fn run(&self, acceptor: &mut Acceptor, own: &Published) -> rustix::io::Result<Counters> {
        let mut counters = Counters::default();
        thread::scope(|scope| {
            loop {
                match acceptor.wait(&self.roster.drain, &mut counters, own)? {
                    Came::Connection(connection) => self.hand_over(scope, acceptor, connection, &mut counters)?,
                    Came::Other(_) => {
                        let _ = rustix::io::read(&self.room, &mut [0; 8]);
                        acceptor.resume()?;
                    }
                    Came::Stop => break,
                }
            }
            // Who already stands in the accept queue is let in: closing the listener would reset them.
            for _ in 0..limits::ACCEPT_BATCH * 64 {
                if self.free().is_empty() {
                    break;
                }
                let Some(connection) = acceptor.take(&mut counters)? else { break };
                self.hand_over(scope, acceptor, connection, &mut counters)?;
            }
            self.roster.end();
            own.sleep(&counters);
            Ok(())
        })?;
        for published in &self.published {
            counters.add(&published.counters());
        }
        Ok(counters)
    }

    fn hand_over<'s>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        acceptor: &mut Acceptor,
        connection: OwnedFd,
        counters: &mut Counters,
    ) -> rustix::io::Result<()> {
        counters.accepted += 1;
        let number = self.free().pop();
        let spawned = number.and_then(|number| {
            let builder = thread::Builder::new().name(format!("echo-{number}")).stack_size(limits::HANDLER_STACK_BYTES);
            let spawned = builder.spawn_scoped(scope, move || self.handle(number, connection));
            spawned.inspect_err(|_| self.free().push(number)).ok()
        });
        if spawned.is_none() {
            counters.closed += 1;
            counters.work_error += 1;
            return acceptor.pause();
        }
        if self.free().is_empty() {
            counters.accept_error += 1;
            self.is_awaited.store(true, Ordering::SeqCst);
            if self.free().is_empty() {
                acceptor.pause_until_resumed()?;
            }
        }
        Ok(())
    }

    /// What one thread does from its start to its end: serves one connection, and publishes what it counted.
    fn handle(&self, number: usize, connection: OwnedFd) {
        let _guard = StopOnPanic(self.stop);
        let published = &self.published[number];
        let mut counters = published.counters();
        published.wake();
        let pin = self.options.pin.as_ref().filter(|cpus| !cpus.is_empty());
        // A CPU that is refused was refused to the accepting thread before, or is one of several: it serves anyway.
        counters.work_error += u64::from(prepare(pin.map(|cpus| cpus[number % cpus.len()])).is_err());
        match blocking::buffer(self.options.buffer_bytes) {
            Some(mut buffer) => {
                let connection = Arc::new(connection);
                self.roster.enter(number, &connection);
                let manners = Manners { idle: self.options.idle_timeout, drain: &self.roster.drain, published };
                converse(connection.as_fd(), &mut buffer, &manners, &mut (self.carrying)(), &mut counters);
                self.roster.leave(number);
            }
            None => {
                counters.memory_error += 1;
                drop(connection);
            }
        }
        counters.closed += 1;
        published.sleep(&counters);
        self.free().push(number);
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            // The write fails only if the counter is full, and then the eventfd is readable anyway.
            let _ = rustix::io::write(&self.room, &1_u64.to_ne_bytes());
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
