//! The intervals of a run as CSV, to a file or to stdout.
//!
//! The place is opened before the work is done for it: a folder that is not there must not cost a run. What a file held
//! stays until there is something to put in its place; one that was made for nothing is taken away again.

use super::results::to_stdout;
use crate::exit::Failure;
use model::recording::Row;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where they go.
#[derive(Debug)]
pub struct Csv(To);

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
    pub fn open(path: &Path) -> Result<Csv, Failure> {
        if is_stdout(path) {
            return Ok(Csv(To::Stdout));
        }
        let is_ours = path.symlink_metadata().is_err();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| {
            let shown = path.display();
            Failure::usage(format!(
                "--csv: expected a file that can be written, got '{shown}' ({error}): name another one"
            ))
        })?;
        Ok(Csv(To::File { path: path.to_owned(), file, is_ours }))
    }

    /// Whether stdout is taken.
    pub fn is_stdout(&self) -> bool {
        matches!(self.0, To::Stdout)
    }

    /// Writes them.
    ///
    /// # Errors
    /// They could not be written, or not be read: status 1.
    pub fn write(mut self, rows: impl IntoIterator<Item = Row>) -> Result<(), Failure> {
        match &mut self.0 {
            To::Stdout => to_stdout(|out| report::csv::write(out, rows)),
            To::File { path, file, is_ours } => {
                *is_ours = false;
                let refused = |error: std::io::Error| {
                    Failure::could_not_run(format!(
                        "expected to write the intervals to {}, but {error}",
                        path.display()
                    ))
                };
                // A pipe or a device has no length.
                if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                    file.set_len(0).map_err(refused)?;
                }
                let mut out = BufWriter::new(file);
                report::csv::write(&mut out, rows).and_then(|()| out.flush()).map_err(refused)
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
pub fn refuse_with_json(csv: Option<&Path>, json: bool) -> Result<(), Failure> {
    if json && csv.is_some_and(is_stdout) {
        let message = "--csv - and --json both write to stdout: leave one of them out, or name a file with --csv FILE";
        return Err(Failure::usage(message));
    }
    Ok(())
}
