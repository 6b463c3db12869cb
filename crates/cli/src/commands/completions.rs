//! `plimsoll completions SHELL`: the script that a shell loads, from the command line's definition.

use crate::args::{self, shell::CompletionsArgs};
use crate::exit::{Exit, Failure};
use std::io::Write;

/// Prints the script.
pub fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    // Into memory first: the generator panics where its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "plimsoll", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Exit::Fine)
}
