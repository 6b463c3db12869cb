//! What is known of a request when it ends, for those that are kept.

use super::OriginState;
use super::connection::{Connection, InFlight};
use crate::driver::{Driver, Slot};
use crate::ledger::picking::Witness;
use model::Request;
use wire::Protocol;

/// A request that ends, beside all connections of its worker.
pub(super) struct Seen<'a, P: Protocol, D> {
    driver: &'a D,
    protocol: &'a P,
    connections: &'a [Connection<P::Connection, P::Request>],
    origins: &'a [OriginState],
    slot: Slot,
    request: &'a InFlight<P::Request>,
    outcome: u16,
}

impl<'a, P: Protocol, D: Driver> Seen<'a, P, D> {
    /// A request of a connection, and the outcome that its reply stated; 0: none.
    #[inline]
    pub fn of(
        driver: &'a D,
        protocol: &'a P,
        connections: &'a [Connection<P::Connection, P::Request>],
        origins: &'a [OriginState],
        slot: Slot,
        request: &'a InFlight<P::Request>,
        outcome: u16,
    ) -> Self {
        Seen { driver, protocol, connections, origins, slot, request, outcome }
    }
}

impl<P: Protocol, D: Driver> Witness for Seen<'_, P, D> {
    fn particulars(&self) -> Request {
        let connection = &self.connections[self.slot as usize];
        let addresses = self.origins.get(usize::from(connection.origin)).map_or(1, |origin| origin.addresses.1.max(1));
        Request {
            connect_ns: connection.connect_ns,
            local: connection.local(|| self.driver.local(self.slot)),
            before_ns: (self.request.number > 0 && connection.before_ns > 0).then_some(connection.before_ns),
            connection: self.slot,
            life: connection.life,
            ordinal: self.request.number.saturating_add(1),
            origin: connection.origin,
            address: (connection.address_turn % addresses) as u16,
            entry: self.protocol.entry(self.request.request),
            sent_bytes: self.request.length,
            received_bytes: self.request.received,
            outcome: self.outcome,
            ..Request::default()
        }
    }

    #[inline]
    fn entry(&self) -> u16 {
        self.protocol.entry(self.request.request)
    }

    fn busy_connections(&self, _in_flight: u64) -> u64 {
        let others = self.connections.iter().enumerate().filter(|(slot, _)| *slot != self.slot as usize);
        1 + others.filter(|(_, connection)| !connection.outstanding.is_empty()).count() as u64
    }
}
