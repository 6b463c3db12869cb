//! The commands, a file each: what they do with their arguments, down to the exit status.
//!
//! Results go to stdout, everything else to stderr. No command exits by itself.

mod completions;
mod explain;
mod load;
mod man;
mod serve;

use crate::args::Command;
use crate::exit::{Exit, Failure};
use std::io::Write;

/// Does what was asked for.
pub fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Load(args) => load::run(*args),
        Command::Serve(args) => serve::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Hands everything printed to the kernel: a full disk behind stdout is a failure and not silence.
pub fn flush() -> Exit {
    match std::io::stdout().flush() {
        Ok(()) => Exit::Fine,
        Err(error) => Failure::from(error).show(),
    }
}
