//! Arguments of `plimsoll diagnose`: of a recording, or of experiments on a server.

use super::values::{self, Profile};
use ::diagnose::experiment::{EXPERIMENTS, Experiment};
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;

/// Which recording or server, and how the answer is shown.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// A run's id or the beginning of it, a file, or 'last'; with --experiment a URL
    #[arg(value_name = "RUN|URL", default_value = "last")]
    pub run: String,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Show every finding with all its evidence, and what could not be judged; of experiments every dose
    #[arg(long, env = "PLIMSOLL_ALL", value_parser = BoolishValueParser::new(), conflicts_with = "json")]
    pub all: bool,
    /// Print the answer as JSON, with everything that was judged
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new(), conflicts_with = "markdown")]
    pub json: bool,
    /// Print the answer as Markdown, to be pasted
    #[arg(long, env = "PLIMSOLL_MARKDOWN", value_parser = BoolishValueParser::new())]
    pub markdown: bool,
    /// End with the status that the run ended with, and with 1 where the recording was cut off or is damaged [default: 0 when it could be diagnosed]
    #[arg(long, env = "PLIMSOLL_EXIT_STATUS", value_parser = BoolishValueParser::new(), conflicts_with = "experiment")]
    pub exit_status: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
    /// Vary the load on the server of a URL, one thing at a time, and say what its answers decide; nothing is needed at the server
    #[arg(long, env = "PLIMSOLL_EXPERIMENT", value_parser = BoolishValueParser::new(), requires = "run")]
    pub experiment: bool,
    /// Experiments on a server.
    #[command(flatten)]
    pub of_experiment: ExperimentArgs,
}

/// How a server is experimented on.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --experiment")]
pub struct ExperimentArgs {
    /// How long all of it may take, 5s at the least
    #[arg(long = "for", value_name = "TIME", env = "PLIMSOLL_FOR", default_value = "30s", value_parser = values::duration_ns)]
    pub time: u64,
    /// Vary the rate around this one, such as 500/s [default: half of what the server answers at most]
    #[arg(long, value_name = "RATE", env = "PLIMSOLL_RATE", value_parser = values::rate, requires = "experiment")]
    pub rate: Option<Profile>,
    /// A path whose size or cost differs; two or more are compared; may be repeated [default: none]
    #[arg(long = "path", value_name = "PATH", env = "PLIMSOLL_PATH", requires = "experiment")]
    pub paths: Vec<String>,
    /// Clients, silent connections or new ones at once, at most
    #[arg(long, value_name = "N", env = "PLIMSOLL_CONNECTIONS_MAX", default_value = "256", value_parser = values::count::<u32>)]
    pub connections_max: u32,
    /// Only these experiments; may be repeated [default: all]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_ONLY", value_parser = experiment(), requires = "experiment", value_delimiter = ',')]
    pub only: Vec<Experiment>,
    /// Write the result here, which 'plimsoll diagnose FILE' shows again [default: a file of its own in $XDG_STATE_HOME/plimsoll/experiments]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_RECORD", requires = "experiment")]
    pub record: Option<PathBuf>,
    /// Keep no result
    #[arg(long, env = "PLIMSOLL_NO_RECORD", value_parser = BoolishValueParser::new(), conflicts_with = "record", requires = "experiment")]
    pub no_record: bool,
    /// Print no progress
    #[arg(short, long, env = "PLIMSOLL_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// Flags of 'plimsoll load' behind --, such as -H or --insecure: how the server is asked
    #[arg(last = true, value_name = "FLAG OF LOAD", requires = "experiment")]
    pub load: Vec<String>,
}

fn experiment() -> impl TypedValueParser<Value = Experiment> {
    PossibleValuesParser::new(
        EXPERIMENTS.iter().map(|entry| clap::builder::PossibleValue::new(entry.experiment.name()).help(entry.about)),
    )
    .try_map(|name| {
        let of_name = EXPERIMENTS.iter().find(|entry| entry.experiment.name() == name);
        of_name.map(|entry| entry.experiment).ok_or("expected the name of an experiment")
    })
}

/// Which finding of which recording, where it is tried, and what is toggled.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// A run's id or the beginning of it, a file, or 'last'
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The finding, by its id
    #[arg(value_name = "FINDING")]
    pub finding: String,
    /// The server: its URL where it runs, or the command that starts it where the run's load went, for each short run anew [default: none, it must be said]
    #[arg(long, value_name = "URL|COMMAND", env = "PLIMSOLL_AGAINST")]
    pub against: String,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// The server's process [default: who listens where the load goes]
    #[arg(long, value_name = "PID", env = "PLIMSOLL_PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// What is toggled.
    #[command(flatten)]
    pub toggle: ToggleArgs,
    /// Pairs of runs, one with the remedy and one without; three at the least
    #[arg(long, value_name = "N", env = "PLIMSOLL_REPEATS", default_value = "6", value_parser = clap::value_parser!(u32).range(3..=100))]
    pub repeats: u32,
    /// Length of each run
    #[arg(short, long, value_name = "TIME", env = "PLIMSOLL_DURATION", default_value = "2s", value_parser = values::duration_ns)]
    pub duration: u64,
    /// The folder of the journal of changes, where nobody but you and root may write [default: $XDG_STATE_HOME/plimsoll/journal]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_JOURNAL")]
    pub journal: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print no progress
    #[arg(short, long, env = "PLIMSOLL_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// What is toggled.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is toggled, where it is not the finding's own remedy")]
pub struct ToggleArgs {
    /// A kernel setting that 'check --fix' knows, such as net.core.somaxconn=4096 [default: none]
    #[arg(long, value_name = "NAME=VALUE", env = "PLIMSOLL_SYSCTL", group = "toggled")]
    pub sysctl: Option<String>,
    /// The limit of open descriptors of the server's process [default: none]
    #[arg(long, value_name = "N", env = "PLIMSOLL_DESCRIPTORS", group = "toggled", value_parser = values::count::<u64>)]
    pub descriptors: Option<u64>,
    /// The niceness of the server's process, -20 (first) to 19 (last) [default: none]
    #[arg(long, value_name = "N", env = "PLIMSOLL_NICE", group = "toggled", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,
    /// Stop this process (SIGSTOP), a neighbour, while the remedy is on [default: none]
    #[arg(long, value_name = "PID", env = "PLIMSOLL_STOP", group = "toggled", value_parser = clap::value_parser!(u32).range(2..))]
    pub stop: Option<u32>,
    /// The CPU limit of the server's control group, such as max, or '50000 100000' [default: none]
    #[arg(long, value_name = "VALUE", env = "PLIMSOLL_CPU_LIMIT", group = "toggled")]
    pub cpu_limit: Option<String>,
    /// A command that makes the remedy; it may be run more than once [default: none]
    #[arg(long = "with", value_name = "COMMAND", env = "PLIMSOLL_WITH", group = "toggled", requires = "without")]
    pub with_command: Option<String>,
    /// The command that undoes --with; it may be run more than once [default: none]
    #[arg(long, value_name = "COMMAND", env = "PLIMSOLL_WITHOUT", requires = "with_command")]
    pub without: Option<String>,
}
