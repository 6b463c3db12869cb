//! The HTTP server: HTTP/1.1 and 1.0, files below a root, or paths of known behaviour for scenarios.
//!
//! The protocol (`session` and what it uses) knows no sockets; a design is one file that moves bytes.
//! `DESIGNS` lists the designs, the first is the default. Not here: TLS (`tls`), HTTP/2, compression.

pub(crate) mod body;
mod conditions;
pub(crate) mod date;
mod epoll_edge;
mod files;
mod generated;
pub(crate) mod output;
mod path;
pub(crate) mod reply;
pub(crate) mod request;
mod route;
mod session;
#[doc(hidden)]
pub mod stranger;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::counters::Counters;
use crate::defects::Server;
use crate::error::ServeError;
use crate::limits;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

/// The 64 bytes that `/bytes` repeats from its first byte on, and `/chunked` from each chunk's first
/// (towards HTTP/1.0, which has no chunks, from the body's first).
pub use generated::LINE as GENERATED_LINE;
pub(crate) use reply::reason;

/// A way an HTTP server is built.
#[derive(Debug)]
pub struct Design {
    /// Its name and what it is.
    pub info: DesignInfo,
    serve: fn(&ServeOptions, &HttpOptions, &Stop, Ready<'_>) -> Result<Counters, ServeError>,
}

/// Every design of the HTTP server; the first is the default.
pub const DESIGNS: &[Design] = &[epoll_edge::DESIGN];

/// What only the HTTP server is told.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// One of [`DESIGNS`].
    pub design: &'static Design,
    /// The folder whose files are served. Without one: `/` and the paths it lists.
    pub root: Option<PathBuf>,
    /// The `Server` field of every reply; empty for none.
    pub server_header: String,
    /// Whether connections are kept after a reply, where the client allows it.
    pub keep_alive: bool,
    /// The largest request body taken, in bytes; `/echo` holds one of that size a connection.
    pub body_bytes_max: u64,
    /// How long a request's head may take from its first byte on, however its bytes come; then 408 and the end of the
    /// connection. `None`: as long as it likes.
    pub head_timeout: Option<Duration>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            design: &DESIGNS[0],
            root: None,
            server_header: "plimsoll".to_owned(),
            keep_alive: true,
            body_bytes_max: limits::BODY_BYTES_MAX_DEFAULT,
            head_timeout: Some(limits::HEAD_TIMEOUT_DEFAULT),
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
/// The server could not start (an address, the root, a worker), or a worker failed (the others are then
/// stopped, through `stop`).
pub fn serve(
    options: &ServeOptions,
    http: &HttpOptions,
    stop: &Stop,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<Counters, ServeError> {
    options.check_tls(&http.design.info, DESIGNS.iter().map(|design| design.info))?;
    options.check_defects(Server::Http, &http.design.info, DESIGNS.iter().map(|design| design.info))?;
    (http.design.serve)(options, http, stop, Box::new(ready))
}
