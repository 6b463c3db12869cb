//! What strangers' bytes come to, without sockets: for fuzz targets and tables of cases, which see the crate from outside.
//!
//! Does what a design does with a session (`epoll_edge`), but for time.

use super::WebSocketOptions;
use super::session::{Session, Site, Step};
use crate::counters::Counters;
use crate::http::reply::Stamp;

/// More steps than that without a byte taken is a loop.
const STEPS_MAX: u32 = 10_000;

/// What was said to a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// All of it, in order.
    pub bytes: Vec<u8>,
    /// Messages that were echoed.
    pub messages: u64,
    /// Whether the handshake was refused, or the connection closed for what came.
    pub is_refused: bool,
    /// Whether the server closed.
    pub is_closed: bool,
}

/// Feeds `pieces` to one connection.
///
/// # Panics
/// When the session takes more than there is, or goes on without end.
pub fn replies<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, options: &WebSocketOptions) -> Said {
    let mut site = Site { options: options.clone(), stamp: Stamp::new("plimsoll", 0), piece: Vec::new() };
    let (mut session, mut counters, mut input) = (Session::new(), Counters::default(), Vec::new());
    let mut said = Said::default();
    'pieces: for piece in pieces {
        input.extend_from_slice(piece);
        for turn in 0.. {
            assert!(turn < STEPS_MAX, "the session goes on without end");
            let mut out = Vec::new();
            let (consumed, step) = session.step(&input, &mut site, &mut out, &mut counters);
            said.bytes.extend_from_slice(&out);
            assert!(consumed <= input.len(), "took more than there was");
            input.drain(..consumed);
            match step {
                Step::Receive => break,
                Step::Continue => {}
                Step::Close => {
                    said.is_closed = true;
                    break 'pieces;
                }
            }
        }
    }
    (said.messages, said.is_refused) = (counters.requests, counters.refused > 0);
    said
}
