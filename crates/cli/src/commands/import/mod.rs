//! `plimsoll import`: another instrument's text as a recording, its report, and the head of its timeline; or requests that
//! others have written, as a file for `load --requests-from`.

mod requests;

use super::output::{results, terminal};
use crate::args::import::{ImportArgs, ImportFormat};
use crate::exit::{Exit, Failure};
use model::plain::plain;
use observe::import::{Format, ImportError, Options};
use report::timeline::Timeline;
use session::importing::{ImportSpec, ImportingError, import};
use session::{Outcome, RecordTo};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};

/// Rows of the timeline that are shown.
const HEAD_ROWS: usize = 10;

/// Reads it.
pub fn run(args: &ImportArgs) -> Result<Exit, Failure> {
    let format = match args.format {
        ImportFormat::Readings(format) => format,
        ImportFormat::Requests(kind) => return requests::run(args, kind),
    };
    let name = args.file.display().to_string();
    let from_stdin = args.file.as_os_str() == "-";
    let waiting = match from_stdin {
        true => Some("reading stdin until its end".to_owned()),
        false => resolve::files::waited_for(&args.file),
    };
    let outcome = match waiting {
        Some(waiting) => resolve::files::patiently(super::tell, &waiting, || read(args, format, name, from_stdin)),
        None => read(args, format, name, from_stdin),
    }?;
    let (recording, diagnosis) = (&outcome.recording, &outcome.diagnosis);
    let kept = outcome.recorded_at.as_deref();
    if args.json {
        results::json(recording, diagnosis, kept)?;
    } else {
        results::text(recording, diagnosis, kept, args.no_color)?;
        let style = terminal::style(args.no_color);
        let mut out = std::io::stdout().lock();
        writeln!(out)?;
        let rows = &recording.snapshots[..recording.snapshots.len().min(HEAD_ROWS + 1)];
        Timeline::machine(&recording.snapshots).write(&mut out, rows, style)?;
        if let Some(path) = kept {
            writeln!(out, "\nThe whole course: {} --timeline[=NAME,…]", plain(&results::command_for(path)))?;
        }
    }
    match outcome.recording_error {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Fine),
    }
}

fn read(args: &ImportArgs, format: &'static Format, name: String, from_stdin: bool) -> Result<Outcome, Failure> {
    let mut from: Box<dyn BufRead> = if from_stdin {
        Box::new(std::io::stdin().lock())
    } else {
        let refused =
            |error: std::io::Error| Failure::usage(format!("expected to read the text from {name}, but {error}"));
        let file = File::open(&args.file).map_err(refused)?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Failure::usage(format!("expected a file with the text, and {name} is a folder")));
        }
        Box::new(BufReader::with_capacity(64 * 1024, file))
    };
    let record = match (&args.record, args.no_record) {
        (_, true) => RecordTo::Nothing,
        (Some(path), false) => RecordTo::File(path.clone()),
        (None, false) => RecordTo::Folder(store::default_folder()?),
    };
    let spec = ImportSpec {
        format,
        file: if from_stdin { "stdin".to_owned() } else { name },
        options: Options {
            every_ns: args.every,
            started_at_unix_ns: args.started,
            is_first_interval: args.first_interval,
        },
        record: &record,
        command: super::command_line::whole(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(import(&mut *from, &spec)?)
}

impl From<ImportingError> for Failure {
    fn from(error: ImportingError) -> Self {
        match error {
            ImportingError::Text(ImportError::Io(_)) => Failure::could_not_run(error.to_string()),
            ImportingError::Text(error) => Failure::usage(error.to_string()),
            ImportingError::Store(error) => error.into(),
        }
    }
}
