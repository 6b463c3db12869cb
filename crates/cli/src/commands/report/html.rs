//! `plimsoll report --html`: a recording as one page that needs nothing else, with every tick of the file.

use super::flame;
use crate::commands::output::results;
use crate::exit::{Exit, Failure};
use model::error_kind::ErrorExample;
use model::finding::Diagnosis;
use model::{LatencyKind, Recording};
use report::html::Report;
use report::html::course::Course;
use report::html::heat::Heat;
use report::text::Kept;
use std::io::Write;
use std::path::Path;
use store::Reader;

/// A recording, and all that was read on the way to it.
#[derive(Debug)]
pub struct Read<'a> {
    /// Its file, opened.
    pub reader: &'a Reader,
    /// Where that is.
    pub path: &'a Path,
    /// What is in it.
    pub recording: &'a Recording,
    /// What is made of it.
    pub diagnosis: &'a Diagnosis,
    /// Its snapshots as lines.
    pub course: Course,
}

/// Writes the page to a file, or to stdout with `-`.
///
/// # Errors
/// Those of the recording and of the file.
pub fn run(read: Read<'_>, to: &Path) -> Result<Exit, Failure> {
    let Read { reader, path, recording, diagnosis, course } = read;
    let mut heat = Heat::default();
    reader.each_histogram(LatencyKind::Response, |from_ns, to_ns, times| heat.push(from_ns, to_ns, times))?;
    let (shown, command) = (path.display().to_string(), results::command_for(path));
    let describe = |example: &ErrorExample| results::words_of(recording, example);
    let page = Report {
        recording,
        diagnosis,
        describe: &describe,
        kept: Some(Kept { path: &shown, command: &command }),
        rows: reader.intervals().collect::<Result<Vec<_>, _>>()?,
        heat,
        course: whole_course(reader, recording, course)?,
        flames: flame::all(reader, recording)?,
    };
    put(to, |out| page.write(out))?;
    Ok(Exit::Fine)
}

/// Writes a page to a file, or to stdout with `-`.
///
/// # Errors
/// Those of the page and of the file.
pub fn put(to: &Path, write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<(), Failure> {
    let refused = |error: std::io::Error| {
        Failure::could_not_run(format!("expected to write the page to {}, but {error}", to.display()))
    };
    // All of it is made before the file is touched.
    let mut bytes = Vec::new();
    write(&mut bytes).map_err(refused)?;
    match to.as_os_str() == "-" {
        true => results::to_stdout(|out| out.write_all(&bytes)),
        false => std::fs::write(to, &bytes).map_err(refused),
    }
}

/// Of a run so long that old ticks were merged, the file has the newest snapshots only: what is kept of the others in memory
/// stands before them.
fn whole_course(reader: &Reader, recording: &Recording, course: Course) -> Result<Course, Failure> {
    let Some(from_ns) = reader.snapshots_from_ns()? else { return Ok(course) };
    let mut whole = Course::default();
    recording.snapshots.iter().filter(|snapshot| snapshot.at_ns < from_ns).for_each(|snapshot| whole.push(snapshot));
    reader.load_with(|snapshot| whole.push(snapshot))?;
    Ok(whole)
}
