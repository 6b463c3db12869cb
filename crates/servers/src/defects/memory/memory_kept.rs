//! A pool of buffers that only grows: as many as there ever were connections at one time.

use super::pages::Pages;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Taken};
use crate::defects::server::Server;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const DEFECT: Defect = Defect {
    name: "memory-kept",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Bytes(256 * 1024),
    parts: &[],
    ways: &[],
    needs: &[Able::Connections, Able::Lasting],
    about: "each connection takes a buffer of this size from a pool and brings it back, and the pool gives none back",
    makes: "memory-kept: after the load, the resident memory stays at what the most connections at one time took; a second load of that size adds nothing",
    see: "grep VmRSS /proc/PID/status, before, with 200 connections open, and after they closed",
    make: |setting| Ok(Box::new(MemoryKept { bytes: setting.bytes(), pool: Pool::default() })),
};

type Pool = Arc<Mutex<Vec<Pages>>>;

#[derive(Debug)]
struct MemoryKept {
    bytes: usize,
    pool: Pool,
}

impl Hook for MemoryKept {
    fn accepted(&self) -> Taken {
        let pooled = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // Without memory the server goes on: what is missing is its own affair.
        let pages = pooled.or_else(|| Pages::touched(self.bytes));
        if pages.is_none() {
            return Taken::AsEver;
        }
        Taken::Holding(Box::new(Lent { pages, pool: Arc::clone(&self.pool) }))
    }
}

/// A buffer that goes back to its pool.
struct Lent {
    pages: Option<Pages>,
    pool: Pool,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).extend(self.pages.take());
    }
}
