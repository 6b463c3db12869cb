//! `plimsoll runs`: the recordings of a folder, oldest first, each with what it came to; and what else is done with recordings.

mod merge;

use super::output::terminal;
use crate::args::runs::{RunsAction, RunsArgs};
use crate::exit::{Exit, Failure};
use report::runs::{Run, Verdict};
use std::path::Path;
use store::{StoreError, Summary};

/// Lists them, or does what else is asked.
pub fn run(args: &RunsArgs) -> Result<Exit, Failure> {
    if let Some(RunsAction::Merge(args)) = &args.action {
        return merge::run(args);
    }
    let folder = args.folder.clone().map_or_else(store::default_folder, Ok)?;
    report::runs::write(&mut std::io::stdout().lock(), &listed(&folder)?, terminal::style(false))?;
    Ok(Exit::Fine)
}

/// The recordings of a folder, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn listed(folder: &Path) -> Result<Vec<Run>, StoreError> {
    let run = |summary: Summary| Run {
        id: summary.id,
        head: summary.head.map_err(|error| error.to_string()),
        verdict: summary.verdict.map(shown),
    };
    Ok(store::list(folder)?.into_iter().map(run).collect())
}

fn shown(verdict: store::Verdict) -> Verdict {
    let store::Verdict { rate_per_s, unit, validity, gives } = verdict;
    Verdict { rate_per_s, unit, validity, gives }
}
