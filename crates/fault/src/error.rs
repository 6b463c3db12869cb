//! Why a change was not made, or the journal could not be kept: what was expected, what came, what to do next.

use state::StateError;
use std::io;
use std::path::PathBuf;

/// Why the journal cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Somebody else could have written it: what it says is not to be acted on.
    #[error("{0} with --journal DIR")]
    NotOurs(#[source] StateError),
    /// A file or folder of it fails.
    #[error(
        "expected a journal that can be kept in '{}', but {reason}: choose another folder with --journal, or free some space", folder.display()
    )]
    Folder {
        /// The journal's folder.
        folder: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// Another process is changing something.
    #[error(
        "expected the journal in '{}' to be free, but another plimsoll{} has held it for 10 s: wait for it to end", folder.display(), by(*pid)
    )]
    Busy {
        /// The journal's folder.
        folder: PathBuf,
        /// The other process, where it is known.
        pid: Option<u32>,
    },
    /// Longer than any journal of ours.
    #[error("expected a journal of at most 16 MiB in '{}', got {bytes} bytes: look at it, and move it away", folder.display())]
    TooLong {
        /// The journal's folder.
        folder: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A line in the middle is none of ours: what it said is lost, and so is the order.
    #[error(
        "line {line} of the journal in '{}' is damaged: put back what it names by hand, then take the line out", folder.display()
    )]
    Damaged {
        /// The journal's folder.
        folder: PathBuf,
        /// Counted from 1.
        line: usize,
    },
}

impl JournalError {
    /// Whether another folder, or its rights, would have to be named.
    pub fn is_of_place(&self) -> bool {
        matches!(self, JournalError::NotOurs(_))
    }
}

impl From<StateError> for JournalError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Failed { folder, reason } => JournalError::Folder { folder, reason },
            error => JournalError::NotOurs(error),
        }
    }
}

fn never(pid: u32) -> String {
    if pid == std::process::id() {
        "plimsoll itself".to_owned()
    } else {
        format!("process {pid}, which no fault touches")
    }
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// Why one change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// No name of a setting.
    #[error("expected the name of a kernel setting such as net.core.somaxconn, got '{}'", name.escape_debug())]
    BadName {
        /// What came.
        name: String,
    },
    /// A setting, or a value of one, that no fix makes.
    #[error("{name}: expected a value that plimsoll sets, and it never sets this to '{value}': set it by hand")]
    NotOurs {
        /// The setting.
        name: String,
        /// The value.
        value: String,
    },
    /// It cannot be read.
    #[error("{name} cannot be read: {reason}")]
    Unreadable {
        /// The setting.
        name: String,
        /// What the kernel said.
        reason: String,
    },
    /// The rights are missing, or the file system is read-only as in containers.
    #[error("{name}: expected the right to change it, but {reason}: run as root on the host itself")]
    NotPermitted {
        /// The setting.
        name: String,
        /// What the kernel said.
        reason: String,
    },
    /// The kernel does not take the value.
    #[error("{name}: expected the kernel to take '{value}', but {reason}: set it by hand to what this kernel allows")]
    NotTaken {
        /// The setting.
        name: String,
        /// What was written.
        value: String,
        /// What the kernel said.
        reason: String,
    },
    /// Nobody is there whom the user named.
    #[error("expected a process for {named}, but {reason}: name it by its id")]
    NobodyNamed {
        /// As it was named, in words.
        named: String,
        /// Why there is none.
        reason: String,
    },
    /// Process 1 or plimsoll itself.
    #[error("expected processes that may be changed, and among them is {}: name others", never(*pid))]
    NeverTouched {
        /// The process.
        pid: u32,
    },
    /// Something that the fault needs is not there, or fails.
    #[error("{name}: expected {expected}, but {reason}")]
    Missing {
        /// What the fault is about.
        name: String,
        /// What it needs.
        expected: String,
        /// What there is in its place, and what to do about it.
        reason: String,
    },
    /// A command of the user's failed.
    #[error("expected the command '{}' to end well, but {reason}: run it by hand", command.escape_debug())]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        reason: String,
    },
    /// The journal fails.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl ApplyError {
    pub(crate) fn unreadable(name: &str, error: &io::Error) -> Self {
        ApplyError::Unreadable { name: name.to_owned(), reason: plain(error) }
    }

    /// A right that would be needed; `reason` says why it is.
    pub(crate) fn missing_right(name: &str, reason: &str) -> Self {
        ApplyError::NotPermitted { name: name.to_owned(), reason: reason.to_owned() }
    }

    /// What plimsoll never makes of something.
    pub(crate) fn not_ours(name: &str, value: &str) -> Self {
        ApplyError::NotOurs { name: name.to_owned(), value: value.to_owned() }
    }

    /// The error of opening or writing a setting.
    pub(crate) fn of_write(name: &str, value: &str, error: &io::Error) -> Self {
        let (name, reason) = (name.to_owned(), plain(error));
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ApplyError::NotPermitted { name, reason }
            }
            _ => ApplyError::NotTaken { name, value: value.to_owned(), reason },
        }
    }
}

/// The kernel's sentence without the number that the standard library adds.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Why what was asked for is no fault: the user's to put right before anything is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadArgument {
    /// No fault has this name.
    #[error("expected the name of a fault, got '{}': `plimsoll fault --list` has them all{}", got.escape_debug(), near(like.as_deref()))]
    Unknown {
        /// What came.
        got: String,
        /// A name that is much like it.
        like: Option<&'static str>,
    },
    /// It has a name, and cannot be done.
    #[error("there is no fault {name}: {why}")]
    NoFault {
        /// What it would be called.
        name: &'static str,
        /// Why there is none, and what does the same.
        why: &'static str,
    },
    /// An argument is not what the fault takes.
    #[error("fault {fault}: expected {expected}, got {got}; it is written `{takes}`")]
    Argument {
        /// The fault's name.
        fault: &'static str,
        /// What was expected.
        expected: String,
        /// What came.
        got: String,
        /// How it is written.
        takes: String,
    },
    /// It has a length, and nothing of it can be undone.
    #[error("fault {fault}: expected no length, as it cannot be undone ({why}); got one of {got}")]
    NoLength {
        /// The fault's name.
        fault: &'static str,
        /// Why it cannot be undone.
        why: &'static str,
        /// The length, in words.
        got: String,
    },
    /// A quote or backslash has no end.
    #[error("expected a fault whose quotes are closed, got '{}'", got.escape_debug())]
    Quotes {
        /// What came.
        got: String,
    },
}

fn near(like: Option<&str>) -> String {
    like.map(|like| format!("; did you mean '{like}'?")).unwrap_or_default()
}
