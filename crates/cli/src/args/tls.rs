//! Arguments of `load` about TLS: what is offered, whom to trust, who we are.
//!
//! Names follow curl and openssl where those agree. All are refused where the URL has no TLS.

use super::values;
use clap::Args;
use clap::builder::BoolishValueParser;
use model::tls::TlsAsked;
use std::path::PathBuf;

/// TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS (https, echo+tls)")]
pub struct TlsArgs {
    /// Accept any certificate, whoever issued it, whatever its name and dates
    #[arg(short = 'k', long, env = "PLIMSOLL_INSECURE", value_parser = BoolishValueParser::new())]
    pub insecure: bool,
    /// Trust the certificates of this file (PEM) and no others [default: the machine's own authorities]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CA")]
    pub ca: Option<PathBuf>,
    /// Certificate to show to a server that asks for one (PEM) [default: none]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CERT")]
    pub cert: Option<PathBuf>,
    /// Its key (PEM, without a passphrase) [default: in the file of --cert]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_KEY")]
    pub key: Option<PathBuf>,
    /// Versions offered: 1.2, 1.3 or 1.2..1.3; may be repeated [default: both]
    #[arg(long, value_name = "VERSION", env = "PLIMSOLL_TLS_VERSION")]
    pub tls_version: Vec<String>,
    /// Cipher suites offered, preferred ones first, by their IANA or OpenSSL names [default: nine with AES-GCM or ChaCha20]
    #[arg(long, value_name = "LIST", env = "PLIMSOLL_CIPHERS")]
    pub ciphers: Vec<String>,
    /// Key exchange groups offered, preferred ones first [default: X25519MLKEM768,X25519,P-256,P-384]
    #[arg(long, value_name = "LIST", env = "PLIMSOLL_GROUPS")]
    pub groups: Vec<String>,
    /// Application protocols offered (ALPN), or none [default: http/1.1 for https, none for echo+tls]
    #[arg(long, value_name = "LIST", env = "PLIMSOLL_ALPN")]
    pub alpn: Vec<String>,
    /// Name to ask for (SNI), which the certificate must have [default: the URL's host]
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_SNI")]
    pub sni: Option<String>,
    /// Resume sessions, by ticket or session id [default: on, as clients do]
    #[arg(long, value_name = "on|off", env = "PLIMSOLL_RESUME", value_parser = values::on_off)]
    pub resume: Option<bool>,
    /// Do handshakes and nothing else: each unit of load is connect, TLS handshake, close
    #[arg(long, env = "PLIMSOLL_HANDSHAKE_ONLY", value_parser = BoolishValueParser::new())]
    pub handshake_only: bool,
    /// Measure key × version × resumption, interleaved, and print one table; without a URL on reference servers with a key of each kind; -d is a cell's length, --rounds how often
    #[arg(long, env = "PLIMSOLL_TLS_MATRIX", value_parser = BoolishValueParser::new())]
    pub tls_matrix: bool,
}

impl TlsArgs {
    /// What was written.
    pub fn asked(&self) -> TlsAsked {
        TlsAsked {
            insecure: self.insecure,
            ca: self.ca.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            versions: self.tls_version.clone(),
            ciphers: self.ciphers.clone(),
            groups: self.groups.clone(),
            alpn: self.alpn.clone(),
            server_name: self.sni.clone(),
            resume: self.resume,
            handshake_only: self.handshake_only,
        }
    }
}
