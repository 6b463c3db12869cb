//! `plimsoll report`: a recording shown again, diagnosed anew.
//!
//! Diagnosis is a function of the recording, so an old run profits from rules that came later. The JSON document and
//! CSV have every tick of the file, one at a time.

use super::{flame, show, terminal, timeline};
use crate::args::runs::ReportArgs;
use crate::exit::{Exit, Failure};
use model::plain::plain;
use report::json::Document;
use report::timeline::Timeline;
use std::io::{BufWriter, Write};
use store::Reader;

/// Shows it.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    let folder = || args.folder.clone().map_or_else(store::default_folder, Ok);
    let path = store::find(folder, &args.run)?;
    let reader = Reader::open(&path)?;
    let mut recording = reader.load()?;
    // One that was made with --record-secrets, or before secrets were hidden, has them still.
    recording.plan = model::hide::plan(&recording.plan);
    if let Some(kind) = args.flame {
        return flame::run(args, kind.into(), &reader, &recording);
    }
    let diagnosis = diagnose::diagnose(&recording);
    if let Some(names) = &args.timeline {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let table = match &recording.capsule.import {
            Some(_) if names.trim().is_empty() => Timeline::machine(&recording.snapshots),
            _ => timeline::of(names)?,
        };
        table.write_with(&mut out, &recording.snapshots, &recording.events, terminal::style(args.no_color))?;
        out.flush()?;
    } else if let Some(file) = &args.csv {
        let rows: Vec<_> = reader.intervals().collect::<Result<_, _>>()?;
        if file.as_os_str() == "-" {
            report::csv::write(&mut BufWriter::new(std::io::stdout().lock()), rows)?;
        } else {
            show::csv(file, rows)?;
        }
    } else if args.json {
        let shown = path.display().to_string();
        let words = |example: &model::error_kind::ErrorExample| {
            wire::words(&recording.plan.workload, example.detail)
                .map(|words| &*Box::leak(words.into_owned().into_boxed_str()))
        };
        let mut out = BufWriter::new(std::io::stdout().lock());
        Document::of(&recording, &diagnosis, &words, Some(&shown)).with_rows(reader.intervals()).write(&mut out)?;
        out.flush()?;
    } else {
        show::text(&recording, &diagnosis, Some(&path), args.no_color)?;
        if let Some(reason) = reader.partial_reason()? {
            writeln!(std::io::stdout(), "\nThis recording is partial: {}", plain(&reason))?;
        }
    }
    Ok(Exit::Fine)
}
