//! Each request allocates a little that nobody frees.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "memory-leak",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Bytes(1024),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests, Able::Lasting],
    about: "each request allocates so much, writes to it and never frees it",
    makes: "memory-leak: resident memory grows with the requests, at whatever number of connections, and stays when they close",
    see: "grep VmRSS /proc/PID/status, before and after 10,000 requests on one connection",
    make: |setting| Ok(Box::new(MemoryLeak { bytes: setting.bytes() })),
};

#[derive(Debug)]
struct MemoryLeak {
    bytes: usize,
}

impl Hook for MemoryLeak {
    fn request(&self, _: &Request<'_>) {
        let mut lost = Vec::<u8>::new();
        // Without memory the server goes on: what is missing is its own affair.
        if lost.try_reserve_exact(self.bytes).is_ok() {
            lost.resize(self.bytes, 1);
            std::hint::black_box(lost.leak());
        }
    }
}
