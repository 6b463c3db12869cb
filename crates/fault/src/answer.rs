//! HTTP requests answered by one status in a server's place, whatever they ask: a backend that is up and of no use.
//!
//! Listens on the loopback interface, both families; who is sent here is the firewall's doing
//! ([`crate::network::firewall::Packets::Redirected`]). Requests are told apart by the end of their head. One that has a body is
//! answered, and its connection ended, as where its body ends is not looked for. One thread, at most 10,000
//! connections. Not HTTP/2, not TLS: who speaks these sees an end.

use crate::clients::allow;
use crate::helper::job::Work;
use crate::helper::report::Report;
use crate::helper::why;
use crate::limits::{ANSWERED_MAX, HEAD_BYTES_MAX};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest wait with nothing due.
const IDLE: Duration = Duration::from_millis(500);
/// Events taken at once.
const EVENTS: usize = 1024;

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// What came of a request whose head is not whole.
    head: Vec<u8>,
    /// Whether it is to end with the answer that is due.
    is_last: bool,
}

/// Who answers.
#[derive(Debug)]
pub(crate) struct Answers {
    reply: String,
    after: Duration,
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Answers that are due: when, to which connection. In order, as all wait as long.
    due: VecDeque<(Instant, u64)>,
    taken: u64,
    answered: u64,
}

impl Answers {
    pub(crate) fn new(port: u16, status: u16, after: Duration) -> Result<Self, String> {
        allow(ANSWERED_MAX as u64)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| format!("epoll: {}", why(error)))?;
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("port {port} cannot be listened on ({}): try again", why(error)))?;
        // A host without IPv6 has no requests of it.
        let listeners: Vec<TcpListener> =
            [Some(four), TcpListener::bind((Ipv6Addr::LOCALHOST, port)).ok()].into_iter().flatten().collect();
        for (at, listener) in listeners.iter().enumerate() {
            let added = listener.set_nonblocking(true).and_then(|()| add(&epoll, listener, at as u64));
            added.map_err(|error| format!("epoll: {}", why(error)))?;
        }
        let next = listeners.len() as u64;
        let reply = format!("HTTP/1.1 {status} {}\r\nContent-Length: 0\r\n", reason(status));
        Ok(Answers {
            reply,
            after,
            epoll,
            listeners,
            connections: BTreeMap::new(),
            next,
            due: VecDeque::new(),
            taken: 0,
            answered: 0,
        })
    }

    fn accept(&mut self, at: usize) {
        while let Ok((stream, _)) = self.listeners[at].accept() {
            // One too many is ended at once.
            if self.connections.len() >= ANSWERED_MAX || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            if add(&self.epoll, &stream, self.next).is_ok() {
                self.connections.insert(self.next, Connection { stream, head: Vec::new(), is_last: false });
                self.next += 1;
                self.taken += 1;
            }
        }
    }

    /// Reads what came of a connection, and notes what is to be answered.
    fn hear(&mut self, id: u64, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut buffer = [0; 16 << 10];
        loop {
            match connection.stream.read(&mut buffer) {
                Ok(n @ 1..) if !connection.is_last => {
                    connection.head.extend(&buffer[..n]);
                    for has_body in heads(&mut connection.head) {
                        connection.is_last |= has_body;
                        self.due.push_back((now + self.after, id));
                        if has_body {
                            break;
                        }
                    }
                    if connection.head.len() > HEAD_BYTES_MAX {
                        self.connections.remove(&id);
                        return;
                    }
                }
                // A body that nobody wants.
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => {
                    self.connections.remove(&id);
                    return;
                }
            }
        }
    }

    fn answer(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let end = if connection.is_last { "Connection: close\r\n\r\n" } else { "\r\n" };
        let reply = format!("{}{end}", self.reply);
        // Some seventy bytes: where they do not fit, nobody has read the thousand before.
        if connection.stream.write_all(reply.as_bytes()).is_err() || connection.is_last {
            self.connections.remove(&id);
            self.answered += 1;
            return;
        }
        self.answered += 1;
    }
}

impl Work for Answers {
    fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn step(&mut self, now: Instant) -> Duration {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&none));
        for event in events {
            match usize::try_from(event.data.u64()) {
                Ok(at) if at < self.listeners.len() => self.accept(at),
                _ => self.hear(event.data.u64(), now),
            }
        }
        while let Some((_, id)) = self.due.front().copied().filter(|(due, _)| *due <= now) {
            self.due.pop_front();
            self.answer(id);
        }
        self.due.front().map_or(IDLE, |(due, _)| due.saturating_duration_since(now))
    }

    fn report(&self) -> Report {
        Report::Answers { connections: self.taken, answered: self.answered }
    }
}

fn add(epoll: &OwnedFd, who: &impl AsFd, id: u64) -> io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    Ok(epoll::add(epoll, who, epoll::EventData::new_u64(id), flags)?)
}

/// A port of the loopback interface that nobody listens on now.
pub(crate) fn free_port() -> io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address: SocketAddr| address.port())
}

/// Takes the whole heads out of what came; of each, whether a body follows.
fn heads(bytes: &mut Vec<u8>) -> Vec<bool> {
    const END: &[u8] = b"\r\n\r\n";
    let mut all = Vec::new();
    while let Some(end) = bytes.windows(END.len()).position(|part| part == END) {
        let head: Vec<u8> = bytes.drain(..end + END.len()).collect();
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let is_body = |line: &str| match line.split_once(':') {
            Some(("content-length", length)) => length.trim() != "0",
            Some((name, _)) => name == "transfer-encoding",
            None => false,
        };
        let has_body = text.lines().any(is_body);
        all.push(has_body);
        if has_body {
            bytes.clear();
        }
    }
    all
}

/// The phrase of a status, RFC 9110, 15, of those that are asked for most; it may be empty (RFC 9112, 4).
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_told_apart_wherever_they_are_cut() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz";
        for cut in 0..text.len() {
            let mut bytes = text[..cut].to_vec();
            let mut all = heads(&mut bytes);
            bytes.extend(&text[cut..]);
            all.extend(heads(&mut bytes));
            assert_eq!(all, [false, true], "{cut}");
        }
        assert_eq!(heads(&mut b"GET / HTTP/1.1\r\ncontent-length: 0\r\n\r\n".to_vec()), [false]);
    }
}
