//! The bare closed loop on epoll: one thread, level-triggered, one request in flight a connection.
//! A turn is one `epoll_wait`, then a `recv` and a `send` per ready connection.
//! It stamps nothing but its own end; a broken connection is counted and made again.

use std::io;
use std::os::fd::RawFd;

use crate::args::Client;
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
use crate::sys::{self, Epoll};

/// Most errors before the loop gives up: a dead server must not make it spin.
pub const ERRORS_MAX: u64 = 10_000;

/// Seconds a run may take beyond its time before the kernel ends it.
pub const GUARD_SECONDS: f64 = 10.0;

/// Bytes taken by one receive.
pub const RECV_BYTES: usize = 16 * 1024;

struct Connection {
    fd: RawFd,
    meter: ReplyMeter,
}

/// Runs the loop.
///
/// # Errors
/// The server cannot be reached, or broke more than [`ERRORS_MAX`] times.
pub fn run(client: &Client) -> io::Result<Outcome> {
    sys::end_after(client.seconds + GUARD_SECONDS);
    let mut epoll = Epoll::new(client.connections.min(1024))?;
    let mut connections = Vec::with_capacity(client.connections);
    for index in 0..client.connections {
        connections.push(open(client, &epoll, index as u64)?);
    }
    let mut outcome = Outcome::default();
    let mut buffer = vec![0; RECV_BYTES];
    let start_ns = sys::now_ns();
    let end_ns = start_ns + (client.seconds * 1e9) as u64;
    for connection in &connections {
        sys::send(connection.fd, &client.request)?;
    }
    loop {
        let ready = epoll.wait(100)?;
        for event in 0..ready {
            let (token, _) = epoll.event(event);
            let connection = &mut connections[token as usize];
            match exchange(connection, &client.request, &mut buffer) {
                Ok(true) => outcome.requests += 1,
                Ok(false) => {}
                Err(error) => {
                    outcome.errors += 1;
                    if outcome.errors > ERRORS_MAX {
                        return Err(error);
                    }
                    sys::close(connection.fd);
                    *connection = open(client, &epoll, token)?;
                    sys::send(connection.fd, &client.request)?;
                }
            }
        }
        if sys::now_ns() >= end_ns {
            break;
        }
    }
    outcome.seconds = (sys::now_ns() - start_ns) as f64 / 1e9;
    Ok(outcome)
}

fn open(client: &Client, epoll: &Epoll, token: u64) -> io::Result<Connection> {
    let fd = sys::connect(client.addr, true)?;
    epoll.add(fd, libc::EPOLLIN, token)?;
    Ok(Connection { fd, meter: ReplyMeter::default() })
}

/// Takes what is there; when a reply is whole, sends the next request and says so.
#[inline]
fn exchange(connection: &mut Connection, request: &[u8], buffer: &mut [u8]) -> io::Result<bool> {
    let length = match sys::recv(connection.fd, buffer) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        Err(error) => return Err(error),
    };
    match connection.meter.take(&buffer[..length]) {
        Step::Partial => Ok(false),
        Step::Broken => Err(io::ErrorKind::InvalidData.into()),
        Step::Whole => {
            let sent = sys::send(connection.fd, request)?;
            // An idle socket always has room for a request this short.
            (sent == request.len()).then_some(true).ok_or_else(|| io::ErrorKind::WriteZero.into())
        }
    }
}
