//! An event loop that one request holds, computing or asleep: whoever else the loop serves waits with it.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Strength, Way};
use crate::defects::hook::{Hook, Request};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::defects::work::held::Held;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "blocked-loop",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy, Server::Names],
    strength: Strength::Time(Duration::from_millis(100)),
    parts: &[Part { name: "of", default: Strength::Count(10) }],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests, Able::Loop],
    about: "one request of so many (of=10) computes this long in its worker's event loop, or sleeps",
    makes: "event-loop-blocked: all requests in flight on that worker stall together while one is served; its processor is used, or with sleep it is not",
    see: "timeout 5 strace -f -r -e trace=recvfrom,sendto,clock_nanosleep -p PID under load: this long between a worker's recvfrom and its sendto",
    make: |setting| Ok(Box::new(BlockedLoop { held: Held::of(&setting), every: EveryNth::of_part(&setting)? })),
};

#[derive(Debug)]
struct BlockedLoop {
    held: Held,
    every: EveryNth,
}

impl Hook for BlockedLoop {
    fn request(&self, _: &Request<'_>) {
        if self.every.is_due() {
            self.held.hold();
        }
    }
}
