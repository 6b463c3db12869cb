//! Client protocol machines without I/O: bytes in, replies out.
//!
//! A machine never sees a socket, a clock or a thread. The engine hands it whatever bytes came, cut anywhere, and it
//! says how far the outstanding reply has got. What is sent is a range of an immutable blob ([`Payload`]), so a driver
//! may keep pointers to it for as long as it lives, and nothing is copied for a request; a protocol whose requests are too
//! many to be made beforehand writes each when it is sent ([`Protocol::WRITES`]).
#![forbid(unsafe_code)]

pub mod echo;
mod error;
pub mod http1;
pub mod resp;
pub mod tls;

pub use error::WireError;

use model::ErrorKind;
use model::plan::Workload;
use std::borrow::Cow;
use std::sync::Arc;

/// A range of one of a protocol's blobs: what a request puts on the wire. Also the request's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Payload {
    /// Index into [`Protocol::blobs`].
    pub blob: u32,
    /// First byte of the range.
    pub start: u32,
    /// Its length, bytes.
    pub length: u32,
}

/// How far the outstanding reply has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not complete yet; all bytes given were taken.
    More,
    /// The reply is complete.
    Reply(Reply),
    /// The bytes are not the protocol: the connection cannot be used any further, the request has failed.
    Broken(Failure),
}

/// What `feed` made of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes taken. The rest belongs to the next reply, or to nobody.
    pub consumed: usize,
    /// How far the reply has got.
    pub progress: Progress,
}

/// A complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Protocol status; 0 where the protocol has none.
    pub status: u16,
    /// Whether the connection can take another request.
    pub keep: bool,
    /// `Some` if the reply was well framed but is not the one that was due.
    pub failure: Option<Failure>,
}

/// Why a request failed, as facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The kind counted.
    pub kind: ErrorKind,
    /// More, in the protocol's own numbering; [`Protocol::describe`] puts it into words. 0: nothing more.
    pub detail: u32,
}

/// A protocol as one worker speaks it: the requests it may send and how their replies are read.
///
/// One value serves all connections of a worker; what differs between connections is in [`Protocol::Connection`].
pub trait Protocol: Send {
    /// The state of one connection between replies and inside one. Small while idle.
    type Connection: Send;

    /// Whether requests are written as they are sent ([`Protocol::write`]), and are in no blob.
    const WRITES: bool = false;

    /// Everything this protocol may send. Called once, at the start.
    fn blobs(&self) -> Vec<Arc<[u8]>>;

    /// The state of a fresh connection.
    fn connection(&self) -> Self::Connection;

    /// Draws the next request of an origin. `random` is uniform over all 64 bits.
    fn next_request(&mut self, origin: u16, random: u64) -> Payload;

    /// Appends a request's bytes, [`Payload::length`] of them. Only of a protocol that [`Protocol::WRITES`]; the payload
    /// then is its name and no range.
    fn write(&self, _request: Payload, _to: &mut Vec<u8>) {}

    /// The longest request that [`Protocol::write`] writes, bytes: room for it is made beforehand.
    fn written_bytes_max(&self) -> usize {
        0
    }

    /// What is said on a fresh connection to an origin before its first request; `None`: nothing.
    fn greeting(&self, _origin: u16) -> Option<&[u8]> {
        None
    }

    /// Takes bytes that came after the greeting: [`Progress::Reply`] once it is answered and requests may be sent,
    /// [`Progress::Broken`] where it was refused.
    fn greeted(&self, _connection: &mut Self::Connection, _origin: u16, _bytes: &[u8]) -> Fed {
        Fed { consumed: 0, progress: Progress::Reply(Reply { status: 0, keep: true, failure: None }) }
    }

    /// Takes bytes that came while `request` was the oldest outstanding one. `bytes` is never empty.
    /// Must consume at least one byte or return something other than [`Progress::More`].
    fn feed(&self, connection: &mut Self::Connection, request: Payload, bytes: &[u8]) -> Fed;

    /// The peer closed while `request` was outstanding: a reply delimited by the close is complete now,
    /// anything else is broken. Never [`Progress::More`].
    fn closed(&self, connection: &mut Self::Connection, request: Payload) -> Progress;

    /// The failure that a timeout of `request` is: what had come until then decides the kind.
    fn timed_out(&self, connection: &mut Self::Connection, request: Payload) -> Failure;

    /// Whether any byte of the outstanding reply has come.
    fn has_begun(&self, connection: &Self::Connection) -> bool;

    /// A [`Failure::detail`] in words; `None` for 0 and unknown ones.
    fn describe(detail: u32) -> Option<&'static str>;
}

/// A [`Failure::detail`] of a workload in words, with its numbers where it holds any; `None` for 0 and unknown ones.
///
/// Says more than [`Protocol::describe`], and is for reports: it may allocate.
pub fn words(workload: &Workload, detail: u32) -> Option<Cow<'static, str>> {
    if let Some(words) = tls::words(detail) {
        return Some(words);
    }
    match workload {
        Workload::Http1(_) => http1::words(detail),
        Workload::Echo(_) | Workload::Hold(_) => echo::words(detail),
        Workload::Resp(_) => resp::words(detail),
    }
}
