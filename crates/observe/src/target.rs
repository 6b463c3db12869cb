//! Finds the processes that listen where the load goes: listening sockets of `/proc/net`, by their inode to the
//! descriptors of processes.
//!
//! All holders of a listening socket are returned, so a master and its workers are found together. Not seen: a target
//! on another machine, or in another network namespace behind an address of its own. Cost: one pass over the links in
//! `/proc/*/fd`, for a run's start.

use crate::source::proc::{number, words};
use model::plan::Address;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// Why the target's processes are not known.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The address is none of this host's.
    #[error(
        "the target is on another machine, or in a network namespace of its own: {address} is no address of this host"
    )]
    Remote {
        /// Where the load goes.
        address: SocketAddr,
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

/// The ids of all processes that hold a listening socket of one of the addresses, ascending.
///
/// # Errors
/// [`NotFound`] where an address is on another machine (the target would be seen in part only, which could be mistaken
/// for an idle one), or where no process is found for any of them.
pub fn find(addresses: &[Address]) -> Result<Vec<u32>, NotFound> {
    let mut inodes = BTreeSet::new();
    let mut why = NotFound::NoAddress;
    let mut listened = None;
    for address in addresses {
        let found = match address {
            Address::Tcp(socket) if !is_local(socket.ip()) => return Err(NotFound::Remote { address: *socket }),
            Address::Tcp(socket) => tcp_inodes(*socket)?,
            Address::Unix(path) => unix_inodes(path)?,
        };
        if found.is_empty() {
            why = NotFound::NobodyListens { address: address.clone() };
        } else {
            listened = Some(address.clone());
        }
        inodes.extend(found);
    }
    let Some(address) = listened else { return Err(why) };
    let pids = holders(&inodes)?;
    if pids.is_empty() { Err(NotFound::NotPermitted { address }) } else { Ok(pids) }
}

/// Whether traffic to the address stays on this host.
///
/// The kernel routes what it owns to itself, and then an own address is its source: connecting a UDP socket asks for
/// the route without sending anything. Unlike binding it is not fooled by `net.ipv4.ip_nonlocal_bind`.
fn is_local(ip: IpAddr) -> bool {
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
fn tcp_inodes(address: SocketAddr) -> Result<Vec<u64>, NotFound> {
    let wanted = address.ip().to_canonical();
    let (mut exact, mut wildcard) = (Vec::new(), Vec::new());
    for (path, is_v6) in [("/proc/net/tcp", false), ("/proc/net/tcp6", true)] {
        // Without IPv6 in the kernel its table is missing, and so are its sockets.
        if is_v6 && !Path::new(path).exists() {
            continue;
        }
        each_listener(path, |listener| {
            if listener.address.port() != address.port() {
                return;
            }
            let bound = listener.address.ip().to_canonical();
            if bound == wanted || (wanted.is_unspecified() && bound.is_loopback()) {
                exact.push(listener.inode);
            } else if bound.is_unspecified() && (is_v6 || wanted.is_ipv4()) {
                wildcard.push(listener.inode);
            }
        })?;
    }
    Ok(if exact.is_empty() { wildcard } else { exact })
}

#[derive(Debug, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: u64,
}

/// Calls for each listening socket of a table. They come before all others (Documentation/networking/proc_net_tcp.rst),
/// so a million connections are not read through.
fn each_listener(path: &str, mut found: impl FnMut(Listener)) -> Result<(), NotFound> {
    let unreadable = |source| NotFound::Unreadable { path: PathBuf::from(path), source };
    let table = BufReader::new(File::open(path).map_err(unreadable)?);
    for line in table.split(b'\n').skip(1) {
        match listener(&line.map_err(unreadable)?) {
            Some(listener) => found(listener),
            None => break,
        }
    }
    Ok(())
}

/// One row; `None` when its socket does not listen (state 0A).
fn listener(row: &[u8]) -> Option<Listener> {
    let mut columns = words(row).skip(1);
    let local = columns.next()?;
    if columns.nth(1)? != b"0A" {
        return None;
    }
    // After the state: queues, timer, retransmits, uid, timeout, inode.
    let inode = number(columns.nth(5)?)?;
    Some(Listener { address: socket_address(std::str::from_utf8(local).ok()?)?, inode })
}

/// `0100007F:1FA2`: the address as 32-bit words in the machine's byte order, the port as a number, both in hex.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |i: usize| {
        let word = u32::from_str_radix(address.get(8 * i..8 * i + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(i)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Inodes of the stream sockets that listen on the path.
fn unix_inodes(path: &Path) -> Result<Vec<u64>, NotFound> {
    let table_path = "/proc/net/unix";
    let unreadable = |source| NotFound::Unreadable { path: PathBuf::from(table_path), source };
    let wanted = std::fs::canonicalize(path).ok();
    let mut inodes = Vec::new();
    for row in BufReader::new(File::open(table_path).map_err(unreadable)?).split(b'\n').skip(1) {
        let row = row.map_err(unreadable)?;
        let Some((bound, inode)) = unix_listener(&row) else { continue };
        // A socket's row has the path as it was bound: the same file may have been named in another way.
        let is_same = bound == path || (wanted.is_some() && std::fs::canonicalize(&bound).ok() == wanted);
        if is_same {
            inodes.push(inode);
        }
    }
    Ok(inodes)
}

/// `Num RefCount Protocol Flags Type St Inode Path`: path and inode of a socket that accepts connections
/// (flag `__SO_ACCEPTCON`, 0x10000).
fn unix_listener(row: &[u8]) -> Option<(PathBuf, u64)> {
    use std::os::unix::ffi::OsStrExt;
    let mut rest = row;
    let mut columns = [&row[..0]; 7];
    for column in &mut columns {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        (*column, rest) = rest.split_at(end);
    }
    let flags = u32::from_str_radix(std::str::from_utf8(columns[3]).ok()?, 16).ok()?;
    // One blank ends the inode; what follows is the path, which may hold blanks itself.
    let path = rest.get(1..).filter(|path| !path.is_empty())?;
    (flags & 0x1_0000 != 0)
        .then(|| Some((PathBuf::from(std::ffi::OsStr::from_bytes(path)), number(columns[6])?)))
        .flatten()
}

/// The processes with a descriptor of one of the sockets, ascending. Those that may not be looked into are passed over.
fn holders(inodes: &BTreeSet<u64>) -> Result<Vec<u32>, NotFound> {
    let proc = Path::new("/proc");
    let unreadable = |source| NotFound::Unreadable { path: proc.to_owned(), source };
    let mut pids = Vec::new();
    for entry in std::fs::read_dir(proc).map_err(unreadable)? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(descriptors) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        let holds = descriptors.flatten().any(|fd| {
            std::fs::read_link(fd.path()).is_ok_and(|link| socket_inode(&link).is_some_and(|i| inodes.contains(&i)))
        });
        if holds {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

/// `socket:[659447]`.
fn socket_inode(link: &Path) -> Option<u64> {
    number(link.to_str()?.strip_prefix("socket:[")?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_of_the_kernels_tables_are_read() {
        let cases = [
            ("0100007F:1FA2", "127.0.0.1:8098"),
            ("00000000:07E8", "0.0.0.0:2024"),
            ("00000000000000000000000000000000:0050", "[::]:80"),
            ("00000000000000000000000001000000:FFFF", "[::1]:65535"),
            ("B80D0120000000000000000001000000:01BB", "[2001:db8::1]:443"),
            ("0000000000000000FFFF00000100007F:0001", "[::ffff:127.0.0.1]:1"),
        ];
        for (text, expected) in cases {
            assert_eq!(socket_address(text), Some(expected.parse().unwrap()), "{text}");
        }
        for bad in ["", ":", "0100007F", "0100007F:", "0100007:1", "0100007G:0001", "0100007F:10000", "é00007F:1"] {
            assert_eq!(socket_address(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_rows_that_listen_count() {
        let row = |state: &str| {
            format!(
                "   1: 0100007F:1FA2 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 466495 1 0000 100 0 0 10 0"
            )
        };
        assert_eq!(listener(row("0A").as_bytes()).map(|l| l.inode), Some(466_495));
        assert_eq!(listener(row("01").as_bytes()), None);
        assert_eq!(listener(b"  sl  local_address"), None);
        assert_eq!(listener(b""), None);
    }

    #[test]
    fn unix_rows_are_read_with_blanks_in_the_path_and_without_a_path() {
        let of = |row: &str| unix_listener(row.as_bytes());
        let listening = "00000000c955410c: 00000002 00000000 00010000 0001 01 26 /tmp/a b ";
        assert_eq!(of(listening), Some((PathBuf::from("/tmp/a b "), 26)));
        assert_eq!(of("00000000c955410c: 00000003 00000000 00000000 0001 03 26 /tmp/x"), None);
        assert_eq!(of("00000000c955410c: 00000002 00000000 00010000 0001 01    27"), None);
        assert_eq!(of("00000000c955410c: 00000002 00000000 00010000 0001 01 27 @abstract").unwrap().1, 27);
        assert_eq!(of(""), None);
    }

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
}
