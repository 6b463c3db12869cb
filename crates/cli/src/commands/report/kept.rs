//! `plimsoll report FILE.json`: a search for the load line, a surface of lines or a comparison that was kept, shown again.
//!
//! All are documents beside recordings, and say themselves what they are. Comparisons are judged anew, as recordings are.

use super::html;
use crate::args::runs::ReportArgs;
use crate::commands::capacity::{self, document};
use crate::commands::compare;
use crate::commands::output::{results, terminal};
use crate::exit::{Exit, Failure};
use diagnose::comparison::SCHEMA as COMPARISON;
use report::capacity::{SURFACE_SCHEMA, write_surface};
use serde::Deserialize;
use std::path::Path;

/// What a document says of itself.
#[derive(Debug, Deserialize)]
struct Named {
    schema: String,
}

/// Shows it.
///
/// # Errors
/// It is neither, cannot be read, or is asked for what only runs have.
pub fn run(args: &ReportArgs, path: &Path) -> Result<Exit, Failure> {
    refuse(args)?;
    let named = std::fs::File::open(path)
        .ok()
        .and_then(|file| serde_json::from_reader::<_, Named>(std::io::BufReader::new(file)).ok());
    let exit = match named.as_ref().map(|named| &*named.schema) {
        Some(COMPARISON) => {
            let shown =
                compare::Shown { file: None, json: args.json, html: args.html.as_deref(), no_color: args.no_color };
            compare::again(path, &shown)?
        }
        Some(SURFACE_SCHEMA) => surface(args, path)?,
        _ => search(args, path)?,
    };
    Ok(if args.exit_status { exit } else { Exit::Fine })
}

fn refuse(args: &ReportArgs) -> Result<(), Failure> {
    let flag = [
        ("--all", args.all),
        ("--timeline", args.timeline.is_some()),
        ("--csv", args.csv.is_some()),
        ("--requests", args.requests.is_some()),
        ("--flame", args.flame.is_some()),
    ];
    match flag.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag} is of one run, and a .json is a search's, a surface's or a comparison's file: leave it out, or name one of its runs"
        ))),
        None => Ok(()),
    }
}

fn surface(args: &ReportArgs, path: &Path) -> Result<Exit, Failure> {
    let surface = capacity::surface::read(path).map_err(|why| {
        Failure::could_not_run(format!("expected a surface's file in '{}', but {why}: check its path", path.display()))
    })?;
    if let Some(to) = &args.html {
        let command = results::command_for(path);
        html::put(to, |out| report::html::surface::write(out, &surface, Some(&command)))?;
    }
    if args.json {
        results::to_stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &surface)?;
            std::io::Write::write_all(out, b"\n")
        })?;
    } else if args.html.is_none() {
        results::to_stdout(|out| write_surface(out, &surface, None, terminal::style(args.no_color)))?;
    }
    Ok(capacity::surface::exit_of(&surface))
}

fn search(args: &ReportArgs, path: &Path) -> Result<Exit, Failure> {
    let document = document::read(path).map_err(|why| {
        Failure::could_not_run(format!(
            "expected a search's or a comparison's file in '{}', but {why}: check its path",
            path.display()
        ))
    })?;
    if let Some(to) = &args.html {
        let command = results::command_for(path);
        html::put(to, |out| report::html::capacity::write(out, &document, Some(&command)))?;
    }
    if args.json {
        results::to_stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            std::io::Write::write_all(out, b"\n")
        })?;
    } else if args.html.is_none() {
        let files = capacity::files(&document, None);
        results::to_stdout(|out| report::capacity::write(out, &document, &files, terminal::style(args.no_color)))?;
    }
    Ok(capacity::exit_of(&document))
}
