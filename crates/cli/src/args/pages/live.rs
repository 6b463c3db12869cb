//! Arguments of the live page.

use clap::Args;
use clap::builder::BoolishValueParser;
use session::pages::Spec;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the page is without an address: on loopback, at a port that nobody else is known to want.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7546);

/// The page of a run that goes on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Live page")]
pub struct LiveArgs {
    /// Show the run in browsers while it goes on, at this address; elsewhere than on loopback by TLS and to who has the token that is printed [default: not shown; without an address 127.0.0.1:7546, or another port where that one is taken]
    #[arg(long, value_name = "ADDRESS:PORT", env = "PLIMSOLL_LIVE", num_args = 0..=1, default_missing_value = "127.0.0.1:7546", value_parser = address)]
    pub live: Option<SocketAddr>,
    /// With --live: whoever has the token that is printed may end the run and change an open pace's rate from the page
    #[arg(long, env = "PLIMSOLL_LIVE_CONTROL", requires = "live", value_parser = BoolishValueParser::new())]
    pub live_control: bool,
    /// With --live: show this certificate chain (PEM), by TLS on loopback too [default: one is made where TLS is needed]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_LIVE_CERT", requires = "live")]
    pub live_cert: Option<PathBuf>,
    /// The certificate's key (PEM, without a passphrase) [default: in the file of --live-cert]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_LIVE_KEY", requires = "live_cert")]
    pub live_key: Option<PathBuf>,
}

impl LiveArgs {
    /// How the page is served; `None`: it is not.
    pub fn spec(&self) -> Option<Spec> {
        let address = self.live?;
        let key = || self.live_key.clone().or_else(|| self.live_cert.clone());
        Some(Spec {
            address,
            any_port: address == ADDRESS,
            takes_orders: self.live_control,
            certificate: self.live_cert.clone().zip(key()),
        })
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    super::address(text).map_err(|why| format!("{why}; without one, --live goes behind the URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_or_refused_with_the_next_step() {
        assert_eq!(address("[::1]:80").unwrap().port(), 80);
        for wrong in ["http://127.0.0.1/", "localhost", "127.0.0.1", ""] {
            assert!(address(wrong).unwrap_err().contains("goes behind the URL"), "{wrong}");
        }
        assert_eq!(address("127.0.0.1:7546"), Ok(ADDRESS), "the default of the help");
    }
}
