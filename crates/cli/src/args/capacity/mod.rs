//! Arguments of `plimsoll capacity`: what is looked for, and all flags of `load` that say where and what.

use crate::args::load::LoadArgs;
use crate::args::{is_on_command_line, values};
use crate::exit::Failure;
use crate::flags;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use session::capacity::axis::Of;
use session::capacity::over::Over;
use std::path::PathBuf;

/// Flags of `load` that the search decides itself, or that no search has.
pub(crate) const NOT_ITS: &[&str] = &[
    "duration",
    "requests",
    "rate",
    "ramp",
    "steps",
    "burst",
    "rounds",
    "burst_at",
    "burst_pause",
    "warmup",
    "drain",
    "after",
    "fault",
    "tick",
    "expect",
    "expect_errors",
    "abort_when",
    "canary",
    "canary_every",
    "csv",
    "explain",
    "tls_matrix",
    "on_lost",
];

/// Flags of an open pace, and of a closed one: a search has the one or the other, by what its load is a number of.
const OPEN_ONLY: &[&str] = &["poisson", "on_full", "queue"];
const CLOSED_ONLY: &[&str] = &["think"];

/// Arguments of `capacity`.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// What is looked for.
    #[command(flatten)]
    pub search: SearchArgs,
    /// Where the load goes, what is asked, and how.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// What is looked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is looked for")]
pub struct SearchArgs {
    /// What must hold: quantiles below a time and errors below a share, of response, service or first-byte; where it is not given and too few requests are answered to decide that in the time, errors < 1 %
    #[arg(long, value_name = "LIST", env = "PLIMSOLL_SLO", default_value = "p99 < 50 ms, errors < 0.1 %")]
    pub slo: String,
    /// What the load is a number of [default: rate]
    #[arg(long, value_name = "WHAT", env = "PLIMSOLL_OF")]
    pub of: Option<OfArg>,
    /// Ends early where the line's 95 % interval is no wider than this share of it; where it is not given, 10 % with --over
    #[arg(long, value_name = "PERCENT", env = "PLIMSOLL_PRECISION", default_value = "2%", value_parser = precision)]
    pub precision: f64,
    /// How long it may take; where it is not given, 12 s for each place of --over, and up to 10 minutes where --slo needs it
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_TIME", default_value = "50s", value_parser = values::duration_ns)]
    pub time: u64,
    /// Find the line over a parameter of the load, at each of its values: size=16B..64KiB, connections=10..1k, think=100ms..10s; twice for a surface [default: one line, of the load as it is]
    #[arg(long, value_name = "NAME=VALUES", env = "PLIMSOLL_OVER", value_parser = Over::parse, num_args = 1)]
    pub over: Vec<Over>,
    /// Go on from a search's file, for another --time: its steps are not run again [default: begin anew]
    #[arg(long = "continue", value_name = "FILE", env = "PLIMSOLL_CONTINUE")]
    pub go_on: Option<PathBuf>,
    /// Which were given: one search and a surface have other defaults, and what was not is settled by what the server answers.
    #[arg(skip)]
    pub given: Given,
}

/// Which were given.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    /// `--time`.
    pub time: bool,
    /// `--precision`.
    pub precision: bool,
    /// `--slo`.
    pub slo: bool,
}

/// What the load is a number of.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OfArg {
    /// Requests a second, due by the clock (open pace)
    Rate,
    /// Connections, each with its next request after the reply (closed pace); and how throughput scales over them
    Connections,
    /// Users: connections that think before each request, for as long as --think says (closed pace)
    Users,
    /// TLS handshakes a second: requests that each have a connection of their own; in full unless --resume is on (open pace)
    Handshakes,
    /// Bytes a second, both ways: requests as large as they are, at the rate that makes so many (open pace)
    Bytes,
}

impl From<OfArg> for Of {
    fn from(arg: OfArg) -> Of {
        match arg {
            OfArg::Rate => Of::Rate,
            OfArg::Connections => Of::Connections,
            OfArg::Users => Of::Users,
            OfArg::Handshakes => Of::Handshakes,
            OfArg::Bytes => Of::Bytes,
        }
    }
}

/// `2%`, from 0.1 to 50.
fn precision(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = number.filter(|percent| (0.1..=50.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected a share from 0.1% to 50%, such as 2%".to_owned())
}

impl CapacityArgs {
    /// As [`LoadArgs::settle`]; and refuses what the search decides itself.
    ///
    /// # Errors
    /// One sentence.
    pub fn settle(&mut self, matches: &ArgMatches) -> Result<(), Failure> {
        if let Some(id) = NOT_ITS.iter().find(|id| is_on_command_line(matches, id)) {
            let flag = flags::of_key(id);
            let instead = match *id {
                "duration" => "give --time for the whole search",
                "expect" | "expect_errors" => "give --slo",
                _ => "leave it out",
            };
            return Err(Failure::usage(format!("{flag} is not for a search, which decides its own steps: {instead}")));
        }
        let of = Of::from(self.search.of.unwrap_or(OfArg::Rate));
        let (others, of_what) = match of {
            Of::Users => (OPEN_ONLY, "users, who ask after a reply"),
            Of::Connections => (OPEN_ONLY, "connections, of which each asks after its reply"),
            Of::Rate | Of::Handshakes | Of::Bytes => (CLOSED_ONLY, "a rate, by which requests are due by the clock"),
        };
        if let Some(id) = others.iter().find(|id| is_on_command_line(matches, id)) {
            let (flag, unit) = (flags::of_key(id), of.unit());
            let message = format!(
                "{flag} says nothing to {unit}, the load of this search ({of_what}): leave it out, or give another --of"
            );
            return Err(Failure::usage(message));
        }
        let is_given = |id| matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
        self.search.given = Given { time: is_given("time"), precision: is_given("precision"), slo: is_given("slo") };
        self.load.settle(matches)
    }
}
