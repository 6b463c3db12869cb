//! The name service: values under names, spoken in RESP2, by a store that may crash and is started again.
//!
//! A supervision tree on ractor: connections hand requests to a queue, one store takes them, a supervisor starts it
//! again after a crash (OOPS makes one) and gives up when there are too many. With a journal nothing acknowledged is
//! lost by that, nor by `kill -9`. tokio is used in this folder only. Not here: TLS, RESP3, expiry, replication.

mod command;
mod connection;
mod counters;
pub(crate) mod error;
mod info;
mod journal;
pub mod limits;
mod map;
mod queue;
mod reply;
mod resp;
mod server;
mod store;
#[doc(hidden)]
pub mod stranger;
mod supervisor;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use counters::NamesCounters;
pub use error::NamesError;

use crate::defects::Server;
use crate::error::ServeError;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

/// A way a name service is built.
#[derive(Debug)]
pub struct Design {
    /// Its name and what it is.
    pub info: DesignInfo,
    serve: fn(&ServeOptions, &NamesOptions, &Stop, Ready<'_>) -> Result<NamesCounters, ServeError>,
}

/// Every design of the name service; the first is the default.
pub const DESIGNS: &[Design] = &[server::DESIGN];

/// What clients see while the store is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCrash {
    /// An error at once.
    FailFast,
    /// They are held until it is back, bounded by `wait_timeout` and `wait_queue`.
    Wait,
    /// The server tries again this often, then an error.
    Retry {
        /// Tries after the first.
        times: u32,
        /// The pause before the first of them; each is twice as long as the one before.
        backoff: Duration,
    },
}

/// What only the name service is told.
#[derive(Debug, Clone)]
pub struct NamesOptions {
    /// One of [`DESIGNS`].
    pub design: &'static Design,
    /// What clients see while the store is down.
    pub on_crash: OnCrash,
    /// How long a request is held ([`OnCrash::Wait`]).
    pub wait_timeout: Duration,
    /// How many are held ([`OnCrash::Wait`]); one more is refused at once.
    pub wait_queue: usize,
    /// Restarts within `restart_period`; at one more the supervisor gives up.
    pub restarts_max: u32,
    /// The period.
    pub restart_period: Duration,
    /// The pause before a restart; doubled with each crash within the period.
    pub backoff: Duration,
    /// The longest such pause.
    pub backoff_max: Duration,
    /// The file that makes the store durable. Its lock is a file beside it with `.lock` at its end.
    pub journal: Option<PathBuf>,
    /// The journal is rewritten when it is this many times as large as it would be then.
    pub rewrite_factor: u32,
    /// Names, values and what keeping them takes, in bytes; what would exceed it is refused.
    pub store_bytes_max: u64,
}

impl Default for NamesOptions {
    fn default() -> Self {
        Self {
            design: &DESIGNS[0],
            on_crash: OnCrash::FailFast,
            wait_timeout: limits::WAIT_TIMEOUT_DEFAULT,
            wait_queue: limits::WAIT_QUEUE_DEFAULT,
            restarts_max: limits::RESTARTS_MAX_DEFAULT,
            restart_period: limits::RESTART_PERIOD_DEFAULT,
            backoff: limits::BACKOFF_DEFAULT.0,
            backoff_max: limits::BACKOFF_DEFAULT.1,
            journal: None,
            rewrite_factor: limits::REWRITE_FACTOR_DEFAULT,
            store_bytes_max: limits::STORE_BYTES_DEFAULT,
        }
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
/// The server could not start (an address, the journal), or the supervisor gave up.
pub fn serve(
    options: &ServeOptions,
    names: &NamesOptions,
    stop: &Stop,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<NamesCounters, ServeError> {
    if options.tls.is_some() {
        return Err(NamesError::NoTls.into());
    }
    options.check_defects(Server::Names, &names.design.info, DESIGNS.iter().map(|design| design.info))?;
    (names.design.serve)(options, names, stop, Box::new(ready))
}
