//! From the kernel's error numbers, and TLS's, to the report's kinds.

use model::error_kind::{ErrorKind, Phase};

/// The kind and phase of a failure of TLS: `detail` is its number, `is_early` whether our side of the handshake was not done
/// yet, `has_begun` whether part of a reply had come.
pub fn of_tls(detail: u32, is_early: bool, has_begun: bool) -> (ErrorKind, Phase) {
    match (is_early, has_begun) {
        (true, _) => (ErrorKind::TlsHandshake, Phase::Tls),
        // In TLS 1.3 a client is done before the server has judged its certificate.
        (false, false) if wire::tls::is_refusal(detail) => (ErrorKind::TlsRefused, Phase::FirstByte),
        (false, false) => (ErrorKind::TlsBroken, Phase::FirstByte),
        (false, true) => (ErrorKind::TlsBroken, Phase::Reply),
    }
}

/// The kind of a failure by its error number and the phase it came in (connect(2), send(2), recv(2)).
pub fn kind_of_errno(errno: i32, phase: Phase) -> ErrorKind {
    let connecting = phase == Phase::Connect;
    match errno {
        libc::ECONNREFUSED if connecting => ErrorKind::Refused,
        // Only a unix socket's path can be missing, connect(2).
        libc::ENOENT if connecting => ErrorKind::NoSocket,
        // A unix listener whose queue is full refuses with this, connect(2).
        libc::EAGAIN if connecting => ErrorKind::Refused,
        libc::ETIMEDOUT if connecting => ErrorKind::ConnectTimeout,
        libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => ErrorKind::Unreachable,
        libc::EADDRNOTAVAIL | libc::EADDRINUSE => ErrorKind::AddressNotAvailable,
        libc::EMFILE | libc::ENFILE => ErrorKind::TooManyFiles,
        libc::ENOBUFS | libc::ENOMEM => ErrorKind::OutOfMemory,
        libc::ECONNRESET | libc::EPIPE => ErrorKind::Reset,
        _ if connecting => ErrorKind::ConnectFailed,
        libc::ETIMEDOUT => ErrorKind::ReplyTimeout,
        _ => ErrorKind::Io,
    }
}
