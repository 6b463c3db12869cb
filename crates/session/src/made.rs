//! A change of something that runs, or of a setting, which is undone when its holder is dropped; journalled first ([`fault`]).

use fault::{ApplyError, Journal, JournalError, Live};
use model::check::Setting;
use std::path::{Path, PathBuf};

/// Why a change was not made, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum MadeError {
    /// It could not be made.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It could not be undone.
    #[error("{what} was not undone ({why}): it stays in the journal, see `plimsoll fault list`")]
    NotUndone {
        /// What was changed.
        what: String,
        /// Why it is as it was changed.
        why: String,
    },
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Made {
    journal: PathBuf,
    id: Option<u64>,
}

impl Made {
    /// Changes something that runs.
    pub(crate) fn live(journal: &Path, live: &Live) -> Result<Self, MadeError> {
        let id = fault::change(&mut Journal::open(journal)?, live, &mut |_| {})?;
        Ok(Made { journal: journal.to_owned(), id })
    }

    /// Changes a setting.
    pub(crate) fn setting(journal: &Path, setting: &Setting) -> Result<Self, MadeError> {
        let mut open = Journal::open(journal)?;
        let before = open.entries().to_vec();
        fault::apply(&mut open, setting, &mut |_| {})?;
        let is_new = |entry: &&fault::Entry| before.iter().all(|other| other.id != entry.id);
        let id = open.entries().iter().find(is_new).map(|entry| entry.id);
        Ok(Made { journal: journal.to_owned(), id })
    }

    /// Undoes it.
    pub(crate) fn undo(mut self) -> Result<(), MadeError> {
        let Some(id) = self.id.take() else { return Ok(()) };
        undo(&self.journal, id)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What cannot be undone here is in the journal, and another error is on its way.
        if let Some(id) = self.id.take() {
            let _ = undo(&self.journal, id);
        }
    }
}

fn undo(folder: &Path, id: u64) -> Result<(), MadeError> {
    let mut journal = Journal::open(folder)?;
    for undone in fault::undo_only(&mut journal, &[id], &mut |_| {})? {
        if !undone.outcome.is_closed() {
            let why = match undone.outcome {
                fault::Outcome::Failed(error) => error.to_string(),
                fault::Outcome::Foreign { found } => format!("somebody else has changed it to {found} since"),
                _ => "it holds in another network namespace".to_owned(),
            };
            return Err(MadeError::NotUndone { what: undone.entry.what.name(), why });
        }
    }
    Ok(())
}
