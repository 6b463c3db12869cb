//! Connections of one port, or of all but some, by netlink (sock_diag(7)): their states, and of the established ones
//! `tcp_info`.
//!
//! The kernel walks through the table of all connections of the namespace in the order of a hash of addresses and
//! ports, so the first ones are as good a sample as any, and mostly the same from reading to reading.

use super::sock_diag::{Asked, DumpError, Family, Go, MESSAGE_BYTES, attribute, dump_through, u32_at};
use super::socket_filter::but;
use super::tcp_info::TcpInfo;
use std::net::{IpAddr, SocketAddr};

/// `INET_DIAG_INFO` of linux/inet_diag.h.
const INET_DIAG_INFO: u16 = 2;
/// `TCP_ESTABLISHED`, `TCP_SYN_RECV`, `TCP_TIME_WAIT`, `TCP_LISTEN` and `TCP_NEW_SYN_RECV` of net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const SYN_RECEIVED: u8 = 3;
const TIME_WAIT: u8 = 6;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;
const NEW_SYN_RECEIVED: u8 = 12;
/// Bytes that a socket takes in the answer, at the most.
const SOCKET_BYTES: usize = 1024;

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    /// Its state, of net/tcp_states.h.
    pub(crate) state: u8,
    /// Tells it from all others there are and were since boot (`idiag_cookie`).
    pub(crate) cookie: u64,
    /// As in `socket:[inode]` of `/proc/<pid>/fd`; 0 where no descriptor is left.
    pub(crate) inode: u32,
    /// Of IPv6, whatever addresses it has.
    pub(crate) is_ipv6: bool,
    /// Its own port, and the other end.
    pub(crate) port: u16,
    pub(crate) remote: SocketAddr,
    /// Bytes that came and were not read; that the peer has closed is none of them.
    pub(crate) received_bytes: u32,
    /// Bytes sent and not acknowledged, or not sent.
    pub(crate) sent_bytes: u32,
    /// `None`: it has none, as in SYN-RECV.
    pub(crate) info: Option<TcpInfo>,
}

impl Connection {
    /// On its way to be accepted, where the sizes of its queues hold other things.
    pub(crate) fn is_coming(&self) -> bool {
        matches!(self.state, SYN_RECEIVED | NEW_SYN_RECEIVED)
    }

    pub(crate) fn is_established(&self) -> bool {
        self.state == ESTABLISHED
    }
}

/// The established connections of a port with their `tcp_info`, at most so many. Returns whether these are all.
pub(crate) fn established(
    family: Family,
    port: u16,
    at_most: usize,
    found: &mut Vec<Connection>,
) -> Result<bool, DumpError> {
    let asked = Asked { family: Some(family), states: 1 << ESTABLISHED, extensions: 1 << (INET_DIAG_INFO - 1), port };
    connections(asked, at_most, found)
}

/// The connections of a port in all other states but TIME-WAIT, of which the kernel keeps count itself.
pub(crate) fn others(
    family: Family,
    port: u16,
    at_most: usize,
    found: &mut Vec<Connection>,
) -> Result<bool, DumpError> {
    let states = 0xfff & !(1 << ESTABLISHED | 1 << TIME_WAIT | 1 << LISTEN | 1);
    connections(Asked { family: Some(family), states, extensions: 0, port }, at_most, found)
}

/// All connections of a family, or of both, in all states but LISTEN and TIME-WAIT, at most so many, with `tcp_info` where the kernel has it, but
/// those to one of some ports at a loopback address. Returns whether these are all.
pub(crate) fn all_but(
    family: Option<Family>,
    to_loopback: &[u16],
    at_most: usize,
    found: &mut Vec<Connection>,
) -> Result<bool, DumpError> {
    let states = 0xfff & !(1 << TIME_WAIT | 1 << LISTEN | 1);
    let asked = Asked { family, states, extensions: 1 << (INET_DIAG_INFO - 1), port: 0 };
    through(&but(&[], to_loopback, family), asked, at_most, found)
}

/// The connections that do not have one of these ports at this end, in all states but LISTEN, SYN-RECV and TIME-WAIT, with their
/// `tcp_info` or without, which is cheaper.
pub(crate) fn from_other_ports(
    family: Family,
    ports: &[u16],
    has_info: bool,
    at_most: usize,
    found: &mut Vec<Connection>,
) -> Result<bool, DumpError> {
    // SYN-RECV (3 and 12) is of connections that come, not of those that go.
    let states = 0xfff & !(1 << TIME_WAIT | 1 << LISTEN | 1 << SYN_RECEIVED | 1);
    let asked = Asked { family: Some(family), states, extensions: u8::from(has_info) << (INET_DIAG_INFO - 1), port: 0 };
    through(&but(ports, &[], Some(family)), asked, at_most, found)
}

fn connections(asked: Asked, at_most: usize, found: &mut Vec<Connection>) -> Result<bool, DumpError> {
    through(&[], asked, at_most, found)
}

fn through(filter: &[u8], asked: Asked, at_most: usize, found: &mut Vec<Connection>) -> Result<bool, DumpError> {
    let first = found.len();
    let mut is_whole = true;
    dump_through(filter, asked, at_most.saturating_add(64) * SOCKET_BYTES, |payload| {
        if found.len() - first == at_most {
            is_whole = false;
            return Some(Go::Enough);
        }
        found.push(connection(payload)?);
        Some(Go::On)
    })?;
    Ok(is_whole)
}

fn connection(payload: &[u8]) -> Option<Connection> {
    let attributes = payload.get(MESSAGE_BYTES..)?;
    let port = |at: usize| Some(u16::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    // Any other family here is AF_INET.
    let is_ipv6 = payload[0] == Family::V6.number();
    let ip: IpAddr = match is_ipv6 {
        true => (*payload.get(24..)?.first_chunk::<16>()?).into(),
        false => (*payload.get(24..)?.first_chunk::<4>()?).into(),
    };
    let state = payload[1];
    // The kernel counts a FIN that was not read as a byte.
    let fin = u32::from(state == CLOSE_WAIT);
    Some(Connection {
        state,
        cookie: u64::from_ne_bytes(*payload.get(44..)?.first_chunk()?),
        inode: u32_at(payload, 68)?,
        is_ipv6,
        port: port(4)?,
        remote: SocketAddr::new(ip, port(6)?),
        received_bytes: u32_at(payload, 56)?.saturating_sub(fin),
        sent_bytes: u32_at(payload, 60)?,
        info: attribute(attributes, INET_DIAG_INFO).and_then(TcpInfo::parse),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn attributes_are_found_and_hostile_lengths_end_the_search() {
        let mut bytes = Vec::new();
        for (kind, value) in [(9u16, &[1u8, 2, 3][..]), (2, &[4, 5])] {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        assert_eq!(attribute(&bytes, 2), Some(&[4, 5][..]));
        assert_eq!(attribute(&bytes, 3), None);
        for at in 0..bytes.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut garbled = bytes.clone();
                garbled[at] = value;
                let _ = attribute(&garbled, 2);
                let _ = attribute(&garbled[..at], 2);
            }
        }
        assert_eq!(connection(&[0; 71]), None);
    }

    #[test]
    fn real_connections_are_listed_within_the_bound() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
        let servers: Vec<_> = (0..5).map(|_| listener.accept().unwrap().0).collect();
        clients[0].write_all(&[1; 77]).unwrap();
        let all = |at_most| {
            let mut all = Vec::new();
            all_but(Some(Family::V4), &[], at_most, &mut all).map(|is_whole| (all.len(), is_whole)).unwrap()
        };
        // What is sent has come a moment later where the kernel has much to do.
        let found = testkit::wait_for("what was sent", || {
            let mut found = Vec::new();
            assert!(established(Family::V4, address.port(), 100, &mut found).unwrap());
            (found.iter().map(|c| c.received_bytes).sum::<u32>() == 77).then_some(found)
        });
        assert_eq!(found.len(), 5, "the server's ends only");
        assert!(found.iter().all(|c| c.state == ESTABLISHED && c.info.is_some()), "{found:?}");
        let mut some = Vec::new();
        assert!(!established(Family::V4, address.port(), 3, &mut some).unwrap());
        assert_eq!(some.len(), 3);
        assert_eq!(all(3), (3, false), "of both ends there are more");
        drop(clients);
        testkit::wait_until("five in CLOSE-WAIT, of which nothing but what was sent is unread", || {
            let mut closing = Vec::new();
            assert!(others(Family::V4, address.port(), 100, &mut closing).unwrap());
            let closed = || closing.iter().filter(|c| c.state == CLOSE_WAIT);
            // One of them has sent 77 bytes before.
            closed().count() == 5 && closed().map(|c| c.received_bytes).sum::<u32>() == 77
        });
        drop(servers);
        let mut none = Vec::new();
        assert!(established(Family::V6, address.port(), 100, &mut none).unwrap() && none.is_empty());
    }

    #[test]
    fn connections_from_other_ports_are_listed_with_their_ends_and_inodes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let server = listener.accept().unwrap().0;
        let inode = |socket: &dyn AsFd| rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        let listed = |ports: &[u16]| {
            let mut found = Vec::new();
            from_other_ports(Family::V4, ports, true, 10_000, &mut found).unwrap();
            found
        };
        let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let found = listed(&[other, address.port(), 1]);
        let own = found.iter().find(|c| u64::from(c.inode) == inode(&client)).expect("the client's end");
        assert_eq!((own.remote, own.port), (address, client.local_addr().unwrap().port()));
        assert!(own.cookie != 0 && own.info.is_some() && own.state == ESTABLISHED, "{own:?}");
        let mut bare = Vec::new();
        from_other_ports(Family::V4, &[address.port()], false, 10_000, &mut bare).unwrap();
        assert!(bare.contains(&Connection { info: None, ..*own }), "the same without: {bare:?}");
        assert!(found.iter().all(|c| u64::from(c.inode) != inode(&server)), "its port was left out");
        assert!(found.iter().all(|c| c.port != address.port() && c.state != LISTEN));
        let all = listed(&[]);
        let served = all.iter().find(|c| u64::from(c.inode) == inode(&server)).expect("without a filter");
        assert_eq!((served.port, served.remote), (address.port(), client.local_addr().unwrap()));
        assert!(listed(&[1, client.local_addr().unwrap().port()]).iter().all(|c| u64::from(c.inode) != inode(&client)));
        // As many ports as are ever left out.
        assert!(listed(&(1..=64).collect::<Vec<u16>>()).iter().any(|c| u64::from(c.inode) == inode(&client)));
    }
}
