//! The faults of a run: understood and asked for their rights before any load, done on the run's clock, undone at its end.
//!
//! A thread of their own does them (`schedule`), never a worker: what a fault takes is no lag. Whom `target` means is looked
//! up when a fault is due (`around`). Each is told by events ([`model::event::FAULT_BEGAN`]). What changes a host is
//! [`fault`]'s, journalled first.

mod around;
mod schedule;

pub use around::{Started, Whom};
pub use schedule::{Ready, Running};

use fault::{Asked, BadArgument, Undoing};
use model::fault::LoadFault;
use model::units::show_duration_ns;
use std::path::PathBuf;

/// What the faults of a run need beside its plan.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// The journal's folder; `None`: the user's own.
    pub journal: Option<PathBuf>,
    /// The target, where it was started for the run.
    pub started: Option<Started>,
}

/// Why a run with faults could not take place. No load was put on, and nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// It is none.
    #[error(transparent)]
    Bad(#[from] BadArgument),
    /// It could not be done now.
    #[error("--fault '{fault}': {why}")]
    NotPossible {
        /// As it was asked for.
        fault: String,
        /// A sentence.
        why: String,
    },
    /// There is no folder for the journal.
    #[error(transparent)]
    Journal(#[from] fault::JournalError),
}

/// A fault of a run as one of the faults understands it.
///
/// # Errors
/// [`BadArgument`]: it is none, or has a length and cannot be undone.
pub fn understood(fault: &LoadFault) -> Result<Asked, BadArgument> {
    let asked = Asked::parse(&fault.fault)?;
    match (asked.kind().undone, fault.for_ns) {
        (Undoing::Never(why), Some(ns)) => {
            Err(BadArgument::NoLength { fault: asked.kind().name, why, got: show_duration_ns(ns as f64) })
        }
        _ => Ok(asked),
    }
}
