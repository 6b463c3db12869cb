//! A short accept queue, and a server that is slow to take connections from it.
//!
//! Between two connections the worker leaves its listeners alone; it serves the connections it has as ever.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Part, Setting, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Accepting;
use std::time::Duration;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-accept",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(50)),
    parts: &[Part { name: "queue", default: Strength::Count(8) }],
    ways: &[],
    needs: &[Able::Listeners],
    about: "each worker accepts one connection in this time, from a queue of so many (queue=8)",
    makes: "accept-queue-overflow: ListenOverflows and ListenDrops rise together, connects take 1, 3 or 7 s as SYNs are sent again",
    see: "ss -ltn 'sport = :PORT': Recv-Q 9 of Send-Q 8; nstat -az TcpExtListenOverflows TcpExtListenDrops",
    make: |setting| {
        Ok(Box::new(SlowAccept { queue: u32::try_from(setting.part("queue")).unwrap_or(u32::MAX), setting }))
    },
};

#[derive(Debug)]
struct SlowAccept {
    setting: Setting,
    /// Length of the accept queue. The kernel lets one more in.
    queue: u32,
}

impl Hook for SlowAccept {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        if self.setting.from.is_zero() {
            options.backlog = self.queue;
        }
        Ok(())
    }

    fn accepting(&self, accepting: &mut Accepting) {
        accepting.backlog = Some(i32::try_from(self.queue).unwrap_or(i32::MAX));
        accepting.pause_ns = self.setting.number();
    }
}
