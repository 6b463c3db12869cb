//! Echo by a thread for each connection, on a small stack, up to a stated number of them.
//!
//! One thread accepts. Where no thread can be made the connection is closed and counted, and nobody is let in for a
//! while; with all threads taken, who comes waits in the accept queue.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use super::blocking::{self, Manners, converse};
use super::door::{Came, Door};
use super::threads::{Roster, Shared, shared_listeners};
use super::{Design, EchoOptions};
use crate::board::Cell;
use crate::counters::Counters;
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
        defects: false,
    },
    serve,
};

/// Epoll data of the event that says a thread has ended.
const ROOM: u64 = 0;

fn serve(options: &ServeOptions, echo: &EchoOptions, stop: &Stop, ready: Ready<'_>) -> Result<Counters, ServeError> {
    blocking::check_one_worker(DESIGN.info.name, options.workers)?;
    listen::check_bounds("connections", echo.connections_max, 1, limits::CONNECTIONS_MAX)?;
    let handlers = echo.connections_max.min(limits::HANDLERS_MAX);
    // The unix socket's file is removed when this function ends, however it does.
    let Shared { listeners, addrs, unix_file: _unix_file } = shared_listeners(options)?;
    let mut cells = options.live.open(handlers + 1)?;
    let own = cells.pop();
    let room = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let room = room.map_err(blocking::failed("watch for ended threads"))?;
    let door = Door::new(listeners, stop).map_err(blocking::failed("watch its listeners"))?;
    door.watch(&room, ROOM).map_err(blocking::failed("watch for ended threads"))?;
    let hall = Hall {
        options,
        stop,
        roster: Roster::new(handlers),
        free: Mutex::new((0..handlers).rev().collect()),
        cells,
        room,
        is_awaited: AtomicBool::new(false),
    };
    let run = |(mut door, own): (Door, Option<Cell>)| match own {
        Some(own) => hall.run(&mut door, &own).map_err(blocking::failed("wait for connections")),
        None => Ok(Counters::default()),
    };
    run_threads("echo", options, stop, ready, &addrs, vec![(door, own)], Ok, run)
}

/// What the accepting thread shares with those that serve.
struct Hall<'a> {
    options: &'a ServeOptions,
    stop: &'a Stop,
    roster: Roster,
    /// Numbers without a thread; each has its cell.
    free: Mutex<Vec<usize>>,
    cells: Vec<Cell>,
    /// Signalled when a thread has ended, where that is awaited.
    room: OwnedFd,
    is_awaited: AtomicBool,
}

impl Hall<'_> {
    fn run(&self, door: &mut Door, own: &Cell) -> rustix::io::Result<Counters> {
        let mut counters = Counters::default();
        thread::scope(|scope| {
            loop {
                match door.wait(&self.roster.drain, &mut counters, own)? {
                    Came::Connection(connection) => self.seat(scope, door, connection, &mut counters)?,
                    Came::Other(_) => {
                        let _ = rustix::io::read(&self.room, &mut [0; 8]);
                        door.open()?;
                    }
                    Came::Stop => break,
                }
            }
            // Who already stands in the accept queue is let in: closing the listener would reset them.
            for _ in 0..limits::ACCEPT_BATCH * 64 {
                if self.free().is_empty() {
                    break;
                }
                let Some(connection) = door.take(&mut counters)? else { break };
                self.seat(scope, door, connection, &mut counters)?;
            }
            self.roster.end();
            own.sleep(&counters);
            Ok(())
        })?;
        for cell in &self.cells {
            counters.add(&cell.counters());
        }
        Ok(counters)
    }

    fn seat<'s>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        door: &mut Door,
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
            return door.shut();
        }
        if self.free().is_empty() {
            counters.accept_error += 1;
            self.is_awaited.store(true, Ordering::SeqCst);
            if self.free().is_empty() {
                door.shut_for_good()?;
            }
        }
        Ok(())
    }

    /// The life of one thread.
    fn handle(&self, number: usize, connection: OwnedFd) {
        let _guard = StopOnPanic(self.stop);
        let cell = &self.cells[number];
        let mut counters = cell.counters();
        cell.wake();
        let pin = self.options.pin.as_ref().filter(|cpus| !cpus.is_empty());
        // A CPU that is refused was refused to the accepting thread before, or is one of several: it serves anyway.
        counters.work_error += u64::from(prepare(pin.map(|cpus| cpus[number % cpus.len()])).is_err());
        match blocking::buffer(self.options.buffer_bytes) {
            Some(mut buffer) => {
                let connection = Arc::new(connection);
                self.roster.enter(number, &connection);
                let manners = Manners { idle: self.options.idle_timeout, drain: &self.roster.drain, cell };
                converse(connection.as_fd(), &mut buffer, &manners, &mut counters);
                self.roster.leave(number);
            }
            None => {
                counters.memory_error += 1;
                drop(connection);
            }
        }
        counters.closed += 1;
        cell.sleep(&counters);
        self.free().push(number);
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            // A full counter is readable, too.
            let _ = rustix::io::write(&self.room, &1_u64.to_ne_bytes());
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
