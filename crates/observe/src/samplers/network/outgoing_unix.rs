//! Connections that the target made itself to unix sockets of its machine, by path: PHP-FPM, an application behind a proxy, a
//! database. Read with those of TCP (`network/outgoing`), of which they are part.
//!
//! They are the stream sockets without a name whose other end has one, and which one of the target's processes holds, but not
//! as its standard output or error (a service's are connected to the journal). The kernel keeps no times of them, so a reply is known
//! to be due only where a connection is not accepted yet, and where bytes lie unread at the other end. Those that were not there at the last
//! reading are counted as new: where each request has one of its own, the other end has it, or the target itself meanwhile does something else. Of one
//! that stays and whose other end has read all, nothing is known.
//! Cost: one netlink request through all unix sockets, some hundred on most machines, and a link a descriptor of the target's where
//! connections are new. Other ends in another network namespace have no name here, and are left out.

use super::owned::Owned;
use crate::limits::{DESCRIPTORS_OFTEN_MAX, REMOTES_MAX};
use crate::source::namespace::in_network_of;
use crate::source::proc::SampleError;
use crate::source::sockets::unix_sockets::{UnixSocket, unix_sockets};
use model::metrics::Metrics;
use model::snapshot::Outgoing;
use std::collections::{BTreeMap, BTreeSet};

/// What such a path begins with where it stands beside addresses.
const SCHEME: &str = "unix:";

/// What is kept from reading to reading.
#[derive(Debug, Default)]
pub(super) struct UnixOutgoing {
    owned: Owned,
    /// Those of the target's that were there at the last reading; `None`: there was none.
    before: Option<BTreeSet<u64>>,
}

/// One reading.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// By path, those with most connections first.
    pub(super) outgoing: Vec<Outgoing>,
    /// The inodes of the sockets that listen there.
    pub(super) listening: BTreeSet<u64>,
    /// What was not read, and why.
    pub(super) left_out: Option<String>,
}

/// A connection that somebody made to a path.
#[derive(Debug, PartialEq, Eq)]
struct Made<'s> {
    inode: u64,
    path: &'s str,
    is_accepted: bool,
    unread_here: u32,
    unread_there: u32,
}

impl UnixOutgoing {
    pub(super) fn read(&mut self, pid: Option<u32>, pids: &[(u32, u64)]) -> Result<Read, SampleError> {
        let (sockets, is_whole) = match in_network_of(pid, unix_sockets)? {
            Ok(read) => read,
            Err(error) => {
                let left_out = Some(format!("connections to unix sockets: {error}"));
                return Ok(Read { left_out, ..Read::default() });
            }
        };
        let mut made = made(&sockets);
        let streams: BTreeSet<u64> = pids.iter().flat_map(|(pid, _)| standard_streams(*pid)).collect();
        made.retain(|one| !streams.contains(&one.inode));
        let inodes: BTreeSet<u64> = made.iter().map(|one| one.inode).collect();
        let is_cut = self.owned.look(pids, &inodes, true)?;
        made.retain(|one| self.owned.is_own(one.inode));
        let outgoing = by_path(&made, self.before.as_ref());
        self.before = Some(made.iter().map(|one| one.inode).collect());
        let paths: BTreeSet<&str> = made.iter().map(|one| one.path).collect();
        let at_path = |socket: &&UnixSocket| socket.name.as_deref().is_some_and(|name| paths.contains(name));
        let listening = sockets.iter().filter(|socket| socket.is_listening).filter(at_path).map(|s| s.inode).collect();
        let beyond = (!is_whole).then(|| "unix sockets beyond those that are looked at".to_owned());
        let cut = is_cut.then(|| format!("owners of unix sockets beyond {DESCRIPTORS_OFTEN_MAX} descriptors"));
        Ok(Read { outgoing, listening, left_out: beyond.or(cut) })
    }
}

/// Standard output and error of a process, where they are sockets.
fn standard_streams(pid: u32) -> impl Iterator<Item = u64> {
    [1, 2].into_iter().filter_map(move |descriptor| {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// The connections to sockets with a name, from whomever.
fn made(sockets: &[UnixSocket]) -> Vec<Made<'_>> {
    let named: BTreeMap<u64, &UnixSocket> =
        sockets.iter().filter(|socket| socket.inode != 0 && socket.name.is_some()).map(|s| (s.inode, s)).collect();
    let mut made = Vec::new();
    for socket in sockets {
        match &socket.name {
            Some(path) if socket.is_listening => {
                made.extend(socket.pending.iter().map(|inode| Made {
                    inode: *inode,
                    path,
                    is_accepted: false,
                    unread_here: 0,
                    unread_there: 0,
                }));
            }
            None if socket.inode != 0 => {
                let Some(there) = socket.peer.and_then(|peer| named.get(&peer)) else { continue };
                made.push(Made {
                    inode: socket.inode,
                    path: there.name.as_deref().unwrap_or_default(),
                    is_accepted: true,
                    unread_here: socket.unread_bytes,
                    unread_there: there.unread_bytes,
                });
            }
            _ => {}
        }
    }
    made
}

/// Those to one path together.
fn by_path(made: &[Made<'_>], before: Option<&BTreeSet<u64>>) -> Vec<Outgoing> {
    let mut paths: BTreeMap<&str, Vec<&Made<'_>>> = BTreeMap::new();
    for one in made {
        paths.entry(one.path).or_default().push(one);
    }
    let mut all: Vec<(&str, Vec<&Made<'_>>)> = paths.into_iter().collect();
    all.sort_by_key(|(path, connections)| (std::cmp::Reverse(connections.len()), *path));
    all.truncate(REMOTES_MAX);
    let of_path = |(path, connections): (&str, Vec<&Made<'_>>)| {
        let mut metrics = Metrics::default();
        let accepted = connections.iter().filter(|one| one.is_accepted).count();
        metrics.set("established", accepted as u64);
        metrics.set("connecting", (connections.len() - accepted) as u64);
        let sum = |of: fn(&Made<'_>) -> u32| -> u64 { connections.iter().map(|one| u64::from(of(one))).sum() };
        metrics.set("receive_queue_bytes", sum(|one| one.unread_here));
        metrics.set("send_queue_bytes", sum(|one| one.unread_there));
        let is_due = |one: &&&Made<'_>| !one.is_accepted || one.unread_there > 0;
        metrics.set("awaiting", connections.iter().filter(is_due).count() as u64);
        let new = before.map(|before| connections.iter().filter(|one| !before.contains(&one.inode)).count() as u64);
        metrics.set_if("new", new);
        Outgoing { remote: format!("{SCHEME}{path}"), metrics }
    };
    all.into_iter().map(of_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(inode: u64, path: &str, peer: u64, unread_bytes: u32) -> UnixSocket {
        UnixSocket { inode, name: Some(path.to_owned()), peer: Some(peer), unread_bytes, ..UnixSocket::default() }
    }

    fn from(inode: u64, peer: u64) -> UnixSocket {
        UnixSocket { inode, peer: Some(peer), ..UnixSocket::default() }
    }

    #[test]
    fn a_reply_is_due_on_what_is_not_accepted_or_not_read_there_and_what_is_new_is_counted() {
        let listener = UnixSocket { is_listening: true, pending: vec![9], ..named(1, "/run/app", 0, 0) };
        let sockets = [
            listener,
            named(11, "/run/app", 10, 0),
            from(10, 11),
            named(21, "/run/app", 20, 300),
            from(20, 21),
            named(31, "@other", 30, 0),
            from(30, 31),
            // Two ends without a name are a process' own affair.
            from(40, 41),
            from(41, 40),
        ];
        let made = made(&sockets);
        let of = |before: Option<&[u64]>| {
            let before = before.map(|inodes| inodes.iter().copied().collect());
            let outgoing = by_path(&made, before.as_ref());
            assert_eq!(outgoing.iter().map(|o| &*o.remote).collect::<Vec<_>>(), ["unix:/run/app", "unix:@other"]);
            let of = |name: &str| outgoing[0].metrics.of(name).unwrap();
            assert_eq!((of("established"), of("connecting"), of("send_queue_bytes")), (2, 1, 300));
            let other = outgoing[1].metrics.of("awaiting");
            ([of("awaiting"), other.unwrap()], [outgoing[0].metrics.of("new"), outgoing[1].metrics.of("new")])
        };
        assert_eq!(of(None), ([2, 0], [None, None]), "at the first reading it is not known what is new");
        assert_eq!(of(Some(&[10, 20, 30])), ([2, 0], [Some(1), Some(0)]));
        assert_eq!(of(Some(&[20])), ([2, 0], [Some(2), Some(1)]), "10 and 30 were made since");
    }
}
