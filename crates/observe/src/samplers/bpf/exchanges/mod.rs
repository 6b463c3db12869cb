//! Single requests on the target's TCP sockets: when the first bytes of each were there to be read, when the target first
//! read of them, and when each send of its reply left. Joined with the client's own stamps they split its response time
//! (`diagnose::split`).
//!
//! By `sk_data_ready`, which the kernel calls when data is in a socket's receive queue and its reader is woken, and by
//! `sock_recv_length` and `sock_send_length`. A send is stamped by the clock that TCP read when it handed the segment on;
//! what TCP itself holds back (Nagle's rule, windows) comes after that, so it is the way back. What is only looked at
//! (MSG_PEEK) is read. A request is what comes after a reply began: of several under way on one connection only the first
//! has an arrival. `unread`: sends before anything was read, as of what was spliced. A record a send, in a ring that is
//! drained at each reading; from when on it was full is told, and how many did not fit: `records_lost`. Only on the ports
//! that requests go to, so not of unix sockets. Cost: 0.06 µs at each of the three beside being called, and 56 bytes of the
//! ring a send (4 MiB: 74,000 sends of a reading), so in windows.

use super::{Probe, Reading, Runs, object};
use crate::source::bpf::{BpfError, Programs};
use model::exchange::{Exchange, Exchanges};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/exchanges",
    about: "single requests on the target's ports: arrival, first read, sends of the reply, to split the response time",
    runs: Runs::InWindows,
    object: object!("exchanges"),
    counts: &["records", "records_lost", "unread", "sockets_lost"],
    histograms: &[],
    read,
};

/// Families of sockets.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Bytes of a record (`struct record`).
const RECORD: usize = 48;

/// What is kept from reading to reading.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Until when the ring has been drained, by the monotonic clock.
    drained_to_ns: i64,
}

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let Some((from_ns, to_ns)) = reading.attached else { return Ok(()) };
    let origin_ns = reading.origin_ns;
    let at = |monotonic_ns: i64| monotonic_ns.saturating_sub(origin_ns);
    let drained_to_ns = std::mem::replace(&mut reading.names.exchanges.drained_to_ns, to_ns);
    // Counted anew, as programs ran on meanwhile: a record that is in the ring is then taken.
    let written = programs.counts()?.first().copied().unwrap_or(0);
    let mut list = Vec::new();
    programs.take_records("records", written, |bytes| list.extend(exchange(bytes, origin_ns)))?;
    let full_since_ns = programs.take_first("full_since")?;
    *reading.exchanges = Some(Box::new(Exchanges {
        from_ns: at(from_ns.max(drained_to_ns)),
        to_ns: at(to_ns),
        lost_from_ns: (full_since_ns > 0).then(|| at(i64::try_from(full_since_ns).unwrap_or(i64::MAX))),
        clock_error_ns: 0,
        list,
    }));
    Ok(())
}

/// A record, its moments set to the run's clock.
fn exchange(bytes: &[u8], origin_ns: i64) -> Option<Exchange> {
    let bytes: &[u8; RECORD] = bytes.get(..RECORD)?.try_into().ok()?;
    let moment = |at: usize| {
        let monotonic_ns = bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        i64::try_from(monotonic_ns).unwrap_or(i64::MAX).saturating_sub(origin_ns)
    };
    let half = |at: usize| [bytes[at], bytes[at + 1]];
    let ip: IpAddr = match u16::from_ne_bytes(half(24)) {
        AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[32..36]).ok()?).into(),
        AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[32..48]).ok()?).to_canonical(),
        _ => return None,
    };
    Some(Exchange {
        peer: SocketAddr::new(ip, u16::from_be_bytes(half(28))),
        port: u16::from_ne_bytes(half(26)),
        arrived_ns: moment(0),
        read_ns: moment(8),
        written_ns: moment(16),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_program_writes_it_and_shorter_ones_are_none() {
        let mut bytes = [0u8; RECORD];
        for (at, moment) in [(0, 1_000u64), (8, 1_500), (16, 2_750)] {
            bytes[at..at + 8].copy_from_slice(&moment.to_ne_bytes());
        }
        bytes[24..26].copy_from_slice(&AF_INET6.to_ne_bytes());
        bytes[26..28].copy_from_slice(&8080u16.to_ne_bytes());
        bytes[28..30].copy_from_slice(&40_001u16.to_be_bytes());
        bytes[32..48].copy_from_slice(&Ipv4Addr::new(127, 1, 0, 9).to_ipv6_mapped().octets());
        let read = exchange(&bytes, 500).unwrap();
        let peer = SocketAddr::from(([127, 1, 0, 9], 40_001));
        assert_eq!(read, Exchange { peer, port: 8080, arrived_ns: 500, read_ns: 1_000, written_ns: 2_250 });
        assert_eq!(exchange(&bytes[..RECORD - 1], 0), None);
        bytes[24..26].copy_from_slice(&1u16.to_ne_bytes());
        assert_eq!(exchange(&bytes, 0), None);
    }
}
