//! Changes a host and what runs on it, journalled first and always undone; drops connections.
//!
//! Every fault is a file in [`faults`], with its line in [`FAULTS`]. It plans what it does ([`Deed`]); a change that lasts is
//! written to the journal and on the disk before it is made ([`Begun::make`]), so that [`undo()`] puts it back after a crash,
//! a `kill -9` or another user's run. What cannot be undone (a killed process, a dropped connection) says so and is not
//! journalled. Judges nothing: which change helps is for diagnosis. Cost: an fsync a change.

mod answer;
mod apply;
mod begun;
mod change;
mod child;
mod clients;
mod error;
pub mod faults;
mod group;
pub mod helper;
mod journal;
mod limits;
mod listening;
pub mod network;
mod place;
mod process;
pub mod sockets;
mod undo;
mod values;
mod words;

pub use apply::{Applied, Step, apply, make, may, would_apply};
pub use begun::{Begun, EndError};
pub use change::Change;
pub use error::{ApplyError, BadArgument, JournalError};
pub use faults::{Act, Around, Asked, Deed, FAULTS, Fault, Kind, Starter, Undoing};
pub use journal::{Entry, Journal};
pub use undo::{Outcome, Undone, undo, undo_only};
