//! Why there is no observer: what came instead of it, in words, what to do next, and whether another try may find it.
//!
//! Not here: what breaks a link that was up ([`super::channel::LinkError`] alone).

use super::channel::LinkError;
use super::tls::TlsError;
use rustls::AlertDescription;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why there is no observer. All of these come before any load is put on.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Not an address.
    #[error("expected the observer as HOST:PORT, such as web1:4500, got '{}'", got.escape_debug())]
    Address {
        /// What was written.
        got: String,
    },
    /// TLS cannot be set up here.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Something else than an observer came, or nothing.
    #[error("expected an observer at {address}, but {came}{tried}")]
    NotReached {
        /// The observer's address, as it was given.
        address: String,
        /// What came, the last time.
        came: Came,
        /// How often that was tried.
        tried: Tried,
    },
    /// It does not let us in.
    #[error("the observer at {address} refused: {why}")]
    Refused {
        /// The observer's address, as it was given.
        address: String,
        /// The reason, as the observer said it.
        why: String,
    },
    /// It could not prove to have the token.
    #[error(
        "whatever answers at {address} does not have the token: it is not the observer, or something between both reads \
         along; nothing was told to it"
    )]
    Impostor {
        /// The observer's address, as it was given.
        address: String,
    },
    /// No thread to be had.
    #[error("expected a thread for the link to the observer, but {0}")]
    Thread(io::Error),
}

/// What came instead of an observer. Its text says what to do next, too.
#[derive(Debug, thiserror::Error)]
pub enum Came {
    /// The name has no address.
    #[error("its name has no address here ({0}): check the name")]
    NoAddress(io::Error),
    /// The port is closed.
    #[error("nothing listens there (connection refused): start `plimsoll watch --serve` there, or check the port")]
    Refused,
    /// No TCP connection, and nobody who says no; after so long, seconds.
    #[error(
        "nothing answered for {0} s: check the address, and that its machine is up and nothing between drops the port"
    )]
    Unanswered(u64),
    /// The kernel has no connection for another reason.
    #[error("there is no connection to be had ({0}): check the address and the way there")]
    Kernel(io::Error),
    /// It ended before TLS did.
    #[error(
        "it closed the connection before TLS: either it is no `plimsoll watch --serve`, or strangers crowd it, which its \
         own output says: look there, and wait longer (--observe-wait) if so"
    )]
    ClosedBeforeTls,
    /// TCP and then nothing, for so long, seconds.
    #[error(
        "it took the connection and did not complete TLS within {0} s: look there what listens on that port, and whether \
         it is stopped or has no CPU"
    )]
    SilentBeforeTls(u64),
    /// Bytes of another protocol: the first ones.
    #[error("what came is no TLS (it begins with '{0}'): another server has that port; check host and port")]
    NotTls(String),
    /// It ended TLS with a reason.
    #[error("it ended TLS with the alert {}", alert(*.0))]
    Alert(AlertDescription),
    /// A TLS server of something else.
    #[error("a TLS server answers there that is no observer: check host and port")]
    OtherTls,
    /// This side takes no TLS of that kind.
    #[error("TLS failed: {0}: check --observe-fingerprint or --observe-ca, if given, and the address")]
    NoTrust(rustls::Error),
    /// It ended after TLS.
    #[error(
        "it closed the connection after TLS and before an answer: it was ended, or strangers crowd it, which its own \
         output says: look there"
    )]
    ClosedAfterTls,
    /// TLS and then nothing, for so long, seconds.
    #[error("it completed TLS and then said nothing for {0} s: look there whether it is stopped or has no CPU")]
    SilentAfterTls(u64),
    /// It observes for as many as it may.
    #[error("it is busy: {0} (--observe-wait)")]
    Busy(String),
    /// It speaks, but not as an observer of this version does.
    #[error("{0}: use the same version of plimsoll on both sides")]
    Strange(LinkError),
}

fn alert(alert: AlertDescription) -> String {
    let next = match alert {
        AlertDescription::NoApplicationProtocol => "it is a TLS server, but no observer: check host and port",
        AlertDescription::ProtocolVersion => "it has no TLS 1.3, so it is no observer: check host and port",
        AlertDescription::CertificateRequired => "it wants a certificate, so it is no observer: check host and port",
        _ => "look there what listens on that port",
    };
    format!("{alert:?}: {next}")
}

impl Came {
    /// What a failure to connect is.
    pub(super) fn of_connecting(error: io::Error, waited: Duration) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Came::Refused,
            io::ErrorKind::TimedOut => Came::Unanswered(waited.as_secs()),
            // It was accepted and reset before this side was told that it is there.
            _ if is_end(&error) => Came::ClosedBeforeTls,
            _ => Came::Kernel(error),
        }
    }

    /// What a failure of the conversation is, before or after TLS was complete.
    pub(super) fn of_link(error: LinkError, has_tls: bool) -> Self {
        match (error, has_tls) {
            (LinkError::NotTls(began), _) => Came::NotTls(began),
            (LinkError::Tls(rustls::Error::AlertReceived(alert)), _) => Came::Alert(alert),
            (LinkError::Tls(error), _) => Came::NoTrust(error),
            (LinkError::Closed, false) => Came::ClosedBeforeTls,
            (LinkError::Closed, true) => Came::ClosedAfterTls,
            (LinkError::Silent(s), false) => Came::SilentBeforeTls(s),
            (LinkError::Silent(s), true) => Came::SilentAfterTls(s),
            (LinkError::Io(error), has_tls) if is_end(&error) => Came::of_link(LinkError::Closed, has_tls),
            (LinkError::Io(error), _) => Came::Kernel(error),
            (error, _) => Came::Strange(error),
        }
    }

    /// Whether it may be otherwise soon: an answer of something else does not become an observer's.
    pub fn may_pass(&self) -> bool {
        match self {
            Came::NoAddress(_)
            | Came::Refused
            | Came::Unanswered(_)
            | Came::Kernel(_)
            | Came::ClosedBeforeTls
            | Came::SilentBeforeTls(_)
            | Came::ClosedAfterTls
            | Came::SilentAfterTls(_)
            | Came::Busy(_) => true,
            Came::NotTls(_) | Came::Alert(_) | Came::OtherTls | Came::NoTrust(_) | Came::Strange(_) => false,
        }
    }
}

/// Whether the other side ended the connection, in one of the ways in which a kernel says so.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::UnexpectedEof
    )
}

/// How often it was tried, and over how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// How many attempts to connect there were.
    pub times: u32,
    /// From the first attempt to the end of the last.
    pub within: Duration,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            0 | 1 => Ok(()),
            times => write!(f, " (tried {times} times in {:.1} s)", self.within.as_secs_f64()),
        }
    }
}
