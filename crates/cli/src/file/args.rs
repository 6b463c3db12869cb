//! Arguments of `run`: a scenario file, and flags of `load` behind it.

use clap::Args;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenario file (TOML): every flag of `load` by its long name, such as duration = "30s"
    #[arg(value_name = "FILE", required_unless_present_any = ["from", "schema"])]
    pub file: Option<PathBuf>,
    /// Flags of `load` behind the file's name: they win over the file, for each of its loads
    #[arg(value_name = "FLAGS OF LOAD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub flags: Vec<String>,
    /// Print what would run, its limits and why, and put no load on
    #[arg(long, env = "PLIMSOLL_EXPLAIN", value_parser = BoolishValueParser::new())]
    pub explain: bool,
    /// Print the scenario file of a command line, such as 'load http://HOST/ -c 100'; a secret in it becomes env:NAME [default: a file is run]
    #[arg(long, value_name = "LINE", env = "PLIMSOLL_FROM", conflicts_with = "file")]
    pub from: Option<String>,
    /// Print the JSON Schema of scenario files
    #[arg(long, env = "PLIMSOLL_SCHEMA", value_parser = BoolishValueParser::new(), conflicts_with = "file")]
    pub schema: bool,
}
