//! The bare closed loop on epoll: one thread, level-triggered, one request in flight a connection.
//! A turn is one `epoll_wait`, then a `recv` and a `send` per ready connection.
//! It stamps nothing but its own end; a broken connection is counted and made again.
//! With `--stamps` it also notes when each reply came and how long it took (one clock reading a reply, 16 bytes each, written at its
//! end as a line each), so that what happens to requests at a moment can be seen without a generator that observes.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::RawFd;
use std::path::PathBuf;

use crate::args::{Args, Client, UsageError};
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
use crate::sys::{self, Epoll};

/// Most errors before the loop gives up: a dead server must not make it spin.
pub const ERRORS_MAX: u64 = 10_000;

/// Seconds a run may take beyond its time before the kernel ends it.
pub const GUARD_SECONDS: f64 = 10.0;

/// Bytes taken by one receive.
pub const RECV_BYTES: usize = 16 * 1024;

/// Most stamps kept, 16 bytes each.
const STAMPS_MAX: usize = 50_000_000;

/// What the loop is told.
#[derive(Debug)]
pub struct Options {
    client: Client,
    stamps: Option<(PathBuf, usize)>,
}

impl Options {
    /// Reads them from the command line.
    ///
    /// # Errors
    /// No address, or values out of bounds.
    pub fn from_args(args: &Args) -> Result<Self, UsageError> {
        Ok(Self { client: args.client()?, stamps: args.stamps(STAMPS_MAX)? })
    }
}

struct Connection {
    fd: RawFd,
    meter: ReplyMeter,
    /// When its request was sent, where that is noted.
    sent_ns: u64,
}

/// Runs the loop.
///
/// # Errors
/// The server cannot be reached, or broke more than [`ERRORS_MAX`] times; the stamps cannot be written.
pub fn run(options: &Options) -> io::Result<Outcome> {
    let client = &options.client;
    let mut stamps = options.stamps.as_ref().map(|(_, most)| Vec::with_capacity(*most));
    let outcome = exchange_all(client, &mut stamps)?;
    if let Some(((path, _), stamps)) = options.stamps.as_ref().zip(stamps) {
        let mut out = BufWriter::new(File::create(path)?);
        for (at_ns, took_ns) in &stamps {
            writeln!(out, "{at_ns} {took_ns}")?;
        }
        out.flush()?;
    }
    Ok(outcome)
}

fn exchange_all(client: &Client, stamps: &mut Option<Vec<(u64, u64)>>) -> io::Result<Outcome> {
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
    for connection in &mut connections {
        sys::send(connection.fd, &client.request)?;
        connection.sent_ns = start_ns;
    }
    loop {
        let ready = epoll.wait(100)?;
        for event in 0..ready {
            let (token, _) = epoll.event(event);
            let connection = &mut connections[token as usize];
            match exchange(connection, &client.request, &mut buffer) {
                Ok(true) => {
                    outcome.requests += 1;
                    if let Some(stamps) = stamps.as_mut().filter(|stamps| stamps.len() < stamps.capacity()) {
                        let now_ns = sys::now_ns();
                        stamps.push((now_ns, now_ns - connection.sent_ns));
                        connection.sent_ns = now_ns;
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    outcome.errors += 1;
                    if outcome.errors > ERRORS_MAX {
                        return Err(error);
                    }
                    sys::close(connection.fd);
                    *connection = open(client, &epoll, token)?;
                    sys::send(connection.fd, &client.request)?;
                    connection.sent_ns = sys::now_ns();
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
    Ok(Connection { fd, meter: ReplyMeter::default(), sent_ns: 0 })
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
