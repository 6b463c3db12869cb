//! What a design lets a defect do: a defect needs some of it, a design has some of it, and what is missing is the reason
//! why the one cannot be in the other.

/// Something that a design has and a defect may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Able {
    /// A moment between a request and its reply.
    Requests,
    /// A moment at which a worker takes up work.
    Wakes,
    /// A connection can hold something until it closes.
    Connections,
    /// How connections are taken from the listeners can be changed.
    Listeners,
    /// Replies can be changed, kept back or cut.
    Replies,
    /// A reply can leave in several writes.
    Writes,
    /// SIGPIPE can be let through.
    Sigpipe,
    /// A connection can be kept open when it is over.
    Closes,
    /// A worker serves many connections at the same time.
    Loop,
    /// A worker is told once that bytes have come.
    Edges,
    /// A worker can be made to stay with one connection.
    Stays,
    /// It takes as many connections as come.
    Unbounded,
    /// A request can wait while others are served.
    Queues,
    /// All workers are threads of one process.
    OneProcess,
    /// What serves a connection is there after it.
    Lasting,
    /// `--workers` says how many serve.
    Workers,
    /// Several serve at the same time.
    Parallel,
    /// Each worker has listeners of its own.
    OwnListeners,
    /// Handshakes of TLS.
    Handshakes,
}

impl Able {
    /// All of it: what the designs on the reactor have.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Requests,
        Self::Wakes,
        Self::Connections,
        Self::Listeners,
        Self::Replies,
        Self::Writes,
        Self::Sigpipe,
        Self::Closes,
        Self::Loop,
        Self::Edges,
        Self::Stays,
        Self::Unbounded,
        Self::Queues,
        Self::OneProcess,
        Self::Lasting,
        Self::Workers,
        Self::Parallel,
        Self::OwnListeners,
        Self::Handshakes,
    ];

    /// What the designs have whose loop is level-triggered.
    pub(crate) const LEVEL: &'static [Self] = &[
        Self::Requests,
        Self::Wakes,
        Self::Connections,
        Self::Replies,
        Self::Loop,
        Self::Unbounded,
        Self::OneProcess,
        Self::Lasting,
        Self::Workers,
        Self::Parallel,
        Self::OwnListeners,
    ];

    /// What is said of a design that has it not, behind "because".
    #[must_use]
    pub fn why_not(self) -> &'static str {
        match self {
            Self::Requests | Self::Wakes => "no defect can act between its requests and their replies",
            Self::Connections => "its connections hold nothing but their socket",
            Self::Listeners => "it waits at its listeners in its own way",
            Self::Replies => "its replies leave from where they came in",
            Self::Writes => "a reply leaves it in one call",
            Self::Sigpipe => "each send of it says that it wants no SIGPIPE",
            Self::Closes => "it closes each connection where it has served it",
            Self::Loop => "each connection is served by itself, with no other behind it",
            Self::Edges => "it asks again for what is left in a socket",
            Self::Stays => "none of its workers can be made to stay with one connection, or all do",
            Self::Unbounded => "how many connections it serves is bounded already",
            Self::Queues => "no request of it can wait while others are served",
            Self::OneProcess => "its workers are processes, which have no memory in common",
            Self::Lasting => "the process that serves a connection ends with it",
            Self::Workers => "--workers does not say how many of it serve",
            Self::Parallel => "one connection is served at a time",
            Self::OwnListeners => "all that serve take connections from the same listener",
            Self::Handshakes => "it speaks no TLS",
        }
    }
}
