//! A worker serves one connection at a time and waits for it, in a receive that blocks, until it closes.
//!
//! The workers share one listener, so that whoever is free takes the next connection. Connections beyond the workers are
//! made by the kernel and stand in the accept queue, unanswered.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Manner};
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;

pub(super) const DEFECT: Defect = Defect {
    name: "worker-starvation",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::None,
    parts: &[],
    ways: &[],
    needs: &[Able::Stays],
    about: "each worker serves one connection until it closes, waiting for it even when it is silent (not with --tls)",
    makes: "worker-starvation: as many idle connections as workers stop the server; others connect and get no reply, the CPU is idle",
    see: "for t in /proc/PID/task/*; do echo $(cat $t/comm $t/syscall); done, with as many idle connections open as workers: 45 (recvfrom, on x86-64) behind each worker's name",
    make: |setting| Ok(Box::new(WorkerStarvation { defect: setting.defect })),
};

#[derive(Debug)]
struct WorkerStarvation {
    defect: &'static Defect,
}

impl Hook for WorkerStarvation {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        options.shared_listeners = true;
        self.defect.without_tls(options)
    }

    fn manner(&self, manner: &mut Manner) {
        manner.stays = true;
    }
}
