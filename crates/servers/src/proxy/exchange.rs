//! One request on its way to an origin, and its reply on its way back: what is known of both.
//!
//! Plain state, with the questions that it answers. It is moved by `epoll_edge` (the client) and `upstream` (the origin).

use super::cache::Stored;
use super::forward::Framing;
use crate::http::body::BodyReader;
use crate::http::request::{self, BodyLength};
use crate::slab::Token;

/// A request and what became of it.
pub(super) struct Exchange {
    /// The head for the origin, kept until the reply so that it can be sent again.
    pub(super) head: Vec<u8>,
    pub(super) head_sent: usize,
    /// The client's body, and whether it goes on in chunks.
    pub(super) body: BodyReader,
    pub(super) chunked: bool,
    pub(super) body_begun: bool,
    /// Body bytes for the origin, framed.
    pub(super) pending: Vec<u8>,
    pub(super) pending_sent: usize,
    pub(super) manner: Manner,
    /// Origins in the order they are asked, and which of them it is at.
    pub(super) order: Vec<usize>,
    pub(super) at: usize,
    pub(super) upstream: Option<Token>,
    pub(super) connected: bool,
    /// Only new connections are used: a kept one turned out to be closed.
    pub(super) fresh: bool,
    /// Sending to the origin failed: no more of the request is sent, but its reply may still be read.
    pub(super) deaf: bool,
    pub(super) timed_out: bool,
    /// The client has no room: the origin is not read.
    pub(super) held: bool,
    pub(super) until_ns: u64,
    pub(super) reply_in: Vec<u8>,
    pub(super) scanned: usize,
    pub(super) interim: u8,
    pub(super) reply: Option<Replying>,
    pub(super) key: Option<Key>,
    pub(super) kept: Option<Stored>,
}

/// How the client wants to be answered, and what may be done with its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) keep_alive: bool,
    pub(super) to_head: bool,
    pub(super) http10: bool,
    /// May be sent twice (RFC 9110 §9.2.2).
    pub(super) idempotent: bool,
}

impl Manner {
    /// For the reply to a request that could not be parsed.
    pub(super) const UNKNOWN: Self = Self { keep_alive: false, to_head: false, http10: false, idempotent: false };
}

/// The key of the reply in the cache, and what the request lets the cache do with it.
pub(super) struct Key {
    pub(super) name: Vec<u8>,
    /// The request's head, where the reply may be kept; what `Vary` names is looked up in it.
    pub(super) request: Option<Vec<u8>>,
    /// The method changes the resource, so what the cache has of it is forgotten (RFC 9111 §4.4).
    pub(super) forget: bool,
}

/// A reply whose head has gone on.
pub(super) struct Replying {
    pub(super) left: Left,
    pub(super) framing: Framing,
    pub(super) keep_upstream: bool,
}

/// What is still to come of a body.
pub(super) enum Left {
    Nothing,
    Bytes(u64),
    Chunks(BodyReader),
    UntilClose,
}

/// What one turn of an exchange came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Something was sent or received: take another turn.
    Moved,
    /// Nothing can be sent or received before the next event.
    Idle,
    /// The reply has been read to its end.
    Done,
    /// It failed before anything was sent to the client, which gets this status and sentence.
    Fail(u16, &'static str),
    /// The reply broke off after its head had gone on.
    Truncated,
    /// The client has gone.
    Gone,
}

impl Exchange {
    pub(super) fn new(
        head: Vec<u8>,
        body: BodyLength,
        manner: Manner,
        order: Vec<usize>,
        key: Option<Key>,
    ) -> Result<Self, request::Refusal> {
        Ok(Self {
            head,
            head_sent: 0,
            body: BodyReader::new(body, u64::MAX)?,
            chunked: body == BodyLength::Chunked,
            body_begun: false,
            pending: Vec::new(),
            pending_sent: 0,
            manner,
            order,
            at: 0,
            upstream: None,
            connected: false,
            fresh: false,
            deaf: false,
            timed_out: false,
            held: false,
            until_ns: 0,
            reply_in: Vec::new(),
            scanned: 0,
            interim: 0,
            reply: None,
            key,
            kept: None,
        })
    }

    /// Whether the request was read to its end.
    pub(super) fn has_whole_request(&self) -> bool {
        self.body.is_done()
    }

    /// Whether the client is to go on with its request before anything else can happen.
    pub(super) fn waits_for_client(&self) -> bool {
        self.connected && self.reply.is_none() && self.wants_body()
    }

    /// Whether the origin is to go on.
    pub(super) fn waits_for_origin(&self) -> bool {
        !self.held && !self.waits_for_client()
    }

    /// Whether the client's body is to be read on.
    pub(super) fn wants_body(&self) -> bool {
        !self.body.is_done() && !self.has_to_send() && !self.deaf
    }

    /// Whether some of the request is still to be sent to the origin.
    pub(super) fn has_to_send(&self) -> bool {
        self.head_sent < self.head.len() || self.pending_sent < self.pending.len()
    }

    /// So many bytes of head and pending body have been sent.
    pub(super) fn sent(&mut self, n: usize) {
        let of_head = n.min(self.head.len() - self.head_sent);
        self.head_sent += of_head;
        self.pending_sent += n - of_head;
        if self.pending_sent == self.pending.len() {
            self.pending.clear();
            self.pending_sent = 0;
        }
    }

    /// Begins anew on another connection.
    pub(super) fn rewind(&mut self) {
        self.upstream = None;
        self.connected = false;
        self.deaf = false;
        self.head_sent = 0;
    }
}
