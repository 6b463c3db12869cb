//! One change: read what is, ask for the right, write the journal, then change, then mark it made.
//!
//! In this order nothing is ever changed that the journal on the disk does not name. Who watches is told each step;
//! ending the process at any of them leaves what [`crate::undo()`] puts right.

use crate::change::Change;
use crate::error::{ApplyError, JournalError};
use crate::faults::sysctl::Sysctl;
use crate::journal::{Closed, Journal};
use crate::place;
use model::check::Setting;

/// How far a change, or its undoing, has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The right is there; nothing is written.
    Permitted,
    /// The journal names the change, on the disk; it is not made.
    Journalled,
    /// It is made; the journal does not say so.
    Changed,
    /// The journal says so.
    Marked,
    /// It is put back; the journal does not say so.
    PutBack,
    /// The journal does not name it any more.
    Closed,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was made.
    Changed {
        /// Its number in the journal.
        id: u64,
        /// The value before.
        before: String,
    },
    /// It was so before: nothing was done and nothing is to be undone.
    AlreadySo,
}

/// Makes a change, journalled.
///
/// # Errors
/// [`ApplyError`]: nothing was changed, and nothing is journalled as done.
pub fn make(journal: &mut Journal, change: &Change, watch: &mut dyn FnMut(Step)) -> Result<Applied, ApplyError> {
    let kind = change.kind();
    kind.check()?;
    if kind.before() == kind.after() {
        return Ok(Applied::AlreadySo);
    }
    kind.may()?;
    watch(Step::Permitted);
    let id = journal.begin(change.clone(), place::boot(), kind.network())?;
    watch(Step::Journalled);
    if let Err(refused) = kind.set(&kind.after()) {
        if kind.is_in_parts() {
            // Where that fails too, the entry stays open, for `fault undo`.
            kind.set(&kind.before())?;
            kind.tidy();
        }
        journal.close(id, Closed::Refused)?;
        return Err(refused);
    }
    watch(Step::Changed);
    // The journal names the change already: a mark that fails is no reason to say that it was not made.
    let marked: Result<(), JournalError> = journal.done(id);
    if marked.is_ok() {
        watch(Step::Marked);
    }
    Ok(Applied::Changed { id, before: kind.before() })
}

/// Asks for the right to make a change and to undo it; changes nothing.
///
/// # Errors
/// [`ApplyError`], as [`make`] would.
pub fn may(change: &Change) -> Result<(), ApplyError> {
    let kind = change.kind();
    kind.check()?;
    if kind.before() == kind.after() { Ok(()) } else { kind.may() }
}

/// Sets a kernel setting, journalled.
///
/// # Errors
/// As [`make`].
pub fn apply(journal: &mut Journal, setting: &Setting, watch: &mut dyn FnMut(Step)) -> Result<Applied, ApplyError> {
    make(journal, &Change::Sysctl(Sysctl::planned(setting)?), watch)
}

/// What would become of a setting, where the change could be made now; asks for the right and changes nothing. `None`: it
/// is so already.
///
/// # Errors
/// As [`apply`].
pub fn would_apply(setting: &Setting) -> Result<Option<Change>, ApplyError> {
    let change = Change::Sysctl(Sysctl::planned(setting)?);
    if change.before() == change.after() {
        return Ok(None);
    }
    may(&change)?;
    Ok(Some(change))
}
