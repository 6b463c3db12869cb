//! Arguments of `plimsoll audit`: a recording, or figures by hand.

use super::values;
use clap::Args;
use clap::builder::BoolishValueParser;
use std::path::PathBuf;

/// Which figures are held against each other.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// A run's id or the beginning of it, a file, or 'last'; without, the figures are those given
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print the audit as JSON
    #[arg(long, env = "PLIMSOLL_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print without colours, as with NO_COLOR
    #[arg(long, env = "PLIMSOLL_NO_COLOR", value_parser = BoolishValueParser::new())]
    pub no_color: bool,
    /// The figures.
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Figures of a load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Figures by hand")]
pub struct FigureArgs {
    /// Requests that were answered, such as 228.12/s [default: not known]
    #[arg(long, value_name = "RATE", env = "PLIMSOLL_THROUGHPUT", value_parser = values::per_s)]
    pub throughput: Option<f64>,
    /// Requests that were asked for, such as 3000/s [default: not known]
    #[arg(long, value_name = "RATE", env = "PLIMSOLL_RATE", value_parser = values::per_s)]
    pub rate: Option<f64>,
    /// Their mean response time, such as 43.72ms [default: not known]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_LATENCY", value_parser = values::duration_ns)]
    pub latency: Option<u64>,
    /// Connections, each with one request under way at the most [default: not known]
    #[arg(long, value_name = "N", env = "PLIMSOLL_CONCURRENCY", value_parser = values::count::<u32>)]
    pub concurrency: Option<u32>,
    /// Bytes of a request and its reply, at the least, such as 26MB [default: not known]
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_SIZE", value_parser = values::size::<u64>)]
    pub size: Option<u64>,
    /// What the link carries, such as 10Gbit [default: not known]
    #[arg(long, value_name = "BITS", env = "PLIMSOLL_LINK", value_parser = values::bits_per_s)]
    pub link: Option<f64>,
    /// How long it took, such as 10s [default: not known]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_DURATION", value_parser = values::duration_ns)]
    pub duration: Option<u64>,
    /// Requests in all [default: not known]
    #[arg(long, value_name = "N", env = "PLIMSOLL_REQUESTS", value_parser = values::count::<u64>)]
    pub requests: Option<u64>,
    /// Bytes in all, such as 2.3GB [default: not known]
    #[arg(long, value_name = "SIZE", env = "PLIMSOLL_BYTES", value_parser = values::size::<u64>)]
    pub bytes: Option<u64>,
}
