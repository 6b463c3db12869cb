//! Few connections to an origin: requests wait in the proxy until one of them is free, however idle the origin is.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength};
use crate::defects::hook::{Hook, Manner};
use crate::defects::server::Server;

pub(super) const DEFECT: Defect = Defect {
    name: "backend-limited",
    servers: &[Server::Proxy],
    strength: Strength::Count(4),
    parts: &[],
    ways: &[],
    needs: &[Able::Requests],
    about: "each worker has so many connections to an origin at most, and a request waits in it until one is free",
    makes: "backend-limited: connections to the origin stay at that number, requests wait in the proxy without processor time of anybody's, and the origin is fast when asked alone",
    see: "ss -tnp state established | grep pid=PID: as many connections whose local port is not PORT, whatever the load",
    make: |setting| Ok(Box::new(BackendLimited { setting })),
};

#[derive(Debug)]
struct BackendLimited {
    setting: Setting,
}

impl Hook for BackendLimited {
    fn manner(&self, manner: &mut Manner) {
        manner.outgoing_max = Some(usize::try_from(self.setting.number()).unwrap_or(usize::MAX));
    }
}
