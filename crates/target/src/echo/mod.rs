//! The echo server: what comes in goes out again, byte for byte, over TCP and a unix socket.
//!
//! One file a design; `DESIGNS` lists them all, the first is the default. To add one, copy a neighbour.

mod epoll_edge;

use std::net::SocketAddr;

use crate::counters::Counters;
use crate::error::ServeError;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

/// A way an echo server is built.
#[derive(Debug)]
pub struct Design {
    /// Its name and what it is.
    pub info: DesignInfo,
    serve: fn(&ServeOptions, &Stop, Ready<'_>) -> Result<Counters, ServeError>,
}

/// Every design of the echo server; the first is the default.
pub const DESIGNS: &[Design] = &[epoll_edge::DESIGN];

/// What only the echo server is told.
#[derive(Debug, Clone)]
pub struct EchoOptions {
    /// One of [`DESIGNS`].
    pub design: &'static Design,
}

impl Default for EchoOptions {
    fn default() -> Self {
        Self { design: &DESIGNS[0] }
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
    (echo.design.serve)(options, stop, Box::new(ready))
}
