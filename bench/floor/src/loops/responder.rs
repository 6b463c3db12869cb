//! The fixed responder: the cheapest honest opponent. One thread, epoll; it counts the ends of
//! heads in what it reads and answers each with the same prepared reply, one write a read.
//! It reads nothing else of a request: a request with a body would be answered wrongly.
//! With `--stamps` it also notes when each request came (one clock reading a read, 8 bytes a
//! request, written at its end), so that the pace of any generator can be seen from outside.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::path::PathBuf;

use crate::args::{Args, UsageError};
use crate::loops::serving::{Server, is_to_end};
use crate::sys::{self, Epoll};

/// Bytes of the body: those of the index page nginx comes with.
pub const BODY_BYTES: usize = 612;

/// Replies to one read at most: what is left is owed and written when there is room.
const REPLIES_AT_ONCE: usize = 64;

/// Most stamps kept, 8 bytes each.
const STAMPS_MAX: usize = 50_000_000;

/// What the responder is told.
#[derive(Debug)]
pub struct Options {
    server: Server,
    stamps: Option<(PathBuf, usize)>,
}

impl Options {
    /// Reads them from the command line.
    ///
    /// # Errors
    /// No port, or values out of bounds.
    pub fn from_args(args: &Args) -> Result<Self, UsageError> {
        Ok(Self { server: Server::from_args(args)?, stamps: args.stamps(STAMPS_MAX)? })
    }
}

#[derive(Default)]
struct Connection {
    /// How much of the blank line the bytes so far end with.
    matched: u8,
    /// Bytes of replies not yet written.
    owed_bytes: usize,
    /// It waits for room to write, and reads nothing until then.
    blocked: bool,
}

/// Runs until SIGTERM or the end of its time.
///
/// # Errors
/// The port cannot be had, or epoll failed.
pub fn run(options: &Options) -> io::Result<String> {
    let listener = options.server.begin()?;
    let mut stamps_ns = Vec::with_capacity(options.stamps.as_ref().map_or(0, |(_, most)| *most));
    let answered = serve(&listener, &mut stamps_ns)?;
    if let Some((path, _)) = &options.stamps {
        let mut out = BufWriter::new(File::create(path)?);
        for stamp_ns in &stamps_ns {
            writeln!(out, "{stamp_ns}")?;
        }
        out.flush()?;
    }
    Ok(format!(
        "{{\"tool\":\"floor-responder\",\"requests\":{answered},\"cpu_seconds\":{:.6}}}",
        sys::own_cpu_seconds()
    ))
}

fn serve(listener: &TcpListener, stamps_ns: &mut Vec<u64>) -> io::Result<u64> {
    let one = reply();
    let replies = one.repeat(REPLIES_AT_ONCE);
    let mut epoll = Epoll::new(1024)?;
    let listening = listener.as_raw_fd();
    epoll.add(listening, libc::EPOLLIN, listening as u64)?;
    let mut connections: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut answered = 0_u64;
    while !is_to_end() {
        let ready = epoll.wait(-1)?;
        for event in 0..ready {
            let (token, flags) = epoll.event(event);
            let fd = token as RawFd;
            if fd == listening {
                accept(listener, &epoll, &mut connections)?;
                continue;
            }
            let connection = &mut connections[token as usize];
            if flags & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) != 0 {
                let heads = match sys::recv(fd, &mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Ok(0) | Err(_) => {
                        sys::close(fd);
                        continue;
                    }
                    Ok(length) => count_heads(&mut connection.matched, &buffer[..length]),
                };
                if stamps_ns.len() + heads <= stamps_ns.capacity() && heads > 0 {
                    let now_ns = sys::now_ns();
                    stamps_ns.extend(std::iter::repeat_n(now_ns, heads));
                }
                answered += heads as u64;
                connection.owed_bytes += heads * one.len();
            }
            if pay(&epoll, fd, connection, &replies, one.len()).is_err() {
                sys::close(fd);
            }
        }
    }
    Ok(answered)
}

fn accept(listener: &TcpListener, epoll: &Epoll, connections: &mut Vec<Connection>) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // Gone before it was taken, or no descriptor left: the others go on.
            Err(_) => return Ok(()),
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let fd = stream.into_raw_fd();
        let index = fd as usize;
        if index >= connections.len() {
            connections.resize_with(index + 1, Connection::default);
        }
        connections[index] = Connection::default();
        epoll.add(fd, libc::EPOLLIN, fd as u64)?;
    }
}

/// Writes what is owed, as far as there is room.
#[inline]
fn pay(epoll: &Epoll, fd: RawFd, connection: &mut Connection, replies: &[u8], one: usize) -> io::Result<()> {
    while connection.owed_bytes > 0 {
        // What is owed always ends with a whole reply, so it tells where in one to go on.
        let start = (one - connection.owed_bytes % one) % one;
        let end = replies.len().min(start + connection.owed_bytes);
        match sys::send(fd, &replies[start..end]) {
            Ok(sent) => connection.owed_bytes -= sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.blocked = true;
                return epoll.modify(fd, libc::EPOLLOUT, fd as u64);
            }
            Err(error) => return Err(error),
        }
    }
    if connection.blocked {
        connection.blocked = false;
        epoll.modify(fd, libc::EPOLLIN, fd as u64)?;
    }
    Ok(())
}

/// How many heads end in `bytes`, with `matched` bytes of a blank line before them.
#[inline]
fn count_heads(matched: &mut u8, bytes: &[u8]) -> usize {
    const END: &[u8] = b"\r\n\r\n";
    if *matched == 0 && bytes.ends_with(END) {
        // SAFETY: both pointers come with the lengths of their slices.
        let first = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), END.as_ptr().cast(), END.len()) };
        // The usual case, one whole request: its only blank line is its end.
        if first.addr() - bytes.as_ptr().addr() == bytes.len() - END.len() {
            return 1;
        }
    }
    count_slowly(matched, bytes)
}

fn count_slowly(matched: &mut u8, bytes: &[u8]) -> usize {
    let mut heads = 0;
    for &byte in bytes {
        *matched = match (byte, *matched) {
            (b'\n', 3) => {
                heads += 1;
                0
            }
            (b'\r', 2) => 3,
            (b'\n', 1) => 2,
            (b'\r', _) => 1,
            _ => 0,
        };
    }
    heads
}

/// The one reply.
fn reply() -> Vec<u8> {
    let mut reply = format!(
        "HTTP/1.1 200 OK\r\n\
         Server: floor\r\n\
         Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Content-Type: text/html\r\n\
         Content-Length: {BODY_BYTES}\r\n\
         Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Connection: keep-alive\r\n\
         ETag: \"0-264\"\r\n\
         Accept-Ranges: bytes\r\n\r\n"
    )
    .into_bytes();
    reply.resize(reply.len() + BODY_BYTES, b'x');
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the heads of `text` fed in pieces of `piece` bytes.
    fn check(text: &str, piece: usize, expected: usize) {
        let mut matched = 0;
        let counted: usize = text.as_bytes().chunks(piece).map(|chunk| count_heads(&mut matched, chunk)).sum();
        assert_eq!(counted, expected, "{text:?} in pieces of {piece}");
    }

    #[test]
    fn heads_are_counted_however_they_are_cut() {
        let cases = [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET", 2),
            ("\r\r\n\r\n\n\r\n", 1),
            ("\r\n\r\r\n\r\n", 1),
            ("\r\n\r\n\r\n\r\n", 2),
            ("a\r\n\r\n\r\n", 1),
            ("a\n\nb\r\n\r", 0),
        ];
        for (text, expected) in cases {
            for piece in 1..=text.len() {
                check(text, piece, expected);
            }
        }
    }

    #[test]
    fn the_reply_is_what_it_says() {
        let mut meter = crate::reply::ReplyMeter::default();
        assert_eq!(meter.take(&reply()), crate::reply::Step::Whole);
    }
}
