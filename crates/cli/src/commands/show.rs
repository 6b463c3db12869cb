//! A recording shown: as text, JSON or CSV; and the exit status it means.

use super::terminal;
use crate::exit::{Exit, Failure};
use model::Recording;
use model::error_kind::ErrorExample;
use model::finding::{Diagnosis, ValidityState};
use model::recording::{End, Row};
use report::json::Document;
use report::text::{Kept, Options};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the report as text to stdout.
pub fn text(recording: &Recording, diagnosis: &Diagnosis, kept: Option<&Path>, no_color: bool) -> Result<(), Failure> {
    let path = kept.map(|path| path.display().to_string());
    let command = kept.map(command_for);
    let kept = path.as_deref().zip(command.as_deref()).map(|(path, command)| Kept { path, command });
    let words = words_of(recording);
    let describe = |example: &ErrorExample| words.of(example);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let options = Options { style: terminal::style(no_color), describe: &describe, kept };
    report::text::write(&mut out, recording, diagnosis, &options)?;
    out.flush()?;
    Ok(())
}

/// Writes the report as JSON to stdout.
pub fn json(recording: &Recording, diagnosis: &Diagnosis, kept: Option<&Path>) -> Result<(), Failure> {
    let path = kept.map(|path| path.display().to_string());
    let words = words_of(recording);
    let describe = |example: &ErrorExample| words.of(example);
    let mut out = BufWriter::new(std::io::stdout().lock());
    Document::of(recording, diagnosis, &describe, path.as_deref()).write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Writes rows as CSV to a file.
pub fn csv(path: &Path, rows: impl IntoIterator<Item = Row>) -> Result<(), Failure> {
    let refused = |error: std::io::Error| {
        Failure::could_not_run(format!("expected to write the intervals to {}, but {error}", path.display()))
    };
    let mut file = BufWriter::new(std::fs::File::create(path).map_err(refused)?);
    report::csv::write(&mut file, rows).map_err(refused)?;
    file.flush().map_err(refused)
}

/// What a run's end means for the exit status. An undetermined result is none that failed: nothing here leans on it.
pub fn exit_of(recording: &Recording, diagnosis: &Diagnosis) -> Exit {
    let mut exit = Exit::Fine;
    if diagnosis.validity.state == ValidityState::NotValid {
        exit = exit.worst(Exit::NotValid);
    }
    if recording.end == End::Interrupted {
        exit = exit.worst(Exit::Interrupted);
    }
    // There was nothing to measure.
    if !recording.has_connected() {
        exit = exit.worst(Exit::CouldNotRun);
    }
    exit
}

/// The command that shows a recording again.
pub fn command_for(path: &Path) -> String {
    let in_folder = store::default_folder().is_ok_and(|folder| path.parent() == Some(&*folder));
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some(id) if in_folder => format!("plimsoll report {id}"),
        _ => format!("plimsoll report {}", path.display()),
    }
}

/// The protocol's words for error details, made once: the report asks for references.
struct Words {
    known: Vec<(u32, &'static str)>,
}

impl Words {
    fn of(&self, example: &ErrorExample) -> Option<&'static str> {
        self.known.iter().find(|(detail, _)| *detail == example.detail).map(|(_, words)| *words)
    }
}

fn words_of(recording: &Recording) -> Words {
    let details = recording.totals.examples().map(|example| example.detail).filter(|detail| *detail != 0);
    let known = details.filter_map(|detail| {
        // At most one for each kind of error, for the length of a report.
        wire::words(&recording.plan.workload, detail)
            .map(|words| (detail, &*Box::leak(words.into_owned().into_boxed_str())))
    });
    Words { known: known.collect() }
}
