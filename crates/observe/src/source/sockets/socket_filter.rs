//! A filter of sockets by their two ends, as the kernel runs it over each socket that a request of sock_diag(7) walks
//! through (`INET_DIAG_REQ_BYTECODE`; `inet_diag_bc_run` of net/ipv4/inet_diag.c): so connections that clients made to a
//! server are not handed over one by one where only those are wanted that it made itself.
//!
//! Each step is four bytes: what it does, how far to go on if it holds, how far if not. Behind a comparison of ports stands a step
//! whose last field is the port, behind one of an end a `struct inet_diag_hostcond`: its family, how many bits of the address count,
//! the port, and the address. Who comes to the end is let through, who goes beyond is not.

use super::sock_diag::Family;
use std::net::{Ipv4Addr, Ipv6Addr};

/// `INET_DIAG_BC_NOP`, `_JMP`, `_S_GE`, `_S_LE` and `_D_COND`.
const NOP: u8 = 0;
const JUMP: u8 = 1;
const AT_LEAST: u8 = 2;
const AT_MOST: u8 = 3;
const OTHER_END: u8 = 8;
/// Bytes of a step, of the five that a port takes, and of `struct inet_diag_hostcond` without its address.
const STEP: usize = 4;
const PORT: usize = 5 * STEP;
const END: usize = 8;
/// So many of each kind are left out that the way beyond the end can be told in 16 bits.
const PORTS_MAX: usize = 900;

/// Lets through all but those that have one of some ports at this end, and those whose other end is one of some ports at a loopback
/// address, of a family or of both; empty where there are none of both.
pub(crate) fn but(from: &[u16], to_loopback: &[u16], family: Option<Family>) -> Vec<u8> {
    let from = from.get(..from.len().min(PORTS_MAX)).unwrap_or_default();
    let to_loopback = to_loopback.get(..to_loopback.len().min(PORTS_MAX)).unwrap_or_default();
    // As many bits count as the address has before its zeros, and all of the other.
    let loopback_v4 = (Family::V4, 8, &Ipv4Addr::new(127, 0, 0, 0).octets()[..]);
    let loopback_v6 = (Family::V6, 128, &Ipv6Addr::LOCALHOST.octets()[..]);
    let loopback: Vec<(Family, u8, &[u8])> =
        [loopback_v4, loopback_v6].into_iter().filter(|(of, ..)| family.is_none_or(|family| family == *of)).collect();
    let end_bytes = |address: &[u8]| STEP + END + address.len();
    let each = loopback.iter().map(|(_, _, address)| end_bytes(address) + STEP).sum::<usize>();
    let whole = from.len() * PORT + to_loopback.len() * each;
    let mut bytes = Vec::with_capacity(whole);
    for port in from {
        // Not at least this port, or not at most: to the next one.
        step(&mut bytes, AT_LEAST, 2 * STEP, PORT);
        step(&mut bytes, NOP, STEP, (*port).into());
        step(&mut bytes, AT_MOST, 2 * STEP, PORT - 2 * STEP);
        step(&mut bytes, NOP, STEP, (*port).into());
        leave(&mut bytes, whole);
    }
    for port in to_loopback {
        for (of, bits, address) in &loopback {
            step(&mut bytes, OTHER_END, end_bytes(address), end_bytes(address) + STEP);
            bytes.extend([of.number(), *bits, 0, 0]);
            bytes.extend(i32::from(*port).to_ne_bytes());
            bytes.extend(*address);
            leave(&mut bytes, whole);
        }
    }
    bytes
}

fn step(bytes: &mut Vec<u8>, what: u8, yes: usize, no: usize) {
    // Both are less than 2^16 by the bound on ports, and `yes` is at most a step with an address.
    bytes.extend([what, u8::try_from(yes).unwrap_or(u8::MAX)]);
    bytes.extend(u16::try_from(no).unwrap_or(u16::MAX).to_ne_bytes());
}

/// A jump goes the way of what does not hold: one step beyond the end.
fn leave(bytes: &mut Vec<u8>, whole: usize) {
    let left = whole.saturating_sub(bytes.len());
    step(bytes, JUMP, STEP, left + STEP);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, SocketAddr};

    /// As the kernel runs it.
    fn lets_through(filter: &[u8], port: u16, other: SocketAddr) -> bool {
        let (mut at, end) = (0, filter.len());
        while at < end {
            let no = |at: usize| u16::from_ne_bytes([filter[at + 2], filter[at + 3]]);
            let holds = match filter[at] {
                AT_LEAST => port >= no(at + 4),
                AT_MOST => port <= no(at + 4),
                OTHER_END => {
                    let asked = i32::from_ne_bytes(filter[at + 8..at + 12].try_into().unwrap());
                    let octets = match other.ip() {
                        IpAddr::V4(ip) => ip.octets().to_vec(),
                        IpAddr::V6(ip) => ip.octets().to_vec(),
                    };
                    let family = if other.is_ipv6() { 10 } else { 2 };
                    let bytes = usize::from(filter[at + 5]) / 8;
                    asked == i32::from(other.port())
                        && filter[at + 4] == family
                        && filter[at + 12..at + 12 + bytes] == octets[..bytes]
                }
                JUMP => false,
                other => panic!("{other} at {at}"),
            };
            at += if holds { usize::from(filter[at + 1]) } else { usize::from(no(at)) };
        }
        at == end
    }

    #[test]
    fn only_the_ports_that_are_named_are_left_out() {
        let other: SocketAddr = "127.0.0.1:80".parse().unwrap();
        for ports in [&[80][..], &[80, 443], &[443, 80, 81], &[0, u16::MAX]] {
            let filter = but(ports, &[], Some(Family::V4));
            for port in [0, 1, 79, 80, 81, 82, 442, 443, 444, u16::MAX - 1, u16::MAX] {
                assert_eq!(lets_through(&filter, port, other), !ports.contains(&port), "{port} of {ports:?}");
            }
        }
        assert!(but(&[], &[], None).is_empty());
        let many: Vec<u16> = (1..=2000).collect();
        assert_eq!(but(&many, &[], None).len(), 18_000);
        for family in [Some(Family::V4), Some(Family::V6), None] {
            let filter = but(&many, &many, family);
            assert!(filter.len() < usize::from(u16::MAX) - 8 && !lets_through(&filter, 1, other), "{family:?}");
            assert!(lets_through(&filter, 5000, "10.0.0.1:80".parse().unwrap()));
        }
    }

    #[test]
    fn who_went_to_a_port_of_this_machine_is_left_out_and_who_went_to_another_machine_is_not() {
        for (family, to, is_let_through) in [
            (Family::V4, "127.0.0.1:80", false),
            (Family::V4, "127.9.9.9:443", false),
            (Family::V4, "127.0.0.1:81", true),
            (Family::V4, "10.0.0.1:80", true),
            (Family::V6, "[::1]:80", false),
            (Family::V6, "[::2]:80", true),
            (Family::V6, "[::1]:81", true),
        ] {
            for (from, family) in [(&[][..], Some(family)), (&[8080], Some(family)), (&[], None), (&[8080], None)] {
                let filter = but(from, &[80, 443], family);
                assert_eq!(lets_through(&filter, 40_000, to.parse().unwrap()), is_let_through, "{to} {from:?}");
                assert_eq!(lets_through(&filter, 8080, to.parse().unwrap()), is_let_through && from.is_empty(), "{to}");
            }
        }
    }
}
