//! A recording shown: as text or JSON; and the exit status it means.

use super::terminal;
use crate::exit::{Exit, Failure};
use model::Recording;
use model::error_kind::ErrorExample;
use model::finding::{Diagnosis, ExpectationState, ValidityState};
use model::recording::End;
use report::json::Document;
use report::text::{Kept, Options, Style};
use std::borrow::Cow;
use std::io::{BufWriter, StdoutLock, Write};
use std::path::Path;
use store::Reader;

/// Writes something of many lines to stdout, to the last byte.
pub fn to_stdout(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    if written.is_err() {
        // What is left would be tried again, in vain, where nobody sees it.
        let _ = out.into_parts();
    }
    Ok(written?)
}

/// Writes the report as text to stdout.
pub fn text(recording: &Recording, diagnosis: &Diagnosis, kept: Option<&Path>, no_color: bool) -> Result<(), Failure> {
    to_stdout(|out| write_text(out, recording, diagnosis, kept, false, terminal::style(no_color)))
}

/// The same with all evidence of every finding.
pub fn text_with_all(
    recording: &Recording,
    diagnosis: &Diagnosis,
    kept: Option<&Path>,
    no_color: bool,
) -> Result<(), Failure> {
    to_stdout(|out| write_text(out, recording, diagnosis, kept, true, terminal::style(no_color)))
}

/// Writes the report as text to stderr: something else has stdout.
pub fn text_aside(recording: &Recording, diagnosis: &Diagnosis, kept: Option<&Path>, no_color: bool) {
    let mut out = BufWriter::new(std::io::stderr().lock());
    let written = write_text(&mut out, recording, diagnosis, kept, false, terminal::style_aside(no_color));
    // Nothing is left to do where stderr is closed.
    let _ = written.and_then(|()| out.flush());
}

fn write_text(
    out: &mut impl Write,
    recording: &Recording,
    diagnosis: &Diagnosis,
    kept: Option<&Path>,
    all: bool,
    style: Style,
) -> std::io::Result<()> {
    let path = kept.map(|path| path.display().to_string());
    let command = kept.map(command_for);
    let kept = path.as_deref().zip(command.as_deref()).map(|(path, command)| Kept { path, command });
    let describe = |example: &ErrorExample| words_of(recording, example);
    report::text::write(out, recording, diagnosis, &Options { style, describe: &describe, all, kept })
}

/// Writes the report as JSON to stdout.
pub fn json(recording: &Recording, diagnosis: &Diagnosis, kept: Option<&Path>) -> Result<(), Failure> {
    let path = kept.map(|path| path.display().to_string());
    let describe = |example: &ErrorExample| words_of(recording, example);
    to_stdout(|out| Document::of(recording, diagnosis, &describe, path.as_deref()).write(out))
}

/// Writes a recording's report as JSON to stdout, with every interval of the file.
pub fn json_of(reader: &Reader, recording: &Recording, diagnosis: &Diagnosis, path: &Path) -> Result<(), Failure> {
    let path = path.display().to_string();
    let describe = |example: &ErrorExample| words_of(recording, example);
    let document = Document::of(recording, diagnosis, &describe, Some(&path));
    to_stdout(|out| document.with_rows(reader.intervals()).write(out))
}

/// What a run's end means for the exit status. An undetermined result is none that failed, unless an expectation leans on it.
pub fn exit_of(recording: &Recording, diagnosis: &Diagnosis) -> Exit {
    let mut exit = Exit::Fine;
    if diagnosis.validity.state == ValidityState::NotValid {
        exit = exit.worst(Exit::NotValid);
    }
    for judgement in &diagnosis.expectations {
        exit = exit.worst(match judgement.state {
            ExpectationState::Met => Exit::Fine,
            ExpectationState::NotMet => Exit::ExpectationFailed,
            ExpectationState::Undetermined => Exit::NotValid,
        });
    }
    if recording.end == End::Interrupted {
        exit = exit.worst(Exit::Interrupted);
    }
    // There was nothing to measure; of a run that was ended by hand nobody knows what would have come.
    if !recording.has_connected() && recording.end != End::Interrupted {
        exit = exit.worst(Exit::CouldNotRun);
    }
    exit
}

/// The same of a recording that is shown again: as the run ended, and 1 where it was cut off, or is damaged.
pub fn exit_of_recorded(recording: &Recording, diagnosis: &Diagnosis) -> Exit {
    let exit = match recording.capsule.why_no_load() {
        Some(_) => Exit::Fine,
        None => exit_of(recording, diagnosis),
    };
    let is_whole = recording.end != End::Partial && !recording.integrity.is_damaged();
    if is_whole { exit } else { exit.worst(Exit::CouldNotRun) }
}

/// The command that shows a recording again.
pub fn command_for(path: &Path) -> String {
    let in_folder = store::default_folder().is_ok_and(|folder| path.parent() == Some(&*folder));
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some(id) if in_folder => format!("plimsoll report {id}"),
        _ => format!("plimsoll report {}", path.display()),
    }
}

/// The protocol's words for an error's detail.
pub fn words_of(recording: &Recording, example: &ErrorExample) -> Option<Cow<'static, str>> {
    if example.detail == 0 { None } else { wire::words(&recording.plan.workload, example.detail) }
}
