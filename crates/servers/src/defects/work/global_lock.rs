//! One lock around every request's work: workers wait for each other, more of them do not help.
//!
//! Where the workers are processes it is in memory that they share, as the cache's or the pool's of such a server is.

use super::background::refused;
use super::held::Held;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength, Way};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::defects::shared::{Among, Lock};
use crate::error::ServeError;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "global-lock",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Time(Duration::from_micros(200)),
    parts: &[],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests, Able::Parallel],
    about: "each request holds the one mutex that all workers share and computes this long meanwhile, or sleeps (--workers 2 or more)",
    makes: "lock-contention: while one worker holds it the others wait in futex, and throughput stops at 1 / time with any number of workers",
    see: "timeout 5 strace -f -c -e trace=futex -p PID under load: futex calls that grow with it",
    make: |setting| Ok(Box::new(GlobalLock { all: lock(&setting, Among::Threads)?, setting })),
};

#[derive(Debug)]
struct GlobalLock {
    setting: Setting,
    all: Lock,
}

fn lock(setting: &Setting, among: Among) -> Result<Lock, ServeError> {
    Lock::new(among).map_err(|source| refused(setting, "make its lock", source))
}

impl Hook for GlobalLock {
    fn carried_by(&mut self, _: Server, among: Among) -> Result<(), ServeError> {
        self.all = lock(&self.setting, among)?;
        Ok(())
    }

    fn request(&self, _: &Request<'_>) {
        let _locked = self.all.lock();
        Held::of(&self.setting).hold();
    }
}
