//! The echo server: what comes in goes out again, byte for byte, over TCP and a unix socket.
//!
//! One file or folder a design; `DESIGNS` lists them all, the first is the default. To add one, copy a neighbour.
//! What several share: `blocking` a conversation by blocking calls, `acceptor` the wait for connections, `threads` and
//! `process` how those are ended; `level` the loop of the level-triggered designs.

mod acceptor;
mod blocking;
mod drain;
mod epoll_edge;
mod epoll_level;
mod fork;
mod iterative;
mod level;
mod poll;
mod pool;
mod prefork;
pub(crate) mod process;
mod thread;
mod threads;
mod uring;

use std::net::SocketAddr;

use crate::counters::Counters;
use crate::defects::Server;
use crate::error::ServeError;
use crate::limits;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

/// A way an echo server is built.
#[derive(Debug)]
pub struct Design {
    /// Its name and what it is.
    pub info: DesignInfo,
    serve: fn(&ServeOptions, &EchoOptions, &Stop, Ready<'_>) -> Result<Counters, ServeError>,
}

/// Every design of the echo server; the first is the default.
pub const DESIGNS: &[Design] = &[
    epoll_edge::DESIGN,
    epoll_level::DESIGN,
    uring::DESIGN,
    poll::DESIGN,
    iterative::DESIGN,
    fork::DESIGN,
    prefork::DESIGN,
    thread::DESIGN,
    pool::DESIGN,
];

/// What only the echo server is told.
#[derive(Debug, Clone)]
pub struct EchoOptions {
    /// One of [`DESIGNS`].
    pub design: &'static Design,
    /// Connections it must be able to hold. `uring` makes as many rings as that takes; `thread` and `fork` serve no
    /// more at once, and `limits::HANDLERS_MAX` at most; the others do not look at it.
    pub connections_max: usize,
    /// Slots of a ring's table of descriptors (`uring`). `None`: as many as `nofile` allows.
    pub table_slots: Option<u32>,
}

impl Default for EchoOptions {
    fn default() -> Self {
        Self { design: &DESIGNS[0], connections_max: limits::CONNECTIONS_DEFAULT, table_slots: None }
    }
}

/// The design of that name.
#[must_use]
pub fn design(name: &str) -> Option<&'static Design> {
    DESIGNS.iter().find(|design| design.info.name == name)
}

/// Serves until `stop` is pulled and drained; `ready` is told the addresses bound, ports resolved.
///
/// # Errors
/// The server could not start, or a worker failed (the others are then stopped, through `stop`).
pub fn serve(
    options: &ServeOptions,
    echo: &EchoOptions,
    stop: &Stop,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<Counters, ServeError> {
    options.check_tls(&echo.design.info, DESIGNS.iter().map(|design| design.info))?;
    options.check_defects(Server::Echo, &echo.design.info, DESIGNS.iter().map(|design| design.info))?;
    (echo.design.serve)(options, echo, stop, Box::new(ready))
}
