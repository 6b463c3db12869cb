//! Why a name service could not start or go on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A name service that did not start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// No design of it speaks TLS.
    #[error("expected plain TCP for the name service, got TLS, which it does not speak: serve without --tls")]
    NoTls,
    /// The journal cannot be used.
    #[error("could not {doing} journal {} ({source}): name a file in a folder that exists, can be written and has room", path.display())]
    Journal {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process has the journal.
    #[error("expected journal {} for this process alone, but another one holds its lock: end that one (who: fuser {}.lock) or name another file", path.display(), path.display())]
    JournalInUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("expected a journal of this program in {}, but the file begins otherwise: name another file, or remove this one yourself", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// Damage in front of sound frames: not what a crash leaves.
    #[error("expected sound frames in journal {}, but the one at byte {at} is damaged and others follow it: restore the file from a copy, or cut it there (truncate -s {at}) and lose what follows", path.display())]
    JournalDamaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged frame begins.
        at: u64,
    },
    /// More crashes than restarts are allowed.
    #[error(
        "expected at most {restarts_max} restarts of the store within {period:?}, but it crashed once more (the last time: {last}): the supervisor gives up; find what crashes it, or allow more (--restarts-max, --restart-period)"
    )]
    GaveUp {
        /// Restarts allowed.
        restarts_max: u32,
        /// Within that time.
        period: Duration,
        /// What the store said when it went down.
        last: String,
    },
    /// The runtime or an actor failed on its own side.
    #[error("could not {doing} ({got}): check `ulimit -u` and memory")]
    Runtime {
        /// What was tried.
        doing: &'static str,
        /// What was said.
        got: String,
    },
}

impl NamesError {
    /// Whether what was asked for is at fault, and not the machine.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::NoTls)
    }
}
