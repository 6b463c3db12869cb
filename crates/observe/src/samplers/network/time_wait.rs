//! TCP sockets in TIME_WAIT and the memory of TCP's socket buffers, from `/proc/net/sockstat` (`tw`, IPv6's included, and
//! `mem`, in pages).
//! Of the generator's network namespace (the target's is `network/sockstat`'s), not of the whole machine. Cost: one read a second. Needs no privilege.

use crate::metric::{Metric, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, number, words};
use model::Snapshot;

const METRICS: &[Metric] = &[
    gauge("time_wait", "sockets", "TCP: tw", "in TIME_WAIT, in the generator's network namespace"),
    gauge("socket_memory_bytes", "bytes", "TCP: mem", "memory of TCP's socket buffers, whole machine"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/time_wait",
    about: "TCP sockets in TIME_WAIT, memory of socket buffers (/proc/net/sockstat)",
    needs: "nothing",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(TimeWait { sockstat: HotFile::new("/proc/net/sockstat") }),
};

#[derive(Debug)]
struct TimeWait {
    sockstat: HotFile,
}

impl Sampler for TimeWait {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let path = self.sockstat.path();
        let text = buffers.read_hot(&mut self.sockstat)?;
        snapshot.time_wait = parse(text, b"tw");
        let page_bytes = rustix::param::page_size() as u64;
        snapshot.socket_memory_bytes = parse(text, b"mem").map(|pages| pages.saturating_mul(page_bytes));
        snapshot.time_wait.map(|_| ()).ok_or_else(|| SampleError::lacks(path, "'tw' in its line 'TCP:'"))
    }
}

/// The number after a name in TCP's line.
pub(super) fn parse(sockstat: &[u8], name: &[u8]) -> Option<u64> {
    let mut tcp = words(lines(sockstat).find_map(|line| line.strip_prefix(b"TCP:"))?);
    tcp.find(|word| *word == name)?;
    number(tcp.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_after_a_name_is_taken_wherever_it_stands() {
        let text = b"sockets: used 840\nTCP: inuse 825 orphan 0 tw 1015 alloc 825 mem 0\nUDP: inuse 0 mem 0\n";
        assert_eq!((parse(text, b"tw"), parse(text, b"mem")), (Some(1015), Some(0)));
        assert_eq!(parse(b"TCP: tw 3", b"tw"), Some(3));
        for bad in ["", "TCP: inuse 1", "TCP: tw", "TCP: tw x", "UDP: tw 3"] {
            assert_eq!(parse(bad.as_bytes(), b"tw"), None, "{bad}");
        }
    }
}
