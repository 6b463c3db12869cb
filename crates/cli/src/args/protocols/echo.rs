//! Flags of echo: how long payloads are, and of what.

use super::super::load::LoadArgs;
use super::super::values;
use super::Flags;
use clap::{Args, ValueEnum};
use model::plan::{Content, Sizes};
use model::workload::echo::EchoAsked;
use model::workload::{Asked as _, What};

/// What is sent, and must come back.
#[derive(Debug, Args)]
#[command(next_help_heading = "What (echo)")]
pub struct EchoArgs {
    /// Payload sizes: 128, 16..32 or 1,2,4KiB [default: 128]
    #[arg(long, value_name = "SIZES", env = "PLIMSOLL_SIZE", value_parser = values::sizes)]
    pub size: Option<Sizes>,
    /// What the payload is made of [default: text]
    #[arg(long, value_name = "KIND", env = "PLIMSOLL_CONTENT")]
    pub content: Option<ContentArg>,
}

/// What an echo payload is made of.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ContentArg {
    /// Random printable ASCII
    Text,
    /// Random bytes with many NULs
    Binary,
    /// Random bytes
    Incompressible,
}

impl From<ContentArg> for Content {
    fn from(arg: ContentArg) -> Content {
        match arg {
            ContentArg::Text => Content::Text,
            ContentArg::Binary => Content::Binary,
            ContentArg::Incompressible => Content::Incompressible,
        }
    }
}

/// See the file's head.
pub(super) const FLAGS: Flags =
    Flags { protocol: EchoAsked::PROTOCOL, own: EchoArgs::augment_args, also: &[], asked, secrets: |_| Vec::new() };

fn asked(args: &LoadArgs) -> What {
    let echo = &args.protocols.echo;
    What::Echo(EchoAsked { sizes: echo.size.clone(), content: echo.content.map(Into::into) })
}
