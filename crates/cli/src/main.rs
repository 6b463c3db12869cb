//! The command `plimsoll`: arguments to a scenario, one match over the commands, one place for errors and exit status.
//!
//! Everything that measures is in the crates below; here is only what a terminal needs.

mod args;
mod commands;
mod exit;
mod file;
mod flags;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == fault::helper::ARGUMENT) {
        return help_a_fault();
    }
    let done = match args::parse(std::env::args_os()) {
        Ok(args::Parsed { command, environment }) => {
            if !command.is_quiet() {
                environment.unknown.iter().for_each(|sentence| commands::warn(sentence));
            }
            commands::run(command).map_err(|failure| failure.of(&environment))
        }
        Err(stopped) => stopped.show(),
    };
    let (exit, is_said) = match done {
        Ok(exit) => (exit, false),
        Err(failure) => (failure.show(), failure.is_of_stdout()),
    };
    exit.worst(commands::flush(is_said)).into()
}

/// This process is a fault's own: it does its job, and what it could not do its parent says.
fn help_a_fault() -> ExitCode {
    match fault::helper::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            commands::warn(&reason);
            ExitCode::FAILURE
        }
    }
}
