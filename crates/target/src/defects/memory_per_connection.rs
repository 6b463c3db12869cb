//! A buffer a connection, taken at accept and given back at close.

use super::{Defect, Hook, Kept, Server, Strength};

/// Touching one byte a page makes the kernel give the page.
const PAGE_BYTES: usize = 4096;

pub(super) const DEFECT: Defect = Defect {
    name: "memory-per-connection",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Bytes(1 << 20),
    about: "each connection holds a buffer of this size, all of it touched, until it closes",
    makes: "memory-per-connection: resident memory grows by the buffer with each connection and falls when they close",
    see: "grep VmRSS /proc/PID/status, with 0, 100 and 200 connections open",
    make: |setting| {
        Ok(Box::new(MemoryPerConnection { bytes: usize::try_from(setting.number()).unwrap_or(usize::MAX) }))
    },
};

#[derive(Debug)]
struct MemoryPerConnection {
    bytes: usize,
}

impl Hook for MemoryPerConnection {
    fn accepted(&self, _: usize) -> Option<Kept> {
        let mut buffer = Vec::<u8>::new();
        // Without memory the server goes on: what is missing is its own affair.
        buffer.try_reserve_exact(self.bytes).ok()?;
        buffer.resize(self.bytes, 0);
        for page in buffer.chunks_mut(PAGE_BYTES) {
            page[0] = 1;
        }
        Some(Box::new(buffer))
    }
}
