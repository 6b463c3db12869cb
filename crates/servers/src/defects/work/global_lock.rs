//! One lock around every request's work: workers wait for each other, more of them do not help.

use super::background::lock;
use crate::clock;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use std::sync::Mutex;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "global-lock",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Time(Duration::from_micros(200)),
    about: "each request holds the process's one mutex and burns this much processor time meanwhile (--workers 2 or more)",
    makes: "lock-contention: while one worker computes the others wait in futex, and throughput stops at 1 / time with any number of workers",
    see: "timeout 5 strace -f -c -e trace=futex -p PID under load: futex calls that grow with it",
    make: |setting| Ok(Box::new(GlobalLock { us: setting.number() / 1000, all: Mutex::new(()) })),
};

#[derive(Debug)]
struct GlobalLock {
    us: u64,
    all: Mutex<()>,
}

impl Hook for GlobalLock {
    fn request(&self, _: &Request<'_>) {
        let _held = lock(&self.all);
        clock::burn_us(self.us);
    }
}
