//! Two sides compared: live, slice by slice (`ab`), or of recordings (`compare`), or a series of them (`trend`). What both print and end with is here.

pub mod ab;
pub mod recorded;
pub mod trend;

use super::output::{results, terminal};
use crate::exit::{Exit, Failure};
use diagnose::comparison::{Comparison, Pairing};
use model::recording::End;
use std::io::Write;
use std::path::Path;

/// The file of a comparison in its folder.
const FILE: &str = "comparison.json";

/// Prints it, with where it is kept.
fn print(comparison: &Comparison, file: Option<&Path>, json: bool, no_color: bool) -> Result<(), Failure> {
    results::to_stdout(|out| match json {
        true => {
            serde_json::to_writer_pretty(&mut *out, comparison)?;
            writeln!(out)
        }
        false => {
            report::answer::comparison::write(out, comparison, terminal::style(no_color))?;
            file.map_or(Ok(()), |file| writeln!(out, "\nKept: plimsoll compare {}", file.display()))
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
