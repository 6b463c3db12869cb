//! TLS as a plan has it: what is offered, what is trusted, who we say we are.
//!
//! Names are those of the registries (RFC 8446, IANA). What was read from files, certificates and keys, lives in memory
//! only: a recording has the files' names, how many certificates they hold, and their digests.

use crate::secret::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a connection does between TCP and the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsPlan {
    /// The name or address every origin's certificate must have, and which goes into SNI where it is a name; by
    /// origin's index. Never shorter than the plan's origins.
    pub server_names: Vec<String>,
    /// Versions offered. Never empty.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites offered, preferred ones first, by their IANA names. Never empty.
    pub ciphers: Vec<String>,
    /// Key exchange groups offered, preferred ones first. Never empty.
    pub groups: Vec<String>,
    /// Application protocols offered (ALPN, RFC 7301); empty: the extension is not sent.
    pub alpn: Vec<String>,
    /// How the server's certificate is verified.
    pub verify: Verify,
    /// The certificate shown to a server that asks for one.
    pub identity: Option<Identity>,
    /// Whether sessions are resumed (RFC 8446 §2.2; RFC 5246 §7.3, RFC 5077).
    pub resume: bool,
    /// Whether the handshake is all that is asked: no request is sent.
    pub handshake_only: bool,
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    V12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    V13,
}

impl TlsVersion {
    /// As in flags and reports.
    pub const fn name(self) -> &'static str {
        match self {
            TlsVersion::V12 => "1.2",
            TlsVersion::V13 => "1.3",
        }
    }
}

/// How a server's certificate is verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Verify {
    /// Up to one of the machine's own roots.
    System(Trusted),
    /// Up to a certificate of a file.
    File(Trusted),
    /// Not at all: neither issuer, nor name, nor date.
    Off,
}

/// Certificates that are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trusted {
    /// Where they are from.
    pub from: String,
    /// How many.
    pub certificates: u64,
    /// SHA-256 of all of them in order, in hex.
    pub sha256: String,
    /// Each in DER; not stored with the plan.
    #[serde(skip)]
    pub der: Vec<Vec<u8>>,
}

/// A certificate of our own with its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The file of the certificate and those between it and its root.
    pub certificate_file: String,
    /// SHA-256 of that file in hex.
    pub certificate_sha256: String,
    /// The file of the key. Nothing of it is stored.
    pub key_file: String,
    /// The first file's text (PEM), which may have the key in it, too; not stored with the plan.
    #[serde(skip)]
    pub certificate_pem: Secret,
    /// The second file's text (PEM); not stored with the plan.
    #[serde(skip)]
    pub key_pem: Secret,
}

/// What the user wrote about TLS; nothing: the defaults, which are those of most clients.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsAsked {
    /// Do not verify the server's certificate.
    pub insecure: bool,
    /// File of the certificates that are trusted.
    pub ca: Option<std::path::PathBuf>,
    /// File of our own certificate.
    pub certificate: Option<std::path::PathBuf>,
    /// File of its key.
    pub key: Option<std::path::PathBuf>,
    /// Versions, `1.2`, `1.3`, or a range of them.
    pub versions: Vec<String>,
    /// Cipher suites by name.
    pub ciphers: Vec<String>,
    /// Key exchange groups by name.
    pub groups: Vec<String>,
    /// Application protocols.
    pub alpn: Vec<String>,
    /// The server's name, whatever the URL says.
    pub server_name: Option<String>,
    /// Whether sessions are resumed.
    pub resume: Option<bool>,
    /// Only handshakes.
    pub handshake_only: bool,
}

/// A line of the matrix of keys and versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixLine {
    /// The kind of the server's key.
    pub key: String,
    /// The version spoken.
    pub version: TlsVersion,
    /// Full handshakes; `None`: there were none.
    pub full: Option<MatrixCell>,
    /// Resumed handshakes.
    pub resumed: Option<MatrixCell>,
    /// Requests on connections that are kept.
    pub kept: Option<MatrixCell>,
}

/// What was measured of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// How many a second.
    pub per_s: f64,
    /// CPU time of the generator's workers for each, microseconds.
    pub generator_us_each: f64,
    /// CPU time of the target's threads for each, microseconds; `None` where it was not seen.
    pub target_us_each: Option<f64>,
}

/// Why TLS cannot be set up as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No suite of this name.
    #[error("expected cipher suites such as {}, got '{got}'", known.join(", "))]
    Cipher {
        /// Names of the suites there are.
        known: Vec<String>,
        /// What was written.
        got: String,
    },
    /// No group of this name.
    #[error("expected key exchange groups ({}), got '{got}'", known.join(", "))]
    Group {
        /// Names of the groups there are.
        known: Vec<String>,
        /// What was written.
        got: String,
    },
    /// Suites of one version, groups or versions of another.
    #[error("the TLS versions, cipher suites and groups asked for do not go together ({why}): leave one of them out")]
    Apart {
        /// In the library's words.
        why: String,
    },
    /// No certificates.
    #[error("expected certificates in PEM (-----BEGIN CERTIFICATE-----), got {got}")]
    Certificates {
        /// What was found instead.
        got: String,
    },
    /// No key.
    #[error("expected a private key in PEM (-----BEGIN PRIVATE KEY-----, without a passphrase), got {got}")]
    Key {
        /// What was found instead.
        got: String,
    },
    /// The key is another certificate's, or of a kind that is not spoken.
    #[error("the certificate and the key cannot be used together ({why}): name the key of this certificate")]
    Identity {
        /// In the library's words.
        why: String,
    },
    /// No certificate to trust can be used.
    #[error("none of the {count} certificates to trust can be used: give those of certificate authorities")]
    Roots {
        /// How many there were.
        count: usize,
    },
    /// No name.
    #[error("expected a server name or address such as example.org, got '{}'", got.escape_debug())]
    ServerName {
        /// What was written.
        got: String,
    },
}

/// Certificates, each in DER.
pub type Certificates = Vec<Vec<u8>>;

/// What the library that speaks TLS says before it runs: the names it knows, and whether what a plan offers goes together.
/// Functions of the engine's, for who makes plans and knows no engine.
#[derive(Debug, Clone, Copy)]
pub struct TlsNames {
    /// The cipher suites of some versions that are offered where nothing else is asked for.
    pub default_ciphers: fn(&[TlsVersion]) -> Vec<String>,
    /// The key exchange groups that are offered where nothing else is asked for.
    pub default_groups: fn() -> Vec<String>,
    /// A suite's IANA name and version, by any of its names.
    pub cipher: fn(&str) -> Result<(String, TlsVersion), TlsError>,
    /// A group's name as reports have it, by any of its names.
    pub group: fn(&str) -> Result<String, TlsError>,
    /// The certificates of a PEM text, each in DER.
    pub certificates: fn(&[u8]) -> Result<Certificates, TlsError>,
    /// Whether a plan's TLS can be set up.
    pub check: fn(&TlsPlan) -> Result<(), TlsError>,
}
