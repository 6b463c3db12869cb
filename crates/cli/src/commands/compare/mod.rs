//! Two sides compared: live, slice by slice (`ab`), or of recordings (`compare`), or a series of them (`trend`). What both print and end with is here.

pub mod ab;
pub mod recorded;
pub mod trend;

use super::output::{results, terminal};
use super::report::html;
use crate::exit::{Exit, Failure};
use diagnose::comparison::{Comparison, Pairing};
use model::recording::End;
use std::io::Write;
use std::path::Path;

/// The file of a comparison in its folder.
const FILE: &str = "comparison.json";

/// How a comparison is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Where it was kept just now.
    pub file: Option<&'a Path>,
    /// As JSON.
    pub json: bool,
    /// Where its page is written.
    pub html: Option<&'a Path>,
    /// Without colours.
    pub no_color: bool,
}

/// Shows one that was kept again, judged anew.
///
/// # Errors
/// There is none, or it could not be shown.
pub fn again(path: &Path, shown: &Shown<'_>) -> Result<Exit, Failure> {
    let comparison = recorded::kept(path)?;
    print(&comparison, Some(path), shown)?;
    Ok(exit_of(&comparison))
}

/// Prints it, with where it is kept, or writes its page; `at` is where it is.
fn print(comparison: &Comparison, at: Option<&Path>, shown: &Shown<'_>) -> Result<(), Failure> {
    if let Some(to) = shown.html {
        let command = at.map(results::command_for);
        html::put(to, |out| report::html::comparison::write(out, comparison, command.as_deref()))?;
        if !shown.json {
            return Ok(());
        }
    }
    results::to_stdout(|out| match shown.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, comparison)?;
            writeln!(out)
        }
        false => {
            report::answer::comparison::write(out, comparison, terminal::style(shown.no_color))?;
            shown.file.map_or(Ok(()), |file| writeln!(out, "\nKept: plimsoll compare {}", file.display()))
        }
    })
}

/// 3 where B is worse by more than the tolerance for certain; what is undecided is no failure.
fn exit_of(comparison: &Comparison) -> Exit {
    let is_beyond = comparison.judgements.iter().any(|judgement| judgement.is_beyond_tolerance);
    let exit = if is_beyond { Exit::ExpectationFailed } else { Exit::Fine };
    // All slices were disturbed: there is no result.
    let is_none = comparison.pairing != Pairing::Single && comparison.whole_repeats() == 0;
    let exit = if is_none { exit.worst(Exit::NotValid) } else { exit };
    match comparison.end {
        End::Complete => exit,
        End::Interrupted => exit.worst(Exit::Interrupted),
        End::Partial => exit.worst(Exit::CouldNotRun),
    }
}
