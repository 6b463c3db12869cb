//! `plimsoll diagnose`: what gives first in a recording, and why; nothing else of it is shown.
//!
//! Status 0 where it could be diagnosed, whatever was found; with `--exit-status` that of the run. A recording that was cut
//! off or is damaged is diagnosed as far as it goes, and said to be so first.

pub mod confirm;
mod experiment;

use super::output::{results, terminal};
use crate::args::diagnose::DiagnoseArgs;
use crate::exit::{Exit, Failure};
use report::answer::diagnosis::{self, Answer, Document};
use store::Reader;

/// Diagnoses it.
pub fn run(args: &DiagnoseArgs) -> Result<Exit, Failure> {
    if args.experiment {
        return experiment::run(args);
    }
    if args.run.contains("://") {
        return Err(Failure::usage(format!(
            "expected a recording, got the URL '{}': add --experiment to try the server there",
            model::hide::url(&args.run)
        )));
    }
    if experiment::is_result(&args.run) {
        return experiment::show(args);
    }
    let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
    let path = store::find(folder, &args.run)?;
    let reader = Reader::open(&path)?;
    let (recording, history) = reader.load_with_history()?;
    let diagnosis = diagnose::diagnose_with(&recording, &history);
    let partial = reader.partial_reason()?;
    let answer = Answer { recording: &recording, diagnosis: &diagnosis, partial: partial.as_deref() };
    match (args.json, args.markdown) {
        (true, _) => {
            let path = path.display().to_string();
            results::to_stdout(|out| Document::of(&answer, Some(&path)).write(out))?;
        }
        (false, true) => results::to_stdout(|out| diagnosis::write_markdown(out, &answer, args.all))?,
        (false, false) => {
            let style = terminal::style(args.no_color);
            results::to_stdout(|out| diagnosis::write(out, &answer, args.all, style))?;
        }
    }
    Ok(if args.exit_status { results::exit_of_recorded(&recording, &diagnosis) } else { Exit::Fine })
}
