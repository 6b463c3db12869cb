//! Listeners in other network and mount namespaces of this host: containers, `ip netns`, sandboxes.
//!
//! Each distinct network namespace that a process of `/proc` is in is looked into once, at most [`NAMESPACES_MAX`] of
//! them: on a thread that enters it, else, where entering is refused, by the tables of `/proc/<pid>/net`. An address
//! counts only where the namespace owns it, so that of two servers on one port the right one is found; where several own
//! it, the one that the route leads into, over a link or a bridge. Not seen:
//! namespaces without a process, and another one's address reached through address translation.
//! Cost: one link read for each process of the host, and for each namespace a thread and two netlink requests; for a
//! run's start, and once a second while a target that ended is looked for.

use crate::limits::NAMESPACES_MAX;
use crate::source::namespace::in_network_of;
use crate::source::proc::words;
use crate::source::route;
use crate::source::sockets::sock_diag::{self, Listener};
use crate::target::{accepting, is_local, listeners_of_tables, unix_rows};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a look into the others came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Inodes of the sockets that were looked for.
    pub(crate) inodes: Vec<u64>,
    /// Namespaces that have them.
    pub(crate) namespaces: usize,
    /// Whether a namespace owns the address, though nobody may listen there.
    pub(crate) is_owned: bool,
    /// Some processes or namespaces could not be looked into, and this process has not all the rights to.
    pub(crate) lacks_rights: bool,
}

/// The listeners that accept connections to an address which is none of this network namespace's own.
pub(crate) fn accepting_elsewhere(address: SocketAddr) -> Look {
    let (pids, refused) = one_of_each(&["net"]);
    let mut look = Look::default();
    let mut refused = refused;
    let mut holders: Vec<(u32, Vec<u64>)> = Vec::new();
    for pid in pids {
        let Some((is_owned, listeners)) = inside(pid, address.ip()) else {
            refused += 1;
            continue;
        };
        if !is_owned {
            continue;
        }
        look.is_owned = true;
        let found = accepting(&listeners, address);
        if !found.is_empty() {
            holders.push((pid, found));
        }
    }
    if holders.len() > 1 {
        let pids: Vec<u32> = holders.iter().map(|(pid, _)| *pid).collect();
        let reached = route::leads_into(address.ip(), &pids);
        holders.retain(|(pid, _)| reached.is_none_or(|reached| *pid == reached));
    }
    look.lacks_rights = refused > 0 && !has_rights();
    look.namespaces = holders.len();
    look.inodes = holders.into_iter().flat_map(|(_, inodes)| inodes).collect();
    look
}

/// The listeners on a port in the first other network namespace that has one. Those that may not be entered are passed
/// over.
pub(crate) fn on_port(port: u16) -> Vec<Listener> {
    let (pids, _) = one_of_each(&["net"]);
    let of_port = |pid| {
        let Ok(Ok(mut listeners)) = in_network_of(Some(pid), sock_diag::listeners) else { return None };
        listeners.retain(|listener| listener.address.port() == port);
        Some(listeners).filter(|listeners| !listeners.is_empty())
    };
    pids.into_iter().find_map(of_port).unwrap_or_default()
}

/// The sockets that listen on a file, wherever and by whatever name they were bound: the file is the same where device
/// and inode are, also if another mount namespace knows it by another path.
pub(crate) fn of_file(path: &Path) -> Look {
    let Ok(file) = std::fs::metadata(path) else { return Look::default() };
    let (pids, refused) = one_of_each(&["net", "mnt"]);
    let mut look = Look { lacks_rights: refused > 0 && !has_rights(), ..Look::default() };
    for pid in pids {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let Ok(rows) = unix_rows(Path::new(&format!("/proc/{pid}/net/unix"))) else { continue };
        let is_it = |bound: &Path| {
            let there = bound.strip_prefix("/").ok().and_then(|bound| std::fs::metadata(root.join(bound)).ok());
            there.is_some_and(|there| (there.dev(), there.ino()) == (file.dev(), file.ino()))
        };
        let found: Vec<u64> = rows.into_iter().filter(|(bound, _)| is_it(bound)).map(|(_, inode)| inode).collect();
        look.namespaces += usize::from(!found.is_empty());
        look.inodes.extend(found);
    }
    look
}

/// A process of each distinct set of namespaces of these kinds but this process's own, and of how many processes they
/// may not be seen.
fn one_of_each(kinds: &[&str]) -> (Vec<u32>, usize) {
    let of = |pid: &str| -> std::io::Result<OsString> {
        let mut all = OsString::new();
        for kind in kinds {
            all.push(std::fs::read_link(format!("/proc/{pid}/ns/{kind}"))?);
        }
        Ok(all)
    };
    let mut seen = BTreeSet::from_iter(of("self"));
    let (mut pids, mut refused) = (Vec::new(), 0);
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((name, pid)) = name.to_str().and_then(|name| Some((name, name.parse::<u32>().ok()?))) else {
            continue;
        };
        match of(name) {
            Ok(namespaces) => {
                if pids.len() < NAMESPACES_MAX && seen.insert(namespaces) {
                    pids.push(pid);
                }
            }
            Err(error) => refused += usize::from(error.kind() == std::io::ErrorKind::PermissionDenied),
        }
    }
    (pids, refused)
}

/// Whether this process may look into others' namespaces. Some may be hidden from it all the same, by a user namespace.
fn has_rights() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Whether a process's network namespace owns an address, and its listeners; `None`: it cannot be looked into.
fn inside(pid: u32, ip: IpAddr) -> Option<(bool, Vec<Listener>)> {
    let entered = in_network_of(Some(pid), || {
        let is_owned = is_local(ip);
        (is_owned, if is_owned { sock_diag::listeners() } else { Ok(Vec::new()) })
    });
    if let Ok((is_owned, Ok(listeners))) = entered {
        return Some((is_owned, listeners));
    }
    let is_owned = owns_by_tables(pid, ip)?;
    let listeners = if is_owned { listeners_of_tables(&format!("/proc/{pid}/net")).ok()? } else { Vec::new() };
    Some((is_owned, listeners))
}

/// The same of the address by the tables that the process sees.
fn owns_by_tables(pid: u32, ip: IpAddr) -> Option<bool> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let table = std::fs::read_to_string(format!("/proc/{pid}/net/fib_trie")).ok()?;
            Some(is_local_in_trie(&table, ip))
        }
        IpAddr::V6(ip) => {
            let table = std::fs::read_to_string(format!("/proc/{pid}/net/if_inet6")).ok()?;
            let wanted = format!("{:032x}", u128::from(ip));
            Some(table.lines().any(|line| line.starts_with(&wanted)))
        }
    }
}

/// Below the leaf of an address (`|-- 10.0.0.2`) its routes follow; its own is `/32 host LOCAL`.
fn is_local_in_trie(table: &str, ip: std::net::Ipv4Addr) -> bool {
    let ip = ip.to_string();
    let mut is_leaf = false;
    for line in table.lines() {
        let mut columns = words(line.as_bytes());
        match columns.next() {
            Some(b"|--") => is_leaf = columns.next() == Some(ip.as_bytes()),
            Some(b"+--") => is_leaf = false,
            Some(b"/32") if is_leaf && columns.eq([&b"host"[..], b"LOCAL"]) => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_route_of_its_own_makes_an_address_local() {
        let table = "Main:\n  +-- 10.0.0.0/30 2 0 2\n     |-- 10.0.0.0\n        /30 link UNICAST\n     |-- 10.0.0.2\n        /32 host LOCAL\n     |-- 10.0.0.3\n        /32 link BROADCAST\n     |-- 10.0.0.9\n        /32 universe UNICAST\n  +-- 127.0.0.0/8 2 0 2\n        /32 host LOCAL\n";
        for (ip, is_local) in [("10.0.0.2", true), ("10.0.0.0", false), ("10.0.0.3", false), ("10.0.0.9", false)] {
            assert_eq!(is_local_in_trie(table, ip.parse().unwrap()), is_local, "{ip}");
        }
        assert!(!is_local_in_trie("", "10.0.0.2".parse().unwrap()));
    }

    #[test]
    fn the_tables_know_this_hosts_own_addresses() {
        let own = std::process::id();
        assert_eq!(owns_by_tables(own, "127.0.0.1".parse().unwrap()), Some(true));
        assert_eq!(owns_by_tables(own, "192.0.2.7".parse().unwrap()), Some(false));
        assert_eq!(owns_by_tables(4_194_304, "127.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn an_address_of_nobody_is_owned_nowhere() {
        let look = accepting_elsewhere("192.0.2.7:80".parse().unwrap());
        assert_eq!((look.inodes.len(), look.is_owned), (0, false));
    }
}
