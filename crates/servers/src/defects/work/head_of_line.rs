//! A few requests that take long, in the same loop as all the others.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Strength, Way};
use crate::defects::hook::{Hook, Request};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use crate::defects::work::held::Held;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "head-of-line",
    servers: &[Server::Echo, Server::Http, Server::Proxy, Server::Names],
    strength: Strength::Time(Duration::from_millis(50)),
    parts: &[Part { name: "of", default: Strength::Count(100) }],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests, Able::Loop],
    about: "one request of so many (of=100) computes this long in its worker's event loop, or sleeps",
    makes: "head-of-line: what comes behind such a request on its connection or worker waits for it; the median stays, the tail is this long",
    see: "curl -s -o /dev/null -w '%{time_total}\\n' 'http://127.0.0.1:PORT/?[1-300]': three of 300 take this long",
    make: |setting| Ok(Box::new(HeadOfLine { held: Held::of(&setting), every: EveryNth::of_part(&setting)? })),
};

#[derive(Debug)]
struct HeadOfLine {
    held: Held,
    every: EveryNth,
}

impl Hook for HeadOfLine {
    fn request(&self, _: &Request<'_>) {
        if self.every.is_due() {
            self.held.hold();
        }
    }
}
