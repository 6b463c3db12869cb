//! A subcommand a file: each answers one question, fills one document, and writes it.

mod hold;
mod http;
mod lag;
mod memory;
mod observe;
mod open;
mod serve;
mod shared;
mod stall;
mod start;
mod tls;
mod unix;
mod workers;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::args::{self, Settings};
use crate::say::say;

/// Runs the subcommand the settings name; `all` goes on after one that failed.
///
/// # Errors
/// What was to be measured could not be built or started, or the result not be written.
pub fn run(settings: &Settings) -> Result<()> {
    if settings.build {
        build()?;
    }
    if settings.command != "all" {
        return measure_and_write(settings);
    }
    let mut failed = None;
    for command in args::COMMANDS.iter().filter(|&&command| command != "all") {
        if let Err(error) = measure_and_write(&settings.with_command(command)) {
            say(&format!("bench: {command}: {error:#}"));
            failed.get_or_insert(error.context(*command));
        }
    }
    failed.map_or(Ok(()), Err)
}

fn measure_and_write(settings: &Settings) -> Result<()> {
    let document = match settings.command.as_str() {
        "start" => start::run(settings),
        "http" => http::run(settings),
        "serve" => serve::run(settings),
        "open" => open::run(settings),
        "stall" => stall::run(settings),
        "lag" => lag::run(settings),
        "memory" => memory::run(settings),
        "tls" => tls::run(settings),
        "hold" => hold::run(settings),
        "observe" => observe::run(settings),
        "workers" => workers::run(settings),
        "unix" => unix::run(settings),
        other => bail!("there is no subcommand {other:?}"),
    }?;
    say(&document.markdown());
    document.write(&settings.out)
}

/// Builds what is measured, so that no stale binary is.
fn build() -> Result<()> {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "-p", "plimsoll-bench-floor", "-p", "plimsoll"]);
    let status = command.status().context("starting cargo; --no-build measures the binaries as they are")?;
    ensure!(status.success(), "the build failed; --no-build measures the binaries as they are");
    Ok(())
}
