//! The bare echo server: one thread, level-triggered epoll, one receive and one send a message, one buffer.
//!
//! What a message costs at least where a socket is asked for readiness first. It keeps nothing a peer does not take: a
//! client that sends more than a socket's buffer holds without reading is closed. No idle timeout, no counters but one.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use crate::args::{Args, UsageError};
use crate::loops::serving::{Server, is_to_end};
use crate::sys::{self, Epoll};

/// What the echo server is told.
#[derive(Debug)]
pub struct Options {
    server: Server,
}

impl Options {
    /// Reads them from the command line.
    ///
    /// # Errors
    /// No port, or values out of bounds.
    pub fn from_args(args: &Args) -> Result<Self, UsageError> {
        Ok(Self { server: Server::from_args(args)? })
    }
}

/// Runs until SIGTERM or the end of its time.
///
/// # Errors
/// The port cannot be had, or epoll failed.
pub fn run(options: &Options) -> io::Result<String> {
    let listener = options.server.begin()?;
    let echoed = serve(&listener)?;
    let cpu_seconds = sys::own_cpu_seconds();
    Ok(format!("{{\"tool\":\"floor-echo-server\",\"requests\":{echoed},\"cpu_seconds\":{cpu_seconds:.6}}}"))
}

fn serve(listener: &TcpListener) -> io::Result<u64> {
    let mut epoll = Epoll::new(1024)?;
    let listening = listener.as_raw_fd();
    epoll.add(listening, libc::EPOLLIN, listening as u64)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut echoed = 0_u64;
    while !is_to_end() {
        for event in 0..epoll.wait(-1)? {
            let fd = epoll.event(event).0 as RawFd;
            if fd == listening {
                accept(listener, &epoll)?;
                continue;
            }
            let length = match sys::recv(fd, &mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Ok(0) | Err(_) => {
                    sys::close(fd);
                    continue;
                }
                Ok(length) => length,
            };
            match sys::send(fd, &buffer[..length]) {
                Ok(sent) if sent == length => echoed += 1,
                Ok(_) | Err(_) => sys::close(fd),
            }
        }
    }
    Ok(echoed)
}

fn accept(listener: &TcpListener, epoll: &Epoll) -> io::Result<()> {
    // Gone before it was taken, or no descriptor left: the others go on.
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let fd = stream.into_raw_fd();
        epoll.add(fd, libc::EPOLLIN, fd as u64)?;
    }
    Ok(())
}
