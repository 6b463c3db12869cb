//! Client protocol machines without I/O: bytes in, replies out.
//!
//! A machine never sees a socket, a clock or a thread. The engine hands it whatever bytes came, cut anywhere, and it
//! says what they are: part of a reply, the end of one, or something that wants an answer. What is sent is a range of an
//! immutable blob, so that a driver may keep pointers to it and nothing is copied, or is written when it is sent
//! ([`Source`]). [`Protocol`] is the seam; each machine is a folder.
#![forbid(unsafe_code)]

mod detail;
pub mod echo;
mod error;
pub mod http1;
mod protocol;
mod random;
mod remembered;
pub mod resp;
pub mod tls;
pub mod websocket;

pub use error::WireError;
pub use protocol::{Datagrams, Failure, Fed, Payload, Progress, Protocol, Reply, Source, Stream, Transport};
pub use random::SplitMix64;
pub use remembered::AsSent;

use model::plan::Workload;
use std::borrow::Cow;

/// A [`Failure::detail`] of a workload in words, with its numbers where it holds any; `None` for 0 and unknown ones.
///
/// Says more than [`Protocol::describe`], and is for reports: it may allocate.
pub fn words(workload: &Workload, detail: u32) -> Option<Cow<'static, str>> {
    if let Some(words) = tls::words(detail) {
        return Some(words);
    }
    match workload {
        Workload::Http1(http) => http1::words_of(http, detail),
        Workload::Echo(_) | Workload::Hold(_) => echo::words(detail),
        Workload::Resp(_) => resp::words(detail),
        Workload::WebSocket(_) | Workload::HoldWebSocket(_) => websocket::words(detail),
    }
}
