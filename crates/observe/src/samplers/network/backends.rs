//! Which of the neighbours the target's own connections go to.
//!
//! A process of this machine that holds a socket which listens where the target has connections to, in the same network namespace,
//! works for the target: what it uses is no stranger's. Told of loopback addresses, and of others where the socket is bound to that
//! very address: one that is bound to all of them may be any machine's; and of unix sockets by their path. A backend in another namespace or
//! of another user (without CAP_SYS_PTRACE) is not told from others.
//! Cost: the list of listeners, and a link a descriptor of at most 24 processes, where a remote address or a neighbour is new.

use crate::limits::DESCRIPTORS_OFTEN_MAX;
use crate::source::namespace::in_network_of;
use crate::source::proc::SampleError;
use crate::source::sockets::sock_diag;
use crate::target::sockets_of;
use model::Snapshot;
use model::snapshot::Neighbour;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The addresses, the listening unix sockets by inode, and the neighbours by id and start, for which it is known.
type Known = (BTreeSet<SocketAddr>, BTreeSet<u64>, BTreeSet<(u32, u64)>);

/// The neighbours that were found to work for the target.
#[derive(Debug, Default)]
pub(super) struct Backends {
    of: Known,
    found: BTreeSet<(u32, u64)>,
}

impl Backends {
    /// Marks those among a snapshot's neighbours that listen at one of these addresses, in the network namespace of a process, or hold
    /// one of these unix sockets.
    pub(super) fn mark(
        &mut self,
        pid: Option<u32>,
        remotes: BTreeSet<SocketAddr>,
        listening: BTreeSet<u64>,
        snapshot: &mut Snapshot,
    ) -> Result<(), SampleError> {
        if remotes.is_empty() && listening.is_empty() && self.found.is_empty() {
            return Ok(());
        }
        let lists = [&mut snapshot.neighbours, &mut snapshot.disk_neighbours, &mut snapshot.memory_neighbours];
        let others: BTreeSet<(u32, u64)> = lists.iter().flat_map(|list| list.iter()).map(id).collect();
        let of = (remotes, listening, others);
        if of != self.of {
            self.look(pid, &of)?;
            self.of = of;
        }
        for neighbour in lists.into_iter().flatten() {
            neighbour.is_backend = self.found.contains(&id(neighbour));
        }
        Ok(())
    }

    fn look(&mut self, pid: Option<u32>, (remotes, listening, others): &Known) -> Result<(), SampleError> {
        let listeners = in_network_of(pid, sock_diag::listeners)?
            .map_err(|error| SampleError::Refused { reason: error.to_string() })?;
        let is_asked = |at: SocketAddr| remotes.iter().any(|remote| serves(at, *remote));
        let of_addresses =
            listeners.iter().filter(|listener| is_asked(listener.address)).map(|listener| listener.inode);
        let asked: BTreeSet<u64> = of_addresses.chain(listening.iter().copied()).collect();
        // Once told it is known: a backend that is restarted is another process.
        let is_new = |other: &&(u32, u64)| !self.found.contains(other);
        let of_new = if asked.is_empty() { Vec::new() } else { others.iter().filter(is_new).collect() };
        for (pid, start_ticks) in of_new {
            // Who may not be looked into, or has just ended, is not told.
            let owned = sockets_of(std::iter::once(*pid), &asked, DESCRIPTORS_OFTEN_MAX);
            if owned.is_ok_and(|owned| !owned.owners.is_empty()) {
                self.found.insert((*pid, *start_ticks));
            }
        }
        self.found.retain(|known| others.contains(known));
        Ok(())
    }
}

fn id(neighbour: &Neighbour) -> (u32, u64) {
    (neighbour.pid, neighbour.start_ticks)
}

/// Whether a socket that listens at an address is where connections to another go.
fn serves(at: SocketAddr, remote: SocketAddr) -> bool {
    let (at_ip, remote_ip) = (at.ip().to_canonical(), remote.ip().to_canonical());
    at.port() == remote.port() && (at_ip == remote_ip || (at_ip.is_unspecified() && remote_ip.is_loopback()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_socket_serves_its_own_address_and_one_of_all_addresses_the_loopback_too() {
        let serves = |at: &str, remote: &str| super::serves(at.parse().unwrap(), remote.parse().unwrap());
        assert!(serves("127.0.0.1:80", "127.0.0.1:80") && serves("10.0.0.7:80", "10.0.0.7:80"));
        assert!(serves("0.0.0.0:80", "127.0.0.1:80") && serves("[::]:80", "127.0.0.1:80"));
        assert!(serves("[::ffff:127.0.0.1]:80", "127.0.0.1:80") && serves("[::]:80", "[::1]:80"));
        assert!(!serves("127.0.0.1:80", "127.0.0.1:81") && !serves("127.0.0.2:80", "127.0.0.1:80"));
        assert!(!serves("0.0.0.0:5432", "10.0.0.7:5432"), "that may be another machine's");
    }
}
