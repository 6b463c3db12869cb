//! One thread does all the work, however many processors there are.

use crate::clock;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Request};
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "single-thread",
    servers: &[Server::Echo, Server::Http, Server::WebSocket],
    strength: Strength::Time(Duration::from_micros(200)),
    about: "there is one worker whatever --workers says, and each request burns this much processor time in it (no @START)",
    makes: "single-thread-bound: one thread uses a whole core while the others are idle, and throughput stops at 1 / time",
    see: "top -b -n 2 -d 1 -H -p PID under load: one thread at 100 %CPU, and no second worker",
    make: |setting| {
        setting.only_from_the_start()?;
        Ok(Box::new(SingleThread { us: setting.number() / 1000 }))
    },
};

#[derive(Debug)]
struct SingleThread {
    us: u64,
}

impl Hook for SingleThread {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        options.workers = options.workers.min(1);
        Ok(())
    }

    fn request(&self, _: &Request<'_>) {
        clock::burn_us(self.us);
    }
}
