//! What can go wrong with a recording, as facts: which file, what was found, what to do next.
//!
//! SQLite's own errors end here: callers see a path and a reason, never a result code.

use std::path::{Path, PathBuf};

/// Why a recording could not be written, read or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no folder that is the user's alone, or the one there is could be written by somebody else.
    #[error("{0} with --record FILE or --folder DIR, or go without with --no-record")]
    NotOurs(#[source] state::StateError),
    /// The folder for recordings cannot be used.
    #[error(
        "cannot keep recordings in {}: {reason}; name another file with --record FILE, or go without with --no-record",
        folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error in the system's or SQLite's words.
        reason: String,
    },
    /// A recording is never written over something that is there.
    #[error("{} is there already; name another file with --record FILE", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It is being written, or was until a short while ago.
    #[error("{} is being written, or was a minute ago: end its run first, or wait", path.display())]
    GoesOn {
        /// The file.
        path: PathBuf,
    },
    /// It could not be deleted.
    #[error("cannot delete {}: {reason}", path.display())]
    Delete {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The file could not be made.
    #[error(
        "cannot make the recording {}: {reason}; name another file with --record FILE, or go without with --no-record",
        path.display()
    )]
    Create {
        /// The file.
        path: PathBuf,
        /// The error in the system's or SQLite's words.
        reason: String,
    },
    /// The disk is full.
    #[error("no space is left on the disk that holds {}: the recording stops here", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file was removed or replaced while it was being written.
    #[error("{} was removed while it was being written: the recording stops here", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// Any other failure to write.
    #[error("cannot write {}: {reason}: the recording stops here", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error in the system's or SQLite's words.
        reason: String,
    },
    /// The file could not be opened or read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error in the system's or SQLite's words.
        reason: String,
    },
    /// The file is something else.
    #[error(
        "{} is not a recording of plimsoll: {reason}; `plimsoll runs` lists those there are, and `plimsoll import` reads what other tools wrote",
        path.display()
    )]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What it is instead, or what is missing.
        reason: String,
    },
    /// The file was written by a later version.
    #[error(
        "{} was written by a newer plimsoll (format {found}, this one reads up to {known}): read it with that one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format this version reads.
        known: usize,
    },
    /// The file is a recording, and part of it cannot be read.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What cannot be read.
        what: String,
    },
    /// No recording of that name.
    #[error("no run '{wanted}' in {}; `plimsoll runs` lists them, and a path to a file will do", folder.display())]
    NoSuchRun {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// More than one recording begins like that.
    #[error("'{wanted}' is the beginning of {} runs ({}); write more of it", ids.len(), some_of(ids))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The runs it could be.
        ids: Vec<String>,
    },
}

impl StoreError {
    /// Whether the user would have to name something else: a place, a run, a file.
    pub fn is_usage(&self) -> bool {
        use StoreError::{Ambiguous, Exists, Newer, NoSuchRun, NotARecording, NotOurs};
        matches!(
            self,
            NotOurs(_) | Exists { .. } | NotARecording { .. } | Newer { .. } | NoSuchRun { .. } | Ambiguous { .. }
        )
    }
}

impl From<state::StateError> for StoreError {
    fn from(error: state::StateError) -> Self {
        match error {
            state::StateError::Failed { folder, reason } => StoreError::Folder { folder, reason },
            error => StoreError::NotOurs(error),
        }
    }
}

fn some_of(ids: &[String]) -> String {
    let shown = ids.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    if ids.len() > 3 { format!("{shown}, …") } else { shown }
}

/// The error of a failed write.
pub(crate) fn write_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
        StoreError::Full { path: path.to_owned() }
    } else {
        StoreError::Write { path: path.to_owned(), reason: in_words(error) }
    }
}

/// The error of a failed read: damage where the file's content is to blame.
pub(crate) fn read_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted,
        ) => StoreError::Read { path: path.to_owned(), reason: in_words(error) },
        _ => StoreError::Damaged { path: path.to_owned(), what: in_words(error) },
    }
}

/// SQLite's sentence without its code, in one line whatever of the file it quotes.
pub(crate) fn in_words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.split_whitespace().collect::<Vec<&str>>().join(" "),
        rusqlite::Error::QueryReturnedNoRows => "a row that must be there is missing".to_owned(),
        other => other.to_string(),
    }
}
