//! Arguments of `serve` itself: a server to run, or a question about servers.

use super::ServeCommand;
use clap::Args;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// A server to run, or what there is to know.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct ServeArgs {
    /// List the servers with their designs
    #[arg(long, env = "PLIMSOLL_LIST", value_parser = BoolishValueParser::new(), conflicts_with = "counters")]
    pub list: bool,
    /// Print that list as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new(), conflicts_with = "counters")]
    pub json: bool,
    /// Print what a running server has counted, one line of JSON from its --control socket [default: none]
    #[arg(long, value_name = "PATH", env = "PLIMSOLL_COUNTERS")]
    pub counters: Option<PathBuf>,
    /// What is served.
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
}
