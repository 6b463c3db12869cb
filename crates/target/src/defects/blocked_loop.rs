//! A call that blocks, made in an event loop: whoever else the loop serves waits with it.

use super::every::Every;
use super::{At, Defect, Hook, Server, Strength};
use std::time::Duration;

/// Rare enough that most requests are victims and not causes.
const NTH: u64 = 10;

pub(super) const DEFECT: Defect = Defect {
    name: "blocked-loop",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(100)),
    about: "one request of 10 sleeps this long in its worker's event loop",
    makes: "event-loop-blocked: all requests in flight on that worker stall together while it uses no processor",
    see: "timeout 5 strace -f -T -e trace=clock_nanosleep -p PID under load: sleeps in a worker's thread, each as long",
    make: |setting| Ok(Box::new(BlockedLoop { sleeps: setting.time(), every: Every::nth(NTH) })),
};

#[derive(Debug)]
struct BlockedLoop {
    sleeps: Duration,
    every: Every,
}

impl Hook for BlockedLoop {
    fn request(&self, _: &At<'_>) {
        if self.every.is_due() {
            std::thread::sleep(self.sleeps);
        }
    }
}
