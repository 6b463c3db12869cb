//! Finds the processes that listen where the load goes: the kernel's listening sockets, by their inode to the
//! descriptors of processes.
//!
//! All holders of a listening socket are returned, so a master and its workers are found together; but for an init process
//! that holds it for a service, as systemd does for socket activation (`served_by`). An address that is
//! none of this network namespace's is looked for in the others of this host (`elsewhere`). Not seen: a target on another
//! machine. Cost: one list of the host's listeners, by netlink or else from `/proc/net`, and one pass over the links in
//! `/proc/*/fd`, for a run's start.

mod holders;
mod tables;

pub(crate) use holders::sockets_of;
pub(crate) use tables::{listeners_of_tables, unix_rows};

use crate::namespaces::{self, Look};
use crate::source::sockets::sock_diag::{self, Listener};
use holders::holders;
use model::plan::Address;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// Why the target's processes are not known.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The address is none of this host's.
    #[error(
        "the target is on another machine: {address} is no address of this host, nor of a network namespace on \
         it that can be seen; to observe it, run `plimsoll watch --serve` there and give `load --observe-at` its address"
    )]
    Remote {
        /// Where the load goes.
        address: SocketAddr,
    },
    /// The address is none of this network namespace's, and not all of the others could be seen.
    #[error(
        "{address} is no address of this network namespace, and not all others of this host can be seen: run as root, or \
         give plimsoll CAP_SYS_ADMIN and CAP_SYS_PTRACE; if it is on another machine, run `plimsoll watch --serve` there \
         and give `load --observe-at` its address"
    )]
    Unseen {
        /// Where the load goes.
        address: SocketAddr,
    },
    /// Several namespaces have the address and a listener there.
    #[error(
        "{address} is an address of {namespaces} network namespaces of this host, with a listener in each: which of \
         them is reached is not known; observe it with `plimsoll watch --pid`"
    )]
    Ambiguous {
        /// Where the load goes.
        address: SocketAddr,
        /// How many.
        namespaces: usize,
    },
    /// Nothing listens there (yet).
    #[error("no process of this host listens on {address}")]
    NobodyListens {
        /// Where the load goes.
        address: Address,
    },
    /// Something listens, but its descriptors are not for us to see.
    #[error(
        "the process that listens on {address} cannot be seen: run as root or as its user, or give plimsoll CAP_SYS_PTRACE"
    )]
    NotPermitted {
        /// Where the load goes.
        address: Address,
    },
    /// Something listens, and all descriptors were seen: none is of that socket.
    #[error(
        "no process has the socket that listens on {address}: it is the kernel's own, as a module has, or that of a process \
         outside this PID namespace; what the kernel does for it is in the machine's CPU time alone"
    )]
    NoProcess {
        /// Where the load goes.
        address: Address,
    },
    /// The kernel's tables cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which table.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// There is no address to look for.
    #[error("the plan has no address")]
    NoAddress,
}

/// The ids of all processes that hold a listening socket of one of the addresses, ascending, as `served_by` has it.
///
/// # Errors
/// [`NotFound`] where an address is on another machine (the target would be seen in part only, which could be mistaken
/// for an idle one), or where no process is found for any of them.
pub fn find(addresses: &[Address]) -> Result<Vec<u32>, NotFound> {
    let mut inodes = BTreeSet::new();
    let mut why = NotFound::NoAddress;
    let mut listened = None;
    let mut listeners = None;
    for address in addresses {
        let found = match address {
            Address::Tcp(socket) if !is_local(socket.ip()) => in_another_namespace(*socket)?,
            Address::Tcp(socket) => {
                if listeners.is_none() {
                    listeners = Some(tcp_listeners()?);
                }
                accepting(listeners.as_deref().unwrap_or_default(), *socket)
            }
            Address::Unix(path) => Some(unix_inodes(path)?)
                .filter(|found| !found.is_empty())
                .unwrap_or_else(|| namespaces::of_file(path).inodes),
        };
        if found.is_empty() {
            why = NotFound::NobodyListens { address: address.clone() };
        } else {
            listened = Some(address.clone());
        }
        inodes.extend(found);
    }
    let Some(address) = listened else { return Err(why) };
    holders(&inodes, &address)
}

/// Whether there is a process of this id, also where `/proc` does not show it to this user (`hidepid` of proc(5)): the
/// kernel refuses to signal it, and does not say that it is not there.
pub fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The processes that listen on a port, ascending, and where: in this network namespace, else in the first other one
/// where somebody does.
///
/// # Errors
/// [`NotFound`] where nobody listens or the listeners cannot be seen.
pub fn find_port(port: u16) -> Result<(Vec<u32>, Vec<Address>), NotFound> {
    let any = Address::Tcp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    let mut listeners = tcp_listeners()?;
    listeners.retain(|listener| listener.address.port() == port);
    let is_here = !listeners.is_empty();
    if !is_here {
        listeners = namespaces::on_port(port);
    }
    let inodes: BTreeSet<u64> = listeners.iter().map(|listener| listener.inode).collect();
    if inodes.is_empty() {
        return Err(NotFound::NobodyListens { address: any });
    }
    let pids = holders(&inodes, &any)?;
    // Where this process is not, looking the addresses up again would find others' sockets.
    let addresses: BTreeSet<SocketAddr> = listeners.iter().filter(|_| is_here).map(|l| l.address).collect();
    Ok((pids, addresses.into_iter().map(Address::Tcp).collect()))
}

/// The listeners of an address that is none of this network namespace's.
fn in_another_namespace(address: SocketAddr) -> Result<Vec<u64>, NotFound> {
    match namespaces::accepting_elsewhere(address) {
        Look { namespaces: namespaces @ 2.., .. } => Err(NotFound::Ambiguous { address, namespaces }),
        Look { inodes, is_owned: true, .. } => Ok(inodes),
        Look { lacks_rights: false, .. } => Err(NotFound::Remote { address }),
        Look { .. } => Err(NotFound::Unseen { address }),
    }
}

/// Whether traffic to the address stays on this host.
///
/// The kernel routes what it owns to itself, and then an own address is its source: connecting a UDP socket asks for
/// the route without sending anything. Unlike binding it is not fooled by `net.ipv4.ip_nonlocal_bind`.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((ip, 9)).and_then(|()| socket.local_addr()))
        .is_ok_and(|own| own.ip() == ip)
}

/// Inodes of the sockets that accept connections to the address: those bound to it, else those bound to any address,
/// as the kernel would choose.
pub(crate) fn accepting(listeners: &[Listener], address: SocketAddr) -> Vec<u64> {
    let wanted = address.ip().to_canonical();
    let (mut exact, mut wildcard) = (Vec::new(), Vec::new());
    for listener in listeners.iter().filter(|listener| listener.address.port() == address.port()) {
        let bound = listener.address.ip().to_canonical();
        if bound == wanted || (wanted.is_unspecified() && bound.is_loopback()) {
            exact.push(listener.inode);
        } else if bound.is_unspecified() && (listener.address.is_ipv6() || wanted.is_ipv4()) {
            wildcard.push(listener.inode);
        }
    }
    if exact.is_empty() { wildcard } else { exact }
}

/// The listening TCP sockets of this host.
fn tcp_listeners() -> Result<Vec<Listener>, NotFound> {
    // Whatever is wrong with netlink (no such module, a sandbox's filter), the tables know the same at a higher price.
    sock_diag::listeners().or_else(|_| listeners_of_tables("/proc/net"))
}

/// Inodes of the stream sockets that listen on the path.
fn unix_inodes(path: &Path) -> Result<Vec<u64>, NotFound> {
    let wanted = std::fs::canonicalize(path).ok();
    let mut rows = unix_rows(Path::new("/proc/net/unix"))?;
    // A socket's row has the path as it was bound: the same file may have been named in another way.
    rows.retain(|(bound, _)| bound == path || (wanted.is_some() && std::fs::canonicalize(bound).ok() == wanted));
    Ok(rows.into_iter().map(|(_, inode)| inode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_knows_its_own_addresses() {
        assert!(is_local("127.0.0.1".parse().unwrap()));
        assert!(is_local("127.9.8.7".parse().unwrap()));
        assert!(is_local("::1".parse().unwrap()));
        assert!(is_local("::ffff:127.0.0.1".parse().unwrap()));
        assert!(is_local("0.0.0.0".parse().unwrap()));
        // TEST-NET-1 and the documentation prefix: nobody's (RFC 5737, RFC 3849).
        assert!(!is_local("192.0.2.7".parse().unwrap()));
        assert!(!is_local("2001:db8::7".parse().unwrap()));
    }

    #[test]
    fn netlink_and_the_tables_agree_about_our_own_listeners() {
        let bound = |address: &str| std::net::TcpListener::bind(address).ok();
        let own: Vec<_> =
            ["127.0.0.1:0", "127.9.8.7:0", "0.0.0.0:0", "[::1]:0", "[::]:0"].map(bound).into_iter().flatten().collect();
        assert!(own.len() >= 3, "IPv4 at least");
        // A connection's two ends and a socket that is only bound do not listen.
        let client = std::net::TcpStream::connect(own[0].local_addr().unwrap()).unwrap();
        let connection = rustix::fs::fstat(&client).unwrap().st_ino;
        let differ = |by_netlink: &[Listener], by_tables: &[Listener]| {
            own.iter().find_map(|socket| {
                let (address, inode) = (socket.local_addr().unwrap(), rustix::fs::fstat(socket).unwrap().st_ino);
                let same = |list: &[Listener]| -> Vec<_> {
                    list.iter().filter(|l| l.inode == inode).map(|l| l.address).collect()
                };
                let seen = [by_netlink, by_tables].map(|list| (same(list), accepting(list, address)));
                let is_right = seen[0] == seen[1] && seen[0].0 == [address] && seen[0].1.contains(&inode);
                (!is_right).then(|| format!("{address} {inode}: {seen:?}"))
            })
        };
        // The kernel writes neither list at one moment: where others begin and end to listen meanwhile, one may be missing or there
        // twice. Not so each time.
        let mut tries = 0;
        loop {
            let (by_netlink, by_tables) = match sock_diag::listeners() {
                Ok(listeners) => (listeners, listeners_of_tables("/proc/net").unwrap()),
                Err(why) => return testkit::skip(&why.to_string()),
            };
            assert!(by_netlink.iter().all(|l| l.inode != connection));
            tries += 1;
            match differ(&by_netlink, &by_tables) {
                None => break,
                Some(how) => assert!(tries < 5, "{how}"),
            }
        }
    }

    #[test]
    fn the_kernels_choice_among_listeners_is_ours() {
        let list: Vec<_> =
            ["127.0.0.1:80", "0.0.0.0:80", "[::]:80", "[::1]:80", "127.0.0.1:81", "[::]:82", "0.0.0.0:83"]
                .iter()
                .zip(1..)
                .map(|(address, inode)| Listener {
                    address: address.parse().unwrap(),
                    inode,
                    waiting: None,
                    backlog: None,
                    drops: None,
                })
                .collect();
        for (asked, inodes) in [
            ("127.0.0.1:80", &[1][..]),
            ("[::ffff:127.0.0.1]:80", &[1]),
            ("127.0.0.2:80", &[2, 3]),
            ("[::1]:80", &[4]),
            ("[::2]:80", &[3]),
            ("0.0.0.0:81", &[5]),
            ("127.0.0.2:81", &[]),
            ("127.0.0.1:82", &[6]),
            ("[::1]:83", &[]),
            ("127.0.0.1:84", &[]),
        ] {
            assert_eq!(accepting(&list, asked.parse().unwrap()), inodes, "{asked}");
        }
    }
}
