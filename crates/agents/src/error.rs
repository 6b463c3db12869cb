//! Why something with agents could not be done: what was expected, what came, what to do next.

use session::RunError;
use session::generators::MergeError;
use store::StoreError;

/// Why.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// NATS cannot be reached, or does not let us in.
    #[error(
        "expected a NATS server at {url}, but {why}: check --nats, --nats-ca and --nats-credentials, and that it runs"
    )]
    Connect {
        /// The URL, without a password.
        url: String,
        /// In its words.
        why: String,
    },
    /// What was given to reach NATS cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// It has no JetStream, or no room.
    #[error("expected {what} in NATS JetStream, but {why}")]
    Stream {
        /// What was to be done.
        what: String,
        /// In its words, with what to do.
        why: String,
    },
    /// The user that was shown to NATS lacks a right.
    #[error(
        "NATS does not let this user do what is needed, it says '{why}': give the user that right, or show another (--nats-credentials)"
    )]
    NotPermitted {
        /// NATS' words.
        why: String,
    },
    /// There are not enough agents.
    #[error("expected {wanted} agents that can be had, got {got}{}: start more with `plimsoll agent`, or ask for fewer (--agents)", said(.refused))]
    TooFew {
        /// Asked for.
        wanted: usize,
        /// There are.
        got: usize,
        /// Those that will not, each with its reason.
        refused: Vec<String>,
    },
    /// Agents agreed, and did not become ready.
    #[error("expected every agent to be ready, but {0}: nothing was put on")]
    NotReady(String),
    /// One of several loads that begin together could not be put on: not this one.
    #[error("expected every load of the run to be ready, but another is not: nothing was put on")]
    OfAnother,
    /// The observer is not there.
    #[error("expected an observer on NATS (--observe-at, --at), but {0}")]
    Observer(String),
    /// The run is not there.
    #[error(
        "expected a run that goes on, got '{0}', of which NATS has nothing: it has ended, or `plimsoll attach` without a name lists those there are"
    )]
    NoRun(String),
    /// Another controller of the run was done first.
    #[error("run {0} has ended, and another command that follows it has its result: this one has nothing to add")]
    TakenAway(String),
    /// Nothing came back of a run.
    #[error("expected recordings of the run's agents, but none was left: {0}")]
    Nothing(String),
    /// The result cannot be made.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A recording cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The load could not be put on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The machine would not.
    #[error("{what}: {source}")]
    Io {
        /// What was to be done.
        what: String,
        /// Its reason.
        source: std::io::Error,
    },
    /// It was told to end before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl AgentsError {
    /// Whether what was written is at fault, and not the world.
    pub fn is_usage(&self) -> bool {
        matches!(self, AgentsError::Usage(_))
    }

    pub(crate) fn io(what: &str) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.to_owned();
        move |source| AgentsError::Io { what, source }
    }

    /// Of a stream, with what to do about the usual reasons.
    pub(crate) fn stream(what: &str, why: impl std::fmt::Display) -> Self {
        let why = why.to_string();
        let lower = why.to_lowercase();
        let next = if lower.contains("not enabled") {
            ": start nats-server with -js"
        } else if lower.contains("insufficient") || lower.contains("maximum bytes") || lower.contains("no space") {
            ": its storage is full or too small (max_file_store), make room"
        } else if lower.contains("timed out") || lower.contains("no responders") || lower.contains("not respond") {
            ": JetStream does not answer, of a cluster most of the nodes must be up; is it on (nats-server -js)?"
        } else {
            ""
        };
        AgentsError::Stream { what: what.to_owned(), why: format!("{why}{next}") }
    }
}

fn said(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) }
}
