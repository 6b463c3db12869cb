//! Why a scenario makes no plan: the flag, what was expected, what came, what to do. One sentence each.
//!
//! Flags are named as on the command line, which is where nearly everybody meets them.

use std::io;
use std::path::PathBuf;

/// Why a scenario makes no plan.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Nothing to put load on.
    #[error("expected a URL to put load on, got none: name one, such as http://127.0.0.1:8080/")]
    NoUrl,
    /// A URL that cannot be used.
    #[error("URL '{}': {why}", url.escape_debug())]
    BadUrl {
        /// As written.
        url: String,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// A scheme that is not spoken.
    #[error(
        "URL '{}': scheme '{scheme}' is not spoken by this version: use http:// or https://HOST:PORT/PATH, unix:/PATH.sock[:/PATH], echo:// or echo+tls://HOST:PORT, echo+unix:/PATH.sock, resp:// or resp+tls://HOST:PORT, or resp+unix:/PATH.sock",
        url.escape_debug()
    )]
    UnknownScheme {
        /// As written.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// URLs of different protocols.
    #[error("expected URLs of one protocol, got '{first}' and '{other}': put load on them in separate runs")]
    MixedProtocols {
        /// The first URL.
        first: String,
        /// The first that differs from it.
        other: String,
    },
    /// A value outside what can be done.
    #[error("{flag}: expected {expected}, got '{}'", got.escape_debug())]
    BadValue {
        /// The flag.
        flag: &'static str,
        /// What would be right.
        expected: String,
        /// What came.
        got: String,
    },
    /// Two things that cannot both be.
    #[error("{flag} cannot be used with {with}: {instead}")]
    Conflict {
        /// The flag.
        flag: &'static str,
        /// What it cannot be used with.
        with: String,
        /// What to do.
        instead: &'static str,
    },
    /// A flag of another protocol.
    #[error("{flag} is for {for_protocol} URLs, got '{url}': leave it out")]
    OtherProtocol {
        /// The flag.
        flag: &'static str,
        /// The protocol it is for.
        for_protocol: &'static str,
        /// The first URL.
        url: String,
    },
    /// TLS that cannot be set up as asked.
    #[error("{flag}: {source}")]
    Tls {
        /// The flag.
        flag: &'static str,
        /// Why not.
        source: engine::tls::TlsError,
    },
    /// Nobody to trust.
    #[error(
        "expected this machine to have certificate authorities to trust, but {why}: install ca-certificates, name a file with --ca, or verify nothing with --insecure"
    )]
    NoAuthorities {
        /// The reason.
        why: String,
    },
    /// A file that cannot be read.
    #[error("{flag}: expected a file that can be read, got '{}' ({source}): check its path and permissions", path.display())]
    CannotRead {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// More than fits.
    #[error("{what}: expected at most {most}, got {got}: {instead}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: u64,
        /// What came.
        got: u64,
        /// What to do.
        instead: &'static str,
    },
    /// A name without an address.
    #[error(
        "expected '{name}' to have an address, but the resolver found none ({why}): check the name with `getent ahosts {name}`, or give its address with --resolve {name}:{port}:ADDRESS"
    )]
    NameNotFound {
        /// The name.
        name: String,
        /// The port it is wanted for.
        port: u16,
        /// What the resolver said.
        why: String,
    },
    /// A name that has addresses, but none of the family asked for.
    #[error("expected '{name}' to have an IPv{version} address, got only {got}: leave out -{version}")]
    NoAddressOfFamily {
        /// The name.
        name: String,
        /// 4 or 6.
        version: u8,
        /// The addresses it has.
        got: String,
    },
    /// io_uring was asked for by name and cannot be used.
    #[error(
        "--driver uring: expected a kernel that allows io_uring, but {why}: leave --driver out, or use --driver epoll"
    )]
    NoUring {
        /// The reason.
        why: String,
    },
}

impl ResolveError {
    /// Whether what was written is at fault (exit status 2), and not what was found on the way (1).
    pub fn is_usage(&self) -> bool {
        match self {
            ResolveError::NoUrl
            | ResolveError::BadUrl { .. }
            | ResolveError::UnknownScheme { .. }
            | ResolveError::MixedProtocols { .. }
            | ResolveError::BadValue { .. }
            | ResolveError::Conflict { .. }
            | ResolveError::OtherProtocol { .. }
            | ResolveError::Tls { .. }
            | ResolveError::TooMuch { .. } => true,
            ResolveError::CannotRead { .. }
            | ResolveError::NoAuthorities { .. }
            | ResolveError::NameNotFound { .. }
            | ResolveError::NoAddressOfFamily { .. }
            | ResolveError::NoUring { .. } => false,
        }
    }

    pub(super) fn bad_value(flag: &'static str, expected: impl Into<String>, got: impl ToString) -> Self {
        ResolveError::BadValue { flag, expected: expected.into(), got: got.to_string() }
    }
}
