//! A bound on the connections that a server holds, as `maxclients` of redis or `max_connections` of PostgreSQL is one.
//!
//! Beyond it a connection is accepted and closed without a word; or it is left in the accept queue, where the kernel
//! completes it and nobody reads it, until one of the others closes.

use crate::defects::able::Able;
use crate::defects::defect::{Defect, Setting, Strength, Way};
use crate::defects::hook::{Hook, Taken};
use crate::defects::server::Server;
use crate::defects::shared::Shared;
use crate::error::ServeError;
use crate::reactor::Accepting;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const DEFECT: Defect = Defect {
    name: "connection-limit",
    servers: &[Server::Echo, Server::Http, Server::WebSocket, Server::Proxy, Server::Names],
    strength: Strength::Count(64),
    parts: &[],
    ways: &[Way::Close, Way::Wait],
    needs: &[Able::Connections, Able::Unbounded],
    about: "so many connections are served at a time, over all workers; one more is accepted and closed at once, or with wait stays in the accept queue until another closes",
    makes: "connection-limit: from that number on connections end before their first reply, or with wait never get one, while the processor is idle",
    see: "ss -tn state established 'sport = :PORT' | wc -l, with more connections than that; with wait: Recv-Q of ss -ltn 'sport = :PORT'",
    make: |setting| Ok(Box::new(ConnectionLimit::new(&setting)?)),
};

#[derive(Debug)]
struct ConnectionLimit {
    most: u64,
    way: Way,
    open: Arc<Shared<AtomicU64>>,
}

/// One connection that is counted.
struct Counted(Arc<Shared<AtomicU64>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionLimit {
    fn new(setting: &Setting) -> Result<Self, ServeError> {
        let open = Shared::new(AtomicU64::new(0)).map_err(|source| ServeError::Defect {
            defect: setting.defect.name,
            doing: "map its counter",
            source: source.into(),
        })?;
        Ok(Self { most: setting.number(), way: setting.way.unwrap_or(Way::Close), open: Arc::new(open) })
    }
}

impl Hook for ConnectionLimit {
    fn accepting(&self, accepting: &mut Accepting) {
        accepting.is_full |= self.way == Way::Wait && self.open.load(Ordering::Relaxed) >= self.most;
    }

    fn accepted(&self) -> Taken {
        // With `wait` several workers may each take the last place: none of theirs is closed for it.
        let most = if self.way == Way::Wait { u64::MAX } else { self.most };
        let counted =
            self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < most).then(|| open + 1));
        counted.map_or(Taken::TurnedAway, |_| Taken::Holding(Box::new(Counted(Arc::clone(&self.open)))))
    }
}
