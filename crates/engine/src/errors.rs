//! From the kernel's error numbers to the report's kinds.

use model::error_kind::{ErrorKind, Phase};

/// The kind of a failure by its error number and the phase it came in (connect(2), send(2), recv(2)).
pub fn kind_of_errno(errno: i32, phase: Phase) -> ErrorKind {
    let connecting = phase == Phase::Connect;
    match errno {
        libc::ECONNREFUSED | libc::ENOENT if connecting => ErrorKind::Refused,
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
