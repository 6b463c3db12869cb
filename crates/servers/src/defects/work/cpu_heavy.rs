//! A handler that computes: each request costs processor time before its reply.

use crate::clock;
use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "cpu-heavy",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy, Server::Names],
    strength: Strength::Time(Duration::from_micros(500)),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests],
    about: "each request burns this much processor time in its worker",
    makes: "single-thread-bound with one worker, cpu-saturated with one on every core: throughput stops at workers / time",
    see: "top -b -n 2 -d 1 -H -p PID under load: the workers' %CPU at 100",
    make: |setting| Ok(Box::new(CpuHeavy { us: setting.number() / 1000 })),
};

#[derive(Debug)]
struct CpuHeavy {
    us: u64,
}

impl Hook for CpuHeavy {
    fn request(&self, _: &Request<'_>) {
        clock::burn_us(self.us);
    }
}
