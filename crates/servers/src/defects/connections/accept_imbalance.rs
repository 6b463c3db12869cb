//! One of several workers is slow, and the kernel's hash goes on giving it its share of connections.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "accept-imbalance",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(20)),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests, Able::OwnListeners],
    about: "the first worker sleeps this long for each request; the others do not (--workers 2 or more)",
    makes: "accept-imbalance: SO_REUSEPORT gives each listener the same share, so one queue grows and overflows while the others are empty",
    see: "ss -ltn 'sport = :PORT': Recv-Q of one listener is high, of the others 0",
    make: |setting| Ok(Box::new(AcceptImbalance { setting })),
};

#[derive(Debug)]
struct AcceptImbalance {
    setting: Setting,
}

impl Hook for AcceptImbalance {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        self.setting.defect.with_workers(options)
    }

    fn request(&self, request: &Request<'_>) {
        if request.worker == 0 {
            std::thread::sleep(Duration::from_nanos(self.setting.number()));
        }
    }
}
