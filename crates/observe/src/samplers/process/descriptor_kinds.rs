//! What a descriptor of the target's is, in the words of [`model::threads::DESCRIPTORS`]: by its link and type, a file that
//! is only appended to by its flags (`/proc/<pid>/fd`, `fdinfo`), a TCP socket by netlink: a listener, a connection at a
//! port that somebody listens on (`client`), or at any other (`backend`); a unix socket, too: a listener, or one without a name whose
//! other end has one (`backend`).
//!
//! Sockets are listed only when one is asked for that is not known yet; a list is not repeated before two hundred times its
//! CPU time, and where there are more than 50,000 sockets none is made: what is not known then is a `socket`. The same
//! holds for a connection whose listener is gone: it passes for a backend's.

use crate::limits::{DESCRIPTORS_KNOWN_MAX, OUTGOING_LOOKED_MAX, WALK_SOCKETS_MAX, WALK_SPARING};
use crate::source::clock;
use crate::source::namespace::in_network_of;
use crate::source::sockets::sock_diag::{Family, listeners};
use crate::source::sockets::tcp_sockets::from_other_ports;
use crate::source::sockets::unix_sockets::{UnixSocket, unix_sockets};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// `O_APPEND` as `fdinfo` shows it, in octal digits.
const APPENDS: u32 = 0o2000;

/// What is known of sockets by their inode.
#[derive(Debug, Default)]
pub(crate) struct DescriptorKinds {
    known: BTreeMap<u64, &'static str>,
    /// No list of sockets is made before this, CLOCK_MONOTONIC.
    due_ns: i64,
}

impl DescriptorKinds {
    /// The kind of a process's descriptor.
    pub(crate) fn kind(&mut self, pid: u32, descriptor: u32) -> &'static str {
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let Ok(link) = std::fs::read_link(&path) else { return "unknown" };
        let by_link = kind_of_link(&link);
        if !matches!(by_link, "socket" | "file") {
            return by_link;
        }
        let Ok(file) = std::fs::metadata(&path) else { return "unknown" };
        let kind = file.file_type();
        match by_link {
            "socket" => self.of_socket(pid, &path, file.ino()),
            _ if kind.is_fifo() => "pipe",
            _ if !kind.is_file() => "device",
            _ if appends(pid, descriptor) => "log",
            _ => "file",
        }
    }

    fn of_socket(&mut self, pid: u32, path: &str, inode: u64) -> &'static str {
        if let Some(kind) = self.known.get(&inode) {
            return kind;
        }
        // As lsof(8) asks for it: the socket's protocol.
        let mut protocol = [0; 16];
        let length = rustix::fs::getxattr(path, "system.sockprotoname", &mut protocol).unwrap_or(0);
        let list = match protocol.get(..length).unwrap_or_default() {
            name if name.starts_with(b"TCP") => list_tcp,
            name if name.starts_with(b"UNIX") => list_unix,
            _ => return "socket",
        };
        if clock::monotonic_ns() < self.due_ns || sockets(pid).is_none_or(|sockets| sockets > WALK_SOCKETS_MAX) {
            return "socket";
        }
        let began_ns = clock::thread_cpu_ns();
        let listed = in_network_of(Some(pid), list);
        let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
        self.due_ns = clock::monotonic_ns().saturating_add(cost_ns.saturating_mul(WALK_SPARING));
        let Ok(Some(listed)) = listed else { return "socket" };
        if self.known.len() > DESCRIPTORS_KNOWN_MAX {
            self.known.clear();
        }
        let kind = match inode {
            inode if listed.listening.contains(&inode) => "listener",
            inode if listed.outgoing.contains(&inode) => "backend",
            _ => listed.others,
        };
        self.known.insert(inode, kind);
        kind
    }
}

/// Sockets of a namespace by their inodes.
struct Listed {
    listening: BTreeSet<u64>,
    outgoing: BTreeSet<u64>,
    /// What the others are.
    others: &'static str,
}

/// The inodes of all listeners, and of all connections that have none of their ports at this end; `None`: not all were
/// listed.
fn list_tcp() -> Option<Listed> {
    let listeners = listeners().ok()?;
    let ports: BTreeSet<u16> = listeners.iter().map(|listener| listener.address.port()).collect();
    let ports: Vec<u16> = ports.into_iter().collect();
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        if !from_other_ports(family, &ports, false, OUTGOING_LOOKED_MAX, &mut found).ok()? {
            return None;
        }
    }
    let outgoing = found.iter().map(|connection| u64::from(connection.inode)).collect();
    Some(Listed { listening: listeners.iter().map(|listener| listener.inode).collect(), outgoing, others: "client" })
}

/// The same of unix sockets.
fn list_unix() -> Option<Listed> {
    let (sockets, is_whole) = unix_sockets().ok()?;
    let named: BTreeSet<u64> = sockets.iter().filter(|socket| socket.name.is_some()).map(|s| s.inode).collect();
    let is_outgoing =
        |socket: &&UnixSocket| socket.name.is_none() && socket.peer.is_some_and(|peer| named.contains(&peer));
    is_whole.then(|| Listed {
        listening: sockets.iter().filter(|socket| socket.is_listening).map(|s| s.inode).collect(),
        outgoing: sockets.iter().filter(is_outgoing).map(|s| s.inode).collect(),
        others: "socket",
    })
}

/// TCP sockets of a process's network namespace.
fn sockets(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/sockstat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "alloc");
    words.nth(1)?.parse().ok()
}

fn appends(pid: u32, descriptor: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & APPENDS != 0)
}

/// The kind by the link alone: of sockets and of what has a path, not more.
pub(crate) fn kind_of_link(link: &Path) -> &'static str {
    let link = link.to_string_lossy();
    match &*link {
        link if link.starts_with("socket:[") => "socket",
        link if link.starts_with("pipe:[") => "pipe",
        "anon_inode:[eventpoll]" | "anon_inode:[io_uring]" => "epoll",
        link if link.starts_with("anon_inode:") => "event",
        link if link.starts_with("/dev/") => "device",
        _ => "file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsRawFd, RawFd};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn descriptors_of_this_process_are_told_apart() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let backend = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let client = listener.accept().unwrap().0;
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let pair = UnixStream::pair().unwrap().0;
        let folder = tempfile::tempdir().unwrap();
        let at_path = UnixListener::bind(folder.path().join("served")).unwrap();
        let to_path = UnixStream::connect(folder.path().join("served")).unwrap();
        let from_path = at_path.accept().unwrap().0;
        let mut file = std::fs::File::create(folder.path().join("file")).unwrap();
        file.write_all(b"x").unwrap();
        let log = OpenOptions::new().append(true).create(true).open(folder.path().join("log")).unwrap();
        let device = std::fs::File::open("/dev/null").unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let mut kinds = DescriptorKinds::default();
        let mut check = |descriptor: RawFd, expected: &str| {
            let number = u32::try_from(descriptor).unwrap();
            // Of its own accord it does not list sockets again so soon.
            kinds.due_ns = 0;
            assert_eq!(kinds.kind(std::process::id(), number), expected);
        };
        check(listener.as_raw_fd(), "listener");
        check(client.as_raw_fd(), "client");
        check(backend.as_raw_fd(), "backend");
        check(udp.as_raw_fd(), "socket");
        check(pair.as_raw_fd(), "socket");
        check(at_path.as_raw_fd(), "listener");
        check(to_path.as_raw_fd(), "backend");
        check(from_path.as_raw_fd(), "socket");
        check(file.as_raw_fd(), "file");
        check(log.as_raw_fd(), "log");
        check(device.as_raw_fd(), "device");
        check(reader.as_raw_fd(), "pipe");
        check(epoll.as_raw_fd(), "epoll");
        check(event.as_raw_fd(), "event");
        check(i32::MAX, "unknown");
    }
}
