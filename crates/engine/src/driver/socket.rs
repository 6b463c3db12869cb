//! Making a socket ready to connect: family, options, address. Shared by the drivers that use real ones.

use model::plan::Address;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;

/// An address in the kernel's form, made once for each.
///
/// # Errors
/// A unix path that is too long for a socket address (108 bytes on Linux).
pub fn kernel_address(address: &Address) -> io::Result<SockAddr> {
    match address {
        Address::Tcp(address) => Ok(SockAddr::from(*address)),
        Address::Unix(path) => SockAddr::unix(path),
    }
}

/// A stream socket for an address, close-on-exec; with TCP_NODELAY where it is TCP, so that the generator never adds
/// a Nagle delay of its own.
///
/// # Errors
/// The kernel's: EMFILE and ENFILE when there is no descriptor left, ENOBUFS or ENOMEM when there is no memory.
pub fn stream(address: &SockAddr, nonblocking: bool) -> io::Result<Socket> {
    let mut kind = Type::STREAM.cloexec();
    if nonblocking {
        kind = kind.nonblocking();
    }
    let socket = Socket::new(address.domain(), kind, None)?;
    if address.domain() != Domain::UNIX {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

/// The error number of an I/O error; EIO where it has none.
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
