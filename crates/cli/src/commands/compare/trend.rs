//! `plimsoll trend`: where the recordings of a folder changed, load by load.
//!
//! Only valid runs count: a change of the generator is none of the server's. Status 0 whatever was found.

use crate::args::compare::recorded::TrendArgs;
use crate::commands::output::{results, terminal};
use crate::exit::{Exit, Failure};
use diagnose::comparison::{Figures, LeftOut, SeriesRun, trend};
use model::finding::ValidityState;
use std::io::Write;
use store::Reader;

/// Finds it.
pub fn run(args: &TrendArgs) -> Result<Exit, Failure> {
    let folder = args.folder.clone().map_or_else(store::default_folder, Ok)?;
    if !folder.is_dir() {
        return Err(Failure::could_not_run(format!(
            "expected a folder of recordings, but '{}' is none: name another",
            folder.display()
        )));
    }
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    for summary in store::list(&folder)? {
        let read = || -> Result<SeriesRun, String> {
            summary.head.as_ref().map_err(ToString::to_string)?;
            let reader = Reader::open(&summary.path).map_err(|error| error.to_string())?;
            let (mut recording, history) = reader.load_with_history().map_err(|error| error.to_string())?;
            if let Some(why) = recording.capsule.why_no_load() {
                return Err(why.to_owned());
            }
            let validity = diagnose::diagnose_with(&recording, &history).validity;
            if validity.state == ValidityState::NotValid {
                let why = validity.reasons.first().map_or("it is not valid", |reason| &reason.text);
                return Err(format!("not valid: {why}"));
            }
            let figures = Figures::of(&recording, &history);
            // Only what it was made with is looked at from here on; a folder may hold thousands.
            recording.snapshots = Vec::new();
            recording.timeline = model::recording::Timeline::default();
            recording.totals = model::recording::Totals::default();
            recording.requests = model::run_requests::RunRequests::default();
            Ok(SeriesRun { id: summary.id.clone(), recording, figures })
        };
        match read() {
            Ok(run) => runs.push(run),
            Err(why) => left_out.push(LeftOut { id: summary.id.clone(), why }),
        }
    }
    let found = trend(runs, left_out, args.tolerance);
    results::to_stdout(|out| match args.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &found)?;
            writeln!(out)
        }
        false => report::answer::trend::write(out, &found, terminal::style(args.no_color)),
    })?;
    Ok(Exit::Fine)
}
