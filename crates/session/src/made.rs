//! Why a change for a run was not made, or not undone. The making itself: [`fault::Begun`].

use fault::{ApplyError, EndError, JournalError};

/// Why a change was not made, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum MadeError {
    /// It could not be made.
    #[error(transparent)]
    Apply(ApplyError),
    /// It could not be undone.
    #[error(transparent)]
    End(EndError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(JournalError),
}

impl From<ApplyError> for MadeError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Journal(error) => MadeError::Journal(error),
            error => MadeError::Apply(error),
        }
    }
}

impl From<EndError> for MadeError {
    fn from(error: EndError) -> Self {
        match error {
            EndError::Journal(error) => MadeError::Journal(error),
            error => MadeError::End(error),
        }
    }
}
