//! The WebSocket server (RFC 6455): each message comes back as it went, compressed if it came so (RFC 7692).
//!
//! The protocol (`session` and what it uses) knows no sockets; a design is one file that moves bytes. Peers that break the
//! protocol are told with a close code and a reason. Not here: subprotocols of any meaning (one of those asked for is
//! chosen if it is listed), extensions but permessage-deflate, anything over HTTP/2.

mod compression;
mod epoll_edge;
mod frame;
mod session;
#[doc(hidden)]
pub mod stranger;
mod upgrade;
mod utf8;

use std::net::SocketAddr;
use std::time::Duration;

use crate::counters::Counters;
use crate::defects::Server;
use crate::error::ServeError;
use crate::limits;
use crate::options::{DesignInfo, ServeOptions};
use crate::stop::Stop;
use crate::workers::Ready;

/// A way a WebSocket server is built.
#[derive(Debug)]
pub struct Design {
    /// Its name and what it is.
    pub info: DesignInfo,
    serve: fn(&ServeOptions, &WebSocketOptions, &Stop, Ready<'_>) -> Result<Counters, ServeError>,
}

/// Every design of the WebSocket server; the first is the default.
pub const DESIGNS: &[Design] = &[epoll_edge::DESIGN];

/// Messages longer than this are closed with 1009, unless the options say otherwise. A connection holds at most one message
/// and its echo, and some 300 KiB where it compresses, beside what [`crate::limits`] says of any.
const MESSAGE_BYTES_MAX_DEFAULT: usize = 16 * 1024 * 1024;

/// What only the WebSocket server is told.
#[derive(Debug, Clone)]
pub struct WebSocketOptions {
    /// One of [`DESIGNS`].
    pub design: &'static Design,
    /// The longest message taken, in bytes after decompression; longer ones are closed with 1009. A connection holds at
    /// most two of them: one that comes and its echo.
    pub message_bytes_max: usize,
    /// Whether permessage-deflate is accepted where a client offers it.
    pub deflate: bool,
    /// Subprotocols it speaks, the one liked best first. A client that asks for none of them gets none.
    pub subprotocols: Vec<String>,
    /// How long the handshake's head may take from its first byte on; then 408 and the end of the connection. `None`: as
    /// long as it likes.
    pub head_timeout: Option<Duration>,
    /// How often a ping is sent on a connection whose peer reads; `None`: never. Whether a pong comes back is not looked at: a
    /// peer from which nothing comes at all is closed by the idle timeout.
    pub ping_every: Option<Duration>,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            design: &DESIGNS[0],
            message_bytes_max: MESSAGE_BYTES_MAX_DEFAULT,
            deflate: true,
            subprotocols: Vec::new(),
            head_timeout: Some(limits::HEAD_TIMEOUT_DEFAULT),
            ping_every: None,
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
/// The server could not start, or a worker failed (the others are then stopped, through `stop`).
pub fn serve(
    options: &ServeOptions,
    websocket: &WebSocketOptions,
    stop: &Stop,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<Counters, ServeError> {
    options.check_tls(&websocket.design.info, DESIGNS.iter().map(|design| design.info))?;
    options.check_defects(Server::WebSocket, &websocket.design.info, DESIGNS.iter().map(|design| design.info))?;
    (websocket.design.serve)(options, websocket, stop, Box::new(ready))
}
