//! The state folder: where recordings and the journal of changes are kept, and whether a folder may be trusted with them.
//!
//! What stands in such a folder is acted on, with root's rights where root runs the program. So a folder is used only
//! if it and all its parents belong to the user or to root and nobody else may write there: the rule of sshd's
//! `StrictModes` and of sudo. Once that holds nobody else can change what was looked at, so looking first and using
//! later is safe. Costs an lstat(2) a part of the path.
#![forbid(unsafe_code)]

mod group;
mod place;
mod trust;

pub use place::folder;
pub use trust::{check_file, existing, made};

use std::path::{Path, PathBuf};

/// Why a folder is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// There is no home, and root's folder is not ours to use.
    #[error(
        "expected HOME or XDG_STATE_HOME to say where recordings and the journal are kept, got neither: set \
         XDG_STATE_HOME to a folder of yours, or name a place"
    )]
    NoHome,
    /// Somebody else could have put there what is found in it.
    #[error("expected '{}' to be what only you and root can change, but {}{why}: {}", folder.display(), subject(folder, part), why.remedy())]
    NotOurs {
        /// What was to be used.
        folder: PathBuf,
        /// The folder itself, the parent or the file that is not ours alone.
        part: PathBuf,
        /// Why it is not.
        why: Why,
    },
    /// The system refuses.
    #[error("expected '{}' to be a folder that can be used, but {reason}: name another one", folder.display())]
    Failed {
        /// What was to be used.
        folder: PathBuf,
        /// What the system said, or what is there instead.
        reason: String,
    },
}

/// Why something is not the user's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It belongs to this user.
    Owner(u32),
    /// Everybody may write there.
    Everybody,
    /// A group may write there in which others are, or may be.
    Group(u32),
    /// A list of rights lets others write there (acl(5)).
    List,
}

impl Why {
    fn remedy(self) -> &'static str {
        match self {
            Why::Owner(_) => "name another one",
            Why::Everybody | Why::Group(_) => "take that right away (chmod go-w), or name another one",
            Why::List => "take the list away (setfacl -b), or name another one",
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Owner(uid) => write!(f, "belongs to user {uid}"),
            Why::Everybody => f.write_str("can be written by everybody"),
            Why::Group(gid) => write!(f, "can be written by group {gid}"),
            Why::List => f.write_str("can be written by others, by its list of rights"),
        }
    }
}

/// "it", or the part that is meant.
fn subject(folder: &Path, part: &Path) -> String {
    if folder == part { "it ".to_owned() } else { format!("'{}' ", part.display()) }
}
