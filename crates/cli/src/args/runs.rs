//! Arguments of `plimsoll runs`, `plimsoll report` and `plimsoll demo`.

use clap::Args;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// Which recordings.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// The folder they are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
}

/// Which recording, and how it is shown.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run's id or the beginning of it, a file, or 'last'
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print the report as JSON, with every interval
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Show readings of host, network and target by time: the usual ones, or metrics by name (docs/metrics.md) [default: not shown]
    #[arg(long, value_name = "NAME,…", env = "PLIMSOLL_TIMELINE", num_args = 0..=1, require_equals = true,
          default_missing_value = "", conflicts_with_all = ["json", "csv"])]
    pub timeline: Option<String>,
    /// Write every interval as CSV to a file, or to stdout with '-' [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CSV")]
    pub csv: Option<PathBuf>,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
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
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}
