//! Arguments of `plimsoll runs`, `plimsoll report` and `plimsoll demo`.

use crate::args::values;
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Which recordings.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    /// The folder they are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// What else is done with recordings.
    #[command(subcommand)]
    pub action: Option<RunsAction>,
}

/// What else is done with recordings.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// Make the recordings of several generators one: counts and histograms summed, on one clock
    Merge(MergeArgs),
}

/// Which recordings are made one.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The file of the new recording
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Runs by id, the beginning of it, file or 'last': each generator's, that put on one load together
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// How far the clocks of different machines may have been apart from true time, where their recordings do not say [default: as the kernel of each said]
    #[arg(long, value_name = "DURATION", env = "PLIMSOLL_CLOCK_BOUND", value_parser = values::duration_ns)]
    pub clock_bound: Option<u64>,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print the report of the new recording as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// Which recording, and how it is shown.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run's id or the beginning of it, a file, or 'last'; or the .json of a search for the load line or of a comparison
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print the report as JSON, with every interval
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Show all evidence of each finding, not only three pieces of it
    #[arg(long, env = "PLIMSOLL_ALL", value_parser = BoolishValueParser::new(), conflicts_with_all = ["json", "timeline", "csv"])]
    pub all: bool,
    /// Show readings of host, network and target by time: the usual ones, or metrics by name (docs/metrics.md) [default: not shown]
    #[arg(long, value_name = "NAME,…", env = "PLIMSOLL_TIMELINE", num_args = 0..=1, require_equals = true,
          default_missing_value = "", conflicts_with_all = ["json", "csv"])]
    pub timeline: Option<String>,
    /// Write every interval as CSV to a file, or to stdout with '-' [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CSV")]
    pub csv: Option<PathBuf>,
    /// Write the report as one page of HTML that needs nothing else: charts, tables, flame graphs, the JSON inside; to stdout with '-' [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_HTML", conflicts_with_all = ["timeline", "flame"])]
    pub html: Option<PathBuf>,
    /// Write the single requests that were kept (a uniform sample, the slowest, failures) as CSV to a file, or to stdout with '-' [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_REQUESTS", conflicts_with_all = ["timeline", "csv"])]
    pub requests: Option<PathBuf>,
    /// Draw where the target ran, or where it waited, as a flame graph (SVG) of a run recorded with --observe windows or full [default: not drawn]
    #[arg(long, value_name = "KIND", env = "PLIMSOLL_FLAME", conflicts_with_all = ["json", "timeline", "csv"])]
    pub flame: Option<FlameArg>,
    /// Draw only the slow windows: ticks whose response p99 is above twice the median of the ticks'
    #[arg(long, requires = "flame", env = "PLIMSOLL_SLOW", value_parser = BoolishValueParser::new())]
    pub slow: bool,
    /// Print folded stacks for other tools in place of the SVG
    #[arg(long, requires = "flame", env = "PLIMSOLL_FOLDED", value_parser = BoolishValueParser::new())]
    pub folded: bool,
    /// Write the flame graph to a file [default: stdout]
    #[arg(short, long, value_name = "FILE", requires = "flame", env = "PLIMSOLL_OUTPUT")]
    pub output: Option<PathBuf>,
    /// End with the status that the run ended with, and with 1 where the recording was cut off or is damaged [default: 0 when it could be shown]
    #[arg(long, env = "PLIMSOLL_EXIT_STATUS", value_parser = BoolishValueParser::new())]
    pub exit_status: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// Which stacks are drawn.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FlameArg {
    /// Where its threads ran
    OnCpu,
    /// Where they were off a CPU, in the windows of the probe
    OffCpu,
}

impl From<FlameArg> for model::profile::Kind {
    fn from(arg: FlameArg) -> Self {
        match arg {
            FlameArg::OnCpu => Self::OnCpu,
            FlameArg::OffCpu => Self::OffCpu,
        }
    }
}

/// What the demo keeps.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep no recordings
    #[arg(long, env = "PLIMSOLL_NO_RECORD", value_parser = BoolishValueParser::new())]
    pub no_record: bool,
    /// Print no progress
    #[arg(short, long, env = "PLIMSOLL_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// Draw no view of the search on the terminal while it goes, but one line
    #[arg(long, env = "PLIMSOLL_NO_TUI", value_parser = BoolishValueParser::new())]
    pub no_tui: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}
