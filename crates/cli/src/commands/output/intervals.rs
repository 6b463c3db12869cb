//! The intervals of a run, or its single requests, as CSV: to a file or to stdout.
//!
//! The place is opened before the work is done for it: a folder that is not there must not cost a run. What a file held
//! stays until there is something to put in its place; one that was made for nothing is taken away again.

use super::results::to_stdout;
use crate::exit::Failure;
use model::recording::Row;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is written as CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Every interval.
    Intervals,
    /// Single requests.
    Requests,
}

impl What {
    fn option(self) -> &'static str {
        match self {
            What::Intervals => "--csv",
            What::Requests => "--requests",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            What::Intervals => "the intervals",
            What::Requests => "the requests",
        }
    }
}

/// Where it goes.
#[derive(Debug)]
pub struct Csv(To, What);

#[derive(Debug)]
enum To {
    Stdout,
    File { path: PathBuf, file: File, is_ours: bool },
}

impl Csv {
    /// A file, or stdout where it is named `-`.
    ///
    /// # Errors
    /// A place that cannot be written was named: status 2.
    pub fn open(path: &Path, what: What) -> Result<Csv, Failure> {
        if is_stdout(path) {
            return Ok(Csv(To::Stdout, what));
        }
        let is_ours = path.symlink_metadata().is_err();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| {
            let shown = path.display();
            Failure::usage(format!(
                "{}: expected a file that can be written, got '{shown}' ({error}): name another one",
                what.option()
            ))
        })?;
        Ok(Csv(To::File { path: path.to_owned(), file, is_ours }, what))
    }

    /// Whether stdout is taken.
    pub fn is_stdout(&self) -> bool {
        matches!(self.0, To::Stdout)
    }

    /// Writes the intervals.
    ///
    /// # Errors
    /// They could not be written: status 1.
    pub fn write(self, rows: impl IntoIterator<Item = Row>) -> Result<(), Failure> {
        self.write_with(|mut out| report::csv::write(&mut out, rows))
    }

    /// Writes what a function writes.
    ///
    /// # Errors
    /// It could not be written: status 1.
    pub fn write_with(mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Failure> {
        let noun = self.1.noun();
        match &mut self.0 {
            To::Stdout => to_stdout(|out| write(out)),
            To::File { path, file, is_ours } => {
                *is_ours = false;
                let refused = |error: std::io::Error| {
                    Failure::could_not_run(format!("expected to write {noun} to {}, but {error}", path.display()))
                };
                // A pipe or a device has no length.
                if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                    file.set_len(0).map_err(refused)?;
                }
                let mut out = BufWriter::new(file);
                write(&mut out).and_then(|()| out.flush()).map_err(refused)
            }
        }
    }
}

impl Drop for Csv {
    fn drop(&mut self) {
        if let To::File { path, is_ours: true, .. } = &self.0 {
            // Made for a run that did not take place: best effort.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether stdout is meant.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Two documents on one stdout are none.
///
/// # Errors
/// Both were asked for: status 2.
pub fn refuse_with_json(csv: Option<&Path>, what: What, json: bool) -> Result<(), Failure> {
    if json && csv.is_some_and(is_stdout) {
        let option = what.option();
        return Err(Failure::usage(format!(
            "{option} - and --json both write to stdout: leave one of them out, or name a file with {option} FILE"
        )));
    }
    Ok(())
}
