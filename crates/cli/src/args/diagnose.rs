//! Arguments of `plimsoll diagnose`.

use clap::Args;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// Which recording, and how the answer is shown.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// A run's id or the beginning of it, a file, or 'last'
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Show every finding with all its evidence, and what could not be judged
    #[arg(long, env = "PLIMSOLL_ALL", value_parser = BoolishValueParser::new(), conflicts_with = "json")]
    pub all: bool,
    /// Print the answer as JSON, with everything that was judged
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new(), conflicts_with = "markdown")]
    pub json: bool,
    /// Print the answer as Markdown, to be pasted
    #[arg(long, env = "PLIMSOLL_MARKDOWN", value_parser = BoolishValueParser::new())]
    pub markdown: bool,
    /// End with the status that the run ended with, and with 1 where the recording was cut off or is damaged [default: 0 when it could be diagnosed]
    #[arg(long, env = "PLIMSOLL_EXIT_STATUS", value_parser = BoolishValueParser::new())]
    pub exit_status: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}
