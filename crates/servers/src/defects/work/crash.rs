//! A server that aborts: at a request, or at a moment.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const DEFECT: Defect = Defect {
    name: "crash",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Count(1),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests, Able::OneProcess],
    about: "the process aborts at the request of this number, counted from its start on; 0: at its start, whatever comes",
    makes: "process-crash: the process is gone by signal 6; open connections are reset, new ones refused",
    see: "echo $? in the shell that started it: 134, which is 128 + SIGABRT (and no /proc/PID)",
    make: |setting| Ok(Box::new(Crash { setting, requests: AtomicU64::new(0) })),
};

#[derive(Debug)]
struct Crash {
    setting: Setting,
    requests: AtomicU64,
}

impl Hook for Crash {
    fn change(&self, _: &mut ServeOptions) -> Result<(), ServeError> {
        if self.setting.number() > 0 {
            return Ok(());
        }
        // Nobody may come at that moment: a thread of its own waits for it, called as the process is.
        let from = self.setting.from;
        let spawned = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(from);
            std::process::abort();
        });
        let failed = |source| ServeError::Defect { defect: DEFECT.name, doing: "start its thread", source };
        spawned.map(drop).map_err(failed)
    }

    fn request(&self, _: &Request<'_>) {
        if self.requests.fetch_add(1, Ordering::Relaxed) + 1 == self.setting.number() {
            std::process::abort();
        }
    }
}
