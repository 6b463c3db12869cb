//! `plimsoll report`: a recording shown again, diagnosed anew.
//!
//! Diagnosis is a function of the recording, so an old run profits from rules that came later. The JSON document and
//! CSV have every tick of the file, one at a time. Status 0 when something could be shown, with `--exit-status` that of the
//! run. Of a damaged recording what is left is shown, and first what is not. Files of searches and comparisons are in `kept`.

mod flame;
pub mod html;
mod kept;

use super::output::intervals::{Csv, What, refuse_with_json};
use super::output::{results, terminal, timeline, together};
use crate::args::runs::ReportArgs;
use crate::exit::{Exit, Failure};
use html::{Other, Read};
use model::Recording;
use model::plain::plain;
use model::recording::{LoadOfRun, LoadRole};
use report::html::course::Course;
use report::timeline::Timeline;
use std::io::Write;
use std::path::Path;
use store::Reader;

/// Shows it.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    refuse_with_json(args.csv.as_deref(), What::Intervals, args.json)?;
    refuse_with_json(args.requests.as_deref(), What::Requests, args.json)?;
    if args.run.ends_with(".json") {
        return kept::run(args, Path::new(&args.run));
    }
    let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
    let path = store::find(folder, &args.run)?;
    let reader = Reader::open(&path)?;
    let mut course = Course::default();
    let (mut recording, history) = match args.html {
        Some(_) => reader.load_with_history_and(|snapshot| course.push(snapshot))?,
        None => reader.load_with_history()?,
    };
    // One that was made with --record-secrets, or before secrets were hidden, has them still.
    recording.plan = model::hide::plan(&recording.plan);
    let diagnosis = diagnose::diagnose_with(&recording, &history);
    let exit = if args.exit_status { results::exit_of_recorded(&recording, &diagnosis) } else { Exit::Fine };
    let has_place_for_damage = args.flame.is_none()
        && args.timeline.is_none()
        && ((args.csv.is_none() && args.requests.is_none()) || args.json || args.html.is_some());
    if let Some(damage) = report::damage::sentence(&recording.integrity).filter(|_| !has_place_for_damage) {
        // Nothing is left to do where stderr is closed.
        let _ = writeln!(std::io::stderr(), "plimsoll: warning: {}", plain(&damage));
    }
    if let Some(kind) = args.flame {
        return flame::run(args, kind.into(), &reader, &recording).map(|shown| shown.worst(exit));
    }
    if let Some(names) = &args.timeline {
        let table = match &recording.capsule.import {
            Some(_) if names.trim().is_empty() => Timeline::machine(&recording.snapshots),
            _ => timeline::of(names)?,
        };
        let style = terminal::style(args.no_color);
        let snapshots = [&*recording.snapshots, &*recording.after].concat();
        results::to_stdout(|out| table.write_with(out, &snapshots, &recording.events, style))?;
        return Ok(exit);
    }
    if let Some(file) = &args.csv {
        let csv = Csv::open(file, What::Intervals)?;
        csv.write(reader.intervals().collect::<Result<Vec<_>, _>>()?)?;
    }
    if let Some(file) = &args.requests {
        Csv::open(file, What::Requests)?.write_with(|mut out| report::csv::requests::write(&mut out, &recording))?;
    }
    let beside = beside(&recording, &path);
    if let Some(to) = &args.html {
        let read = Read {
            reader: &reader,
            path: &path,
            recording: &recording,
            diagnosis: &diagnosis,
            course,
            beside: &beside,
        };
        html::run(read, to)?;
    }
    let mut parts = vec![together::Part { recording: &recording, diagnosis: &diagnosis, kept: Some(&path) }];
    parts.extend(beside.iter().map(|(recording, diagnosis, path)| together::Part {
        recording,
        diagnosis,
        kept: Some(path),
    }));
    let exit = match (args.exit_status, beside.is_empty()) {
        (true, false) => together::exit_of(&parts).worst(exit),
        _ => exit,
    };
    if args.json {
        results::json_of(&reader, &recording, &diagnosis, &path, together::beside(&parts[1..]))?;
    } else if args.csv.is_none() && args.requests.is_none() && args.html.is_none() {
        together::text(&parts, args.all, args.no_color)?;
        if let Some(reason) = reader.partial_reason()? {
            writeln!(std::io::stdout(), "\nThis recording is partial: {}", plain(&reason))?;
        }
    }
    Ok(exit)
}

/// The other loads of a run, where this is the main one's recording; one that cannot be read is said, and left out.
fn beside(recording: &Recording, path: &Path) -> Vec<Other> {
    let Some(together) = &recording.capsule.together else { return Vec::new() };
    if together.this().is_none_or(|this| this.role != LoadRole::Main) {
        return Vec::new();
    }
    let others = together.loads.iter().filter(|load| load.role != LoadRole::Main);
    let read = |load: &LoadOfRun| {
        // A name in the same folder, and no path that leads out of it.
        let name = Path::new(load.recording.as_deref()?).file_name()?;
        let path = path.with_file_name(name);
        let loaded = Reader::open(&path).and_then(|reader| reader.load_with_history());
        let (mut recording, history) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                super::warn(&format!("the load '{}' is left out: {error}", load.name));
                return None;
            }
        };
        recording.plan = model::hide::plan(&recording.plan);
        let diagnosis = diagnose::diagnose_with(&recording, &history);
        Some((recording, diagnosis, path))
    };
    others.filter_map(read).collect()
}
