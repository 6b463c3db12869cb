//! A short accept queue, and a server that is slow to take connections from it.
//!
//! Between two connections the worker leaves its listeners alone; it serves the connections it has as ever.

use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::Hook;
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::reactor::Accepting;
use std::time::Duration;

/// Length of the accept queue. The kernel lets one more in.
const BACKLOG: u8 = 8;

pub(super) const DEFECT: Defect = Defect {
    name: "slow-accept",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Time(Duration::from_millis(50)),
    about: "each worker accepts one connection in this time, from a queue of 8",
    makes: "accept-queue-overflow: ListenOverflows and ListenDrops rise together, connects take 1, 3 or 7 s as SYNs are sent again",
    see: "ss -ltn 'sport = :PORT': Recv-Q 9 of Send-Q 8; nstat -az TcpExtListenOverflows TcpExtListenDrops",
    make: |setting| Ok(Box::new(SlowAccept { setting })),
};

#[derive(Debug)]
struct SlowAccept {
    setting: Setting,
}

impl Hook for SlowAccept {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        if self.setting.from.is_zero() {
            options.backlog = BACKLOG.into();
        }
        Ok(())
    }

    fn accepting(&self, accepting: &mut Accepting) {
        accepting.backlog = Some(BACKLOG.into());
        accepting.pause_ns = self.setting.number();
    }
}
