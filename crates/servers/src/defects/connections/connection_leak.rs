//! A server that does not close a connection its peer has closed.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const DEFECT: Defect = Defect {
    name: "connection-leak",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(1),
    parts: &[],
    ways: &[],
    needs: &[Able::Closes],
    about: "of so many connections that their peers close, the server closes all but one (1: it closes none)",
    makes: "connection-leak: sockets in CLOSE-WAIT grow with the connections that are over and stay, each with its descriptor",
    see: "ss -tanp state close-wait 'sport = :PORT', after 100 connections that were closed",
    make: |setting| Ok(Box::new(ConnectionLeak { one_in: setting.number(), closed: AtomicU64::new(0) })),
};

#[derive(Debug)]
struct ConnectionLeak {
    one_in: u64,
    closed: AtomicU64,
}

impl Hook for ConnectionLeak {
    fn closes(&self) -> bool {
        !(self.closed.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.one_in)
    }
}
