//! Puts back what the journal names, the last change first.
//!
//! Idempotent: an entry is closed only when what it names is as before, and that is looked at anew each time (of a command
//! nobody can look: it is undone by the other command, which must bear being run twice). A value that
//! is neither what it was nor what we made it is somebody else's, and is left unless forced. A change of before the
//! machine's last start is gone by itself; one in another network namespace is put back from there. An entry that names
//! what plimsoll never changes is none of ours, whatever the journal says: it is refused, also by force.

use crate::apply::Step;
use crate::change::Change;
use crate::error::{ApplyError, JournalError};
use crate::journal::{Closed, Entry, Journal};
use crate::place;

/// What became of one entry.
#[derive(Debug)]
pub struct Undone {
    /// The entry.
    pub entry: Entry,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of one entry.
#[derive(Debug)]
pub enum Outcome {
    /// It is as before again.
    PutBack,
    /// It was as before: never made, or put back already.
    AsBefore,
    /// It had been changed by somebody else, and was put back by force.
    Forced {
        /// The value that was found.
        found: String,
    },
    /// It has been changed by somebody else, and is left: the entry stays open.
    Foreign {
        /// The value that was found.
        found: String,
    },
    /// The machine was started anew since: settings do not outlive that.
    Restarted,
    /// It was made in another network namespace: the entry stays open.
    OtherNetwork {
        /// A process in it, where one can be seen.
        process: Option<u32>,
    },
    /// The process or control group is gone, and what was changed of it with it.
    Gone,
    /// The same of a network namespace, forced: no process is in that namespace any more, so the entry is closed.
    Forgotten,
    /// It cannot be put back: the entry stays open.
    Failed(ApplyError),
}

impl Outcome {
    /// Whether the entry is closed by it.
    pub fn is_closed(&self) -> bool {
        match self {
            Outcome::PutBack
            | Outcome::AsBefore
            | Outcome::Forced { .. }
            | Outcome::Restarted
            | Outcome::Gone
            | Outcome::Forgotten => true,
            Outcome::Foreign { .. } | Outcome::OtherNetwork { .. } | Outcome::Failed(_) => false,
        }
    }
}

/// Puts every open entry back, the last one first. One that fails does not keep the others from it.
///
/// # Errors
/// [`JournalError`] where the journal fails on the way; entries not named in it stay open, and can be undone again.
pub fn undo(journal: &mut Journal, force: bool, watch: &mut dyn FnMut(Step)) -> Result<Vec<Undone>, JournalError> {
    undo_those(journal, |_| true, force, watch)
}

/// The same of the entries with these numbers.
///
/// # Errors
/// As [`undo`].
pub fn undo_only(journal: &mut Journal, ids: &[u64], watch: &mut dyn FnMut(Step)) -> Result<Vec<Undone>, JournalError> {
    undo_those(journal, |entry| ids.contains(&entry.id), false, watch)
}

fn undo_those(
    journal: &mut Journal,
    is_it: impl Fn(&Entry) -> bool,
    force: bool,
    watch: &mut dyn FnMut(Step),
) -> Result<Vec<Undone>, JournalError> {
    let mut all = Vec::new();
    let entries = journal.entries().to_vec();
    for entry in entries.iter().rev().filter(|entry| is_it(entry)).cloned() {
        let outcome = put_back(&entry, &origin(&entries, &entry), force, watch).unwrap_or_else(Outcome::Failed);
        let how = match &outcome {
            Outcome::PutBack | Outcome::Forced { .. } => Some(Closed::PutBack),
            Outcome::AsBefore => Some(Closed::AsBefore),
            Outcome::Restarted => Some(Closed::Restarted),
            Outcome::Forgotten | Outcome::Gone => Some(Closed::Forgotten),
            Outcome::Foreign { .. } | Outcome::OtherNetwork { .. } | Outcome::Failed(_) => None,
        };
        if let Some(how) = how {
            journal.close(entry.id, how)?;
            watch(Step::Closed);
        }
        all.push(Undone { entry, outcome });
    }
    Ok(all)
}

/// The value before the first of several changes to one thing: found again, all of them are as before.
fn origin(entries: &[Entry], entry: &Entry) -> String {
    let of_same = |other: &&Entry| {
        is_same(&other.what, &entry.what) && other.network == entry.network && other.boot == entry.boot
    };
    entries.iter().find(of_same).unwrap_or(entry).what.before()
}

/// Whether two changes are of one thing. What commands do is each its own.
fn is_same(one: &Change, other: &Change) -> bool {
    let is_blind = one.is_blind() || other.is_blind();
    one.kind().identity() == other.kind().identity() && (!is_blind || one == other)
}

fn put_back(entry: &Entry, origin: &str, force: bool, watch: &mut dyn FnMut(Step)) -> Result<Outcome, ApplyError> {
    let kind = entry.what.kind();
    let (before, after) = (kind.before(), kind.after());
    kind.check()?;
    let boot = place::boot();
    if !boot.is_empty() && !entry.boot.is_empty() && boot != entry.boot {
        return Ok(Outcome::Restarted);
    }
    if let Some(network) = entry.network.filter(|network| place::network() != Some(*network)) {
        return Ok(match place::process_in_network(network) {
            None if force => Outcome::Forgotten,
            process => Outcome::OtherNetwork { process },
        });
    }
    let Some(found) = kind.found()? else { return Ok(Outcome::Gone) };
    if !kind.is_blind() && (found == before || found == origin) {
        kind.tidy();
        return Ok(Outcome::AsBefore);
    }
    let is_ours = found == after;
    if !is_ours && !force {
        return Ok(Outcome::Foreign { found });
    }
    kind.set(&before)?;
    watch(Step::PutBack);
    kind.tidy();
    Ok(if is_ours { Outcome::PutBack } else { Outcome::Forced { found } })
}
