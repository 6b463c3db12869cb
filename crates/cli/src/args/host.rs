//! Arguments of `plimsoll check`, `plimsoll fault` and `plimsoll drop`: what is asked of, and done to, this host.

use super::load::DriverArg;
use super::values::{self, Profile};
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// For which load, and what is to be done about it.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Where the load would go; without one both ends are taken to be on this host
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Connections held at once [default: 50]
    #[arg(short, long, value_name = "N", env = "PLIMSOLL_CONNECTIONS", value_parser = values::count::<u32>)]
    pub connections: Option<u32>,
    /// Requests a second, such as 5k/s [default: closed, the next after the reply]
    #[arg(long, short_alias = 'R', value_name = "RATE", env = "PLIMSOLL_RATE", value_parser = values::rate)]
    pub rate: Option<Profile>,
    /// Each request has a connection of its own
    #[arg(long, env = "PLIMSOLL_DISABLE_KEEPALIVE", value_parser = BoolishValueParser::new())]
    pub disable_keepalive: bool,
    /// Source addresses that connections are spread over, at the least: on loopback a run takes as many as it needs
    #[arg(long, value_name = "N", env = "PLIMSOLL_SOURCES", default_value = "1", value_parser = values::count::<u64>)]
    pub sources: u64,
    /// How sockets would be driven [default: as a run would choose]
    #[arg(long, value_name = "DRIVER", env = "PLIMSOLL_DRIVER")]
    pub driver: Option<DriverArg>,
    /// Change the kernel settings that bind or are tight; `plimsoll fault undo` puts them back
    #[arg(long, env = "PLIMSOLL_FIX", value_parser = BoolishValueParser::new())]
    pub fix: bool,
    /// With --fix: say what would be changed, and change nothing
    #[arg(long, env = "PLIMSOLL_DRY_RUN", value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// The folder of the journal of changes, where nobody but you and root may write [default: $XDG_STATE_HOME/plimsoll/journal]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_JOURNAL")]
    pub journal: Option<PathBuf>,
    /// Print the check as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
}

/// One fault by hand, or what is done about changes of this host.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FaultArgs {
    /// What is done about changes of this host.
    #[command(subcommand)]
    pub command: Option<FaultCommand>,
    /// The fault and its arguments, such as: stop 1234, or nice port:8080 19
    #[arg(value_name = "NAME ARGUMENTS", required_unless_present = "list", allow_negative_numbers = true)]
    pub words: Vec<String>,
    /// List every fault: its arguments, what it does and needs, how it is undone
    #[arg(long, env = "PLIMSOLL_LIST", value_parser = BoolishValueParser::new())]
    pub list: bool,
    /// Undo it after this time, or with Ctrl-C [default: it stays until `plimsoll fault undo`]
    #[arg(long = "for", value_name = "TIME", env = "PLIMSOLL_FOR", value_parser = values::duration_ns)]
    pub for_ns: Option<u64>,
    /// Say what would be done and which rights are missing, and do nothing
    #[arg(long, env = "PLIMSOLL_DRY_RUN", value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// The folder of the journal of changes, where nobody but you and root may write [default: $XDG_STATE_HOME/plimsoll/journal]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// What is done about changes of this host.
#[derive(Debug, Subcommand)]
pub enum FaultCommand {
    /// Put back everything that was changed and is in the journal, the last change first
    Undo(UndoArgs),
    /// List what was changed and is not put back
    List(ListArgs),
}

/// How changes are put back.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Also put back what somebody else has changed since, and forget what was changed in a network namespace that is gone
    #[arg(long, env = "PLIMSOLL_FORCE", value_parser = BoolishValueParser::new())]
    pub force: bool,
    /// The folder of the journal of changes, where nobody but you and root may write [default: $XDG_STATE_HOME/plimsoll/journal]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Which changes are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The folder of the journal of changes, where nobody but you and root may write [default: $XDG_STATE_HOME/plimsoll/journal]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_JOURNAL")]
    pub journal: Option<PathBuf>,
}

/// Which connections are dropped.
#[derive(Debug, Args)]
pub struct DropArgs {
    /// Those that this side has closed and the kernel keeps, or those that are open
    #[arg(value_name = "STATE")]
    pub state: StateArg,
    /// Only those whose other end is this address [default: none, it must be named]
    #[arg(long, value_name = "HOST:PORT", env = "PLIMSOLL_TO", required = true)]
    pub to: String,
    /// Drop open connections without asking
    #[arg(long, env = "PLIMSOLL_YES", value_parser = BoolishValueParser::new())]
    pub yes: bool,
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateArg {
    /// Closed by this side first; its port is kept for 60 s
    TimeWait,
    /// Open
    Established,
}
