//! A call that blocks, made in an event loop: whoever else the loop serves waits with it.

use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use std::time::Duration;

/// Rare enough that most requests are victims and not causes.
const NTH: u64 = 10;

pub(super) const DEFECT: Defect = Defect {
    name: "blocked-loop",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Time(Duration::from_millis(100)),
    about: "one request of 10 sleeps this long in its worker's event loop",
    makes: "event-loop-blocked: all requests in flight on that worker stall together while it uses no processor",
    see: "timeout 5 strace -f -T -e trace=clock_nanosleep -p PID under load: sleeps in a worker's thread, each as long",
    make: |setting| Ok(Box::new(BlockedLoop { sleeps: setting.time(), every: EveryNth::new(NTH) })),
};

#[derive(Debug)]
struct BlockedLoop {
    sleeps: Duration,
    every: EveryNth,
}

impl Hook for BlockedLoop {
    fn request(&self, _: &Request<'_>) {
        if self.every.is_due() {
            std::thread::sleep(self.sleeps);
        }
    }
}
