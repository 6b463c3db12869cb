//! Echo: bytes go out and must come back as they went.
//!
//! Payloads are ranges of one immutable pool, so the expected reply is known without keeping it: each piece is compared
//! as it comes, and a connection's whole state is how many bytes have. What went wrong is told apart: corrupted (with
//! the offset), padded, truncated by a close, short by silence, missing.
//! Cost: a `memcmp` of what came.

mod detail;
pub(crate) mod pool;
#[cfg(test)]
mod tests;

pub use detail::{Detail, describe, words};
pub use pool::{POOL_BYTES_MAX, POOL_BYTES_MIN};

use crate::random::{below, size};
use crate::{Failure, Fed, Payload, Progress, Protocol, Reply, Source, Stream, WireError};
use model::ErrorKind;
use model::limits::ECHO_BYTES_MAX;
use model::plan::{Echo, Sizes};
use std::sync::Arc;

/// Echo for one worker.
#[derive(Debug)]
pub struct EchoProtocol {
    pool: Arc<[u8]>,
    sizes: Sizes,
    /// The next place in [`Sizes::List`].
    turn: usize,
    is_pipelined: bool,
}

/// The state of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Bytes of the outstanding reply that have come, and were right.
    came: u32,
}

impl EchoProtocol {
    /// Makes the payloads of a worker. The same plan and seed make the same ones.
    ///
    /// # Errors
    /// No size, a size that is 0 or above [`ECHO_BYTES_MAX`], a range the wrong way round.
    pub fn new(plan: &Echo, seed: u64) -> Result<Self, WireError> {
        check_sizes(&plan.sizes)?;
        let pool = pool::make(plan.content, plan.sizes.largest(), seed).into();
        Ok(EchoProtocol { pool, sizes: plan.sizes.clone(), turn: 0, is_pipelined: false })
    }

    /// Says that several requests may be outstanding on one connection. What comes behind a complete reply then may
    /// be the next one's, and is left for it; otherwise it is [`ErrorKind::PaddedReply`].
    pub fn pipelined(mut self, is_pipelined: bool) -> Self {
        self.is_pipelined = is_pipelined;
        self
    }

    fn next_size(&mut self, random: u32) -> u32 {
        let size = size(&self.sizes, self.turn, random);
        if let Sizes::List(sizes) = &self.sizes {
            self.turn = (self.turn + 1) % sizes.len();
        }
        size
    }
}

impl Protocol for EchoProtocol {
    type Connection = Connection;
    type Request = Payload;
    type Transport = Stream;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        vec![Arc::clone(&self.pool)]
    }

    fn connection(&self) -> Connection {
        Connection { came: 0 }
    }

    #[inline]
    fn next_request(&mut self, _origin: u16, random: u64) -> Payload {
        let length = self.next_size((random >> 32) as u32);
        let places = (self.pool.len() - length as usize + 1) as u64;
        Payload { blob: 0, start: below(random as u32, places), length }
    }

    #[inline]
    fn source(&self, request: Payload) -> Source {
        Source::Blob(request)
    }

    #[inline]
    fn feed(&self, connection: &mut Connection, request: Payload, bytes: &[u8]) -> Fed {
        let sent = &self.pool[request.start as usize..][..request.length as usize];
        let expected = &sent[connection.came as usize..];
        let compared = expected.len().min(bytes.len());
        if expected[..compared] != bytes[..compared] {
            let same = expected.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            let offset = connection.came + same as u32;
            connection.came = 0;
            return broken(compared, ErrorKind::CorruptedReply, Detail::DiffersAt(offset));
        }
        if compared < expected.len() {
            connection.came += compared as u32;
            return Fed { consumed: compared, progress: Progress::More };
        }
        connection.came = 0;
        let extra = bytes.len() - compared;
        if extra > 0 && !self.is_pipelined {
            let extra = u32::try_from(extra).unwrap_or(u32::MAX);
            return broken(bytes.len(), ErrorKind::PaddedReply, Detail::Extra(extra));
        }
        Fed { consumed: compared, progress: Progress::Reply(Reply { status: 0, keep: true, failure: None }) }
    }

    fn closed(&self, connection: &mut Connection, _request: Payload) -> Progress {
        let kind = if connection.came == 0 { ErrorKind::MissingReply } else { ErrorKind::TruncatedReply };
        Progress::Broken(ended(connection, kind))
    }

    fn timed_out(&self, connection: &mut Connection, _number: u32, _request: Payload) -> Failure {
        let kind = if connection.came == 0 { ErrorKind::ReplyTimeout } else { ErrorKind::ShortReply };
        ended(connection, kind)
    }

    fn describe(detail: u32) -> Option<&'static str> {
        describe(detail)
    }
}

/// Whether payloads of these sizes can be made: none is 0 or above [`ECHO_BYTES_MAX`], a range is not the wrong way round.
pub(crate) fn check_sizes(asked: &Sizes) -> Result<(), WireError> {
    let sizes: &[u32] = match asked {
        Sizes::Fixed(size) => &[*size],
        Sizes::Range(low, high) if low > high => return Err(WireError::SizeRange { low: *low, high: *high }),
        Sizes::Range(low, high) => &[*low, *high],
        Sizes::List(sizes) if sizes.is_empty() => return Err(WireError::NoSizes),
        Sizes::List(sizes) => sizes,
    };
    match sizes.iter().find(|size| !(1..=ECHO_BYTES_MAX).contains(*size)) {
        Some(size) => Err(WireError::Size { size: *size }),
        None => Ok(()),
    }
}

fn ended(connection: &mut Connection, kind: ErrorKind) -> Failure {
    let came = std::mem::take(&mut connection.came);
    Failure { kind, detail: Detail::CameBack(came).number() }
}

fn broken(consumed: usize, kind: ErrorKind, detail: Detail) -> Fed {
    Fed { consumed, progress: Progress::Broken(Failure { kind, detail: detail.number() }) }
}
