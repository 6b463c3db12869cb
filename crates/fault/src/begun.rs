//! A fault from its beginning to its end: what it does, done one after the other, and undone the other way round.
//!
//! All or nothing: where one deed fails, those before it are undone. Undone when it is dropped, so also by a panic; what
//! cannot be undone then stays in the journal. The journal is held only while something is changed.

use crate::apply::{Applied, Step, make};
use crate::error::{ApplyError, JournalError};
use crate::faults::{Act, Deed};
use crate::journal::Journal;
use crate::undo::{Outcome, undo_only};
use std::path::{Path, PathBuf};

/// Why a fault is not undone as a whole.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The second half of it could not be done.
    #[error(transparent)]
    Act(#[from] ApplyError),
    /// A change could not be undone.
    #[error("{what} was not undone ({why}): it stays in the journal, see `plimsoll fault list`")]
    NotUndone {
        /// What was changed.
        what: String,
        /// Why it is as it was changed.
        why: String,
    },
}

/// Deeds that were done.
#[derive(Debug)]
pub struct Begun {
    journal: PathBuf,
    changes: Vec<u64>,
    acts: Vec<Box<dyn Act>>,
}

impl Begun {
    /// Does them, one after the other; `watch` is told each step of each change.
    ///
    /// # Errors
    /// [`ApplyError`]: then none is done, or it is in the journal; an act that was done stays done.
    pub fn make(journal: &Path, deeds: Vec<Deed>, watch: &mut dyn FnMut(Step)) -> Result<Self, ApplyError> {
        // Asked for all before the first is done.
        deeds.iter().try_for_each(Deed::may)?;
        let mut begun = Begun { journal: journal.to_owned(), changes: Vec::new(), acts: Vec::new() };
        for deed in deeds {
            match deed {
                Deed::Change(change) => {
                    if let Applied::Changed { id, .. } = make(&mut Journal::open(journal)?, &change, watch)? {
                        begun.changes.push(id);
                    }
                }
                Deed::Act(mut act) => {
                    watch(Step::Permitted);
                    act.begin()?;
                    watch(Step::Changed);
                    begun.acts.push(act);
                }
            }
        }
        Ok(begun)
    }

    /// Whether nothing of it is left to undo.
    pub fn is_over(&self) -> bool {
        self.changes.is_empty() && self.acts.is_empty()
    }

    /// Leaves it as it is: its changes are undone by `plimsoll fault undo`, and what has a second half goes without.
    pub fn leave(mut self) {
        self.changes.clear();
        self.acts.clear();
    }

    /// Undoes it, the last deed first; what was done, in words.
    ///
    /// # Errors
    /// [`EndError`] of the first that could not be undone; the others are.
    pub fn end(self) -> Result<Vec<String>, EndError> {
        self.end_watched(&mut |_| {})
    }

    /// The same; `watch` is told of each thing that is put back when it is.
    ///
    /// # Errors
    /// As [`Begun::end`].
    pub fn end_watched(mut self, watch: &mut dyn FnMut(Step)) -> Result<Vec<String>, EndError> {
        self.undo(watch)
    }

    fn undo(&mut self, watch: &mut dyn FnMut(Step)) -> Result<Vec<String>, EndError> {
        let (changes, acts) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.acts));
        let mut said = Vec::new();
        let mut failed = None;
        for mut act in acts.into_iter().rev() {
            match act.end() {
                Ok(words) => {
                    watch(Step::PutBack);
                    said.extend(words);
                }
                Err(error) => failed = failed.or(Some(EndError::Act(error))),
            }
        }
        if changes.is_empty() {
            return failed.map_or(Ok(said), Err);
        }
        let mut journal = Journal::open(&self.journal)?;
        let ours = journal.entries().iter().filter(|entry| changes.contains(&entry.id));
        said.extend(ours.filter_map(|entry| entry.what.kind().told()));
        for undone in undo_only(&mut journal, &changes, watch)? {
            let (what, before) = (undone.entry.what.name(), undone.entry.what.before());
            let why = match undone.outcome {
                Outcome::Gone => {
                    said.push(format!("{what} is gone"));
                    continue;
                }
                outcome if outcome.is_closed() => {
                    said.push(match undone.entry.what.is_blind() {
                        true => format!("'{before}' was run"),
                        false => format!("{what}: {before} again"),
                    });
                    continue;
                }
                Outcome::Failed(error) => error.to_string(),
                Outcome::Foreign { found } => format!("somebody else has changed it to {found} since"),
                _ => "it holds in another network namespace".to_owned(),
            };
            failed = failed.or(Some(EndError::NotUndone { what, why }));
        }
        failed.map_or(Ok(said), Err)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // What cannot be undone here is in the journal, and another error is on its way.
        if !self.is_over() {
            let _ = self.undo(&mut |_| {});
        }
    }
}
