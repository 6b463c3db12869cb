//! Listening sockets: one a worker and address, so that the kernel shares connections out by itself; or, if asked
//! for, one an address that all workers share.
//!
//! With one worker the socket is exclusive. With more, `SO_REUSEPORT` is needed, which would also let a
//! second server of the same user in unnoticed: a probe socket without it is bound first and finds that.
//! The kernel shares by a hash of the addresses: with few connections workers get unequal numbers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};

use crate::error::ServeError;
use crate::limits;
use crate::options::ServeOptions;

/// What one worker listens on.
pub(crate) struct Listeners {
    /// Sockets of this worker alone, and perhaps one shared by all (the unix socket).
    pub(crate) sockets: Vec<Arc<OwnedFd>>,
}

/// The listening sockets of a server.
pub(crate) struct Bound {
    /// For each worker.
    pub(crate) workers: Vec<Listeners>,
    /// The addresses bound, ports resolved, in the order asked for.
    pub(crate) addrs: Vec<SocketAddr>,
    /// Removes the unix socket's file when the server ends.
    pub(crate) unix_file: Option<UnixFile>,
}

/// Opens every listening socket of a server.
pub(crate) fn open(options: &ServeOptions) -> Result<Bound, ServeError> {
    check_bounds("workers", options.workers, 1, limits::WORKERS_MAX)?;
    check_bounds("buffer size", options.buffer_bytes, *limits::BUFFER_BYTES.start(), *limits::BUFFER_BYTES.end())?;
    check_bounds("addresses to listen on", options.listen.len(), 0, limits::ADDRESSES_MAX)?;
    if options.listen.is_empty() && options.unix.is_none() {
        return Err(ServeError::NothingToListenOn);
    }
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    let mut workers: Vec<_> = (0..options.workers).map(|_| Listeners { sockets: Vec::new() }).collect();
    let mut addrs = Vec::with_capacity(options.listen.len());
    for &addr in &options.listen {
        let number = if options.shared_listeners { 1 } else { options.workers };
        let sockets = open_tcp(addr, number, backlog).map_err(|source| explain(addr, source))?;
        addrs.push(local_addr(&sockets[0]).map_err(|source| explain(addr, source))?);
        let sockets: Vec<_> = sockets.into_iter().map(Arc::new).collect();
        for (worker, socket) in workers.iter_mut().zip(sockets.iter().cycle()) {
            worker.sockets.push(Arc::clone(socket));
        }
    }
    let mut unix_file = None;
    if let Some(path) = &options.unix {
        let (socket, file) = open_unix(path, backlog)?;
        let shared = Arc::new(socket);
        for worker in &mut workers {
            worker.sockets.push(Arc::clone(&shared));
        }
        unix_file = Some(file);
    }
    Ok(Bound { workers, addrs, unix_file })
}

/// The file of a unix socket; dropping removes it, if it is still the one that was made.
pub(crate) struct UnixFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // The server ends; a file that cannot be removed is found and judged by the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether an option is within its bounds.
pub(crate) fn check_bounds(option: &'static str, got: usize, min: usize, max: usize) -> Result<(), ServeError> {
    if (min..=max).contains(&got) { Ok(()) } else { Err(ServeError::OutOfBounds { option, got, min, max }) }
}

fn open_tcp(addr: SocketAddr, workers: usize, backlog: i32) -> io::Result<Vec<OwnedFd>> {
    let first = tcp_socket(addr)?;
    bind(&first, &addr)?;
    if workers == 1 {
        listen(&first, backlog)?;
        return Ok(vec![first]);
    }
    // `first` stays bound, not listening, while the others bind beside it (SO_REUSEADDR allows that),
    // so that nobody takes the port in between.
    let at = local_addr(&first)?;
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = tcp_socket(at)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &at)?;
        sockets.push(socket);
    }
    drop(first);
    for socket in &sockets {
        listen(socket, backlog)?;
    }
    Ok(sockets)
}

fn tcp_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if addr.is_ipv6() {
        // [::] and 0.0.0.0 can then be listened on side by side, and neither hides the other.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Accepted sockets inherit it: one system call a server instead of one a connection.
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

fn local_addr(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let addr = getsockname(socket)?;
    SocketAddr::try_from(addr).map_err(|_| Errno::AFNOSUPPORT.into())
}

fn explain(addr: SocketAddr, source: io::Error) -> ServeError {
    match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::AddressInUse { addr },
        io::ErrorKind::PermissionDenied => ServeError::AddressNotAllowed { addr },
        io::ErrorKind::AddrNotAvailable => ServeError::AddressNotHere { addr },
        _ => ServeError::Listen { addr, source },
    }
}

/// A unix socket that listens; one left behind by a server that was killed is replaced.
pub(crate) fn open_unix(path: &Path, backlog: i32) -> Result<(OwnedFd, UnixFile), ServeError> {
    let in_use = |got| ServeError::UnixInUse { path: path.to_owned(), got };
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(in_use("something else than a socket is there"));
        }
        match UnixStream::connect(path) {
            Err(gone) if gone.kind() == io::ErrorKind::ConnectionRefused => {
                // Left behind by a server that was killed: nobody listens.
                std::fs::remove_file(path)
                    .map_err(|source| ServeError::UnixListen { path: path.to_owned(), source })?;
            }
            _ => return Err(in_use("a server answers there")),
        }
    }
    let made = || -> io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, backlog)?;
        Ok(socket)
    };
    let socket = made().map_err(|source| ServeError::UnixListen { path: path.to_owned(), source })?;
    Ok((socket, UnixFile { path: path.to_owned(), identity: identity(path) }))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
