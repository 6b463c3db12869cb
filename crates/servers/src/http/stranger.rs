//! What strangers' bytes come to, without sockets: for fuzz targets, which see the crate from outside.
//!
//! Does what a design does with a session (`epoll_edge`), but for time: a session that sleeps is woken at once. Of streams
//! only the beginning and the length are kept.

use super::output::Stream;
use super::reply::Stamp;
use super::session::{After, Session, Site, Step};
use crate::counters::Counters;

/// Most bytes kept of a stream.
const STREAM_KEPT_BYTES: usize = 1024;
/// More steps than that without a byte taken is a loop.
const STEPS_MAX: u32 = 10_000;

/// What was said to a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// All replies, in order.
    pub bytes: Vec<u8>,
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Whether the server closed.
    pub is_closed: bool,
}

/// Feeds `pieces` to one connection of a server without files.
///
/// # Panics
/// When the session takes more than there is, goes on without end, or forgets bytes.
pub fn replies<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, keep_alive: bool, body_bytes_max: u64) -> Said {
    let stamp = Stamp::new("plimsoll", 0);
    let mut site = Site { files: None, stamp, keep_alive, body_bytes_max, draining: false, now_ns: 0 };
    let (mut session, mut counters, mut input) = (Session::new(), Counters::default(), Vec::new());
    let mut said = Said::default();
    'pieces: for piece in pieces {
        input.extend_from_slice(piece);
        for turn in 0.. {
            assert!(turn < STEPS_MAX, "the session goes on without end");
            let (consumed, step) = session.step(&input, &mut site, &mut said.bytes, &mut counters);
            assert!(consumed <= input.len(), "took more than there was");
            input.drain(..consumed);
            match step {
                Step::Receive => break,
                Step::Continue => {}
                Step::Sleep(until_ns) => site.now_ns = until_ns,
                Step::Stream(stream, after) => {
                    keep(&mut said.bytes, stream);
                    if matches!(after, After::Close(_)) {
                        said.is_closed = true;
                    }
                }
                Step::Close(_) => said.is_closed = true,
            }
            if said.is_closed {
                break 'pieces;
            }
        }
    }
    (said.requests, said.refused) = (counters.requests, counters.refused);
    said
}

fn keep(bytes: &mut Vec<u8>, stream: Stream) {
    match stream {
        Stream::File { from, to, .. } => bytes.extend_from_slice(format!("{from}..{to}").as_bytes()),
        Stream::Owned { bytes: owned, sent } => bytes.extend_from_slice(&owned[sent..]),
        Stream::Generated(generated) => {
            let left = generated.left();
            generated.fill(bytes, STREAM_KEPT_BYTES);
            bytes.extend_from_slice(format!("{left}").as_bytes());
        }
    }
}
