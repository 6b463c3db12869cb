//! Source addresses: as asked, or on loopback as many as the number of connections needs.
//!
//! A connection is told apart by four numbers: source address, source port, target address, target port (RFC 9293
//! §3.3.1). The kernel gives a source port once for each triple of the others, so a target port carries as many
//! connections from a source address as there are local ports; more need another of either.

use crate::Choice;
use crate::host::Machine;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use model::Scenario;
use model::plan::{Address, Origin};
use std::net::{IpAddr, Ipv4Addr};

/// Share of the local ports that sources chosen by ourselves fill. The kernel gives a connect every other port first
/// (`__inet_hash_connect`, Linux 4.2 and later) and looks through all of those before it takes the rest: past a half a
/// connect costs milliseconds.
const PORTS_FILLED: f64 = 0.45;
/// First of the loopback addresses that are taken as sources where one is not enough.
const LOOPBACK_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// Addresses that connections come from.
pub(super) fn sources(
    scenario: &Scenario,
    origins: &[Origin],
    connections: u32,
    machine: &Machine,
    choices: &mut Vec<Choice>,
) -> Vec<IpAddr> {
    if !scenario.source.is_empty() {
        return scenario.source.clone();
    }
    let targets: Vec<&Address> = origins.iter().flat_map(|o| &o.addresses).collect();
    let is_loopback_v4 = |a: &&Address| matches!(a, Address::Tcp(a) if a.ip().is_loopback() && a.is_ipv4());
    let (true, Some((first, last))) = (targets.iter().all(is_loopback_v4), machine.local_ports) else {
        return Vec::new();
    };
    let each = f64::from(last - first + 1) * PORTS_FILLED * targets.len().max(1) as f64;
    let needed = (f64::from(connections) / each).ceil() as u32;
    if needed <= 1 {
        return Vec::new();
    }
    let first = u32::from(LOOPBACK_SOURCE);
    let sources: Vec<IpAddr> = (0..needed).map(|i| IpAddr::V4(Ipv4Addr::from(first + i))).collect();
    let why = format!("{connections} connections fill {:.0} % of the local ports of each", PORTS_FILLED * 100.0);
    let value = format!("{LOOPBACK_SOURCE} and {} more", needed - 1);
    choices.push(Choice::new("source addresses", value, &why));
    sources
}

/// A source that no target's family can use would silently never be bound.
pub(super) fn fit(sources: &[IpAddr], origins: &[Origin]) -> Result<(), ResolveError> {
    let addresses = || origins.iter().flat_map(|o| &o.addresses);
    let fits = |source: &IpAddr| addresses().any(|a| matches!(a, Address::Tcp(a) if a.is_ipv4() == source.is_ipv4()));
    match sources.iter().find(|source| !fits(source)) {
        None => Ok(()),
        Some(source) => {
            Err(ResolveError::bad_value(Field::Source, "an address of the same family as a target's", source))
        }
    }
}
