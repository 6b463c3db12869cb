//! Arguments of `plimsoll ui`.

use clap::Args;
use session::pages::Spec;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the pages are without an address.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7547);

/// Which recordings, and where they are shown.
#[derive(Debug, Args)]
pub struct UiArgs {
    /// Where to listen; elsewhere than on loopback by TLS [default: 127.0.0.1:7547, or another port where that one is taken]
    #[arg(value_name = "ADDRESS:PORT", value_parser = super::address)]
    pub address: Option<SocketAddr>,
    /// The folder recordings are in [default: $XDG_STATE_HOME/plimsoll/runs]
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_FOLDER")]
    pub folder: Option<PathBuf>,
    /// Show the certificate chain of this file (PEM), by TLS on loopback too [default: one is made where TLS is needed]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM, without a passphrase) [default: in the file of --tls-cert]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl UiArgs {
    /// How they are served.
    pub fn spec(&self) -> Spec {
        let key = || self.tls_key.clone().or_else(|| self.tls_cert.clone());
        Spec {
            address: self.address.unwrap_or(ADDRESS),
            any_port: self.address.is_none(),
            takes_orders: true,
            certificate: self.tls_cert.clone().zip(key()),
        }
    }
}
