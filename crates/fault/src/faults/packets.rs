//! Packets of a TCP port that are late, go through a narrow path, come in another order, twice, or with a bit changed.
//!
//! A process of the fault's own gets them from the kernel and gives them back ([`crate::network::queue`]), as a relay below TCP would,
//! with connections that are open and new ones. On the loopback interface also those that go back, but for delay, which is
//! laid on those that come, so that a round trip grows by it once. With `any-interface`, in a network namespace other than
//! the host's, only those that come. What each costs is in docs/decisions/2026-11-24-packets.md.

use super::loss::{SHARE, share};
use super::port::port;
use super::{Around, Deed, Fault, Kind, Undoing};
use crate::change::Change;
use crate::error::{ApplyError, BadArgument};
use crate::helper::{Helper, Job};
use crate::network::Port;
use crate::network::queue::{QUEUES, QueueRules, Treatment};
use crate::place;
use crate::words::Words;
use model::units::{duration_ns, size_bytes};
use std::sync::Arc;

const NEEDS: &str =
    "CAP_NET_ADMIN, iptables, a kernel with NFQUEUE; only loopback, but for a network namespace other than the host's";
const UNDONE: Undoing = Undoing::Back("its rules are removed, and what is held is let go; an hour at the longest");

/// See the file's head.
pub(crate) const DELAY: Kind = Kind {
    name: "port-delay",
    takes: "PORT TIME [jitter TIME] [any-interface]",
    example: "8080 50ms jitter 10ms",
    does: "holds each packet that comes to a port for a time, and up to so much longer; in order",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let port = port(words)?;
        let by_ns = words.parsed("a time from 1us to 60s, such as 50ms", time)?;
        let jitter_ns = if words.take("jitter") { words.parsed("a time up to 60s, such as 10ms", time)? } else { 0 };
        treated(words, port, Treatment::Delayed { by_ns, jitter_ns })
    },
};
/// See the file's head.
pub(crate) const RATE: Kind = Kind {
    name: "port-rate",
    takes: "PORT SIZE/s [any-interface]",
    example: "8080 1MiB/s",
    does: "lets only so many bytes a second to a port (on loopback, and as many from it); what waits longer than 500 ms is dropped",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let port = port(words)?;
        let speed = |word: &str| size_bytes(word.strip_suffix("/s")?).ok().filter(|bytes| *bytes > 0);
        let bytes_per_s = words.parsed("a speed such as 1MiB/s", speed)?;
        treated(words, port, Treatment::Narrow { bytes_per_s })
    },
};
/// See the file's head.
pub(crate) const REORDER: Kind = Kind {
    name: "port-reorder",
    takes: "PORT SHARE [any-interface]",
    example: "8080 5%",
    does: "holds a share of the packets of a port for 5 ms, so that those behind overtake them",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let (port, ppm) = (port(words)?, words.parsed(SHARE, share)?);
        treated(words, port, Treatment::Reordered { ppm })
    },
};
/// See the file's head. Only on loopback: one that is sent again is sent by this host.
pub(crate) const DUPLICATE: Kind = Kind {
    name: "port-duplicate",
    takes: "PORT SHARE",
    example: "8080 5%",
    does: "sends a share of the packets of a port twice (IPv4, loopback)",
    needs: "CAP_NET_ADMIN, CAP_NET_RAW, iptables, a kernel with NFQUEUE; only loopback",
    undone: UNDONE,
    parse: |words| {
        let (port, ppm) = (port(words)?, words.parsed(SHARE, share)?);
        Ok(Arc::new(Treated { port, is_any_interface: false, treatment: Treatment::Doubled { ppm } }))
    },
};
/// See the file's head.
pub(crate) const CORRUPT: Kind = Kind {
    name: "port-corrupt",
    takes: "PORT SHARE [undetected] [any-interface]",
    example: "8080 1%",
    does: "changes a bit of the data of a share of the packets of a port; TCP finds it by the checksum, but if undetected",
    needs: NEEDS,
    undone: UNDONE,
    parse: |words| {
        let (port, ppm) = (port(words)?, words.parsed(SHARE, share)?);
        let is_undetected = words.take("undetected");
        treated(words, port, Treatment::Corrupted { ppm, is_undetected })
    },
};

fn time(word: &str) -> Option<u64> {
    duration_ns(word).ok().filter(|ns| (1000..=crate::limits::DELAY_NS_MAX).contains(ns))
}

fn treated(words: &mut Words<'_>, port: u16, treatment: Treatment) -> Result<Arc<dyn Fault>, BadArgument> {
    Ok(Arc::new(Treated { port, is_any_interface: words.take("any-interface"), treatment }))
}

/// Packets of a port, and what becomes of them.
#[derive(Debug)]
struct Treated {
    port: u16,
    is_any_interface: bool,
    treatment: Treatment,
}

impl Fault for Treated {
    fn plan(&self, _: &dyn Around) -> Result<Vec<Deed>, ApplyError> {
        let port = Port::named(self.port, self.is_any_interface)?;
        let (seed, treatment) = (place::token(), self.treatment);
        let count = u64::from(QUEUES.end() - QUEUES.start()) + 1;
        let queue = QUEUES.start() + u16::try_from(seed % count).unwrap_or(0);
        let helper = Helper::planned(Job::Packets { queue, port: self.port, treatment, seed })?;
        // Who takes them is there before the first is given, and until after the last is.
        let rules = QueueRules::planned(port, queue, treatment);
        Ok(vec![Deed::Change(Change::Helper(helper)), Deed::Change(Change::Queue(rules))])
    }
}

#[cfg(test)]
mod tests {
    use crate::faults::{Asked, Nobody};

    #[test]
    fn what_becomes_of_packets_is_said_before() {
        for (text, said) in [
            ("port-delay 80 50ms", "packets to port 80 (loopback): as they are → 50.0 ms late, by queue"),
            ("port-delay 80 50ms jitter 10ms", "50.0 ms to 60.0 ms late"),
            (
                "port-rate 80 1MiB/s",
                "packets to and from port 80 (loopback): as they are → at most 1.00 MiB/s each way",
            ),
            ("port-reorder 80 5%", "5 % overtaken"),
            ("port-duplicate 80 0.5%", "0.5 % sent twice"),
            ("port-corrupt 80 1%", "1 % with a bit changed, by queue"),
            ("port-corrupt 80 1% undetected", "1 % with a bit changed, and the checksum made right"),
        ] {
            let deeds = Asked::parse(text).unwrap().plan(&Nobody).unwrap();
            assert_eq!(deeds.len(), 2);
            assert_eq!(deeds[0].words(), "a process that packets are given to: not running → running");
            assert!(deeds[1].words().contains(said), "{text}: {}", deeds[1].words());
        }
        for bad in
            ["port-delay 80", "port-delay 80 2m", "port-delay 80 0ms", "port-delay 80 1s jitter", "port-rate 80 0/s"]
        {
            assert!(Asked::parse(bad).is_err(), "{bad}");
        }
        for bad in ["port-rate 80 5MB", "port-corrupt 80 2", "port-duplicate 80 5% any-interface", "port-reorder 0 5%"]
        {
            assert!(Asked::parse(bad).is_err(), "{bad}");
        }
    }
}
