//! Arguments of `completions` and `man`: what a shell or a package needs from the command line's definition.

use clap::Args;
use std::path::PathBuf;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write the pages of all commands into this folder instead [default: print the main page]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_DIR")]
    pub dir: Option<PathBuf>,
}
