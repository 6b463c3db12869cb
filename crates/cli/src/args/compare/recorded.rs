//! Arguments of `plimsoll compare` and `plimsoll trend`: which recordings, and how they are shown.

use super::BoundsArgs;
use crate::args::values;
use clap::Args;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// Which recordings, and how they are compared.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Runs by id, the beginning of it, file or 'last': two, or those of A; or the file of a comparison, which is shown again
    #[arg(value_name = "RUN", required = true)]
    pub a: Vec<String>,
    /// Runs of B, behind --
    #[arg(value_name = "RUN OF B", last = true)]
    pub b: Vec<String>,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// The runs were made in turn: the first of A and the first of B are a pair, and so on
    #[arg(long, env = "PLIMSOLL_PAIRED", value_parser = BoolishValueParser::new())]
    pub paired: bool,
    /// What a verdict is held to.
    #[command(flatten)]
    pub bounds: BoundsArgs,
    /// Print the comparison as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Write the comparison as one page of HTML that needs nothing else: intervals, slices in run order, the JSON inside; to stdout with '-' [default: not written]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_HTML")]
    pub html: Option<PathBuf>,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// Which series of recordings.
#[derive(Debug, Args)]
pub struct TrendArgs {
    /// The folder they are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Changes of less do not matter
    #[arg(long, value_name = "SHARE", env = "PLIMSOLL_TOLERANCE", default_value = "3%", value_parser = values::share)]
    pub tolerance: f64,
    /// Print the changes as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}
