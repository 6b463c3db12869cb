//! A few requests that compute for long, in the same loop as all the others.

use crate::clock;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::nth::EveryNth;
use crate::defects::server::Server;
use std::time::Duration;

const NTH: u64 = 100;

pub(super) const DEFECT: Defect = Defect {
    name: "head-of-line",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(50)),
    about: "one request of 100 burns this much processor time in its worker's event loop",
    makes: "head-of-line: what comes behind such a request on its connection or worker waits for it; the median stays, the tail is this long",
    see: "curl -s -o /dev/null -w '%{time_total}\\n' 'http://127.0.0.1:PORT/?[1-300]': three of 300 take this long",
    make: |setting| Ok(Box::new(HeadOfLine { us: setting.number() / 1000, every: EveryNth::new(NTH) })),
};

#[derive(Debug)]
struct HeadOfLine {
    us: u64,
    every: EveryNth,
}

impl Hook for HeadOfLine {
    fn request(&self, _: &Request<'_>) {
        if self.every.is_due() {
            clock::burn_us(self.us);
        }
    }
}
