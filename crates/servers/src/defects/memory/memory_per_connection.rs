//! A buffer a connection, taken at accept and given back at close.

use super::pages::Pages;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Taken};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "memory-per-connection",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Bytes(1 << 20),
    parts: &[],
    ways: &[],
    needs: &[Able::Connections],
    about: "each connection holds a buffer of this size, all of it touched, until it closes",
    makes: "memory-per-connection: resident memory grows by the buffer with each connection and falls when they close",
    see: "grep VmRSS /proc/PID/status, with 0, 100 and 200 connections open",
    make: |setting| Ok(Box::new(MemoryPerConnection { bytes: setting.bytes() })),
};

#[derive(Debug)]
struct MemoryPerConnection {
    bytes: usize,
}

impl Hook for MemoryPerConnection {
    fn accepted(&self) -> Taken {
        // Without memory the server goes on: what is missing is its own affair.
        Pages::touched(self.bytes).map_or(Taken::AsEver, |pages| Taken::Holding(Box::new(pages)))
    }
}
