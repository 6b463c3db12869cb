//! The same run several times, with what all of them come to (`repeats` of a scenario file).
//!
//! Everything is resolved once, so every run has the same plan and the same seed; a target that is started is started anew for
//! each. A line is said of each run as it ends; Ctrl-C ends the run under way and gives what is known.

use super::together::Loads;
use crate::args::load::OutputArgs;
use crate::commands::agents::PutOnBy;
use crate::commands::interrupt;
use crate::commands::output::progress::Shown;
use crate::commands::output::{results, terminal, together};
use crate::exit::{Exit, Failure};
use diagnose::repeats::{RepeatedLoad, Repeats, SCHEMA};
use model::recording::End;
use session::{Options, RecordTo, target};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Runs them, and prints what they come to.
pub fn run(
    times: u32,
    loads: &Loads,
    target: Option<&target::Spec>,
    options: &Options,
    by: &mut PutOnBy<'_>,
    shown: &mut Shown,
    output: &OutputArgs,
) -> Result<Exit, Failure> {
    let mut series = Series::new(times, loads, &options.version);
    let mut failed = None;
    while !series.is_whole() && series.repeats.end == End::Complete {
        failed = series.one(loads, target, options, by, shown, "").err();
    }
    shown.clear();
    interrupt::end_at_once(&options.interrupted);
    // What is known is said, also where a later run failed.
    let Series { repeats, exit } = series;
    if let (Some(_), 0) = (&failed, repeats.made) {
        return failed.map_or(Ok(exit), Err);
    }
    results::to_stdout(|out| match output.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &repeats)?;
            std::io::Write::write_all(out, b"\n")
        }
        false => report::answer::repeats::write(out, &repeats, terminal::style(output.no_color)),
    })?;
    failed.map_or(Ok(exit), Err)
}

/// Runs of the same, as they are made.
pub(super) struct Series {
    /// What they come to so far.
    pub repeats: Repeats,
    /// The worst of their statuses.
    pub exit: Exit,
}

impl Series {
    /// None is made yet.
    pub(super) fn new(times: u32, loads: &Loads, version: &str) -> Self {
        let is_alone = loads.all.len() == 1;
        let named = |name: &String| RepeatedLoad::new((!is_alone).then(|| name.clone()));
        let repeats = Repeats {
            schema: SCHEMA.to_owned(),
            version: version.to_owned(),
            started_at_unix_ns: 0,
            end: End::Complete,
            asked: times,
            made: 0,
            loads: loads.all.iter().map(|load| named(&load.name)).collect(),
        };
        Series { repeats, exit: Exit::Fine }
    }

    /// Makes one more; `of` says of what, before each line of progress. Interrupted, it is the last one; where it cannot be made,
    /// the series is partial.
    pub(super) fn one(
        &mut self,
        loads: &Loads,
        target: Option<&target::Spec>,
        options: &Options,
        by: &mut PutOnBy<'_>,
        shown: &mut Shown,
        of: &str,
    ) -> Result<(), Failure> {
        let made = self.make(loads, target, options, by, shown, of);
        if made.is_err() && !self.is_whole() {
            self.repeats.end = End::Partial;
        }
        made
    }

    /// Whether as many were made as were asked for.
    pub(super) fn is_whole(&self) -> bool {
        self.repeats.made == self.repeats.asked
    }

    fn make(
        &mut self,
        loads: &Loads,
        target: Option<&target::Spec>,
        options: &Options,
        by: &mut PutOnBy<'_>,
        shown: &mut Shown,
        of: &str,
    ) -> Result<(), Failure> {
        let Series { repeats, exit } = self;
        let number = repeats.made + 1;
        shown.label = format!("{of}run {number} of {}  ", repeats.asked);
        let options = Options { record: numbered(&options.record, number), ..options.clone() };
        let Some((outcomes, ended)) = loads.put_on(target, &options, by, shown)? else {
            repeats.end = End::Interrupted;
            *exit = exit.worst(Exit::Interrupted);
            return Ok(());
        };
        let parts: Vec<together::Part<'_>> = outcomes.iter().map(together::Part::of_outcome).collect();
        *exit = exit.worst(together::exit_of(&parts));
        for (load, part) in repeats.loads.iter_mut().zip(&parts) {
            load.push(part.recording, part.diagnosis, part.kept.map(|path| path.display().to_string()));
        }
        if number == 1 {
            repeats.started_at_unix_ns = parts[0].recording.capsule.started_at_unix_ns;
        }
        repeats.made = number;
        for outcome in &outcomes {
            if let Some(error) = &outcome.recording_error {
                *exit = exit.worst(Failure::could_not_run(format!("the recording is partial: {error}")).show());
            }
        }
        shown.say(&format!("{of}{}", report::answer::repeats::run(number, repeats)));
        ended?;
        if options.interrupted.load(Ordering::Relaxed) {
            repeats.end = End::Interrupted;
            *exit = exit.worst(Exit::Interrupted);
        }
        Ok(())
    }
}

/// Where the recording of a run of a number goes: `run.plimsoll` becomes `run-1.plimsoll`.
pub(super) fn numbered(record: &RecordTo, number: u32) -> RecordTo {
    let RecordTo::File(path) = record else { return record.clone() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or(store::EXTENSION.into(), |extension| extension.to_string_lossy());
    RecordTo::File(Path::new(path).with_file_name(format!("{stem}-{number}.{extension}")))
}
