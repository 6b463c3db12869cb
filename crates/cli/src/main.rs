//! The command `plimsoll`: arguments to a scenario, one match over the commands, one place for errors and exit status.
//!
//! Everything that measures is in the crates below; here is only what a terminal needs.

mod args;
mod commands;
mod exit;

use std::process::ExitCode;

fn main() -> ExitCode {
    let exit = match args::parse(std::env::args_os()) {
        Ok(command) => commands::run(command).unwrap_or_else(|failure| failure.show()),
        Err(stopped) => stopped.show(),
    };
    exit.worst(commands::flush()).into()
}
