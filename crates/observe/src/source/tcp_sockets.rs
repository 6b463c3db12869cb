//! Connections of one port by netlink (sock_diag(7)): their states, and of the established ones `tcp_info`.
//!
//! The kernel walks through the table of all connections of the namespace in the order of a hash of addresses and
//! ports, so the first ones are as good a sample as any, and mostly the same from reading to reading.

use super::sock_diag::{Asked, DumpError, Family, Go, dump, u32_at};
use super::tcp_info::TcpInfo;

/// `INET_DIAG_INFO` of linux/inet_diag.h.
const INET_DIAG_INFO: u16 = 2;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
/// `TCP_ESTABLISHED` and `TCP_TIME_WAIT`, `TCP_LISTEN` of net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;
/// Bytes that a socket takes in the answer, at the most.
const SOCKET_BYTES: usize = 1024;

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Connection {
    /// Its state, of net/tcp_states.h.
    pub(crate) state: u8,
    /// Bytes that came and were not read.
    pub(crate) received_bytes: u32,
    /// Bytes sent and not acknowledged, or not sent.
    pub(crate) sent_bytes: u32,
    /// `None`: it has none, as in SYN-RECV.
    pub(crate) info: Option<TcpInfo>,
}

/// The established connections of a port with their `tcp_info`, at most so many. Returns whether these are all.
pub(crate) fn established(
    family: Family,
    port: u16,
    at_most: usize,
    found: &mut Vec<Connection>,
) -> Result<bool, DumpError> {
    let asked = Asked { family, states: 1 << ESTABLISHED, extensions: 1 << (INET_DIAG_INFO - 1), port };
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
    connections(Asked { family, states, extensions: 0, port }, at_most, found)
}

fn connections(asked: Asked, at_most: usize, found: &mut Vec<Connection>) -> Result<bool, DumpError> {
    let first = found.len();
    let mut is_whole = true;
    dump(asked, at_most.saturating_add(64) * SOCKET_BYTES, |payload| {
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
    Some(Connection {
        state: payload[1],
        received_bytes: u32_at(payload, 56)?,
        sent_bytes: u32_at(payload, 60)?,
        info: attribute(attributes, INET_DIAG_INFO).and_then(TcpInfo::parse),
    })
}

/// The value of an attribute: each has a length, header included, and a type, and begins at a multiple of four bytes.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

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
        drop(clients);
        testkit::wait_until("five in CLOSE-WAIT: the peer has closed, we have not", || {
            let mut closing = Vec::new();
            assert!(others(Family::V4, address.port(), 100, &mut closing).unwrap());
            closing.iter().filter(|c| c.state == 8).count() == 5
        });
        drop(servers);
        let mut none = Vec::new();
        assert!(established(Family::V6, address.port(), 100, &mut none).unwrap() && none.is_empty());
    }
}
