//! Where a running server can be asked what it has counted.

use clap::Args;
use std::path::PathBuf;

/// The control socket.
#[derive(Debug, Args)]
pub struct ControlArgs {
    /// Answer on this unix socket with what has been counted so far, one line of JSON a connection [default: none]
    #[arg(long, value_name = "PATH", env = "PLIMSOLL_CONTROL")]
    pub control: Option<PathBuf>,
}
