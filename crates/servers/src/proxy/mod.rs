//! The reverse proxy: HTTP/1.1 to one or more origins, with buffers, temp files and a cache if asked for.
//!
//! One reactor a worker carries both sides: clients by `link` (plain or TLS), origins by sockets the worker
//! registers itself. Shared between workers: the origins' health and the cache. Not here: TLS to origins,
//! HTTP/2, upgrades and tunnels; a stale reply is fetched anew, not validated.

mod cache;
mod chain;
mod counters;
mod epoll_edge;
mod exchange;
mod fields;
mod forward;
mod freshness;
mod memory;
mod origins;
mod pool;
mod reply;
#[doc(hidden)]
pub mod stranger;
mod upstream;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::counters::Counters;
use crate::defects::Server;
use crate::error::ServeError;
use crate::limits;
use crate::listen::check_bounds;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

pub use counters::ProxyCounters;
pub use memory::{MemoryEstimate, buffers_within, memory_bytes};
pub use origins::{Balance, Origin, OriginError};

/// What both sides counted.
pub type Counted = (Counters, ProxyCounters);

/// A way a proxy is built.
#[derive(Debug)]
pub struct Design {
    /// Its name and what it is.
    pub info: DesignInfo,
    serve: fn(&ServeOptions, &ProxyOptions, &Stop, Ready<'_>) -> Result<Counted, ServeError>,
}

/// Every design of the proxy; the first is the default.
pub const DESIGNS: &[Design] = &[epoll_edge::DESIGN];

/// What only the proxy is told.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// One of [`DESIGNS`].
    pub design: &'static Design,
    /// Whom it asks. At least one.
    pub origins: Vec<Origin>,
    /// How requests are shared out over them.
    pub balance: Balance,
    /// Idle connections a worker keeps to each origin; 0 closes each after its reply.
    pub upstream_keepalive: usize,
    /// The longest an origin may take to accept a connection, to take or to give the next bytes.
    pub upstream_timeout: Duration,
    /// Whether replies are read ahead of the client; without it one buffer is, and origins wait.
    pub buffering: bool,
    /// Buffers of one connection.
    pub buffers: usize,
    /// Size of each, in bytes.
    pub buffer_bytes: usize,
    /// What one connection may write to its temp file once its buffers are full; 0 for no file.
    pub temp_bytes_max: u64,
    /// Where temp files are made. They have no name, and are gone with the process.
    pub temp_dir: PathBuf,
    /// Bytes of the cache all workers share; 0 for none.
    pub cache_bytes: u64,
    /// How long a request's head may take from its first byte on, however its bytes come; then 408 and the end of the
    /// connection. `None`: as long as it likes.
    pub head_timeout: Option<Duration>,
}

impl Default for ProxyOptions {
    /// nginx's 8 buffers of 4 KiB and temp files up to 1 GiB; 32 idle connections, 60 s, no cache.
    fn default() -> Self {
        Self {
            design: &DESIGNS[0],
            origins: Vec::new(),
            balance: Balance::default(),
            upstream_keepalive: 32,
            upstream_timeout: Duration::from_secs(60),
            buffering: true,
            buffers: 8,
            buffer_bytes: 4096,
            temp_bytes_max: 1 << 30,
            temp_dir: std::env::temp_dir(),
            cache_bytes: 0,
            head_timeout: Some(limits::HEAD_TIMEOUT_DEFAULT),
        }
    }
}

impl ProxyOptions {
    fn bounds(&self) -> chain::Bounds {
        chain::Bounds {
            buffers: if self.buffering { self.buffers } else { 1 },
            buffer_bytes: self.buffer_bytes,
            temp_bytes_max: if self.buffering { self.temp_bytes_max } else { 0 },
            temp_dir: self.temp_dir.clone(),
        }
    }

    fn check(&self) -> Result<(), ServeError> {
        check_bounds("buffers of a connection", self.buffers, 1, limits::PROXY_BUFFERS_MAX)?;
        let (min, max) = (*limits::PROXY_BUFFER_BYTES.start(), *limits::PROXY_BUFFER_BYTES.end());
        check_bounds("buffer size of a connection", self.buffer_bytes, min, max)?;
        if self.bounds().temp_bytes_max > 0 {
            chain::temp_file(&self.temp_dir).map_err(|error| match error {
                // Out of descriptors: to name another folder would not help.
                rustix::io::Errno::MFILE | rustix::io::Errno::NFILE => {
                    ServeError::Worker { doing: "open a temp file", source: error.into() }
                }
                _ => ServeError::TempDir { path: self.temp_dir.clone(), source: error.into() },
            })?;
        }
        Ok(())
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
/// The proxy could not start (an address, an origin's name, the folder for temp files, a worker), or a worker
/// failed (the others are then stopped, through `stop`).
pub fn serve(
    options: &ServeOptions,
    proxy: &ProxyOptions,
    stop: &Stop,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<Counted, ServeError> {
    options.check_tls(&proxy.design.info, DESIGNS.iter().map(|design| design.info))?;
    options.check_defects(Server::Proxy, &proxy.design.info, DESIGNS.iter().map(|design| design.info))?;
    proxy.check()?;
    (proxy.design.serve)(options, proxy, stop, Box::new(ready))
}
