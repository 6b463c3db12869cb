//! What is read of each thread of the target by files of its own: of at most [`THREADS_CLOSE_MAX`] threads a process, those
//! with the lowest ids; how many are left out is said.
//!
//! A thread that ended in between is no failure. Where one may not be read, none of its process's others is tried.

use crate::limits::THREADS_CLOSE_MAX;
use crate::samplers::{first_failure, of_target};
use crate::source::proc::SampleError;
use model::Snapshot;
use model::snapshot::ThreadSample;

/// Goes through the threads, and counts those beyond the bound.
#[derive(Debug, Default)]
pub(crate) struct ThreadByThread {
    left_out: usize,
}

impl ThreadByThread {
    /// Reads something of each thread; `read` is given the process's id, too.
    pub(crate) fn each(
        &mut self,
        snapshot: &mut Snapshot,
        mut read: impl FnMut(u32, &mut ThreadSample) -> Result<(), SampleError>,
    ) -> Result<(), SampleError> {
        self.left_out = 0;
        let mut outcome = Ok(());
        for process in of_target(snapshot)? {
            self.left_out += (process.threads_total as usize).saturating_sub(THREADS_CLOSE_MAX);
            for thread in process.threads.iter_mut().take(THREADS_CLOSE_MAX) {
                if let Err(error) = read(process.pid, thread) {
                    let is_refused = matches!(error, SampleError::NotPermitted { .. });
                    outcome = outcome.and(Err(error));
                    if is_refused {
                        break;
                    }
                }
            }
        }
        first_failure(outcome)
    }

    /// What the sampler says of it.
    pub(crate) fn leaves_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} threads beyond {THREADS_CLOSE_MAX} of a process", self.left_out))
    }
}
