//! `plimsoll runs`: the recordings of a folder, oldest first.

use super::output::terminal;
use crate::args::runs::RunsArgs;
use crate::exit::{Exit, Failure};
use report::runs::Run;

/// Lists them.
pub fn run(args: &RunsArgs) -> Result<Exit, Failure> {
    let folder = args.folder.clone().map_or_else(store::default_folder, Ok)?;
    let runs: Vec<Run> = store::list(&folder)?
        .into_iter()
        .map(|summary| Run { id: summary.id, head: summary.head.map_err(|error| error.to_string()) })
        .collect();
    report::runs::write(&mut std::io::stdout().lock(), &runs, terminal::style(false))?;
    Ok(Exit::Fine)
}
