//! TLS for the reference servers: a link between socket and protocol (rustls on aws-lc-rs), not a copy of
//! each protocol.
//!
//! `certificate` makes or reads certificates, `config` builds the one `ServerConfig` all workers share,
//! `link` is one connection's records, `protocol` puts them under a protocol. Not here: early data, OCSP,
//! several certificates by name, kTLS. `sendfile` cannot pass records: files go through a bounded buffer.

mod certificate;
mod config;
pub(crate) mod error;
mod link;
mod protocol;
mod scratch;

use std::path::PathBuf;

pub(crate) use config::config;
pub use error::TlsError;
pub(crate) use protocol::Tls;

/// How a server speaks TLS.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// What it shows who it is with.
    pub certificate: Certificate,
    /// The only version spoken; `None`: 1.2 and 1.3.
    pub version: Option<TlsVersion>,
    /// Whether sessions can be resumed, by ticket or session id.
    pub resume: bool,
    /// PEM file of the authorities a client must have its certificate from; `None`: none is asked for.
    pub client_ca: Option<PathBuf>,
}

impl Default for TlsOptions {
    /// An ECDSA P-256 certificate made on the spot, both versions, resumption, no client certificates.
    fn default() -> Self {
        Self {
            certificate: Certificate::Made(MadeCertificate::default()),
            version: None,
            resume: true,
            client_ca: None,
        }
    }
}

/// Where a server's certificate comes from.
#[derive(Debug, Clone)]
pub enum Certificate {
    /// Made at the start, signed with its own key.
    Made(MadeCertificate),
    /// Read from PEM files.
    Files {
        /// The chain, the server's own certificate first.
        chain: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

/// A certificate made at the start.
#[derive(Debug, Clone, Default)]
pub struct MadeCertificate {
    /// The kind of its key.
    pub key: KeyKind,
    /// DNS names and addresses it is for; empty: localhost, 127.0.0.1, ::1 and the addresses listened on.
    pub names: Vec<String>,
    /// Whether it ended yesterday; otherwise it began yesterday and ends in a year.
    pub expired: bool,
    /// Where it is written to, in PEM, so that clients can trust it.
    pub out: Option<PathBuf>,
}

/// Kinds of keys that can be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, 2048 bits.
    Rsa2048,
    /// RSA, 3072 bits.
    Rsa3072,
    /// RSA, 4096 bits.
    Rsa4096,
    /// ECDSA on P-256.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
}

/// Every kind of key, by its name on the command line.
pub const KEY_KINDS: &[(&str, KeyKind)] = &[
    ("rsa-2048", KeyKind::Rsa2048),
    ("rsa-3072", KeyKind::Rsa3072),
    ("rsa-4096", KeyKind::Rsa4096),
    ("p-256", KeyKind::P256),
    ("p-384", KeyKind::P384),
    ("ed25519", KeyKind::Ed25519),
];

impl KeyKind {
    /// The kind of that name.
    ///
    /// # Errors
    /// There is none, or it is too weak for the library.
    pub fn from_name(name: &str) -> Result<Self, TlsError> {
        if let Some((_, kind)) = KEY_KINDS.iter().find(|(known, _)| *known == name) {
            return Ok(*kind);
        }
        match name.strip_prefix("rsa-").and_then(|bits| bits.parse::<u32>().ok()) {
            Some(bits) if bits < 2048 => Err(TlsError::WeakKey { bits }),
            _ => Err(TlsError::UnknownKey),
        }
    }
}

/// Versions of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    V1_2,
    /// TLS 1.3 (RFC 8446).
    V1_3,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_and_unknown_keys_are_told_apart() {
        for (name, kind) in KEY_KINDS {
            assert_eq!(KeyKind::from_name(name).unwrap(), *kind);
        }
        for bits in [0, 512, 1024, 2047] {
            let error = KeyKind::from_name(&format!("rsa-{bits}")).unwrap_err();
            assert!(matches!(error, TlsError::WeakKey { bits: named } if named == bits), "{error}");
        }
        for name in ["", "rsa-", "rsa-2049", "rsa-99999999999", "P-256", "dsa-1024"] {
            assert!(matches!(KeyKind::from_name(name), Err(TlsError::UnknownKey)), "{name}");
        }
    }
}
