//! `plimsoll runs merge`: the recordings of several generators as one, with its report.
//!
//! Status 0 where the new recording was made, whatever it says; 2 where the recordings do not belong together; 1 where one cannot
//! be read or the new one not be written. One that is not whole, as one of them is not, is said on stderr and marked in the file.

use super::super::output::results;
use super::super::tell;
use crate::args::runs::MergeArgs;
use crate::exit::{Exit, Failure};
use session::generators::{MergeError, Spec, merge};
use std::path::PathBuf;

/// Makes them one.
pub fn run(args: &MergeArgs) -> Result<Exit, Failure> {
    let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
    let runs = args.runs.iter().map(|run| store::find(folder, run)).collect::<Result<Vec<PathBuf>, _>>()?;
    let canonical: Vec<PathBuf> = runs.iter().map(|run| run.canonicalize().unwrap_or_else(|_| run.clone())).collect();
    for (at, run) in canonical.iter().enumerate() {
        if canonical[..at].contains(run) {
            return Err(MergeError::Twice(run.display().to_string()).into());
        }
    }
    let mut command = vec!["runs".to_owned(), "merge".to_owned(), args.out.display().to_string()];
    command.extend(args.runs.iter().cloned());
    let spec = Spec {
        runs,
        out: args.out.clone(),
        clock_bound_ns: args.clock_bound,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        agents: None,
    };
    let merged = merge(&spec)?;
    if let Some(why) = &merged.why_partial {
        tell(&format!("the new recording is marked partial: {why}"));
    }
    let (recording, diagnosis) = (&merged.recording, &merged.diagnosis);
    if args.json {
        results::json(recording, diagnosis, Some(&args.out))?;
    } else {
        results::text(recording, diagnosis, Some(&args.out), args.no_color)?;
    }
    Ok(Exit::Fine)
}
