//! The bare connect loop: a fixed number of connects under way, each closed at once when it is
//! made. Closed by a reset (SO_LINGER 0): nothing is left in TIME_WAIT, so the port range does not
//! end the run. It sends nothing; `requests` of its result are connections.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use super::epoll::{ERRORS_MAX, GUARD_SECONDS};
use crate::args::Client;
use crate::outcome::Outcome;
use crate::sys::{self, Epoll};

/// Runs the loop.
///
/// # Errors
/// Sockets are not to be had, or connecting failed more than [`ERRORS_MAX`] times.
pub fn run(client: &Client) -> io::Result<Outcome> {
    sys::end_after(client.seconds + GUARD_SECONDS);
    let mut epoll = Epoll::new(client.connections.min(1024))?;
    let addr = SockAddr::new(client.addr);
    let mut outcome = Outcome::default();
    let start_ns = sys::now_ns();
    let end_ns = start_ns + (client.seconds * 1e9) as u64;
    for _ in 0..client.connections {
        begin(&epoll, &addr)?;
    }
    while sys::now_ns() < end_ns {
        let ready = epoll.wait(100)?;
        for event in 0..ready {
            let (token, flags) = epoll.event(event);
            sys::close(token as RawFd);
            if flags & (libc::EPOLLERR | libc::EPOLLHUP) == 0 {
                outcome.requests += 1;
            } else {
                outcome.errors += 1;
                if outcome.errors > ERRORS_MAX {
                    return Err(io::Error::other("too many connects failed"));
                }
            }
            begin(&epoll, &addr)?;
        }
    }
    outcome.seconds = (sys::now_ns() - start_ns) as f64 / 1e9;
    Ok(outcome)
}

/// Starts one connect; its end is an event.
fn begin(epoll: &Epoll, addr: &SockAddr) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option's pointer and size describe `linger`, the address's those of a socket
    // address of this family; both live for the calls.
    let (fd, result) = unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = libc::socket(addr.family(), kind, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
        let (pointer, bytes) = addr.raw();
        (fd, libc::connect(fd, pointer, bytes))
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINPROGRESS) {
            sys::close(fd);
            return Err(error);
        }
    }
    // Made at once or later: either way the socket becomes writable, or shows its error.
    epoll.add(fd, libc::EPOLLOUT, fd as u64)
}

/// A socket address as the kernel reads it.
enum SockAddr {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl SockAddr {
    fn new(addr: SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(addr) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: addr.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(addr) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: addr.port().to_be(),
                sin6_flowinfo: addr.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                sin6_scope_id: addr.scope_id(),
            }),
        }
    }

    fn family(&self) -> i32 {
        match self {
            Self::V4(_) => libc::AF_INET,
            Self::V6(_) => libc::AF_INET6,
        }
    }

    fn raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Self::V4(addr) => ((&raw const *addr).cast(), size_of_val(addr) as u32),
            Self::V6(addr) => ((&raw const *addr).cast(), size_of_val(addr) as u32),
        }
    }
}
