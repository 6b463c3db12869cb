//! Finds the processes that listen where the load goes: the kernel's listening sockets, by their inode to the
//! descriptors of processes.
//!
//! All holders of a listening socket are returned, so a master and its workers are found together; but for an init process
//! that holds it for a service, as systemd does for socket activation (`served_by`). An address that is
//! none of this network namespace's is looked for in the others of this host (`elsewhere`). Not seen: a target on another
//! machine. Cost: one list of the host's listeners, by netlink or else from `/proc/net`, and one pass over the links in
//! `/proc/*/fd`, for a run's start.

use crate::namespaces::{self, Look};
use crate::source::proc::{SampleError, number, words};
use crate::source::sock_diag::{self, Listener};
use model::plan::Address;
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
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

/// The same by the tables in a folder such as `/proc/net`.
pub(crate) fn listeners_of_tables(folder: &str) -> Result<Vec<Listener>, NotFound> {
    let mut listeners = Vec::new();
    each_listener(&format!("{folder}/tcp"), |listener| listeners.push(listener))?;
    // Without IPv6 in the kernel its table is missing, and so are its sockets.
    let of_ipv6 = format!("{folder}/tcp6");
    if Path::new(&of_ipv6).exists() {
        each_listener(&of_ipv6, |listener| listeners.push(listener))?;
    }
    Ok(listeners)
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
    Some(Listener {
        address: socket_address(std::str::from_utf8(local).ok()?)?,
        inode,
        waiting: None,
        backlog: None,
        drops: None,
    })
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
    let wanted = std::fs::canonicalize(path).ok();
    let mut rows = unix_rows(Path::new("/proc/net/unix"))?;
    // A socket's row has the path as it was bound: the same file may have been named in another way.
    rows.retain(|(bound, _)| bound == path || (wanted.is_some() && std::fs::canonicalize(bound).ok() == wanted));
    Ok(rows.into_iter().map(|(_, inode)| inode).collect())
}

/// Path and inode of the sockets of a table such as `/proc/net/unix` that accept connections.
pub(crate) fn unix_rows(table: &Path) -> Result<Vec<(PathBuf, u64)>, NotFound> {
    let unreadable = |source| NotFound::Unreadable { path: table.to_owned(), source };
    let mut rows = Vec::new();
    for row in BufReader::new(File::open(table).map_err(unreadable)?).split(b'\n').skip(1) {
        rows.extend(unix_listener(&row.map_err(unreadable)?));
    }
    Ok(rows)
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

/// The processes with a descriptor of one of the sockets that listen at an address, ascending. Those that may not be looked into
/// are passed over.
///
/// # Errors
/// Where there is none: whether that is so, or some could not be looked into.
fn holders(inodes: &BTreeSet<u64>, address: &Address) -> Result<Vec<u32>, NotFound> {
    let unreadable = |source: rustix::io::Errno| NotFound::Unreadable { path: "/proc".into(), source: source.into() };
    let proc = openat(CWD, "/proc", FOLDER, Mode::empty()).map_err(unreadable)?;
    let mut entries_buffer = Vec::with_capacity(ENTRIES_BYTES);
    let mut links_buffer = Vec::with_capacity(ENTRIES_BYTES);
    let mut entries = RawDir::new(&proc, entries_buffer.spare_capacity_mut());
    let (mut pids, mut is_any_refused) = (Vec::new(), false);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(unreadable)?;
        let Some(pid) = entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let buffer = links_buffer.spare_capacity_mut();
        let found = match holds(&proc, &format!("{pid}/fd"), inodes, buffer) {
            Some(found) => found,
            // Where the first thread has ended before the others, only theirs show the descriptors.
            None => threads_of(&proc, pid)
                .any(|thread| holds(&proc, &format!("{pid}/task/{thread}/fd"), inodes, buffer) == Some(true)),
        };
        is_any_refused |= !found && !is_open(&proc, pid);
        if found {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    match (pids.is_empty(), is_any_refused) {
        (true, true) => Err(NotFound::NotPermitted { address: address.clone() }),
        (true, false) => Err(NotFound::NoProcess { address: address.clone() }),
        (false, _) => Ok(served_by(pids)),
    }
}

/// Whether a process lets us look into its descriptors (readlink asks for the same as this link, proc(5)), or is gone.
fn is_open(proc: &OwnedFd, pid: u32) -> bool {
    use rustix::io::Errno;
    let mut link = [MaybeUninit::uninit(); LINK_BYTES];
    let read = readlinkat_raw(proc, format!("{pid}/cwd"), &mut link);
    !matches!(read, Err(Errno::ACCESS | Errno::PERM))
}

/// Of the holders of a socket those that serve it. The first process of a PID namespace, process 1 of the host or of a
/// container, has only opened it for another one that runs another program: then it is none of them, and its other
/// children, which may be the whole machine, are none either. A server that is itself the first process of a container has
/// workers of its own program, and stays. Where the service was not started yet, the first process is the only holder, and
/// stays too.
fn served_by(holders: Vec<u32>) -> Vec<u32> {
    let program = |pid: u32| {
        let file = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let has_handed_on = |pid: u32| {
        let own = program(pid);
        own.is_some()
            && is_first_of_namespace(pid)
            && holders.iter().any(|other| *other != pid && program(*other).is_some_and(|other| Some(other) != own))
    };
    if holders.len() < 2 { holders } else { holders.iter().copied().filter(|pid| !has_handed_on(*pid)).collect() }
}

/// Whether a process is the first one of a PID namespace: its id there, which its status has last, is 1.
fn is_first_of_namespace(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    ids.split_whitespace().next_back() == Some("1")
}

/// Which processes hold which sockets.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The processes, by the inode of each socket that one of them holds.
    pub(crate) owners: BTreeMap<u64, BTreeSet<u32>>,
    /// Some descriptors were not looked at.
    pub(crate) is_cut: bool,
}

/// Which of the sockets the processes hold, by at most so many of their descriptors.
pub(crate) fn sockets_of(
    pids: impl Iterator<Item = u32>,
    inodes: &BTreeSet<u64>,
    at_most: usize,
) -> Result<Owners, SampleError> {
    let (mut found, mut outcome, mut left) = (Owners::default(), Ok(()), at_most);
    let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
    for pid in pids {
        let path = format!("/proc/{pid}/fd");
        let failed = |errno: rustix::io::Errno| SampleError::of(&path, errno.into());
        let folder = match openat(CWD, &path, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(errno) => {
                outcome = outcome.and(Err(failed(errno)));
                continue;
            }
        };
        let each = |inode| {
            if inodes.contains(&inode) {
                found.owners.entry(inode).or_default().insert(pid);
            }
        };
        match each_socket(&folder, buffer.spare_capacity_mut(), &mut left, each) {
            Ok(()) => {}
            Err(errno) => outcome = outcome.and(Err(failed(errno))),
        }
    }
    found.is_cut = left == 0;
    outcome.or_else(|error| if error.is_gone() || !found.owners.is_empty() { Ok(()) } else { Err(error) })?;
    Ok(found)
}

/// Calls with the inode of each socket among the descriptors of a folder, as far as `left` of them may be looked at.
fn each_socket(
    folder: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    left: &mut usize,
    mut each: impl FnMut(u64),
) -> Result<(), rustix::io::Errno> {
    let mut descriptors = RawDir::new(folder, buffer);
    // An error (the process has just ended) is the end: asked again, it would come again.
    while let Some(Ok(descriptor)) = descriptors.next() {
        let name = descriptor.file_name();
        if !name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        let mut link = [0; LINK_BYTES];
        match readlinkat_raw(folder, name, &mut link) {
            Ok(length) => link.get(..length).and_then(socket_inode).into_iter().for_each(&mut each),
            Err(refused @ (rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)) => return Err(refused),
            // The descriptor was closed after the folder was listed.
            Err(_) => {}
        }
    }
    Ok(())
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Room for the entries of a folder that are read at once: some hundreds.
const ENTRIES_BYTES: usize = 16 << 10;
/// Room for `socket:[` and the digits of an inode. A longer link is cut, and is no socket's.
const LINK_BYTES: usize = 48;

/// Whether a folder of descriptors has one of the sockets; `None`: it shows no descriptor at all, as a kernel thread's.
fn holds(proc: &OwnedFd, folder: &str, inodes: &BTreeSet<u64>, buffer: &mut [MaybeUninit<u8>]) -> Option<bool> {
    let folder = openat(proc, folder, FOLDER, Mode::empty()).ok()?;
    let mut descriptors = RawDir::new(&folder, buffer);
    let mut any = None;
    // An error (the process has just ended) is the end: asked again, it would come again.
    while let Some(Ok(descriptor)) = descriptors.next() {
        let name = descriptor.file_name();
        // Not the folder itself and its parent.
        if !name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        any = Some(false);
        let mut link = [0; LINK_BYTES];
        match readlinkat_raw(&folder, name, &mut link) {
            Ok(length) => {
                if link.get(..length).and_then(socket_inode).is_some_and(|inode| inodes.contains(&inode)) {
                    return Some(true);
                }
            }
            // Who may read links is decided by the process (proc(5), ptrace access mode): none of the others either.
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => return any,
            // Closed in between.
            Err(_) => {}
        }
    }
    any
}

/// The threads of a process beside its first: none for a kernel thread, and then nothing more is opened.
fn threads_of(proc: &OwnedFd, pid: u32) -> impl Iterator<Item = u32> {
    let folder = openat(proc, format!("{pid}/task"), FOLDER, Mode::empty());
    let entries = folder.and_then(rustix::fs::Dir::new).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).filter(move |thread| *thread != pid)
}

/// `socket:[659447]`.
fn socket_inode(link: &[u8]) -> Option<u64> {
    number(link.strip_prefix(b"socket:[")?)
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

    #[test]
    fn netlink_and_the_tables_agree_about_our_own_listeners() {
        let bound = |address: &str| std::net::TcpListener::bind(address).ok();
        let own: Vec<_> =
            ["127.0.0.1:0", "127.9.8.7:0", "0.0.0.0:0", "[::1]:0", "[::]:0"].map(bound).into_iter().flatten().collect();
        assert!(own.len() >= 3, "IPv4 at least");
        // A connection's two ends and a socket that is only bound do not listen.
        let client = std::net::TcpStream::connect(own[0].local_addr().unwrap()).unwrap();
        let (by_netlink, by_tables) = match sock_diag::listeners() {
            Ok(listeners) => (listeners, listeners_of_tables("/proc/net").unwrap()),
            Err(why) => return testkit::skip(&why.to_string()),
        };
        for socket in &own {
            let (address, inode) = (socket.local_addr().unwrap(), rustix::fs::fstat(socket).unwrap().st_ino);
            for list in [&by_netlink, &by_tables] {
                let same: Vec<_> = list.iter().filter(|l| l.inode == inode).map(|l| l.address).collect();
                assert_eq!(same, [address]);
            }
            assert_eq!(accepting(&by_netlink, address), accepting(&by_tables, address));
            assert!(accepting(&by_netlink, address).contains(&inode), "{address}");
        }
        let connection = rustix::fs::fstat(&client).unwrap().st_ino;
        assert!(by_netlink.iter().all(|l| l.inode != connection));
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

    #[test]
    fn only_links_of_sockets_have_a_sockets_inode() {
        assert_eq!(socket_inode(b"socket:[659447]"), Some(659_447));
        for other in [&b"pipe:[5]"[..], b"anon_inode:[eventpoll]", b"/tmp/socket:[5]", b"socket:[", b"socket:[x]", b""]
        {
            assert_eq!(socket_inode(other), None, "{other:?}");
        }
    }
}
