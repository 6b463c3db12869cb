//! Messages of sock_diag(7): a list of TCP sockets asked for, and one of them ended (`SOCK_DESTROY`).
//!
//! Bytes only, no socket. Numbers are in the machine's order but for ports and addresses (linux/netlink.h,
//! linux/inet_diag.h). Nothing here trusts a length.

use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const IPPROTO_TCP: u8 = 6;
/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Bytes of `struct inet_diag_sockid`.
const ID_BYTES: usize = 48;
/// Bytes of `struct inet_diag_req_v2`, header included.
pub(super) const REQUEST_BYTES: usize = HEADER_BYTES + 8 + ID_BYTES;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// AF_INET is 2 and AF_INET6 is 10 on every architecture of Linux.
    fn number(self) -> u8 {
        match self {
            Family::V4 => 2,
            Family::V6 => 10,
        }
    }
}

/// A socket as the kernel names it: its cookie keeps another that took its addresses from being meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) family: Family,
    bytes: [u8; ID_BYTES],
}

impl Id {
    /// The other end; an IPv4 address within IPv6 is the IPv4 address it stands for.
    pub(super) fn remote(&self) -> SocketAddr {
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        let at = &self.bytes[20..36];
        let ip = match self.family {
            Family::V4 => IpAddr::from(*at.first_chunk::<4>().unwrap_or(&[0; 4])),
            Family::V6 => IpAddr::from(*at.first_chunk::<16>().unwrap_or(&[0; 16])),
        };
        SocketAddr::new(ip.to_canonical(), port)
    }
}

/// A socket of the kernel's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: Id,
    /// Its inode, as in `/proc/<pid>/fd`.
    pub(super) inode: u32,
    /// Of one that listens, how many connections may wait for accept.
    pub(super) backlog: u32,
}

/// Asks for the sockets of a family in one state whose other end has this port; 0 of those that listen.
pub(super) fn list(sequence: u32, family: Family, state: u8, port: u16) -> [u8; REQUEST_BYTES] {
    let mut bytes = request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, sequence, family, 1 << state);
    // `idiag_dport`: the kernel leaves out the others.
    bytes[26..28].copy_from_slice(&port.to_be_bytes());
    bytes
}

/// Asks to end one.
pub(super) fn destroy(sequence: u32, id: &Id, state: u8) -> [u8; REQUEST_BYTES] {
    let mut bytes = request(SOCK_DESTROY, NLM_F_ACK, sequence, id.family, 1 << state);
    bytes[24..].copy_from_slice(&id.bytes);
    bytes
}

fn request(kind: u16, flags: u16, sequence: u32, family: Family, states: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[16] = family.number();
    bytes[17] = IPPROTO_TCP;
    bytes[20..24].copy_from_slice(&states.to_ne_bytes());
    bytes
}

/// What a datagram of the kernel's says at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// More comes.
    More,
    /// The list is whole.
    Done,
    /// The request was carried out, or not.
    Answer(Result<(), Errno>),
}

/// Takes a datagram apart; `None` where it is not of the documented form, or answers another request.
pub(super) fn read(datagram: &[u8], sequence: u32, state: u8, mut found: impl FnMut(Listed)) -> Option<Said> {
    let mut rest = datagram;
    let mut said = None;
    while !rest.is_empty() {
        let header = rest.first_chunk::<HEADER_BYTES>()?;
        let length = usize::try_from(u32_at(header, 0)?).ok()?;
        let message = (length >= HEADER_BYTES).then(|| rest.get(..length)).flatten()?;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let payload = &message[HEADER_BYTES..];
        if u32_at(header, 8)? != sequence {
            return None;
        }
        match kind {
            NLMSG_NOOP => {}
            NLMSG_DONE | NLMSG_ERROR => {
                let code = u32_at(payload, 0)?.cast_signed().checked_neg()?;
                return match (kind, code) {
                    (NLMSG_DONE, 0) => Some(Said::Done),
                    (_, 0) => Some(Said::Answer(Ok(()))),
                    // `MAX_ERRNO` of linux/err.h.
                    (_, 1..=4095) => Some(Said::Answer(Err(Errno::from_raw_os_error(code)))),
                    _ => None,
                };
            }
            SOCK_DIAG_BY_FAMILY => {
                if let Some(listed) = socket(payload, state)? {
                    found(listed);
                }
            }
            _ => return None,
        }
        said = Some(Said::More);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    said
}

/// One `struct inet_diag_msg`; `Some(None)` where it is in another state or family.
fn socket(payload: &[u8], state: u8) -> Option<Option<Listed>> {
    let bytes = *payload.get(4..)?.first_chunk::<ID_BYTES>()?;
    let family = match payload[0] {
        2 => Family::V4,
        10 => Family::V6,
        _ => return Some(None),
    };
    // Of one that listens, `idiag_wqueue` is the most that may wait.
    let (backlog, inode) = (u32_at(payload, 60)?, u32_at(payload, 68)?);
    Some((payload[1] == state).then_some(Listed { id: Id { family, bytes }, inode, backlog }))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((HEADER_BYTES + payload.len()) as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes
    }

    fn described(family: u8, state: u8, remote: &[u8], port: u16) -> Vec<u8> {
        let mut payload = vec![0; 72];
        (payload[0], payload[1]) = (family, state);
        payload[6..8].copy_from_slice(&port.to_be_bytes());
        payload[24..24 + remote.len()].copy_from_slice(remote);
        payload
    }

    fn all(datagram: &[u8]) -> (Option<Said>, Vec<String>) {
        let mut found = Vec::new();
        let said = read(datagram, 7, 6, |listed| found.push(listed.id.remote().to_string()));
        (said, found)
    }

    #[test]
    fn sockets_are_named_by_their_other_end() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
        let datagram = [
            message(SOCK_DIAG_BY_FAMILY, 7, &described(2, 6, &[127, 0, 0, 1], 8080)),
            message(SOCK_DIAG_BY_FAMILY, 7, &described(2, 1, &[127, 0, 0, 9], 8080)),
            message(SOCK_DIAG_BY_FAMILY, 7, &described(10, 6, &mapped, 443)),
        ]
        .concat();
        let (said, found) = all(&datagram);
        assert_eq!((said, found), (Some(Said::More), vec!["127.0.0.1:8080".to_owned(), "10.0.0.1:443".to_owned()]));
        assert_eq!(all(&message(NLMSG_DONE, 7, &[0; 4])).0, Some(Said::Done));
        let refused = message(NLMSG_ERROR, 7, &(-95i32).to_ne_bytes());
        assert_eq!(all(&refused).0, Some(Said::Answer(Err(Errno::OPNOTSUPP))));
        assert_eq!(all(&message(NLMSG_ERROR, 7, &[0; 4])).0, Some(Said::Answer(Ok(()))));
    }

    #[test]
    fn what_is_asked_to_end_is_the_very_socket_that_was_listed() {
        let mut found = Vec::new();
        let mut payload = described(2, 6, &[127, 0, 0, 1], 8080);
        payload[44..52].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        read(&message(SOCK_DIAG_BY_FAMILY, 7, &payload), 7, 6, |id| found.push(id)).unwrap();
        let request = destroy(9, &found[0].id, 6);
        assert_eq!(request[24..], payload[4..52]);
        assert_eq!(request[64..72], [1, 2, 3, 4, 5, 6, 7, 8], "the cookie is the last eight bytes");
        assert_eq!((request[16], request[17]), (2, 6));
        assert_eq!(list(1, Family::V6, 6, 8080)[26..28], [0x1f, 0x90]);
    }

    #[test]
    fn hostile_bytes_are_no_answer_and_no_panic() {
        let whole =
            [message(SOCK_DIAG_BY_FAMILY, 7, &described(2, 6, &[127, 0, 0, 1], 8080)), message(NLMSG_DONE, 7, &[0; 4])]
                .concat();
        for cut in 0..whole.len() {
            let (said, _) = all(&whole[..cut]);
            assert!(said != Some(Said::Done), "cut at {cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0x80, 0xff] {
                let mut garbled = whole.clone();
                garbled[at] = value;
                assert!(all(&garbled).1.len() <= 1);
            }
        }
        assert_eq!(all(&message(NLMSG_DONE, 8, &[0; 4])).0, None, "another request's");
        assert_eq!(all(&message(NLMSG_ERROR, 7, &i32::MIN.to_ne_bytes())).0, None);
    }
}
