//! One change: read what is, ask for the right, write the journal, then change, then mark it made.
//!
//! In this order nothing is ever changed that the journal on the disk does not name. Who watches is told each step;
//! ending the process at any of them leaves what [`crate::undo()`] puts right.

use crate::error::{ApplyError, JournalError};
use crate::journal::{Change, Closed, Journal};
use crate::place;
use crate::sysctl::{self, Writable};
use model::check::{Setting, is_fixable};

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
        /// The value before.
        before: String,
    },
    /// It was so before: nothing was done and nothing is to be undone.
    AlreadySo,
}

/// Sets a kernel setting, journalled.
///
/// # Errors
/// [`ApplyError`]: nothing was changed, and nothing is journalled as done.
pub fn apply(journal: &mut Journal, setting: &Setting, watch: &mut dyn FnMut(Step)) -> Result<Applied, ApplyError> {
    check_known(&setting.name, &setting.value)?;
    let after = sysctl::words(&setting.value);
    let before = sysctl::read(&setting.name)?;
    if before == after {
        return Ok(Applied::AlreadySo);
    }
    // What could not be put back is not changed.
    check_known(&setting.name, &before)?;
    let writable = Writable::open(&setting.name)?;
    watch(Step::Permitted);
    let change = Change::Sysctl { name: setting.name.clone(), before: before.clone(), after: after.clone() };
    let id = journal.begin(change, place::boot(), network_of(&setting.name))?;
    watch(Step::Journalled);
    if let Err(refused) = writable.set(&after) {
        journal.close(id, Closed::Refused)?;
        return Err(refused);
    }
    watch(Step::Changed);
    // The journal names the change already: a mark that fails is no reason to say that it was not made.
    let marked: Result<(), JournalError> = journal.done(id);
    if marked.is_ok() {
        watch(Step::Marked);
    }
    Ok(Applied::Changed { before })
}

/// The value before, where the change could be made now; asks for the right and changes nothing.
///
/// # Errors
/// [`ApplyError`], as [`apply`] would.
pub fn would_apply(setting: &Setting) -> Result<Applied, ApplyError> {
    check_known(&setting.name, &setting.value)?;
    let before = sysctl::read(&setting.name)?;
    if before == sysctl::words(&setting.value) {
        return Ok(Applied::AlreadySo);
    }
    check_known(&setting.name, &before)?;
    Writable::open(&setting.name)?;
    Ok(Applied::Changed { before })
}

/// Refuses what no fix changes, whoever asks for it.
pub(crate) fn check_known(name: &str, value: &str) -> Result<(), ApplyError> {
    match is_fixable(name, value) {
        true => Ok(()),
        false => Err(ApplyError::NotOurs { name: name.to_owned(), value: value.to_owned() }),
    }
}

/// Settings of the network hold in one namespace only, or are the same seen from each (network_namespaces(7)).
fn network_of(name: &str) -> Option<u64> {
    if name.starts_with("net.") { place::network() } else { None }
}
