//! Where sessions are remembered: by each worker for itself, a bounded number of them.
//!
//! Without resumption the key exchange group a server chose is still remembered, as every client does: otherwise each
//! handshake with a server that lacks our first group would take a round trip more.

use rustls::NamedGroup;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Sessions a worker remembers for each server: rustls keeps eight tickets of a server at the most.
pub(super) const SESSIONS_EACH: usize = 8;

/// Remembers groups and forgets sessions.
#[derive(Debug)]
pub(super) struct GroupsOnly(ClientSessionMemoryCache);

impl GroupsOnly {
    pub fn new(servers: usize) -> Self {
        GroupsOnly(ClientSessionMemoryCache::new(servers * SESSIONS_EACH))
    }
}

impl ClientSessionStore for GroupsOnly {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        // It is nearly always the same; looking is cheaper than writing.
        if self.0.kx_hint(&server) != Some(group) {
            self.0.set_kx_hint(server, group);
        }
    }
    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(server)
    }
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}
    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }
    fn remove_tls12_session(&self, _: &ServerName<'static>) {}
    fn insert_tls13_ticket(&self, _: ServerName<'static>, _: Tls13ClientSessionValue) {}
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}
