//! Why TLS could not be set up: facts, and what to do next, in one sentence each.

use std::io;
use std::path::PathBuf;

/// TLS as it was asked for cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// An RSA key that the library neither makes nor uses.
    #[error(
        "expected a key of at least 2048 bits, got RSA with {bits}: aws-lc-rs neither makes nor signs with weaker ones, as they can be broken; choose rsa-2048 or p-256"
    )]
    WeakKey {
        /// Its size.
        bits: u32,
    },
    /// No kind of key has that name.
    #[error("expected rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or ed25519")]
    UnknownKey,
    /// A name a certificate cannot carry.
    #[error(
        "expected a DNS name in ASCII, or an address, for the certificate, got {name:?}: write it as clients ask for it"
    )]
    BadName {
        /// The name given.
        name: String,
    },
    /// A file that cannot be read as PEM.
    #[error("expected {what} in PEM in {}, got {got}: check the path and the file", path.display())]
    BadFile {
        /// What was to be read.
        what: &'static str,
        /// The file named.
        path: PathBuf,
        /// What came instead.
        got: String,
    },
    /// A private key the library does not take.
    #[error("expected a private key the library can sign with in {}, got {got}: RSA needs 2048 to 8192 bits, other kinds are P-256, P-384, P-521 and Ed25519", path.display())]
    BadKey {
        /// The file named.
        path: PathBuf,
        /// What the library said.
        got: String,
    },
    /// Certificate and key do not belong together, or the certificate cannot be used.
    #[error("expected a certificate chain that fits its key, got {got}: name the files that were made together")]
    BadChain {
        /// What the library said.
        got: String,
    },
    /// The client authorities cannot be used.
    #[error("expected certificates of authorities in {}, got {got}: name a file of CA certificates in PEM", path.display())]
    BadClientCa {
        /// The file named.
        path: PathBuf,
        /// What the library said.
        got: String,
    },
    /// The certificate made could not be written.
    #[error("could not write the certificate to {} ({source}): name a file in a folder that can be written", path.display())]
    CannotWrite {
        /// The file named.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The library failed on its own side.
    #[error("could not {doing} ({got}): this is a fault of the library or of memory, try again")]
    Library {
        /// What it was doing.
        doing: &'static str,
        /// What it said.
        got: String,
    },
}

impl TlsError {
    /// Whether what was asked for is at fault, and not the machine.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Library { .. } | Self::CannotWrite { .. })
    }
}
