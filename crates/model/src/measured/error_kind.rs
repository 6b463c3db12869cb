//! Why a request failed: a fixed list of kinds, the phase it failed in, and the first example.
//!
//! Kinds are counted in arrays by [`ErrorKind::index`], never compared or counted as text.
//! The kebab-case names are part of `plimsoll.report/1`: scripts lean on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal ),+ $(,)?) => {
        /// Why a request has no valid reply. Names are fixed; more may be added at the end.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorKind { $( $(#[$doc])* #[serde(rename = $name)] $variant ),+ }

        impl ErrorKind {
            /// Every kind, in the order of [`ErrorKind::index`].
            pub const ALL: &'static [ErrorKind] = &[ $( ErrorKind::$variant ),+ ];
            /// How many kinds there are.
            pub const COUNT: usize = Self::ALL.len();
            /// The fixed kebab-case name.
            pub const fn name(self) -> &'static str { match self { $( ErrorKind::$variant => $name ),+ } }
            /// The kind's place in arrays of counts.
            pub const fn index(self) -> usize { self as usize }
            /// The kind of a name, for readers of stored recordings.
            pub fn from_name(name: &str) -> Option<Self> { Self::ALL.iter().copied().find(|k| k.name() == name) }
        }
    };
}

kinds! {
    /// The name has no address (any more).
    NameNotFound = "name-not-found",
    /// ECONNREFUSED.
    Refused = "refused",
    /// No answer to the connect within the connect timeout.
    ConnectTimeout = "connect-timeout",
    /// EHOSTUNREACH, ENETUNREACH and their like.
    Unreachable = "unreachable",
    /// EADDRNOTAVAIL: no local port left, or a source address that is not ours.
    AddressNotAvailable = "address-not-available",
    /// EMFILE or ENFILE: no descriptor left in the generator.
    TooManyFiles = "too-many-files",
    /// ENOBUFS or ENOMEM in the generator.
    OutOfMemory = "out-of-memory",
    /// Any other failure to connect.
    ConnectFailed = "connect-failed",
    /// The TLS handshake failed.
    TlsHandshake = "tls-handshake",
    /// ECONNRESET or EPIPE: the peer reset the connection.
    Reset = "reset",
    /// The peer closed before the reply was complete, or before it began.
    ClosedEarly = "closed-early",
    /// No complete reply within the reply timeout.
    ReplyTimeout = "reply-timeout",
    /// No connection became free within the reply timeout.
    QueueTimeout = "queue-timeout",
    /// Bytes that are not the protocol.
    BadFraming = "bad-framing",
    /// The reply's head is longer than the limit.
    HeadTooLarge = "head-too-large",
    /// Bytes came though no request was outstanding, on a connection on which something had been asked.
    UnsolicitedReply = "unsolicited-reply",
    /// A complete reply whose status is not an accepted one.
    UnexpectedStatus = "unexpected-status",
    /// A complete reply whose body is not the expected one.
    WrongContent = "wrong-content",
    /// Echo: the connection ended with part of the payload returned.
    TruncatedReply = "truncated-reply",
    /// Echo: nothing came back though the payload was taken.
    MissingReply = "missing-reply",
    /// Echo: part of the payload came, then silence until the timeout.
    ShortReply = "short-reply",
    /// Echo: more came back than was sent.
    PaddedReply = "padded-reply",
    /// Echo: bytes differ from those sent.
    CorruptedReply = "corrupted-reply",
    /// Any other I/O error while sending or receiving.
    Io = "io",
    /// TLS failed on an established connection: an alert, or a record that cannot be read.
    TlsBroken = "tls-broken",
    /// RESP: an error reply, `-ERR` and its like.
    ErrorReply = "error-reply",
    /// RESP: AUTH or SELECT was refused at the connection's start.
    LoginRefused = "login-refused",
    /// ENOENT: there is no socket at the path of a unix socket.
    NoSocket = "no-socket",
    /// The server refused what was shown in the TLS handshake after our side of it was done: in TLS 1.3 it judges a client
    /// certificate, or that there is none, only then.
    TlsRefused = "tls-refused",
    /// A complete reply that a check of the request does not accept.
    Check = "check",
    /// A complete reply without a value that was to be taken from it.
    MissingValue = "missing-value",
    /// A value whose write had been acknowledged is not there any more (`--verify-writes`).
    LostWrite = "lost-write",
    /// Bytes came on a new connection before anything had been asked on it: a line that turns the client away, or a server
    /// of a protocol in which the server speaks first.
    SpokeFirst = "spoke-first",
}

/// What a failure is to who asked: what kinds have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// No connection could be had.
    Refused,
    /// A connection was cut.
    Aborted,
    /// Nothing came in time.
    Unanswered,
    /// What came is not the reply that was due; or the generator's own trouble.
    Other,
}

impl ErrorKind {
    /// What the failure is to who asked.
    pub const fn class(self) -> FailureClass {
        use ErrorKind::*;
        match self {
            NameNotFound | Refused | Unreachable | ConnectFailed | NoSocket | LoginRefused | TlsRefused
            | SpokeFirst => FailureClass::Refused,
            Reset | ClosedEarly | TruncatedReply | TlsBroken | TlsHandshake | Io => FailureClass::Aborted,
            ConnectTimeout | ReplyTimeout | QueueTimeout | MissingReply | ShortReply => FailureClass::Unanswered,
            AddressNotAvailable | TooManyFiles | OutOfMemory | BadFraming | HeadTooLarge | UnsolicitedReply
            | UnexpectedStatus | WrongContent | PaddedReply | CorruptedReply | ErrorReply | Check | MissingValue
            | LostWrite => FailureClass::Other,
        }
    }
}

/// What a request was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Waiting for a free connection.
    Queue,
    /// Connecting.
    Connect,
    /// In the TLS handshake.
    Tls,
    /// Sending the request.
    Send,
    /// Waiting for the reply's first byte.
    FirstByte,
    /// Receiving the reply.
    Reply,
    /// Between two requests: nothing was asked.
    Idle,
}

impl Phase {
    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Queue => "waiting for a connection",
            Phase::Connect => "connecting",
            Phase::Tls => "in the TLS handshake",
            Phase::Send => "sending",
            Phase::FirstByte => "waiting for the first byte",
            Phase::Reply => "receiving the reply",
            Phase::Idle => "on an idle connection",
        }
    }
}

/// The first failure of its kind, as facts; words are made from it when a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorExample {
    /// The kind this is an example of.
    pub kind: ErrorKind,
    /// The phase the request was in.
    pub phase: Phase,
    /// The kernel's error number; 0 where the kernel reported none.
    pub errno: i32,
    /// A detail of the protocol machine (`wire::words` puts it into words); 0 for none.
    pub detail: u32,
    /// Bytes of the request that the kernel had not taken yet.
    #[serde(default)]
    pub unsent_bytes: u64,
    /// Nanoseconds since the run's start.
    pub at_ns: u64,
    /// Index of the origin in the plan.
    pub origin: u16,
}
