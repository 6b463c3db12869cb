//! Packets of a queue, held until they are due: a path that is longer, uneven, narrow, or that doubles and spoils.
//!
//! The kernel waits for a verdict on each packet, which is given when the packet is due. Jitter keeps the order, as most paths do;
//! reordering is a treatment of its own. A narrow path sends one packet after the other, each way by itself, and drops what
//! comes where half a second of work waits, as a router's full queue would. What is held when this ends is let go. One
//! that is changed or doubled is taken in the size of the wire; the others come whole, up to 64 KiB (GSO), and count as one.
//! Cost: a system call a packet, one for all that are let go together; figures in
//! docs/decisions/2026-11-24-packets.md.

use super::message::{Said, accept, bind, configure, drop_packet, said};
use super::{MARK, Treatment};
use crate::helper::job::Work;
use crate::helper::report::{Packets, Report};
use crate::helper::why;
use crate::limits::PACKETS_HELD_MAX;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// One packet and what is said of it.
const DATAGRAM_BYTES: usize = 72 << 10;
/// What the kernel may have told us and we not read.
const RECEIVE_BYTES: usize = 16 << 20;
/// Of a packet that is not changed only its head is wanted: it has the length and the ports.
const HEAD_BYTES: u32 = 96;
/// Packets taken before those that are due are let go.
const BATCH: usize = 256;
/// Verdicts sent at once, bytes.
const VERDICT_BYTES: usize = 16 << 10;
/// Longest work that waits on a narrow path.
const BACKLOG_MAX: Duration = Duration::from_millis(500);
/// How long one that is overtaken is held.
const OVERTAKEN: Duration = Duration::from_millis(5);
/// Longest wait with nothing held.
const IDLE: Duration = Duration::from_millis(500);
/// `IPPROTO_RAW`: sends whole packets, and receives none (raw(7)).
const PROTOCOL_RAW: i32 = 255;

/// A packet that is held, the first due first: when, its place in line, its id, its bytes where they were changed.
type Held = Reverse<(Instant, u64, u32, Option<Vec<u8>>)>;

/// The queue and what is held of it.
#[derive(Debug)]
pub(crate) struct Path {
    socket: OwnedFd,
    queue: u16,
    port: u16,
    treatment: Treatment,
    held: BinaryHeap<Held>,
    /// Numbers packets: two that are due at one moment leave in the order in which they came.
    order: u64,
    /// When the last one that keeps its order leaves.
    last: Option<Instant>,
    /// When the narrow path is free again, to the port and from it.
    free: [Option<Instant>; 2],
    random: SmallRng,
    again: Option<Socket>,
    counts: Packets,
    buffer: Vec<u8>,
    verdicts: Vec<u8>,
}

impl Path {
    /// Takes the queue.
    pub(crate) fn new(queue: u16, port: u16, treatment: Treatment, seed: u64) -> Result<Self, String> {
        let refused = |what: &str, error: Errno| match error {
            Errno::BUSY => format!("queue {queue} of packets is another process's: try again"),
            Errno::PERM => "CAP_NET_ADMIN is missing: run as root".to_owned(),
            error => format!("this kernel queues no packets (CONFIG_NETFILTER_NETLINK_QUEUE; {what}: {})", why(error)),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))
            .map_err(|error| refused("a socket", error))?;
        connect(&socket, &SocketAddrNetlink::new(0, 0)).map_err(|error| refused("a connection", error))?;
        // More than a user may have, where that is allowed.
        let _ = set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)
            .or_else(|_| set_socket_recv_buffer_size(&socket, RECEIVE_BYTES));
        let is_changed = matches!(treatment, Treatment::Corrupted { .. } | Treatment::Doubled { .. });
        let copied = if is_changed { u32::from(u16::MAX) } else { HEAD_BYTES };
        for request in [bind(queue), configure(queue, copied, PACKETS_HELD_MAX, !is_changed)] {
            ask(&socket, &request).map_err(|error| refused("a queue", error))?;
        }
        let again = matches!(treatment, Treatment::Doubled { .. }).then(raw).transpose()?;
        Ok(Path {
            socket,
            queue,
            port,
            treatment,
            held: BinaryHeap::new(),
            order: 0,
            last: None,
            free: [None; 2],
            random: SmallRng::seed_from_u64(seed),
            again,
            counts: Packets::default(),
            buffer: vec![0; DATAGRAM_BYTES],
            verdicts: Vec::with_capacity(VERDICT_BYTES),
        })
    }

    /// Whether one of so many of a million is drawn.
    fn is_drawn(&mut self, ppm: u32) -> bool {
        self.random.random_ratio(ppm, 1_000_000)
    }

    fn take(&mut self, now: Instant) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..BATCH {
            // A buffer that ran over (ENOBUFS) is told once; what was lost then is in the kernel's counts.
            let Ok((bytes @ 1.., _)) = recv(&self.socket, &mut buffer[..], RecvFlags::empty()) else { break };
            for said in said(&buffer[..bytes]) {
                if let Said::Packet { id, bytes } = said {
                    self.came(id, bytes, now);
                }
            }
        }
        self.buffer = buffer;
    }

    /// Decides when a packet leaves, and as what.
    fn came(&mut self, id: u32, bytes: &[u8], now: Instant) {
        self.counts.taken += 1;
        let mut changed = None;
        let leaves = match self.treatment {
            Treatment::Delayed { by_ns, jitter_ns } => {
                let more = self.random.random_range(0..=jitter_ns);
                let leaves = now + Duration::from_nanos(by_ns + more);
                let leaves = self.last.map_or(leaves, |last| last.max(leaves));
                self.last = Some(leaves);
                leaves
            }
            Treatment::Narrow { bytes_per_s } => {
                let way = usize::from(ports(bytes).is_some_and(|(from, _)| from == self.port));
                let starts = self.free[way].map_or(now, |free| free.max(now));
                if starts - now > BACKLOG_MAX {
                    self.counts.dropped += 1;
                    self.say(&drop_packet(self.queue, id));
                    return;
                }
                let leaves = starts + Duration::from_secs_f64(length(bytes) as f64 / bytes_per_s as f64);
                self.free[way] = Some(leaves);
                leaves
            }
            Treatment::Reordered { ppm } => {
                let is_overtaken = self.is_drawn(ppm);
                self.counts.reordered += u64::from(is_overtaken);
                if is_overtaken { now + OVERTAKEN } else { now }
            }
            Treatment::Doubled { ppm } => {
                if self.is_drawn(ppm) {
                    self.repeat(bytes);
                }
                now
            }
            Treatment::Corrupted { ppm, is_undetected } => {
                if self.is_drawn(ppm) {
                    changed = self.spoilt(bytes, is_undetected);
                }
                now
            }
        };
        let is_held = leaves > now && !matches!(self.treatment, Treatment::Reordered { .. });
        self.counts.held += u64::from(is_held);
        self.order += 1;
        self.held.push(Reverse((leaves, self.order, id, changed)));
    }

    /// Sends a packet once more, marked so that it does not come here again. Of IPv4 alone.
    fn repeat(&mut self, bytes: &[u8]) {
        let (Some(socket), Some(to)) = (&self.again, destination(bytes)) else { return };
        let sent =
            bytes.len() >= length(bytes) && socket.send_to(bytes, &SockAddr::from(SocketAddrV4::new(to, 0))).is_ok();
        self.counts.doubled += u64::from(sent);
        self.counts.too_long += u64::from(!sent);
    }

    /// The packet with a bit of its data changed, where it has data and came whole.
    fn spoilt(&mut self, bytes: &[u8], is_undetected: bool) -> Option<Vec<u8>> {
        if bytes.len() < length(bytes) {
            self.counts.too_long += 1;
            return None;
        }
        let mut changed = bytes.to_vec();
        let drawn = self.random.random();
        let is_changed = spoil(&mut changed, drawn, is_undetected);
        self.counts.corrupted += u64::from(is_changed);
        is_changed.then_some(changed)
    }

    /// Lets go what is due; all of it, where no moment is given.
    fn let_go(&mut self, until: Option<Instant>) {
        while let Some(Reverse((leaves, ..))) = self.held.peek() {
            if until.is_some_and(|until| *leaves > until) {
                break;
            }
            if let Some(until) = until {
                let late = u64::try_from((until - *leaves).as_nanos()).unwrap_or(u64::MAX);
                self.counts.late_ns_max = self.counts.late_ns_max.max(late);
            }
            if let Some(Reverse((_, _, id, changed))) = self.held.pop() {
                self.say(&accept(self.queue, id, changed.as_deref()));
            }
        }
        self.flush();
    }

    /// Verdicts go together. Each is answered only where its packet is gone with its interface.
    fn say(&mut self, message: &[u8]) {
        if self.verdicts.len() + message.len() > VERDICT_BYTES {
            self.flush();
        }
        self.verdicts.extend(message);
    }

    fn flush(&mut self) {
        if !self.verdicts.is_empty() {
            let _ = send(&self.socket, &self.verdicts, SendFlags::empty());
            self.verdicts.clear();
        }
    }
}

impl Work for Path {
    fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn step(&mut self, now: Instant) -> Duration {
        self.take(now);
        self.let_go(Some(Instant::now()));
        let next = self.held.peek().map(|Reverse((leaves, ..))| leaves.saturating_duration_since(Instant::now()));
        next.unwrap_or(IDLE).min(IDLE)
    }

    fn report(&self) -> Report {
        Report::Packets(Packets { overrun: overrun(self.queue), ..self.counts })
    }

    fn end(&mut self) {
        self.take(Instant::now());
        self.let_go(None);
    }
}

/// Packets of a queue that the kernel dropped itself: fields 6 and 7 of `/proc/net/netfilter/nfnetlink_queue` (`seq_show`,
/// net/netfilter/nfnetlink_queue.c).
fn overrun(queue: u16) -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/netfilter/nfnetlink_queue").unwrap_or_default();
    let numbers = |line: &str| line.split_whitespace().map_while(|word| word.parse().ok()).collect::<Vec<u64>>();
    let of_queue = text.lines().map(numbers).find(|numbers| numbers.first() == Some(&u64::from(queue)));
    of_queue.and_then(|numbers| Some(numbers.get(5)? + numbers.get(6)?)).unwrap_or(0)
}

/// Sends a request and takes its answer, which comes at once.
fn ask(socket: &OwnedFd, request: &[u8]) -> Result<(), Errno> {
    send(socket, request, SendFlags::empty())?;
    let mut buffer = [0; 4096];
    let (n, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
    match said(&buffer[..n]).first() {
        Some(Said::Answer(0)) => Ok(()),
        Some(Said::Answer(error)) => Err(Errno::from_raw_os_error(*error)),
        _ => Err(Errno::PROTO),
    }
}

/// A socket that sends whole packets with [`MARK`].
fn raw() -> Result<Socket, String> {
    Socket::new(Domain::IPV4, Type::RAW.cloexec().nonblocking(), Some(Protocol::from(PROTOCOL_RAW)))
        .and_then(|socket| socket.set_mark(MARK).map(|()| socket))
        .map_err(|error| format!("a raw socket (CAP_NET_RAW) cannot be had: {}", why(error)))
}

/// Where the TCP header begins; `None` where there is none, as of a packet with extension headers (IPv6).
fn transport(bytes: &[u8]) -> Option<usize> {
    const TCP: u8 = 6;
    match bytes.first()? >> 4 {
        4 if *bytes.get(9)? == TCP => Some(usize::from(bytes[0] & 15) * 4),
        6 if *bytes.get(6)? == TCP => Some(40),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// The ports it comes from and goes to.
fn ports(bytes: &[u8]) -> Option<(u16, u16)> {
    let at = transport(bytes)?;
    Some((u16_at(bytes, at)?, u16_at(bytes, at + 2)?))
}

/// A packet's length by its own header: it may not have been copied whole.
fn length(bytes: &[u8]) -> usize {
    let of = |at: usize| u16_at(bytes, at).map_or(0, usize::from);
    let told = match bytes.first().map(|byte| byte >> 4) {
        Some(4) => of(2),
        Some(6) => 40 + of(4),
        _ => 0,
    };
    told.max(bytes.len())
}

fn destination(bytes: &[u8]) -> Option<Ipv4Addr> {
    let four: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
    (bytes[0] >> 4 == 4).then(|| Ipv4Addr::from(four))
}

/// Flips a bit of the data, if there is any. The checksum is left, so that TCP finds it, or made right.
fn spoil(bytes: &mut [u8], drawn: u64, is_undetected: bool) -> bool {
    let Some(tcp) = transport(bytes) else { return false };
    let Some(offset) = bytes.get(tcp + 12) else { return false };
    let data = tcp + usize::from(offset >> 4) * 4;
    let Some(room) = bytes.len().checked_sub(data).filter(|room| *room > 0) else { return false };
    let at = data + usize::try_from(drawn >> 3).unwrap_or(0) % room;
    // The sum is over words of 16 bits, from the TCP header on.
    let word = at - (at - tcp) % 2;
    let value = |bytes: &[u8]| u16::from_be_bytes([bytes[word], bytes.get(word + 1).copied().unwrap_or(0)]);
    let before = value(bytes);
    bytes[at] ^= 1 << (drawn & 7);
    if is_undetected {
        let after = value(bytes);
        let sum = updated(u16::from_be_bytes([bytes[tcp + 16], bytes[tcp + 17]]), before, after);
        bytes[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// A checksum after one word of what it covers was changed: RFC 1624, 3, equation 3.
fn updated(sum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!sum) + u32::from(!before) + u32::from(after);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with ten bytes of data, and a right checksum.
    fn packet() -> Vec<u8> {
        let mut packet = vec![0; 20 + 20 + 11];
        (packet[0], packet[3], packet[9], packet[32]) = (0x45, 51, 6, 0x50);
        packet[20..24].copy_from_slice(&[0, 80, 0x90, 1]);
        packet[40..].copy_from_slice(b"hello world");
        let sum = checksum(&packet);
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Of the TCP header and data, without a pseudo-header: the same of two packets with the same addresses.
    fn checksum(packet: &[u8]) -> u16 {
        let mut bytes = packet[20..].to_vec();
        bytes[16..18].fill(0);
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn a_bit_of_the_data_and_of_nothing_else_is_changed() {
        let whole = packet();
        for drawn in 0..200 {
            let mut packet = whole.clone();
            assert!(spoil(&mut packet, drawn, false));
            let changed: Vec<usize> = (0..packet.len()).filter(|at| packet[*at] != whole[*at]).collect();
            assert!(changed.len() == 1 && changed[0] >= 40, "{changed:?}");
            assert_ne!(checksum(&packet).to_be_bytes(), packet[36..38]);
            // Undetected: the sum that is there is the sum that it has.
            let mut packet = whole.clone();
            assert!(spoil(&mut packet, drawn, true));
            assert_ne!(packet[40..], whole[40..]);
            assert_eq!(checksum(&packet).to_be_bytes(), packet[36..38], "{drawn}");
        }
    }

    #[test]
    fn what_has_no_data_or_is_cut_off_is_left() {
        let whole = packet();
        assert!(!spoil(&mut whole[..40].to_vec(), 1, true), "an acknowledgement has no data");
        for cut in 0..40 {
            assert!(!spoil(&mut whole[..cut].to_vec(), 1, true));
            let _ = (ports(&whole[..cut]), destination(&whole[..cut]));
        }
        assert_eq!((length(&whole[..30]), ports(&whole)), (51, Some((80, 0x9001))));
    }
}
