//! `plimsoll report --html`: a recording as one page that needs nothing else, with every tick of the file.

use super::flame;
use crate::commands::output::{results, together};
use crate::exit::{Exit, Failure};
use model::error_kind::ErrorExample;
use model::finding::Diagnosis;
use model::recording::LoadRole;
use model::{LatencyKind, Recording};
use report::html::Report;
use report::html::course::Course;
use report::html::heat::Heat;
use report::html::loads::Beside;
use report::text::Kept;
use std::io::Write;
use std::path::{Path, PathBuf};
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
    /// Loads that were put on beside it.
    pub beside: &'a [Other],
}

/// Another load of a run: what was measured, what is made of it, where its recording is.
pub type Other = (Recording, Diagnosis, PathBuf);

/// Writes the page to a file, or to stdout with `-`.
///
/// # Errors
/// Those of the recording and of the file.
pub fn run(read: Read<'_>, to: &Path) -> Result<Exit, Failure> {
    written(read, |page| put(to, |out| page.write(out)))??;
    Ok(Exit::Fine)
}

/// Makes the page of what was read, and hands it over to be written.
fn written<T>(read: Read<'_>, write: impl FnOnce(&Report<'_>) -> T) -> Result<T, Failure> {
    let Read { reader, path, recording, diagnosis, course, beside } = read;
    let mut heat = Heat::default();
    reader.each_histogram(LatencyKind::Response, |from_ns, to_ns, times| {
        heat.push(from_ns, to_ns, times.iter_recorded())
    })?;
    let (shown, command) = (path.display().to_string(), results::command_for(path));
    let describe = |example: &ErrorExample| results::words_of(recording, example);
    let places: Vec<(String, String)> =
        beside.iter().map(|(.., path)| (path.display().to_string(), results::command_for(path))).collect();
    let describes: Vec<_> = beside.iter().map(|(recording, ..)| together::describing(recording)).collect();
    let mut others = Vec::with_capacity(beside.len());
    for (place, (((recording, diagnosis, path), (shown, command)), describe)) in
        beside.iter().zip(&places).zip(&describes).enumerate()
    {
        let this = recording.capsule.together.as_ref().and_then(|together| together.this());
        others.push(Beside {
            name: this.map_or("load", |this| &this.name),
            role: this.map_or(LoadRole::Beside, |this| this.role),
            recording,
            diagnosis,
            describe,
            kept: Some(Kept { path: shown, command }),
            rows: Reader::open(path)?.intervals().collect::<Result<Vec<_>, _>>()?,
            place,
        });
    }
    let page = Report {
        recording,
        diagnosis,
        describe: &describe,
        kept: Some(Kept { path: &shown, command: &command }),
        rows: reader.intervals().collect::<Result<Vec<_>, _>>()?,
        heat,
        course: whole_course(reader, recording, course)?,
        flames: flame::all(reader, recording)?,
        beside: others,
        goes_on: false,
    };
    Ok(write(&page))
}

/// The page of a recording, with its other loads.
///
/// # Errors
/// Those of the recording.
pub fn page_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let reader = Reader::open(path)?;
    let mut course = Course::default();
    let (mut recording, history) = reader.load_with_history_and(|snapshot| course.push(snapshot))?;
    recording.plan = model::hide::plan(&recording.plan);
    let diagnosis = diagnose::diagnose_with(&recording, &history);
    let beside = super::beside(&recording, path);
    let (recording, diagnosis, beside) = (&recording, &diagnosis, &*beside);
    let mut page = Vec::new();
    written(Read { reader: &reader, path, recording, diagnosis, course, beside }, |report| report.write(&mut page))??;
    Ok(page)
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
