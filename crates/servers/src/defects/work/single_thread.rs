//! One thread does all the work, however many processors there are.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength, Way};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::defects::work::held::Held;
use crate::error::ServeError;
use crate::options::ServeOptions;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "single-thread",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy],
    strength: Strength::Time(Duration::from_micros(200)),
    parts: &[],
    ways: &[Way::Compute, Way::Sleep],
    needs: &[Able::Requests, Able::Workers],
    about: "there is one worker whatever --workers says, and each request computes this long in it, or sleeps (no @START)",
    makes: "single-thread-bound: one thread uses a whole core (with sleep it is never idle all the same) while the others are idle, and throughput stops at 1 / time",
    see: "top -b -n 2 -d 1 -H -p PID under load: one thread at 100 %CPU, and no second worker",
    make: |setting| {
        setting.only_from_the_start()?;
        Ok(Box::new(SingleThread { held: Held::of(&setting) }))
    },
};

#[derive(Debug)]
struct SingleThread {
    held: Held,
}

impl Hook for SingleThread {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        options.workers = options.workers.min(1);
        Ok(())
    }

    fn request(&self, _: &Request<'_>) {
        self.held.hold();
    }
}
