//! One listener that all workers wait at, each to be woken for every connection.
//!
//! The workers share a listener from the server's start on, for which the kernel wakes one of them (`EPOLLEXCLUSIVE`);
//! from `@START` on it wakes all, of whom one finds the connection and the others nothing.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Accepting;

pub(super) const DEFECT: Defect = Defect {
    name: "thundering-herd",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Listeners],
    about: "all workers wait at one listener without EPOLLEXCLUSIVE (--workers 2 or more)",
    makes: "thundering-herd: each connection wakes every worker, so wake-ups per accept are near the number of workers",
    see: "grep ^voluntary_ctxt /proc/PID/task/*/status, before and after 100 connections that say nothing: all workers' rise",
    make: |setting| Ok(Box::new(ThunderingHerd { defect: setting.defect })),
};

#[derive(Debug)]
struct ThunderingHerd {
    defect: &'static Defect,
}

impl Hook for ThunderingHerd {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        options.shared_listeners = true;
        self.defect.with_workers(options)
    }

    fn accepting(&self, accepting: &mut Accepting) {
        accepting.herds = true;
    }
}
