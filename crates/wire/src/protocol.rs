//! What a protocol owes the engine, and what the engine tells it.
//!
//! Two families. Of most protocols a connection's bytes are replies in the order of the requests: the engine knows whose
//! they are, and `feed` reads the reply that is due. Of a *framed* protocol ([`Protocol::FRAMED`]) each piece says itself
//! what it is: the reply to any outstanding request, part of one, or a frame of the peer's own that may want an answer.
//! The second family costs the first nothing: what only it has is compiled for it alone.

use model::ErrorKind;
use std::sync::Arc;

/// How a protocol's bytes travel: [`Stream`] or [`Datagrams`]. A worker names the one it can carry, so that a protocol
/// of the other does not compile with it.
pub trait Transport: sealed::Sealed {}

/// Bytes in order, as of TCP: pieces may be cut anywhere, and none is lost while the connection is there.
#[derive(Debug, Clone, Copy)]
pub enum Stream {}

/// Datagrams, as of UDP: a piece is one datagram, whole; it may be lost, come twice, or come before an earlier one. There
/// is no close to hear of.
#[derive(Debug, Clone, Copy)]
pub enum Datagrams {}

impl Transport for Stream {}
impl Transport for Datagrams {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Stream {}
    impl Sealed for super::Datagrams {}
}

/// A range of one of a protocol's blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Payload {
    /// Index into [`Protocol::blobs`].
    pub blob: u32,
    /// First byte of the range.
    pub start: u32,
    /// Its length, bytes.
    pub length: u32,
}

/// Where a request's bytes come from.
///
/// One protocol may have both: requests that are always the same lie in blobs, and those with something of their own in
/// each (a number, a random key, a row of a file) are templates, filled when they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// They were made beforehand. A driver keeps a pointer; nothing is copied.
    Blob(Payload),
    /// [`Protocol::write`] fills the request's template at the moment it is sent, into memory that goes round.
    Template,
}

/// What bytes meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is complete yet; all bytes given were taken.
    More,
    /// The reply to the oldest outstanding request is complete.
    Reply(Reply),
    /// The bytes are not the protocol: the connection cannot be used any further, the oldest request has failed.
    Broken(Failure),
    /// Framed: the reply to the request of this number has begun.
    Begun(u32),
    /// Framed: the reply to the request of this number is complete. Where that is not outstanding, nobody asked for it.
    ReplyTo(u32, Reply),
    /// Framed: something is to be said, which is no request: [`Protocol::say`] has it.
    Say,
    /// Framed: something of the peer's own came that is welcome and no reply, such as a notification: counted under this
    /// outcome where connections are held. What it wants answered is said, as after [`Progress::Say`].
    Came(u16),
    /// Framed: the peer takes no further request on this connection. What is outstanding is still awaited, and what there
    /// is to say is said; then the connection is closed.
    Ending,
}

/// What `feed` made of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes taken. What is left is given again with the next call, or belongs to nobody.
    pub consumed: usize,
    /// What they meant.
    pub progress: Progress,
}

/// A complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Protocol status; 0 where the protocol has none.
    pub status: u16,
    /// Whether the connection can take another request. If not, it is closed; of a framed protocol, once what is
    /// outstanding has ended.
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
///
/// A connection's life, as the machine sees it:
///
/// 1. [`connection`](Protocol::connection), or [`renewed`](Protocol::renewed) after one that was lost, then [`greeting`](Protocol::greeting); where that said something,
///    [`greeted`](Protocol::greeted) until it is answered.
/// 2. For each request [`next_of_user`](Protocol::next_of_user), [`source`](Protocol::source), and of a template
///    [`write`](Protocol::write). Requests of a connection are numbered from 0 as they are sent.
/// 3. For what comes, [`feed`](Protocol::feed) as long as bytes are left; [`closed`](Protocol::closed) where the peer ends
///    it, [`timed_out`](Protocol::timed_out) for a request whose time is over.
///
/// After warm-up no method may allocate but `describe`: what a connection needs in the worst case is taken at its start
/// or borrowed from the machine.
pub trait Protocol: Send {
    /// The state of one connection between replies and inside one. Small while idle.
    type Connection: Send;

    /// A request, as the machine wants to be told of it when its reply comes: a few numbers, kept for each that is
    /// outstanding. The default stands for a handshake that nothing is asked after.
    type Request: Copy + Default + Send;

    /// How the protocol's bytes travel.
    type Transport: Transport;

    /// Whether what comes says itself what it is: a reply to any of the outstanding requests, or no reply at all. Only such
    /// a protocol may return what [`Progress`] calls framed.
    ///
    /// Of others every byte that comes while a request is outstanding belongs to the oldest one's reply.
    const FRAMED: bool = false;

    /// Everything this protocol may send from blobs. Called once, at the start.
    fn blobs(&self) -> Vec<Arc<[u8]>>;

    /// The state of a fresh connection.
    fn connection(&self) -> Self::Connection;

    /// The state of a connection that takes another's place, for the same user.
    fn renewed(&self, _before: &mut Self::Connection) -> Self::Connection {
        self.connection()
    }

    /// Draws the next request of an origin. `random` is uniform over all 64 bits.
    fn next_request(&mut self, origin: u16, random: u64) -> Self::Request;

    /// Draws the next request of a connection's user. Its bytes are asked for before another is drawn.
    #[inline]
    fn next_of_user(&mut self, _connection: &mut Self::Connection, origin: u16, random: u64) -> Self::Request {
        self.next_request(origin, random)
    }

    /// Whether what requests are made of is used up: then no further one is drawn, and the load ends.
    #[inline]
    fn is_used_up(&self) -> bool {
        false
    }

    /// Which entry of the workload a request is, of several URLs or commands, by its place in the plan. Asked for
    /// each request that ends, where there are several.
    fn entry(&self, _request: Self::Request) -> u16 {
        0
    }

    /// Where a request's bytes come from.
    fn source(&self, request: Self::Request) -> Source;

    /// Appends the bytes of a request whose source is [`Source::Template`], at most [`Protocol::written_bytes_max`] of them.
    ///
    /// `number` is the request's on its connection, counted from 0: what a reply names in [`Progress::ReplyTo`]. A stream's
    /// or a message's identifier is best made of it.
    fn write(&self, _connection: &mut Self::Connection, _number: u32, _request: Self::Request, _to: &mut Vec<u8>) {}

    /// The most that one call of [`Protocol::write`] or [`Protocol::say`] appends, bytes: room for it is made beforehand. 0:
    /// all requests lie in blobs, and nothing else is said.
    fn written_bytes_max(&self) -> usize {
        0
    }

    /// Appends what is said on a fresh connection to an origin before its first request; appending nothing means that
    /// requests may be sent at once. `random` is this connection's own, uniform over all 64 bits: what is made of it and
    /// must be known when the answer comes, a key that is to be proved, is kept in the connection.
    ///
    /// A burst's connections have no moment for it: a plan of bursts is refused where there is a greeting.
    fn greeting(&self, _connection: &mut Self::Connection, _origin: u16, _random: u64, _to: &mut Vec<u8>) {}

    /// Takes bytes that came after the greeting: [`Progress::Reply`] once it is answered and requests may be sent,
    /// [`Progress::Broken`] where it was refused. What a framed protocol leaves of the bytes is fed to it next.
    fn greeted(&self, _connection: &mut Self::Connection, _origin: u16, _bytes: &[u8]) -> Fed {
        Fed { consumed: 0, progress: Progress::Reply(Reply { status: 0, keep: true, failure: None }) }
    }

    /// Takes bytes that came while `oldest` was the oldest outstanding request. `bytes` is never empty.
    ///
    /// Must consume at least one byte or return [`Progress::Reply`], [`Progress::ReplyTo`] or [`Progress::Broken`]. Of
    /// datagrams `bytes` is one, and what is not taken of it is lost.
    fn feed(&self, connection: &mut Self::Connection, oldest: Self::Request, bytes: &[u8]) -> Fed;

    /// Takes bytes that came while no request was outstanding, as `feed` does. Only of a framed protocol: of others nobody
    /// asked for them, as the default says.
    fn feed_idle(&self, _connection: &mut Self::Connection, _bytes: &[u8]) -> Fed {
        let failure = Failure { kind: ErrorKind::UnsolicitedReply, detail: 0 };
        Fed { consumed: 0, progress: Progress::Broken(failure) }
    }

    /// Appends what is owed to the peer and is no request: the answer to a ping or to a close, a window's update, word that
    /// a request was given up. Called after [`Progress::Say`], [`Progress::Came`], [`Progress::Ending`], [`Progress::Broken`] and
    /// [`Protocol::gives_up`]; what was appended is owed no more. Counted in bytes sent and in no request.
    fn say(&self, _connection: &mut Self::Connection, _to: &mut Vec<u8>) {}

    /// The peer closed while `oldest` was the oldest outstanding request: a reply delimited by the close is complete now,
    /// anything else is broken. Never [`Progress::More`]. Other requests that were outstanding fail as closed early.
    fn closed(&self, connection: &mut Self::Connection, oldest: Self::Request) -> Progress;

    /// The outcome under which the end of a connection is counted that is a failure of this kind, beside the failure: such as
    /// the code of a close. 0, the default: none. Asked of connections that are held.
    fn outcome_of_end(&self, _failure: Failure) -> u16 {
        0
    }

    /// The failure that a timeout of a request is: what had come until then decides the kind.
    fn timed_out(&self, connection: &mut Self::Connection, number: u32, request: Self::Request) -> Failure;

    /// A request has timed out and other replies have come since it was sent: whether the connection is of use without the
    /// reply to it. `false`, the default, closes the connection, and what else is outstanding fails.
    ///
    /// With `true` the machine must not name the request again: what still comes of its reply is swallowed.
    fn gives_up(&self, _connection: &mut Self::Connection, _number: u32) -> bool {
        false
    }

    /// A [`Failure::detail`] in words; `None` for 0 and unknown ones.
    fn describe(detail: u32) -> Option<&'static str>;
}
