//! The host's listening TCP sockets by netlink (sock_diag(7)): the kernel walks its table of listeners only.
//!
//! And the list of any other sockets, message by message, for who knows what is in them. Reading `/proc/net/tcp` ends in a walk through the hash of all connections, however empty: hundreds of thousands of
//! buckets on a large machine. A request for each family, over a socket of its own. Needs no privilege. Not
//! here: UDP, and what to do where a kernel or a sandbox refuses; the caller then reads `/proc`.

use crate::limits::{LISTENERS_BYTES_MAX, LISTENERS_WAIT};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// A socket that accepts connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Where it is bound; its family is that of the socket.
    pub(crate) address: SocketAddr,
    /// As in `socket:[inode]` of `/proc/<pid>/fd`; 0 where no descriptor is left.
    pub(crate) inode: u64,
    /// Connections that wait to be accepted (`Recv-Q` of ss(8)); `None`: the table does not say.
    pub(crate) waiting: Option<u32>,
    /// How many may wait.
    pub(crate) backlog: Option<u32>,
    /// Connections and segments that the socket did not take, since it was made (`sk_drops`).
    pub(crate) drops: Option<u32>,
}

/// Why the list is not known by this way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// A system call failed (a timeout is `WouldBlock`), or the kernel answered with an error of its own.
    #[error("the kernel refuses to list its sockets: {0}")]
    Refused(#[from] io::Error),
    /// The table changed while it was read (`NLM_F_DUMP_INTR`): some may be missing.
    #[error("the table of sockets changed while it was read")]
    Inconsistent,
    /// Not of the form of linux/netlink.h and linux/inet_diag.h.
    #[error("the kernel's answer lacks {what}")]
    Malformed {
        /// What should have been there.
        what: &'static str,
    },
    /// Longer than this crate reads.
    #[error("the list of sockets is longer than this program reads")]
    TooLong,
}

// linux/netlink.h and linux/sock_diag.h.
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The older request (`TCPDIAG_GETSOCK` of linux/inet_diag.h): in its lists the kernel passes over the family that is asked for and has
/// both in one walk (`inet_diag_dump_compat` of net/ipv4/inet_diag.c).
const TCPDIAG_GETSOCK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
/// `TCP_LISTEN` of net/tcp_states.h.
const TCP_LISTEN: u8 = 10;
/// `INET_DIAG_SKMEMINFO` of linux/inet_diag.h, and in it the ninth number, `SK_MEMINFO_DROPS` of linux/sock_diag.h.
const INET_DIAG_SKMEMINFO: u16 = 7;
const SK_MEMINFO_DROPS: usize = 8 * 4;
/// `INET_DIAG_REQ_BYTECODE`: a filter that the kernel runs over each socket.
const INET_DIAG_REQ_BYTECODE: u16 = 1;
/// Bytes of `struct inet_diag_msg`.
pub(crate) const MESSAGE_BYTES: usize = 72;
/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Bytes of `struct inet_diag_req_v2`, and of the older `struct inet_diag_req`.
const REQUEST_BYTES: usize = 56;
const OLD_REQUEST_BYTES: usize = 60;
/// The kernel fits the parts of its answer to the buffer they are read into, up to this (`netlink_recvmsg`).
const DATAGRAM_BYTES: usize = 32 << 10;

/// All listening TCP sockets of this network namespace, of both families.
///
/// # Errors
/// [`DumpError`]; none of them says that nothing listens.
pub(crate) fn listeners() -> Result<Vec<Listener>, DumpError> {
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        let extensions = 1 << (INET_DIAG_SKMEMINFO - 1);
        let asked = Asked { family: Some(family), states: 1 << TCP_LISTEN, extensions, port: 0 };
        dump(asked, LISTENERS_BYTES_MAX, |payload| {
            found.extend(listener(payload, family)?);
            Some(Go::On)
        })?;
    }
    Ok(found)
}

/// Which sockets are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Of which family; `None`: of both at once, by the older request, which a kernel may do without.
    pub(crate) family: Option<Family>,
    /// In which states, a bit for each.
    pub(crate) states: u32,
    /// What is wanted beside the message itself, a bit for each attribute.
    pub(crate) extensions: u8,
    /// Bound to which port; 0: any.
    pub(crate) port: u16,
}

/// Whether the list is read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    /// It has been enough: the rest is left with the kernel.
    Enough,
}

/// Calls with the payload of each socket, which is one `struct inet_diag_msg` and its attributes; `None` says that it
/// is not whole. Over a socket of its own, in the network namespace of this thread.
pub(crate) fn dump(asked: Asked, bytes_max: usize, each: impl FnMut(&[u8]) -> Option<Go>) -> Result<(), DumpError> {
    dump_through(&[], asked, bytes_max, each)
}

/// The same of those sockets that a filter lets through ([`super::socket_filter`]); an empty one: all.
pub(crate) fn dump_through(
    filter: &[u8],
    asked: Asked,
    bytes_max: usize,
    each: impl FnMut(&[u8]) -> Option<Go>,
) -> Result<(), DumpError> {
    let mut bytes = request(asked);
    if !filter.is_empty() {
        let length = 4 + filter.len();
        bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
        bytes.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        bytes.extend(filter);
        let whole = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[0..4].copy_from_slice(&whole.to_ne_bytes());
    }
    ask(&bytes, bytes_max, each)
}

/// Sends a request of whatever family, [`header`] and all, and calls with the payload of each socket of the answer.
pub(crate) fn ask(bytes: &[u8], bytes_max: usize, mut each: impl FnMut(&[u8]) -> Option<Go>) -> Result<(), DumpError> {
    let socket = open()?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut bytes_left = bytes_max;
    let sent = send(&socket, bytes, SendFlags::empty()).map_err(io::Error::from)?;
    if sent != bytes.len() {
        return Err(DumpError::Malformed { what: "the whole request" });
    }
    loop {
        let datagram = receive(&socket, &mut buffer)?;
        bytes_left = bytes_left.checked_sub(datagram.len()).ok_or(DumpError::TooLong)?;
        if read_datagram(datagram, &mut each)? == Progress::Done {
            return Ok(());
        }
    }
}

/// The number of the one request of a socket.
const SEQUENCE: u32 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn number(self) -> u8 {
        // AF_INET is 2 and AF_INET6 is 10 on every architecture of Linux.
        match self {
            Family::V4 => 2,
            Family::V6 => 10,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

/// A socket that hears the kernel (port 0) and nobody else, and does not wait for ever.
fn open() -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(LISTENERS_WAIT))?;
    connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// The head of a request for a list of sockets, whose own struct takes so many bytes (`struct nlmsghdr`).
pub(crate) fn header(payload_bytes: usize) -> [u8; HEADER_BYTES] {
    header_of(SOCK_DIAG_BY_FAMILY, payload_bytes)
}

fn header_of(kind: u16, payload_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let length = u32::try_from(HEADER_BYTES + payload_bytes).unwrap_or(u32::MAX);
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[8..12].copy_from_slice(&SEQUENCE.to_ne_bytes());
    bytes
}

fn request(asked: Asked) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + OLD_REQUEST_BYTES);
    let states = asked.states.to_ne_bytes();
    // `struct inet_diag_sockid`: the port at this end, and nothing else.
    let mut socket = [0; 48];
    socket[0..2].copy_from_slice(&asked.port.to_be_bytes());
    if let Some(family) = asked.family {
        bytes.extend(header(REQUEST_BYTES));
        // IPPROTO_TCP is 6.
        bytes.extend([family.number(), 6, asked.extensions, 0]);
        bytes.extend(states);
        bytes.extend(socket);
    } else {
        bytes.extend(header_of(TCPDIAG_GETSOCK, OLD_REQUEST_BYTES));
        bytes.extend([0, 0, 0, asked.extensions]);
        bytes.extend(socket);
        bytes.extend(states);
        bytes.extend([0; 4]);
    }
    bytes
}

fn receive<'b>(socket: &OwnedFd, buffer: &'b mut [u8]) -> Result<&'b [u8], DumpError> {
    // With MSG_TRUNC the length is that of the datagram, also where the buffer is shorter.
    let (_, length) =
        rustix::io::retry_on_intr(|| recv(socket, &mut *buffer, RecvFlags::TRUNC)).map_err(io::Error::from)?;
    buffer.get(..length).ok_or(DumpError::Malformed { what: "an end within the buffer" })
}

/// Reads one datagram, which holds any number of messages.
fn read_datagram(datagram: &[u8], each: &mut impl FnMut(&[u8]) -> Option<Go>) -> Result<Progress, DumpError> {
    if datagram.is_empty() {
        return Err(DumpError::Malformed { what: "a message" });
    }
    let mut rest = datagram;
    while !rest.is_empty() {
        let header = rest.first_chunk::<HEADER_BYTES>().ok_or(DumpError::Malformed { what: "a whole header" })?;
        let length = u32_at(header, 0).and_then(|n| usize::try_from(n).ok());
        let message = length.filter(|n| *n >= HEADER_BYTES).and_then(|n| rest.get(..n));
        let message = message.ok_or(DumpError::Malformed { what: "a message as long as its header says" })?;
        let (kind, flags) = (u16::from_ne_bytes([header[4], header[5]]), u16::from_ne_bytes([header[6], header[7]]));
        let payload = &message[HEADER_BYTES..];
        if u32_at(header, 8) != Some(SEQUENCE) {
            return Err(DumpError::Malformed { what: "the number of the request" });
        }
        if flags & NLM_F_DUMP_INTR != 0 {
            return Err(DumpError::Inconsistent);
        }
        match kind {
            NLMSG_NOOP => {}
            NLMSG_ERROR | NLMSG_DONE => return ended(kind, payload),
            SOCK_DIAG_BY_FAMILY | TCPDIAG_GETSOCK => {
                match each(payload).ok_or(DumpError::Malformed { what: "a whole socket" })? {
                    Go::On => {}
                    Go::Enough => return Ok(Progress::Done),
                }
            }
            _ => return Err(DumpError::Malformed { what: "a type of message that was asked for" }),
        }
        // Messages begin at multiples of four bytes; the last may go without its padding.
        rest = rest.get(message.len().next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Progress::More)
}

/// Both kinds of last message start with an error number, negated; a list that fails half-way ends in `NLMSG_DONE` too.
fn ended(kind: u16, payload: &[u8]) -> Result<Progress, DumpError> {
    let code = u32_at(payload, 0).map(u32::cast_signed).ok_or(DumpError::Malformed { what: "an error number" })?;
    match code.checked_neg() {
        Some(errno @ 1..) => Err(io::Error::from_raw_os_error(errno).into()),
        Some(0) if kind == NLMSG_DONE => Ok(Progress::Done),
        _ => Err(DumpError::Malformed { what: "a sound error number" }),
    }
}

/// One `struct inet_diag_msg`; `Some(None)` where it is no listening socket of the family.
fn listener(payload: &[u8], family: Family) -> Option<Option<Listener>> {
    let inode = u32_at(payload, 68)?;
    let port = u16::from_be_bytes(*payload.get(4..)?.first_chunk()?);
    let address = payload.get(8..)?;
    let ip: IpAddr = match family {
        Family::V4 => (*address.first_chunk::<4>()?).into(),
        Family::V6 => (*address.first_chunk::<16>()?).into(),
    };
    let is_asked_for = payload[..2] == [family.number(), TCP_LISTEN];
    let (waiting, backlog) = (u32_at(payload, 56), u32_at(payload, 60));
    let memory = payload.get(MESSAGE_BYTES..).and_then(|attributes| attribute(attributes, INET_DIAG_SKMEMINFO));
    let drops = memory.and_then(|memory| u32_at(memory, SK_MEMINFO_DROPS));
    let address = SocketAddr::new(ip, port);
    Some(is_asked_for.then(|| Listener { address, inode: inode.into(), waiting, backlog, drops }))
}

/// The value of an attribute: each has a length, header included, and a type, and begins at a multiple of four bytes.
pub(crate) fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some(header) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes([header[2], header[3]]) == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// A number in the machine's byte order.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((HEADER_BYTES + payload.len()) as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn socket(family: u8, state: u8, address: SocketAddr, inode: u32) -> Vec<u8> {
        let mut payload = vec![0; 72];
        payload[0] = family;
        payload[1] = state;
        payload[4..6].copy_from_slice(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => payload[8..12].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => payload[8..24].copy_from_slice(&ip.octets()),
        }
        payload[56..60].copy_from_slice(&3u32.to_ne_bytes());
        payload[60..64].copy_from_slice(&8u32.to_ne_bytes());
        payload[68..72].copy_from_slice(&inode.to_ne_bytes());
        message(SOCK_DIAG_BY_FAMILY, 2, SEQUENCE, &payload)
    }

    fn end(kind: u16, code: i32) -> Vec<u8> {
        message(kind, 2, SEQUENCE, &code.to_ne_bytes())
    }

    fn read(datagram: &[u8], family: Family) -> (Result<Progress, DumpError>, Vec<Listener>) {
        let mut found = Vec::new();
        let mut each = |payload: &[u8]| {
            found.extend(listener(payload, family)?);
            Some(Go::On)
        };
        (read_datagram(datagram, &mut each), found)
    }

    fn check(datagram: &[u8], expected: &str) {
        let (progress, _) = read(datagram, Family::V4);
        let text = progress.map_or_else(|error| error.to_string(), |progress| format!("{progress:?}"));
        assert!(text.contains(expected), "{text} is not {expected}: {datagram:?}");
    }

    #[test]
    fn the_request_is_the_kernels_struct() {
        let asked = |family| Asked { family, states: 0x400, extensions: 2, port: 0x1234 };
        let bytes = request(asked(Some(Family::V6)));
        assert_eq!(u32_at(&bytes, 0), Some(72));
        assert_eq!(u32_at(&bytes, 20), Some(0x400));
        assert_eq!((i32::from(bytes[16]), i32::from(bytes[17])), (libc::AF_INET6, libc::IPPROTO_TCP));
        assert_eq!(i32::from(request(asked(Some(Family::V4)))[16]), libc::AF_INET);
        assert_eq!((bytes[18], &bytes[24..26]), (2, &[0x12, 0x34][..]));
        assert!(bytes[26..].iter().all(|b| *b == 0), "no filter on addresses, the other port or devices");
        let old = request(asked(None));
        assert_eq!((u32_at(&old, 0), old.len(), old[4], u32_at(&old, 68)), (Some(76), 76, 18, Some(0x400)));
        assert_eq!((old[16], old[19], &old[20..22]), (0, 2, &[0x12, 0x34][..]));
        assert!(old[22..68].iter().chain(&old[72..]).all(|b| *b == 0));
    }

    #[test]
    fn sockets_of_both_families_are_read() {
        let v4: SocketAddr = "127.0.0.2:8098".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
        let datagram = [socket(2, 10, v4, 5), socket(2, 10, v4, u32::MAX), end(NLMSG_DONE, 0)].concat();
        let (progress, found) = read(&datagram, Family::V4);
        assert_eq!(progress.unwrap(), Progress::Done);
        assert_eq!(
            found,
            [5, u64::from(u32::MAX)].map(|inode| Listener {
                address: v4,
                inode,
                waiting: Some(3),
                backlog: Some(8),
                drops: None
            })
        );
        let (progress, found) = read(&socket(10, 10, v6, 6), Family::V6);
        assert_eq!(progress.unwrap(), Progress::More);
        assert_eq!(found, [Listener { address: v6, inode: 6, waiting: Some(3), backlog: Some(8), drops: None }]);
    }

    #[test]
    fn what_was_not_asked_for_is_not_taken() {
        let v4: SocketAddr = "127.0.0.2:8098".parse().unwrap();
        for (family, state) in [(2, 1), (10, 10), (0, 0)] {
            let (progress, found) = read(&socket(family, state, v4, 5), Family::V4);
            assert_eq!((progress.unwrap(), found), (Progress::More, Vec::new()), "{family} {state}");
        }
    }

    #[test]
    fn ends_and_refusals_are_told_apart() {
        check(&end(NLMSG_DONE, 0), "Done");
        check(&end(NLMSG_DONE, -libc::ENOENT), "No such file");
        check(&end(NLMSG_ERROR, -libc::EPERM), "not permitted");
        check(&end(NLMSG_ERROR, -libc::EOPNOTSUPP), "not supported");
        // An acknowledgement was not asked for, and is no end of a list.
        check(&end(NLMSG_ERROR, 0), "a sound error number");
        check(&end(NLMSG_DONE, 1), "a sound error number");
        check(&end(NLMSG_ERROR, i32::MIN), "a sound error number");
        check(&message(NLMSG_NOOP, 0, SEQUENCE, &[]), "More");
        check(&message(4, 0, SEQUENCE, &[]), "a type of message");
        check(&message(NLMSG_DONE, NLM_F_DUMP_INTR, SEQUENCE, &[0; 4]), "changed while");
        check(&message(NLMSG_DONE, 0, SEQUENCE + 1, &[0; 4]), "the number of the request");
    }

    #[test]
    fn hostile_lengths_are_refused() {
        check(&[], "a message");
        let sound = end(NLMSG_DONE, 0);
        for length in [0, 1, 15, 21, 0x7fff_ffff, u32::MAX - 2, u32::MAX] {
            let mut datagram = sound.clone();
            datagram[..4].copy_from_slice(&length.to_ne_bytes());
            check(&datagram, "as long as its header says");
        }
        check(&message(NLMSG_DONE, 0, SEQUENCE, &[0; 3]), "an error number");
        check(&message(SOCK_DIAG_BY_FAMILY, 0, SEQUENCE, &[0; 71]), "a whole socket");
        check(&[0xff; 4096], "as long as its header says");
    }

    #[test]
    fn cut_or_garbled_anywhere_it_never_panics_nor_ends_early() {
        let v4: SocketAddr = "127.0.0.2:8098".parse().unwrap();
        let whole = [socket(2, 10, v4, 5), end(NLMSG_DONE, 0)].concat();
        let first = whole.len() - end(NLMSG_DONE, 0).len();
        for cut in 0..whole.len() {
            let (progress, found) = read(&whole[..cut], Family::V4);
            // At the seam it is a sound datagram without its end.
            assert_eq!(progress.is_ok(), cut == first, "{cut}: {progress:?}");
            assert!(progress.is_err() || progress.is_ok_and(|p| p == Progress::More), "{cut}");
            assert_eq!(found.len(), usize::from(cut >= first), "{cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 2, 3, 0x10, 0x7f, 0x80, 0xff] {
                let mut garbled = whole.clone();
                garbled[at] = value;
                assert!(read(&garbled, Family::V4).1.len() <= 2);
                assert!(read(&garbled, Family::V6).1.len() <= 2);
            }
        }
    }
}
