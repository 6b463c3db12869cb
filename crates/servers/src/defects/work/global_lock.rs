//! One lock around every request's work: workers wait for each other, more of them do not help.

use super::background::lock;
use super::held::Held;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength, Way};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use std::sync::Mutex;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "global-lock",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Time(Duration::from_micros(200)),
    parts: &[],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests, Able::OneProcess, Able::Parallel],
    about: "each request holds the process's one mutex and computes this long meanwhile, or sleeps (--workers 2 or more)",
    makes: "lock-contention: while one worker holds it the others wait in futex, and throughput stops at 1 / time with any number of workers",
    see: "timeout 5 strace -f -c -e trace=futex -p PID under load: futex calls that grow with it",
    make: |setting| Ok(Box::new(GlobalLock { held: Held::of(&setting), all: Mutex::new(()) })),
};

#[derive(Debug)]
struct GlobalLock {
    held: Held,
    all: Mutex<()>,
}

impl Hook for GlobalLock {
    fn request(&self, _: &Request<'_>) {
        let _locked = lock(&self.all);
        self.held.hold();
    }
}
