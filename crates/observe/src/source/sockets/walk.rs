//! One walk through the kernel's table of connections, for all who read of it at a moment.
//!
//! The table has a bucket for each connection that a machine of this much memory may have, hundreds of thousands, and every request of
//! sock_diag(7) walks through all of them, however few are taken: 3 ms where there are 262,144. So where the machine has few
//! sockets, those at the target's ports and those it made itself are read in one.
//!
//! Of a load on the same machine the clients' ends are as many as the target's. Once it was seen that they are not the target's own,
//! the next few walks leave out those that go to its ports at a loopback address.

use super::sock_diag::{DumpError, Family};
use super::tcp_sockets::{Connection, all_but};
use crate::limits::{CONNECTIONS_MAX, WALKS_WITHOUT_CLIENTS};
use crate::source::clock;
use std::collections::BTreeSet;

/// What readers of connections share.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    last: Option<(i64, Option<u32>, Walk)>,
    /// Walks that may still leave out clients on the same machine.
    without_clients: u32,
}

impl Walks {
    /// Whether the next may leave out clients on the same machine.
    pub(crate) fn leaves_out_clients(&self) -> bool {
        self.without_clients > 0
    }

    /// The clients' ends on this machine are not the target's.
    pub(crate) fn leave_out_clients(&mut self) {
        self.without_clients = WALKS_WITHOUT_CLIENTS;
    }

    /// Keeps the walk of a reading, made in the namespace of a process.
    pub(crate) fn keep(&mut self, at_ns: i64, pid: Option<u32>, walk: Walk) {
        self.without_clients = self.without_clients.saturating_sub(u32::from(!walk.has_clients));
        self.last = Some((at_ns, pid, walk));
    }

    /// The walk of this reading, if one was made in that namespace. It is given away: what it found may be much.
    pub(crate) fn take(&mut self, at_ns: i64, pid: Option<u32>) -> Option<Walk> {
        self.last.take().filter(|(of_ns, of, _)| (*of_ns, *of) == (at_ns, pid)).map(|(_, _, walk)| walk)
    }
}

/// What one walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    found: Vec<Connection>,
    /// Those to the target's ports at a loopback address are among them.
    pub(crate) has_clients: bool,
    /// CPU time of the walk, nanoseconds.
    pub(crate) cost_ns: i64,
}

impl Walk {
    /// Walks through IPv4's, and IPv6's where there are such. `None`: they are more than one walk may bring.
    pub(crate) fn through(ports: &[u16], has_ipv6: bool, has_clients: bool) -> Result<Option<Self>, DumpError> {
        Self::within(CONNECTIONS_MAX, ports, has_ipv6, has_clients)
    }

    fn within(at_most: usize, ports: &[u16], has_ipv6: bool, has_clients: bool) -> Result<Option<Self>, DumpError> {
        let began_ns = clock::thread_cpu_ns();
        let to_loopback = if has_clients { &[] } else { ports };
        let of = |families: &[Option<Family>]| {
            let mut found = Vec::new();
            for family in families {
                if !all_but(*family, to_loopback, at_most.saturating_sub(found.len()), &mut found)? {
                    return Ok(None);
                }
            }
            Ok(Some(found))
        };
        let found = match has_ipv6 {
            false => of(&[Some(Family::V4)]),
            true => match of(&[None]) {
                // A kernel or a sandbox that does not know the older request.
                Err(DumpError::Refused(_)) => of(&[Some(Family::V4), Some(Family::V6)]),
                found => found,
            },
        }?;
        let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
        Ok(found.map(|found| Walk { found, has_clients, cost_ns }))
    }

    /// Those at some ports, of IPv6 or not; `tcp_info` of established ones only.
    pub(crate) fn at(&self, ports: &BTreeSet<(u16, bool)>) -> Vec<Connection> {
        let is_at = |connection: &&Connection| ports.contains(&(connection.port, connection.is_ipv6));
        let with_info = |connection: &Connection| Connection {
            info: connection.info.filter(|_| connection.is_established()),
            ..*connection
        };
        self.found.iter().filter(is_at).map(with_info).collect()
    }

    /// Those at none of some ports, but what comes to be accepted.
    pub(crate) fn at_other_ports(self, ports: &[u16]) -> Vec<Connection> {
        let is_other = |connection: &Connection| !connection.is_coming() && !ports.contains(&connection.port);
        self.found.into_iter().filter(is_other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn one_walk_has_both_ends_and_leaves_out_clients_on_this_machine_where_it_may() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(at).unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let own = client.local_addr().unwrap().port();
            let server = listener.accept().unwrap().0;
            let ports: BTreeSet<_> = [(address.port(), address.is_ipv6())].into();
            let walk = |has_clients| Walk::through(&[address.port()], true, has_clients).unwrap().unwrap();
            for has_clients in [true, false] {
                let walk = walk(has_clients);
                let served = walk.at(&ports);
                assert_eq!(served.iter().map(|c| c.remote.port()).collect::<Vec<_>>(), [own], "{at}");
                assert!(served[0].info.is_some() && served[0].is_established());
                assert!(walk.at(&[(address.port(), !address.is_ipv6())].into()).is_empty());
                let others = walk.at_other_ports(&[address.port()]);
                assert!(others.iter().all(|c| c.port != address.port()));
                assert_eq!(others.iter().filter(|c| c.port == own).count(), usize::from(has_clients), "{at}");
            }
            assert!(Walk::within(1, &[address.port()], true, true).unwrap().is_none(), "both ends are more than one");
            // Closed here and not there: it has no `tcp_info` that counts.
            drop(client);
            testkit::wait_until("an end that waits to be closed", || {
                walk(true).at(&ports).iter().any(|c| c.state == 8 && c.info.is_none())
            });
            drop(server);
        }
    }

    #[test]
    fn a_walk_is_of_its_reading_and_its_namespace_and_only_few_leave_out_clients() {
        let mut walks = Walks::default();
        let of = |has_clients| Walk { has_clients, ..Walk::default() };
        walks.keep(5, Some(1), of(true));
        assert!(walks.take(5, Some(2)).is_none() && walks.take(5, Some(1)).is_none(), "it is gone");
        walks.keep(5, Some(1), of(true));
        assert!(walks.take(6, Some(1)).is_none());
        walks.keep(7, None, of(true));
        assert!(walks.take(7, None).is_some() && !walks.leaves_out_clients());
        walks.leave_out_clients();
        for n in 0..WALKS_WITHOUT_CLIENTS {
            assert!(walks.leaves_out_clients(), "{n}");
            walks.keep(8, None, of(false));
        }
        assert!(!walks.leaves_out_clients());
    }
}
