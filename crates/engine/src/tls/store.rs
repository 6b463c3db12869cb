//! Where sessions are remembered: by each worker for itself, a bounded number of them.
//!
//! rustls' own memory keeps eight TLS 1.3 tickets of a server, each good for one connection (RFC 8446 §C.4). A worker
//! whose connections come and go together needs as many as it has connections, or most of its handshakes would be full
//! ones though all were to be resumed. Key exchange groups and TLS 1.2 sessions, one for each server, stay with rustls.
//!
//! Without resumption the group a server chose is still remembered, as every client does: otherwise each handshake with
//! a server that lacks our first group would take a round trip more.

use rustls::NamedGroup;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of rustls' memory that stand for one server.
const ENTRIES_EACH: usize = 8;
/// Tickets kept for all servers together at the most: some 2 KiB each.
const TICKETS_MAX: usize = 4096;

/// The tickets of each server, the youngest last.
type Tickets = HashMap<ServerName<'static>, VecDeque<Tls13ClientSessionValue>>;

/// One worker's memory.
#[derive(Debug)]
pub(super) struct Sessions {
    others: ClientSessionMemoryCache,
    tickets: Mutex<Tickets>,
    /// Tickets kept for each server; 0: nothing is resumed.
    tickets_each: usize,
}

impl Sessions {
    /// For so many servers and connections; without `resume` it remembers groups alone.
    pub fn new(servers: usize, connections: usize, resume: bool) -> Self {
        let wanted = (2 * connections).max(ENTRIES_EACH);
        Sessions {
            others: ClientSessionMemoryCache::new(servers * ENTRIES_EACH),
            tickets: Mutex::new(HashMap::with_capacity(servers)),
            tickets_each: if resume { wanted.min(TICKETS_MAX / servers.max(1)).max(1) } else { 0 },
        }
    }

    /// Nobody else waits for it, for a worker is one thread; a panic while it was held leaves a list that is one.
    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        // It is nearly always the same; looking is cheaper than writing.
        if self.others.kx_hint(&server) != Some(group) {
            self.others.set_kx_hint(server, group);
        }
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.others.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        if self.tickets_each > 0 {
            self.others.set_tls12_session(server, session);
        }
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.others.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.others.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        if self.tickets_each == 0 {
            return;
        }
        let mut tickets = self.tickets();
        let of_server = tickets.entry(server).or_default();
        if of_server.len() >= self.tickets_each {
            of_server.pop_front();
        }
        of_server.push_back(ticket);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tickets().get_mut(server)?.pop_back()
    }
}
