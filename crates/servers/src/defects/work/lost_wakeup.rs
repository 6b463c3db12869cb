//! One receive an edge, of a limited size: what it leaves in the socket waits for an edge that does not come.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Strength};
use crate::defects::hook::{Hook, Manner};
use crate::defects::server::Server;
use crate::error::ServeError;
use crate::options::ServeOptions;

pub(super) const DEFECT: Defect = Defect {
    name: "lost-wakeup",
    servers: &[Server::Echo, Server::Http],
    strength: Strength::Bytes(64),
    parts: &[],
    ways: &[],
    needs: &[Able::Edges],
    about: "a worker receives once for each event, so much at most, and waits for the next (not with --tls)",
    makes: "lost-wakeup: of a larger request the rest stays in the socket while its worker sleeps in epoll_wait; no reply comes",
    see: "ss -tn 'sport = :PORT': Recv-Q of a connection above 0 and still; strace -f -p PID: epoll_wait, and nothing else",
    make: |setting| Ok(Box::new(LostWakeup { defect: setting.defect, bytes: setting.bytes() })),
};

#[derive(Debug)]
struct LostWakeup {
    defect: &'static Defect,
    bytes: usize,
}

impl Hook for LostWakeup {
    fn change(&self, options: &mut ServeOptions) -> Result<(), ServeError> {
        self.defect.without_tls(options)
    }

    fn manner(&self, manner: &mut Manner) {
        manner.receive_once = Some(self.bytes);
    }
}
