//! Making a socket ready to connect: family, options, address. Shared by the drivers that use real ones.

use super::{Setup, Slot};
use model::plan::Address;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

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

/// Where connections come from, in the kernel's form: an address without a port, or nothing.
#[derive(Debug)]
pub struct Sources {
    addresses: Vec<SockAddr>,
    /// How many addresses are connected to.
    targets: usize,
}

impl Sources {
    /// The sources of a setup.
    pub fn of(setup: &Setup) -> Self {
        let kernel = |ip: &IpAddr| SockAddr::from(SocketAddr::new(*ip, 0));
        Sources { addresses: setup.sources.iter().map(kernel).collect(), targets: setup.addresses.len().max(1) }
    }

    /// The source of a slot: all targets with the first source, then with the next, so that each pair of the two gets
    /// as many connections as any other. `None`: the kernel chooses, also where it is of another family.
    pub fn of_slot(&self, slot: Slot, target: &SockAddr) -> Option<&SockAddr> {
        let turn = (slot as usize / self.targets).checked_rem(self.addresses.len())?;
        self.addresses.get(turn).filter(|source| source.domain() == target.domain())
    }
}

/// Binds a socket to a source address and leaves its port to the connect (IP_BIND_ADDRESS_NO_PORT, ip(7)): a port is
/// then taken only once for each pair of addresses, not once for the source.
///
/// # Errors
/// The kernel's: EADDRNOTAVAIL where the address is not this machine's.
pub fn bind_to(socket: &Socket, source: &SockAddr) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is a C int that outlives the call. The option is the same for IPv6: it is in the inet part.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    socket.bind(source)
}

/// A socket's own address, where it has one of IP.
pub fn local(socket: &Socket) -> Option<SocketAddr> {
    socket.local_addr().ok()?.as_socket()
}

/// The error number of an I/O error; EIO where it has none.
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
