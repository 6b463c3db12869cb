//! Stream sockets of AF_UNIX by netlink (sock_diag(7), linux/unix_diag.h): what each is called, which is its other end, who waits
//! to be accepted, and how much lies unread in it.
//!
//! Of the network namespace of this thread, as the kernel keeps these sockets by namespace, too. Needs no privilege; a kernel
//! without CONFIG_UNIX_DIAG refuses.

use super::sock_diag::{DumpError, Go, ask, attribute, header, u32_at};
use crate::limits::UNIX_SOCKETS_MAX;

/// `AF_UNIX`, and `SOCK_STREAM` and `SOCK_SEQPACKET` of linux/net.h: datagrams have no connections that begin and end.
const AF_UNIX: u8 = 1;
const STREAM: u8 = 1;
const PACKETS: u8 = 5;
/// `TCP_ESTABLISHED` and `TCP_LISTEN` of net/tcp_states.h, which unix sockets have, too.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
/// `UDIAG_SHOW_NAME`, `_PEER`, `_ICONS` and `_RQLEN`.
const SHOWN: u32 = 0x01 | 0x04 | 0x08 | 0x10;
/// `UNIX_DIAG_NAME`, `_PEER`, `_ICONS` and `_RQLEN`.
const NAME: u16 = 0;
const PEER: u16 = 2;
const PENDING: u16 = 3;
const QUEUES: u16 = 4;
/// Bytes of `struct unix_diag_req` and of `struct unix_diag_msg`.
const REQUEST_BYTES: usize = 24;
const MESSAGE_BYTES: usize = 16;
/// Bytes that a socket takes in the answer, with those that wait to be accepted.
const SOCKET_BYTES: usize = 512;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UnixSocket {
    /// As in `socket:[inode]` of `/proc/<pid>/fd`; 0 where no descriptor is there yet.
    pub(crate) inode: u64,
    /// Whether it accepts connections; otherwise it is one.
    pub(crate) is_listening: bool,
    /// Its path, or with `@` its name without one; a socket that was accepted has its listener's, one that connected mostly none.
    pub(crate) name: Option<String>,
    /// The inode of its other end; `None`: it has none, or none that was accepted yet.
    pub(crate) peer: Option<u64>,
    /// Of one that accepts: the inodes of those that connected and were not accepted yet.
    pub(crate) pending: Vec<u64>,
    /// Of a connection: bytes that came and were not read.
    pub(crate) unread_bytes: u32,
}

/// All of them, as far as so many go that this crate reads, and whether these are all.
pub(crate) fn unix_sockets() -> Result<(Vec<UnixSocket>, bool), DumpError> {
    let (mut found, mut is_whole) = (Vec::new(), true);
    ask(&request(), UNIX_SOCKETS_MAX.saturating_mul(SOCKET_BYTES), |payload| {
        if found.len() == UNIX_SOCKETS_MAX {
            is_whole = false;
            return Some(Go::Enough);
        }
        found.extend(socket(payload)?);
        Some(Go::On)
    })?;
    Ok((found, is_whole))
}

fn request() -> Vec<u8> {
    let mut bytes = header(REQUEST_BYTES).to_vec();
    let states = 1_u32 << ESTABLISHED | 1 << LISTEN;
    bytes.extend([AF_UNIX, 0, 0, 0]);
    bytes.extend(states.to_ne_bytes());
    // Of any inode and cookie.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(SHOWN.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// One `struct unix_diag_msg` and its attributes; `Some(None)` where it is of datagrams.
fn socket(payload: &[u8]) -> Option<Option<UnixSocket>> {
    let attributes = payload.get(MESSAGE_BYTES..)?;
    let (kind, state) = (payload[1], payload[2]);
    if !matches!(kind, STREAM | PACKETS) {
        return Some(None);
    }
    let is_listening = state == LISTEN;
    let inode_of = |bytes: &[u8]| u32_at(bytes, 0).map(u64::from).filter(|inode| *inode != 0);
    let pending = attribute(attributes, PENDING).filter(|_| is_listening).unwrap_or_default();
    let queues = attribute(attributes, QUEUES).filter(|_| !is_listening);
    Some(Some(UnixSocket {
        inode: u32_at(payload, 4)?.into(),
        is_listening,
        name: attribute(attributes, NAME).and_then(name),
        peer: attribute(attributes, PEER).and_then(inode_of),
        pending: pending.chunks_exact(4).filter_map(inode_of).collect(),
        unread_bytes: queues.and_then(|queues| u32_at(queues, 0)).unwrap_or(0),
    }))
}

/// A path ends at its zero; a name without a path begins with one.
fn name(bytes: &[u8]) -> Option<String> {
    let (mark, bytes) = match bytes {
        [] => return None,
        [0, name @ ..] => ("@", name),
        path => ("", path.split(|byte| *byte == 0).next().unwrap_or_default()),
    };
    (!bytes.is_empty()).then(|| format!("{mark}{}", String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(of: &impl AsRawFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", of.as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    }

    #[test]
    fn both_ends_of_a_connection_and_who_waits_to_be_accepted_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("served");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let waiting = UnixStream::connect(&path).unwrap();
        client.write_all(b"unread").unwrap();
        let (sockets, is_whole) = match unix_sockets() {
            Ok(read) => read,
            Err(error) => return testkit::skip(&format!("unix sockets cannot be listed: {error}")),
        };
        assert!(is_whole);
        let of = |inode: u64| sockets.iter().find(|socket| socket.inode == inode).unwrap();
        let path = path.to_str();
        let at_listener = of(inode(&listener));
        assert!(at_listener.is_listening && at_listener.name.as_deref() == path, "{at_listener:?}");
        assert_eq!(at_listener.pending, [inode(&waiting)]);
        let here = of(inode(&client));
        assert_eq!((here.name.as_deref(), here.peer, here.unread_bytes), (None, Some(inode(&accepted)), 0));
        let there = of(inode(&accepted));
        assert_eq!((there.name.as_deref(), there.peer, there.unread_bytes), (path, Some(inode(&client)), 6));
        assert_eq!(of(inode(&waiting)).peer, None, "it is not accepted yet");
    }

    #[test]
    fn names_end_at_their_zero_and_those_without_a_path_begin_with_one() {
        let of = |bytes: &[u8]| name(bytes);
        assert_eq!(of(b"/run/app.sock\0").as_deref(), Some("/run/app.sock"));
        assert_eq!(of(b"/run/app.sock").as_deref(), Some("/run/app.sock"));
        assert_eq!(of(b"\0app").as_deref(), Some("@app"));
        assert_eq!([of(b""), of(b"\0")], [None, None]);
    }

    #[test]
    fn cut_or_garbled_anywhere_it_never_panics() {
        let mut whole = vec![AF_UNIX, STREAM, ESTABLISHED, 0];
        whole.extend(9_u32.to_ne_bytes());
        whole.extend([0; 8]);
        for (kind, value) in [(NAME, &b"/a\0"[..]), (PEER, &[7, 0, 0, 0]), (QUEUES, &[5, 0, 0, 0, 1, 0, 0, 0])] {
            whole.extend((4 + value.len() as u16).to_ne_bytes());
            whole.extend(kind.to_ne_bytes());
            whole.extend(value);
            whole.resize(whole.len().next_multiple_of(4), 0);
        }
        let expected = UnixSocket {
            inode: 9,
            name: Some("/a".to_owned()),
            peer: Some(7),
            unread_bytes: 5,
            ..UnixSocket::default()
        };
        assert_eq!(socket(&whole), Some(Some(expected)));
        for cut in 0..whole.len() {
            assert_eq!(socket(&whole[..cut]).is_some(), cut >= MESSAGE_BYTES, "{cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 2, 3, 10, 0x7f, 0x80, 0xff] {
                let mut garbled = whole.clone();
                garbled[at] = value;
                let _ = socket(&garbled);
            }
        }
    }
}
