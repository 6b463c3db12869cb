//! A subcommand a file: each answers one question, fills one document, and writes it.

mod hold;
mod http;
mod lag;
mod memory;
mod observe;
mod open;
mod serve;
mod stall;
mod start;
mod tls;
mod unix;
mod workers;

pub use stall::Facts;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::args::{self, Settings};
use crate::measure::{self, Measured};
use crate::report::NOTHING;
use crate::stats::Interval;
use crate::target::Target;
use crate::tools::{Load, Row};

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
            crate::say(&format!("bench: {command}: {error:#}"));
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
    crate::say(&document.markdown());
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

/// A load on a target.
fn load(target: &Target, connections: usize, seconds: f64, rate_per_s: Option<f64>) -> Load {
    Load {
        addr: target.addr,
        connections,
        seconds,
        rate_per_s,
        folder: target.folder().to_owned(),
        certificate: target.certificate(),
    }
}

/// One run from start to end.
fn one(row: &Row, load: &Load, target: &Target, cpus: &[usize], settings: &Settings) -> Result<Measured> {
    measure::finish(measure::start(row, load, target, cpus, settings)?, target)
}

/// How the machine was shared, for every document.
fn method(settings: &Settings, seconds: f64, rounds: usize) -> Vec<String> {
    vec![
        format!(
            "Target pinned on CPU {}, generator with one thread pinned on CPU {}; {rounds} rounds of \
             {seconds} s runs, interleaved tool by tool, the order turning by one place a round.",
            settings.target_cpu, settings.load_cpu
        ),
        format!(
            "A run is thrown away when more than {} of a core was busy beyond generator, target and \
             runner (/proc/stat), and made again up to {} times.",
            settings.other_load_max, settings.retries
        ),
        "Figures are medians (minimum–maximum); ratios are medians of the ratios within each round.".to_owned(),
    ]
}

/// The two ends of an interval.
fn bounds(interval: Option<Interval>) -> String {
    interval.map_or(NOTHING.to_owned(), |i| format!("{:.4}–{:.4}", i.low, i.high))
}
