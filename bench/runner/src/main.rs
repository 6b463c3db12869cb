//! The command `bench`: sets plimsoll beside wrk, ab, h2load, oha, vegeta, k6, wrk2 (whichever are
//! installed) and beside the bare loops of `bench/floor`, all in one call, because this kind of
//! machine drifts by more between calls than the tools differ. Results go to `bench/results`.
//! It puts load on loopback only and ends what it started, by process id.
//! What each subcommand measures, and how, is in `bench/README.md`.

mod args;
mod commands;
mod drain;
mod machine;
mod measure;
mod parse;
mod quiet;
mod report;
mod rounds;
mod say;
mod stats;
mod target;
mod tools;

use std::process::ExitCode;

use say::say;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let settings = match args::Settings::parse(&words) {
        Ok(settings) => settings,
        Err(error) => {
            say(&format!("bench: {error}\n{}", args::USAGE));
            return ExitCode::from(2);
        }
    };
    match commands::run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench: {error:#}"));
            ExitCode::from(1)
        }
    }
}
