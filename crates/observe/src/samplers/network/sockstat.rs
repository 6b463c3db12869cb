//! Sockets by kind, from `/proc/<pid>/net/{sockstat,sockstat6}`: of the network namespace of the target.
//! In use and TIME_WAIT are of the namespace; orphans, allocated ones and memory are the whole machine's
//! (net/ipv4/proc.c). Cost: two reads a second. Needs no privilege.

use super::folder;
use super::time_wait::parse;
use crate::metric::{Metric, fill, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, SampleError, lines, number, words};
use model::Snapshot;

const METRICS: &[Metric] = &[
    gauge("tcp_sockets", "sockets", "inuse", "TCP sockets in use, of IPv4"),
    gauge("tcp_orphans", "sockets", "orphan", "closed by their process and not done yet, whole machine"),
    gauge("tcp_time_wait_sockets", "sockets", "tw", "in TIME_WAIT, both families"),
    gauge("tcp_allocated", "sockets", "alloc", "TCP sockets of all states, whole machine"),
    gauge("tcp_memory_pages", "pages", "mem", "memory of TCP's buffers, whole machine; tcp_mem bounds it"),
];
const TCP6: Metric = gauge("tcp6_sockets", "sockets", "TCP6: inuse", "TCP sockets in use, of IPv6");
const USED: Metric = gauge("sockets", "sockets", "sockets: used", "sockets of all kinds");
const UDP: Metric = gauge("udp_sockets", "sockets", "UDP: inuse", "UDP sockets in use, of IPv4");
const ALL: &[Metric] = &[METRICS[0], METRICS[1], METRICS[2], METRICS[3], METRICS[4], TCP6, USED, UDP];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/sockstat",
    about: "sockets of the target's network namespace by kind (/proc/<pid>/net/sockstat, sockstat6)",
    needs: "nothing",
    cost: "2 reads a second",
    every_ns: SECOND,
    metrics: ALL,
    make: || Box::new(Sockstat),
};

#[derive(Debug)]
struct Sockstat;

impl Sampler for Sockstat {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let (folder, _) = folder(snapshot);
        // Without IPv6 in the kernel there is no such file.
        if let Ok(text) = buffers.read(format_args!("{folder}/sockstat6")) {
            snapshot.network.set_if(TCP6.name, after(text, b"TCP6:"));
        }
        let text = buffers.read(format_args!("{folder}/sockstat"))?;
        snapshot.network.set_if(USED.name, after(text, b"sockets:"));
        snapshot.network.set_if(UDP.name, after(text, b"UDP:"));
        match fill(METRICS, &mut snapshot.network, |name| parse(text, name.as_bytes())) {
            0 => Err(SampleError::lacks(format!("{folder}/sockstat"), "its line 'TCP:'")),
            _ => Ok(()),
        }
    }
}

/// The first number of a line, behind its name.
fn after(sockstat: &[u8], line: &[u8]) -> Option<u64> {
    number(words(lines(sockstat).find_map(|of| of.strip_prefix(line))?).nth(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_own_numbers() {
        let text = b"sockets: used 840\nTCP: inuse 825 orphan 1 tw 1015 alloc 826 mem 7\nUDP: inuse 3 mem 0\n";
        assert_eq!((after(text, b"sockets:"), after(text, b"UDP:")), (Some(840), Some(3)));
        assert_eq!(after(text, b"TCP6:"), None);
    }
}
