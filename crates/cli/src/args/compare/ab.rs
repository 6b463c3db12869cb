//! Arguments of `plimsoll ab`: two sides, and every flag of `load` for both.
//!
//! What is in `--a-flags` and `--b-flags` is read as if it stood behind the command line, of one side.

use super::BoundsArgs;
use crate::args::load::LoadArgs;
use crate::args::{Cli, Command, one_sentence, values};
use crate::exit::Failure;
use clap::{Args, FromArgMatches};
use diagnose::comparison::REPEATS_MAX;
use std::ffi::OsString;

/// What two sides are, and how they are compared.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub struct AbArgs {
    /// The sides.
    #[command(flatten)]
    pub sides: SidesArgs,
    /// What a verdict is held to.
    #[command(flatten)]
    pub bounds: BoundsArgs,
    /// The load, of both.
    #[command(flatten)]
    pub load: LoadArgs,
    /// The same with what is of either side only.
    #[arg(skip)]
    pub loads: Option<Box<[LoadArgs; 2]>>,
}

/// Two sides.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sides")]
pub struct SidesArgs {
    /// A: the URL of a server that runs, or the command that starts it, for each slice anew, where URL is [default: none, it must be said]
    #[arg(long, value_name = "URL|COMMAND", env = "PLIMSOLL_A")]
    pub a: String,
    /// B, likewise [default: none, it must be said]
    #[arg(long, value_name = "URL|COMMAND", env = "PLIMSOLL_B")]
    pub b: String,
    /// Flags of 'plimsoll load' for A only, as one word, such as --a-flags='-H "Accept-Encoding: gzip"' [default: none]
    #[arg(long, value_name = "FLAGS", env = "PLIMSOLL_A_FLAGS", allow_hyphen_values = true)]
    pub a_flags: Option<String>,
    /// The same for B [default: none]
    #[arg(long, value_name = "FLAGS", env = "PLIMSOLL_B_FLAGS", allow_hyphen_values = true)]
    pub b_flags: Option<String>,
    /// Repeats, each of a slice of A, one of B and one of A again, in random order
    #[arg(long, value_name = "N", env = "PLIMSOLL_REPEATS", default_value = "10",
          value_parser = clap::value_parser!(u32).range(2..=i64::from(REPEATS_MAX)))]
    pub repeats: u32,
    /// Length of a slice, its warm-up of half a second (or --warmup) left out
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_SLICE", default_value = "4s", value_parser = values::duration_ns)]
    pub slice: u64,
}

impl AbArgs {
    /// Reads what is of either side only.
    ///
    /// # Errors
    /// Which flags are none, in one sentence.
    pub fn read_sides(&mut self, definition: &clap::Command, arguments: &[OsString]) -> Result<(), Failure> {
        let sides = [("--a-flags", &self.sides.a_flags), ("--b-flags", &self.sides.b_flags)];
        let [a, b] = sides.map(|(flag, more)| load_of_side(definition, arguments, flag, more.as_deref()));
        self.loads = Some(Box::new([a?, b?]));
        Ok(())
    }
}

/// The flags of `load` for one side of `ab`: those of both, with its own behind them.
fn load_of_side(
    definition: &clap::Command,
    arguments: &[OsString],
    flag: &str,
    more: Option<&str>,
) -> Result<LoadArgs, Failure> {
    let own = shlex::split(more.unwrap_or_default()).ok_or_else(|| {
        Failure::usage(format!("{flag}: expected flags of 'plimsoll load', got a quote that is not closed"))
    })?;
    let at = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let words = [&arguments[..at], &own.iter().map(OsString::from).collect::<Vec<_>>(), &arguments[at..]].concat();
    let wrong = |error: clap::Error| {
        let what = if error.use_stderr() { one_sentence(&error, &words) } else { "expected no help there".to_owned() };
        Failure::usage(if own.is_empty() { what } else { format!("{flag}: {what}") })
    };
    let matches = definition.clone().try_get_matches_from(&words).map_err(wrong)?;
    let cli = Cli::from_arg_matches(&matches).map_err(wrong)?;
    match (cli.command, matches.subcommand()) {
        (Command::Ab(ab), Some((_, matches))) => {
            let mut load = ab.load;
            load.settle(matches)?;
            Ok(load)
        }
        _ => Err(Failure::usage(format!("{flag}: expected flags of 'plimsoll load'"))),
    }
}
