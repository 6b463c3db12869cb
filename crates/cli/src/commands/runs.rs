//! `plimsoll runs`: the recordings of a folder, oldest first.

use super::terminal;
use crate::args::runs::RunsArgs;
use crate::exit::{Exit, Failure};
use report::runs::{Head, Run};

/// Lists them.
pub fn run(args: &RunsArgs) -> Result<Exit, Failure> {
    let folder = args.folder.clone().map_or_else(store::default_folder, Ok)?;
    let runs: Vec<Run> = store::list(&folder)?
        .into_iter()
        .map(|summary| Run {
            id: summary.id,
            head: match summary.head {
                Ok(head) => Ok(Head {
                    started_at_unix_ns: head.started_at_unix_ns,
                    target: head.target,
                    requests: head.requests,
                    end: head.end,
                }),
                Err(error) => Err(error.to_string()),
            },
        })
        .collect();
    report::runs::write(&mut std::io::stdout().lock(), &runs, terminal::style(false))?;
    Ok(Exit::Fine)
}
