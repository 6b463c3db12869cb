//! A client of somebody else's, whose command takes long and holds the loop for all: a report, an export, `KEYS *`.
//!
//! It is a process of its own (`helper`) that connects to the server like any client, asks, waits for the reply and goes.

use super::held::Held;
use crate::clock;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Strength, Way};
use crate::defects::helper;
use crate::defects::hook::{Hook, Manner, Request};
use crate::defects::server::Server;
use crate::defects::shared::Among;
use crate::error::ServeError;
use crate::options::ServeOptions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What it asks of HTTP.
const HTTP: &[u8] = b"GET /export?all=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// What it asks of echo.
const ECHO: &[u8] = b"export all entries in full, please\n";
/// What it asks of names.
const NAMES: &[u8] = b"*1\r\n$7\r\nLOADALL\r\n";

pub(super) const DEFECT: Defect = Defect {
    name: "neighbour-request",
    servers: &[Server::Echo, Server::Http, Server::Proxy, Server::Names],
    strength: Strength::Time(Duration::from_millis(200)),
    parts: &[Part { name: "every", default: Strength::Time(Duration::from_secs(1)) }],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests, Able::Loop],
    about: "once in a while (every=1s) another client asks for something that takes this long in the loop of the worker that serves it, computing or asleep (not with --tls)",
    makes: "neighbour-request: each time all requests in flight on that worker stall, while a connection of another client's is being served",
    see: "ss -tnp 'dport = :PORT': now and then a connection of a process that is not the load's; strace -f -e trace=recvfrom -p PID: its request",
    make: |setting| {
        let period = Duration::from_nanos(setting.part("every"));
        Ok(Box::new(NeighbourRequest { held: Held::of(&setting), period, from: setting.from, asks: HTTP }))
    },
};

#[derive(Debug)]
struct NeighbourRequest {
    held: Held,
    period: Duration,
    from: Duration,
    asks: &'static [u8],
}

impl Hook for NeighbourRequest {
    fn carried_by(&mut self, server: Server, _: Among) -> Result<(), ServeError> {
        self.asks = match server {
            Server::Names => NAMES,
            Server::Echo => ECHO,
            _ => HTTP,
        };
        Ok(())
    }

    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        DEFECT.without_tls(options)
    }

    fn listening(&self, addrs: &[SocketAddr]) {
        let Some(server) = addrs.first().map(reachable) else { return };
        let (asks, period, from) = (self.asks, self.period, self.from);
        // Without a process for it there is no other client, and nothing else to be done.
        let _ = helper::start(None, |life| ask(server, asks, period, from, life));
    }

    fn manner(&self, manner: &mut Manner) {
        manner.hears = true;
    }

    fn request(&self, request: &Request<'_>) {
        // Of names the command's key is the text: of the one that has none, its word.
        let theirs = if self.asks == NAMES { b"LOADALL" } else { self.asks };
        if request.text == theirs {
            self.held.hold();
        }
    }
}

/// An address that a client on this machine can connect to.
fn reachable(listens: &SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

/// Asks once a period, until the server is gone.
fn ask(server: SocketAddr, asks: &[u8], period: Duration, from: Duration, life: BorrowedFd<'_>) {
    let start_ns = clock::monotonic_ns();
    let mut due_ns = start_ns.saturating_add(nanos(from.max(period)));
    loop {
        let wait_ns = due_ns.saturating_sub(clock::monotonic_ns());
        if is_over(life, None, Some(wait_ns)) {
            return;
        }
        due_ns = due_ns.saturating_add(nanos(period)).max(clock::monotonic_ns());
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let Ok(socket) = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) else { continue };
        if connect(&socket, &server).is_err() || send(&socket, asks, SendFlags::NOSIGNAL).is_err() {
            continue;
        }
        // One receive is enough to know that it is answered: what is left of the reply is thrown away.
        if is_over(life, Some(std::os::fd::AsFd::as_fd(&socket)), None) {
            return;
        }
        let _ = recv(&socket, &mut [0_u8; 4096], RecvFlags::DONTWAIT);
    }
}

/// Waits for so long, or for the reply. True if the server is gone.
fn is_over(life: BorrowedFd<'_>, reply: Option<BorrowedFd<'_>>, at_most_ns: Option<u64>) -> bool {
    let timeout =
        at_most_ns.map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
    let mut fds =
        [PollFd::from_borrowed_fd(life, PollFlags::IN), PollFd::from_borrowed_fd(reply.unwrap_or(life), PollFlags::IN)];
    // An interruption ends a wait early, which does no harm.
    let _ = poll(&mut fds, timeout.as_ref());
    !fds[0].revents().is_empty()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
