//! Flags of held connections: what each sends, how many are made a second, how they are watched.

use super::super::load::LoadArgs;
use super::super::values;
use super::Flags;
use clap::Args;
use clap::builder::BoolishValueParser;
use model::plan::Sizes;
use model::workload::hold::HoldAsked;
use model::workload::{Asked as _, What};

/// Connections that are held.
#[derive(Debug, Args)]
#[command(next_help_heading = "What (hold)")]
pub struct HoldArgs {
    /// Sizes of the messages each connection sends: 128, 16..32 or 1,2,4KiB [default: 128]
    #[arg(long, value_name = "SIZES", env = "PLIMSOLL_MESSAGE", value_parser = values::sizes)]
    pub message: Option<Sizes>,
    /// Time from one message of a connection to its next, with hold+ws:// from one ping to the next, or never; phases are spread evenly [default: 60s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_EVERY", value_parser = values::every)]
    pub every: Option<u64>,
    /// Messages are not expected back
    #[arg(long, env = "PLIMSOLL_SENT_ONLY", value_parser = BoolishValueParser::new())]
    pub sent_only: bool,
    /// Connections made a second [default: 10k/s]
    #[arg(long, value_name = "RATE", env = "PLIMSOLL_CONNECT_RATE", value_parser = values::one_rate)]
    pub connect_rate: Option<f64>,
    /// How often a connection that rests is looked at: so late its close is seen [default: 10s]
    #[arg(long, value_name = "TIME", env = "PLIMSOLL_SWEEP", value_parser = values::duration_ns)]
    pub sweep: Option<u64>,
    /// Watch every connection all the time: a close is seen at once, for some 800 bytes more kernel memory each
    #[arg(long, env = "PLIMSOLL_WATCH_CLOSE", value_parser = BoolishValueParser::new())]
    pub watch_close: bool,
    /// Add connections until something gives: a connect, a message, a probe on the first connection every 100ms (each within --timeout, here 1s by default); then hold what there is for -d; -c is where it ends at the latest
    #[arg(long, env = "PLIMSOLL_RAMP_UNTIL_FAILURE", value_parser = BoolishValueParser::new())]
    pub ramp_until_failure: bool,
}

/// See the file's head.
pub(super) const FLAGS: Flags = Flags {
    protocol: HoldAsked::PROTOCOL,
    own: HoldArgs::augment_args,
    also: &["content"],
    asked,
    secrets: |_| Vec::new(),
};

fn asked(args: &LoadArgs) -> What {
    let hold = &args.protocols.hold;
    What::Hold(HoldAsked {
        message: hold.message.clone(),
        content: args.protocols.echo.content.map(Into::into),
        every_ns: hold.every,
        sent_only: hold.sent_only,
        connects_per_s: hold.connect_rate,
        sweep_ns: hold.sweep,
        watch_close: hold.watch_close,
        until_failure: hold.ramp_until_failure,
    })
}
