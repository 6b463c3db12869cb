//! Clients that are slow or say nothing, so many at a time: what holds a server's connections and buffers and asks little.
//!
//! One thread and one epoll for all. A slow reader asks, and reads so many bytes a second from a receive buffer as small as that
//! allows, so that the rest stays with the server; once nothing more comes it asks again. A slow writer sends its
//! request a byte at a time. Who says nothing holds its connection. One that the server ends, or that could not be made, is
//! counted and made again a tenth of a second later. Replies are not parsed: that is for the load. They end with
//! this process, at once. Cost: a descriptor a client, two system calls an act.

pub(crate) mod flood;
pub(crate) mod syn;

use crate::helper::job::Work;
use crate::helper::report::{Connections, Report};
use crate::helper::why;
use crate::limits::CLIENT_AGAIN;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Shortest wait between two looks at the clients: what is due by then is done together.
const LOOK: Duration = Duration::from_millis(1);
/// Longest wait.
const IDLE: Duration = Duration::from_millis(500);
/// How often a slow reader reads.
const READ_EVERY: Duration = Duration::from_millis(100);
/// How long a connect may take before it is given up.
const CONNECT: Duration = Duration::from_secs(10);
/// Shortest time between two bytes of a slow writer, nanoseconds.
const WRITE_EVERY_NS_MIN: u64 = 1_000_000;
/// Events taken at once.
const EVENTS: usize = 1024;
/// A slow reader's receive buffer: so many times what it reads at once, bytes, so that as much is always there. The kernel
/// doubles it, for what it keeps beside the data, and has a minimum of its own (tcp(7)).
const RECEIVE_TIMES: usize = 2;
/// Descriptors beside those of clients.
const SPARE: u64 = 32;

/// What a client does once it is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "manner", rename_all = "kebab-case")]
pub enum Manner {
    /// Asks, and reads slowly.
    Reads {
        /// Bytes a second.
        bytes_per_s: u64,
    },
    /// Sends its request a byte at a time.
    Writes {
        /// Between two bytes, nanoseconds.
        every_ns: u64,
    },
    /// Holds its connection.
    Silent,
}

impl Manner {
    /// What such a client is called.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Manner::Reads { .. } => "slow reader",
            Manner::Writes { .. } => "slow writer",
            Manner::Silent => "silent connection",
        }
    }

    pub(crate) fn is_fit(self) -> bool {
        match self {
            Manner::Reads { bytes_per_s } => bytes_per_s > 0,
            Manner::Writes { every_ns } => every_ns >= WRITE_EVERY_NS_MIN,
            Manner::Silent => true,
        }
    }

    /// Between two acts of one client, and how many bytes an act is.
    fn act(self) -> (Duration, usize) {
        match self {
            Manner::Reads { bytes_per_s } => {
                // At least a byte: where that is too fast, the next act is later.
                let bytes = (bytes_per_s as f64 * READ_EVERY.as_secs_f64()).max(1.0).floor();
                (Duration::from_secs_f64(bytes / bytes_per_s as f64), bytes as usize)
            }
            Manner::Writes { every_ns } => (Duration::from_nanos(every_ns), 1),
            Manner::Silent => (CONNECT, 0),
        }
    }
}

#[derive(Debug)]
enum Phase {
    /// To be made.
    None,
    Connecting(Socket, Instant),
    Open(Socket, Instant),
}

/// One client.
#[derive(Debug)]
struct Client {
    phase: Phase,
    /// Bytes of the request that were sent.
    sent: usize,
    /// Whether anything came since it was sent.
    has_reply: bool,
}

/// All clients of one fault.
#[derive(Debug)]
pub(crate) struct Clients {
    to: SocketAddr,
    manner: Manner,
    every: Duration,
    act_bytes: usize,
    request: Vec<u8>,
    epoll: OwnedFd,
    clients: Vec<Client>,
    /// When each is due to act: each stands here once.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    open: u64,
    counts: Connections,
    buffer: Vec<u8>,
}

impl Clients {
    pub(crate) fn new(to: SocketAddr, count: u32, manner: Manner, request: &str) -> Result<Self, String> {
        allow(u64::from(count))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| format!("epoll: {}", why(error)))?;
        let (every, act_bytes) = manner.act();
        // Made over one act's time, and so acting spread over it: not all at one moment.
        let now = Instant::now();
        let spread = every.min(Duration::from_secs(1));
        let at = |n: u32| now + spread.mul_f64(f64::from(n) / f64::from(count.max(1)));
        Ok(Clients {
            to,
            manner,
            every,
            act_bytes,
            request: request.as_bytes().to_vec(),
            epoll,
            clients: (0..count).map(|_| Client { phase: Phase::None, sent: 0, has_reply: false }).collect(),
            due: (0..count).map(|n| Reverse((at(n), n as usize))).collect(),
            open: 0,
            counts: Connections::default(),
            buffer: vec![0; 64 << 10],
        })
    }

    fn take_events(&mut self, now: Instant) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&none)).is_err() {
                return;
            }
            for event in &events {
                if let Ok(client) = usize::try_from(event.data.u64()) {
                    self.happened(client, event.flags, now);
                }
            }
            if events.len() < EVENTS {
                return;
            }
        }
    }

    fn happened(&mut self, at: usize, flags: epoll::EventFlags, now: Instant) {
        use epoll::EventFlags as Flags;
        let Some(client) = self.clients.get_mut(at) else { return };
        if matches!(client.phase, Phase::Connecting(..)) && flags.intersects(Flags::OUT | Flags::ERR | Flags::HUP) {
            let Phase::Connecting(socket, _) = std::mem::replace(&mut client.phase, Phase::None) else { return };
            match socket.take_error() {
                Ok(None) => {
                    client.phase = Phase::Open(socket, now);
                    self.open += 1;
                    self.counts.opened += 1;
                }
                Ok(Some(error)) | Err(error) => return self.not_made(&error),
            }
        }
        // What came with that it is made is not told again. A slow reader finds the end where it reads it, behind what is before.
        if matches!(self.clients[at].phase, Phase::Open(..)) {
            let reads = matches!(self.manner, Manner::Reads { .. });
            if flags.contains(Flags::ERR) {
                self.closed(at, now);
            } else if !reads && flags.intersects(Flags::IN | Flags::HUP | Flags::RDHUP) {
                self.take_all(at, now);
            }
        }
    }

    fn not_made(&mut self, error: &io::Error) {
        self.counts.failed += 1;
        self.counts.why.get_or_insert_with(|| why(io::Error::from(error.kind())));
    }

    fn closed(&mut self, at: usize, now: Instant) {
        let client = &mut self.clients[at];
        if let Phase::Open(_, since) = std::mem::replace(&mut client.phase, Phase::None) {
            (client.sent, client.has_reply) = (0, false);
            self.open -= 1;
            self.counts.closed += 1;
            let ms = u64::try_from((now - since).as_millis()).unwrap_or(u64::MAX);
            self.counts.first_closed_after_ms.get_or_insert(ms);
        }
    }

    fn begun(&self, at: usize) -> io::Result<Socket> {
        let socket =
            connecting(self.to, matches!(self.manner, Manner::Reads { .. }).then_some(RECEIVE_TIMES * self.act_bytes))?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(at as u64), flags)?;
        Ok(socket)
    }

    /// Does what is due of a client; when it is due next.
    fn act(&mut self, at: usize, now: Instant) -> Duration {
        match (&self.clients[at].phase, self.manner) {
            (Phase::None, _) => {
                match self.begun(at) {
                    Ok(socket) => self.clients[at].phase = Phase::Connecting(socket, now),
                    Err(error) => self.not_made(&error),
                }
                return CLIENT_AGAIN;
            }
            (Phase::Connecting(_, since), _) => {
                if now - *since > CONNECT {
                    self.clients[at].phase = Phase::None;
                    self.not_made(&io::ErrorKind::TimedOut.into());
                }
                return CLIENT_AGAIN;
            }
            (Phase::Open(..), Manner::Silent) => {}
            (Phase::Open(..), Manner::Reads { .. }) => {
                self.send(at, usize::MAX, now);
                match self.read(at, self.act_bytes) {
                    Ok(0) => self.closed(at, now),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ask_again(at),
                    Err(_) => self.closed(at, now),
                }
            }
            (Phase::Open(..), Manner::Writes { .. }) => match self.clients[at].sent < self.request.len() {
                true => self.send(at, self.act_bytes, now),
                false => self.ask_again(at),
            },
        }
        if matches!(self.clients[at].phase, Phase::None) { CLIENT_AGAIN.max(self.every) } else { self.every }
    }

    /// The next request, where a reply came to the last one.
    fn ask_again(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if std::mem::take(&mut client.has_reply) {
            client.sent = 0;
        }
    }

    /// Sends so much of the request at most.
    fn send(&mut self, at: usize, most: usize, now: Instant) {
        let client = &mut self.clients[at];
        let Phase::Open(socket, _) = &client.phase else { return };
        let rest = &self.request[client.sent.min(self.request.len())..];
        let rest = &rest[..rest.len().min(most)];
        if rest.is_empty() {
            return;
        }
        match rustix::net::send(socket, rest, rustix::net::SendFlags::NOSIGNAL) {
            Ok(n) => {
                client.sent += n;
                self.counts.bytes_sent += n as u64;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.closed(at, now),
        }
    }

    fn read(&mut self, at: usize, most: usize) -> io::Result<usize> {
        let client = &mut self.clients[at];
        let Phase::Open(socket, _) = &mut client.phase else { return Err(io::ErrorKind::WouldBlock.into()) };
        let most = most.min(self.buffer.len());
        let n = socket.read(&mut self.buffer[..most])?;
        client.has_reply |= n > 0;
        self.counts.bytes_read += n as u64;
        Ok(n)
    }

    /// Reads all that is there.
    fn take_all(&mut self, at: usize, now: Instant) {
        loop {
            match self.read(at, usize::MAX) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => return self.closed(at, now),
            }
        }
    }
}

impl Work for Clients {
    fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn step(&mut self, now: Instant) -> Duration {
        self.take_events(now);
        while let Some(Reverse((due, at))) = self.due.peek().copied().filter(|Reverse((due, _))| *due <= now) {
            self.due.pop();
            let next = self.act(at, now);
            // From when it was due, so that its pace is kept; what was missed in a long pause is not made up for.
            self.due.push(Reverse(((due + next).max(now), at)));
        }
        let next = self.due.peek().map_or(IDLE, |Reverse((due, _))| due.saturating_duration_since(now));
        next.clamp(LOOK, IDLE)
    }

    fn report(&self) -> Report {
        Report::Clients(Connections { open: self.open, ..self.counts.clone() })
    }
}

/// A socket that is on its way to a server.
pub(crate) fn connecting(to: SocketAddr, receive_bytes: Option<usize>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.cloexec().nonblocking(), None)?;
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}

/// Whether so many connections may be open: else how many descriptors would be needed, and how many there may be.
pub(crate) fn may_open(connections: u64) -> Result<(), (u64, u64)> {
    let needed = connections + SPARE;
    match getrlimit(Resource::Nofile).maximum.filter(|maximum| *maximum < needed) {
        Some(maximum) => Err((needed, maximum)),
        None => Ok(()),
    }
}

/// Raises this process's soft limit of descriptors to what so many connections need.
pub(crate) fn allow(connections: u64) -> Result<(), String> {
    may_open(connections)
        .map_err(|(needed, maximum)| format!("{needed} descriptors are needed, and the hard limit is {maximum}"))?;
    let (limit, needed) = (getrlimit(Resource::Nofile), connections + SPARE);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| format!("the limit of descriptors cannot be raised to {needed}: {}", why(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_however_slow_it_is() {
        for bytes_per_s in [1, 7, 1000, 5_000_000] {
            let (every, bytes) = Manner::Reads { bytes_per_s }.act();
            let pace = bytes as f64 / every.as_secs_f64();
            assert!((pace / bytes_per_s as f64 - 1.0).abs() < 1e-6, "{bytes_per_s}: {pace}");
        }
        assert_eq!(Manner::Writes { every_ns: 30_000_000 }.act(), (Duration::from_millis(30), 1));
        assert!(!Manner::Writes { every_ns: 1 }.is_fit() && !Manner::Reads { bytes_per_s: 0 }.is_fit());
    }
}
