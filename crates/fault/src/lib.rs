//! Changes a host, journalled first and always undone; drops connections.
//!
//! Every lasting change is written to the journal and on the disk before it is made ([`apply()`]), so that [`undo()`] puts
//! it back after a crash, a `kill -9` or another user's run. What does not last (a dropped connection, [`sockets`]) is
//! not journalled. Judges nothing: which change helps is for diagnosis. Cost: an fsync a change.

mod apply;
mod error;
mod journal;
mod limits;
mod live;
mod place;
pub mod sockets;
mod sysctl;
mod undo;

pub use apply::{Applied, Step, apply, would_apply};
pub use error::{ApplyError, JournalError};
pub use journal::{Change, Entry, Journal};
pub use live::{Live, change, planned};
pub use undo::{Outcome, Undone, undo, undo_only};
