//! A SYN flood: first packets of connections that never go on, from many addresses, by a raw socket.
//!
//! The server answers each, and keeps it until it gives up (RFC 4987). Only to a port of this host, by the loopback interface: the
//! addresses are of the loopback network ([`SYN_NETWORK`]), so nothing of it leaves the machine. This host would refuse
//! what it did not ask for, so the answers must be dropped ([`crate::network::firewall::Packets::Unanswered`]). IPv4 only. Needs
//! CAP_NET_RAW. Source: RFC 9293, 3.1 (header), RFC 1071 (checksum). Cost: a system call a packet.
//!
//! [`SYN_NETWORK`]: crate::network::firewall::SYN_NETWORK

use super::flood::Due;
use crate::helper::job::Work;
use crate::helper::report::Report;
use crate::helper::why;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Between two batches.
const TICK: Duration = Duration::from_millis(2);
/// An IP header without options, and a TCP header with that of the largest segment.
const PACKET_BYTES: usize = 20 + 24;

/// `IPPROTO_RAW`: sends whole packets, and receives none (raw(7)).
const PROTOCOL_RAW: i32 = 255;

/// So many SYNs a second.
#[derive(Debug)]
pub(crate) struct SynFlood {
    to: SocketAddrV4,
    due: Due,
    socket: Socket,
    next: u32,
    packets: u64,
    refused: u64,
}

impl SynFlood {
    pub(crate) fn new(port: u16, per_s: u32) -> Result<Self, String> {
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let socket = Socket::new(Domain::IPV4, Type::RAW.cloexec().nonblocking(), Some(Protocol::from(PROTOCOL_RAW)))
            .map_err(|error| format!("a raw socket (CAP_NET_RAW) cannot be had: {}", why(error)))?;
        Ok(SynFlood { to, due: Due::new(per_s), socket, next: 0, packets: 0, refused: 0 })
    }
}

impl Work for SynFlood {
    fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn step(&mut self, now: Instant) -> Duration {
        let to = SockAddr::from(SocketAddrV4::new(*self.to.ip(), 0));
        for _ in 0..self.due.now(now) {
            let packet = syn(self.to, self.next);
            self.next = self.next.wrapping_add(1);
            match self.socket.send_to(&packet, &to) {
                Ok(_) => self.packets += 1,
                Err(_) => self.refused += 1,
            }
        }
        TICK
    }

    fn report(&self) -> Report {
        Report::Sent { packets: self.packets, refused: self.refused }
    }
}

/// The nth SYN: 65,536 addresses, and another port after all of them, 60,000 of these.
fn syn(to: SocketAddrV4, n: u32) -> [u8; PACKET_BYTES] {
    let [c, d] = (n as u16).to_be_bytes();
    let source = [127, 77, c, d];
    let port = (1024 + (n >> 16) % 60_000) as u16;
    let mut packet = [0; PACKET_BYTES];
    let put =
        |packet: &mut [u8; PACKET_BYTES], at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    // Version 4, five words of header; the kernel fills in length, id and checksum (raw(7)).
    put(&mut packet, 0, &[0x45]);
    put(&mut packet, 2, &(PACKET_BYTES as u16).to_be_bytes());
    put(&mut packet, 8, &[64, 6]);
    put(&mut packet, 12, &source);
    put(&mut packet, 16, &to.ip().octets());
    put(&mut packet, 20, &port.to_be_bytes());
    put(&mut packet, 22, &to.port().to_be_bytes());
    put(&mut packet, 24, &n.wrapping_mul(0x9e37_79b1).to_be_bytes());
    // Six words of header, SYN, a window; the largest segment 1460 bytes.
    put(&mut packet, 32, &[0x60, 0x02]);
    put(&mut packet, 34, &64_240_u16.to_be_bytes());
    put(&mut packet, 40, &[2, 4, 0x05, 0xb4]);
    let sum = checksum(&packet);
    put(&mut packet, 36, &sum.to_be_bytes());
    packet
}

/// Of the TCP header with its pseudo-header: addresses, protocol, length.
fn checksum(packet: &[u8; PACKET_BYTES]) -> u16 {
    let words = packet[12..].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum::<u32>() + 6 + (PACKET_BYTES as u32 - 20);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_from_elsewhere_and_adds_up() {
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
        let [first, second, later] = [0, 1, 1 << 16].map(|n| syn(to, n));
        assert_eq!((&first[12..16], &second[12..16]), (&[127, 77, 0, 0][..], &[127, 77, 0, 1][..]));
        assert_eq!((&first[12..16], &first[22..24]), (&later[12..16], &later[22..24]));
        assert_ne!(first[20..22], later[20..22]);
        assert!(crate::network::firewall::SYN_NETWORK.starts_with("127.77."));
        // With its checksum in place, the sum is that of nothing (RFC 1071, 1).
        assert_eq!(checksum(&first), 0);
    }
}
