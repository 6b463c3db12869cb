//! The bare closed loop on io_uring: one thread, one request in flight a connection.
//! A turn is one `io_uring_enter`: it submits the sends of the turn before and waits for `--wait`
//! replies, so a higher number trades the delay of a reply's handling for fewer wake-ups;
//! `--wait-max-us` bounds that delay. A broken connection is counted and made again.

use std::io;
use std::os::fd::RawFd;

use super::epoll::{ERRORS_MAX, GUARD_SECONDS};
use crate::args::{Args, Client, UsageError};
use crate::outcome::Outcome;
use crate::reply::{ReplyMeter, Step};
use crate::ring::{Completion, Operation, Ring, SLEEP_NS_MAX, Sleep};
use crate::sys;

/// What the loop is told.
#[derive(Debug)]
pub struct Options {
    client: Client,
    wait: u32,
    wait_max_us: u32,
}

impl Options {
    /// Reads them from the command line.
    ///
    /// # Errors
    /// See [`Args::client`]; `--wait` below 1 or above the connections.
    pub fn from_args(args: &Args) -> Result<Self, UsageError> {
        let client = args.client()?;
        let wait = args.optional("wait")?.unwrap_or(1);
        if wait == 0 || wait as usize > client.connections {
            return Err(UsageError(format!("--wait: {wait} is not in 1..={}, the connections", client.connections)));
        }
        Ok(Self { client, wait, wait_max_us: args.optional("wait-max-us")?.unwrap_or(0) })
    }
}

struct Connection {
    fd: RawFd,
    generation: u16,
    meter: ReplyMeter,
}

/// Runs the loop.
///
/// # Errors
/// io_uring is not to be had, the server cannot be reached, or broke more than [`ERRORS_MAX`]
/// times.
pub fn run(options: &Options) -> io::Result<Outcome> {
    let client = &options.client;
    sys::end_after(client.seconds + GUARD_SECONDS);
    // Declared before the ring, so that it outlives every send the ring may still hold.
    let request = client.request.clone();
    let mut ring = Ring::new(client.connections)?;
    let mut connections = Vec::with_capacity(client.connections);
    for _ in 0..client.connections {
        connections.push(Connection {
            fd: sys::connect(client.addr, false)?,
            generation: 0,
            meter: ReplyMeter::default(),
        });
    }
    let mut outcome = Outcome::default();
    let mut completions = Vec::with_capacity(4 * client.connections);
    let start_ns = sys::now_ns();
    let end_ns = start_ns + (client.seconds * 1e9) as u64;
    for (index, connection) in connections.iter().enumerate() {
        begin(&mut ring, connection, index as u32, &request)?;
    }
    let sleep = Sleep {
        completions: options.wait,
        gather_us: if options.wait > 1 { options.wait_max_us } else { 0 },
        at_most_ns: SLEEP_NS_MAX,
    };
    loop {
        ring.turn(sleep, &mut completions)?;
        for completion in &completions {
            let connection = &mut connections[completion.connection as usize];
            if completion.generation != connection.generation {
                continue;
            }
            match judge(&ring, connection, completion) {
                Ok(whole) => {
                    if whole {
                        outcome.requests += 1;
                        // SAFETY: `request` outlives the ring.
                        unsafe {
                            ring.send(connection.fd, &request, completion.connection, completion.generation)?;
                        }
                    }
                    if completion.operation == Operation::Recv && !completion.armed {
                        ring.arm(connection.fd, completion.connection, completion.generation)?;
                    }
                }
                Err(error) => {
                    outcome.errors += 1;
                    if outcome.errors > ERRORS_MAX {
                        return Err(error);
                    }
                    sys::close(connection.fd);
                    *connection = Connection {
                        fd: sys::connect(client.addr, false)?,
                        generation: connection.generation.wrapping_add(1),
                        meter: ReplyMeter::default(),
                    };
                    begin(&mut ring, connection, completion.connection, &request)?;
                }
            }
        }
        ring.recycle(&completions);
        if sys::now_ns() >= end_ns {
            break;
        }
    }
    outcome.seconds = (sys::now_ns() - start_ns) as f64 / 1e9;
    Ok(outcome)
}

fn begin(ring: &mut Ring, connection: &Connection, index: u32, request: &[u8]) -> io::Result<()> {
    ring.arm(connection.fd, index, connection.generation)?;
    // SAFETY: `run` keeps the request until the ring is gone.
    unsafe { ring.send(connection.fd, request, index, connection.generation) }
}

/// Whether this completion makes a reply whole; an error when the connection is of no more use.
#[inline]
fn judge(ring: &Ring, connection: &mut Connection, completion: &Completion) -> io::Result<bool> {
    match (completion.operation, completion.result) {
        // A send reports only when it failed or was short.
        (Operation::Send, _) => Err(io::ErrorKind::WriteZero.into()),
        (Operation::Recv, 0) => Err(io::ErrorKind::UnexpectedEof.into()),
        // All buffers were in use: the receive is armed again after they are given back.
        (Operation::Recv, result) if result == -libc::ENOBUFS => Ok(false),
        (Operation::Recv, result) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
        (Operation::Recv, _) => match connection.meter.take(ring.bytes(completion)) {
            Step::Partial => Ok(false),
            Step::Whole => Ok(true),
            Step::Broken => Err(io::ErrorKind::InvalidData.into()),
        },
    }
}
