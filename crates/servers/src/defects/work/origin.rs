//! A slow origin in a process of its own: for each byte sent to it, it answers with one, late.
//!
//! It sleeps for each answer, as many at once as there are connections, or computes, one after the other. Everything it
//! needs is made before it is forked (`helper`); a connection beyond `CONNECTIONS_MAX` is closed.

use crate::clock;
use crate::defects::defect::Way;
use crate::defects::helper;
use crate::defects::work::held::Held;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Descriptors up to this number are served.
const DESCRIPTORS_MAX: usize = 20_000;
/// The byte that ends it; any other is asked for an answer.
const END: u8 = 0;

const LISTENER: u64 = u64::MAX;
const SERVER: u64 = u64::MAX - 1;

/// Where the origin is. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Origin(pub(super) SocketAddr);

impl Origin {
    /// Starts it on a free port of 127.0.0.1.
    pub(super) fn start(held: Held) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut serving = Serving {
            connections: (0..DESCRIPTORS_MAX).map(|_| None).collect(),
            due: VecDeque::with_capacity(DESCRIPTORS_MAX),
            held,
        };
        helper::start(Some(listener.as_raw_fd()), |server| {
            // What fails ends it, and whoever waits for it goes on without.
            let _ = serving.run(&listener, server);
        })?;
        Ok(Self(address))
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Without a descriptor for it, it ends with the process.
        if let Ok(mut connection) = TcpStream::connect(self.0) {
            let _ = connection.write_all(&[END]);
        }
    }
}

struct Serving {
    /// By the number of its descriptor.
    connections: Vec<Option<OwnedFd>>,
    /// Answers, with the time at which each is due; later ones behind.
    due: VecDeque<(usize, u64)>,
    held: Held,
}

impl Serving {
    fn run(&mut self, listener: &TcpListener, server: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let epoll = &epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        epoll::add(epoll, server, epoll::EventData::new_u64(SERVER), epoll::EventFlags::IN)?;
        loop {
            let mut room = [MaybeUninit::uninit(); 64];
            let timeout = self.timeout();
            let events = match epoll::wait(epoll, &mut room, timeout.as_ref()) {
                Ok((events, _)) => &*events,
                Err(Errno::INTR) => &[],
                Err(error) => return Err(error),
            };
            for event in events {
                match event.data.u64() {
                    SERVER => return Ok(()),
                    LISTENER => self.accept(epoll, listener),
                    connection if self.is_end(connection as usize) => return Ok(()),
                    _ => {}
                }
            }
            self.answer(epoll);
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let (_, due_ns) = self.due.front()?;
        let wait_ns = due_ns.saturating_sub(clock::monotonic_ns());
        Some(Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 })
    }

    fn accept(&mut self, epoll: &OwnedFd, listener: &TcpListener) {
        let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) else { return };
        let number = connection.as_raw_fd() as usize;
        let data = epoll::EventData::new_u64(number as u64);
        if let Some(place) = self.connections.get_mut(number)
            && epoll::add(epoll, &connection, data, ASKED).is_ok()
        {
            *place = Some(connection);
        }
    }

    /// Receives what is asked on a connection. True if the origin is to end.
    fn is_end(&mut self, number: usize) -> bool {
        let Some(connection) = self.connections.get(number).and_then(Option::as_ref) else { return false };
        let mut asked = [0];
        match recv(connection, &mut asked, RecvFlags::DONTWAIT) {
            Ok((1, _)) if asked[0] == END => return true,
            Ok((1, _)) => {
                let takes_ns = match self.held.way {
                    Way::Compute => 0,
                    _ => u64::try_from(self.held.time.as_nanos()).unwrap_or(u64::MAX),
                };
                self.due.push_back((number, clock::monotonic_ns().saturating_add(takes_ns)));
            }
            // It asks nothing more before its answer, so there is none due on it.
            _ => self.connections[number] = None,
        }
        false
    }

    fn answer(&mut self, epoll: &OwnedFd) {
        let now_ns = clock::monotonic_ns();
        while let Some((number, _)) = self.due.pop_front_if(|(_, due_ns)| *due_ns <= now_ns) {
            if self.held.way == Way::Compute {
                self.held.hold();
            }
            let Some(connection) = &self.connections[number] else { continue };
            let data = epoll::EventData::new_u64(number as u64);
            let is_sent = matches!(send(connection, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT), Ok(1));
            if !is_sent || epoll::modify(epoll, connection, data, ASKED).is_err() {
                self.connections[number] = None;
            }
        }
    }
}

/// Until its answer has left, a connection is not looked at again.
const ASKED: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ONESHOT);
