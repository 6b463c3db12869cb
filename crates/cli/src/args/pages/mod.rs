//! Arguments of what is shown in browsers: a run that goes on, recordings.

pub mod live;
pub mod ui;

use std::net::SocketAddr;

/// Where to listen.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an address and a port, such as 127.0.0.1:7546 or [::1]:7546".to_owned())
}
