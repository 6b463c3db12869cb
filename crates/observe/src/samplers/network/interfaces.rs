//! Bytes, packets, errors and drops of each network interface, from `/proc/<pid>/net/dev`: of the network namespace of
//! the target. At most 32, the first ones. Cost: one read a second. Needs no privilege.

use super::folder;
use crate::limits::DEVICES_MAX;
use crate::metric::{Metric, counter};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, SampleError, lines, number, words};
use model::Snapshot;
use model::metrics::Metrics;

const METRICS: &[Metric] = &[
    counter("received_bytes", "bytes", "receive bytes", "received").otel("system.network.io"),
    counter("received_packets", "packets", "receive packets", "received").otel("system.network.packet.count"),
    counter("receive_errors", "packets", "receive errs", "received with an error").otel("system.network.errors"),
    counter("receive_drops", "packets", "receive drop", "received and dropped").otel("system.network.packet.dropped"),
    counter("sent_bytes", "bytes", "transmit bytes", "sent").otel("system.network.io"),
    counter("sent_packets", "packets", "transmit packets", "sent").otel("system.network.packet.count"),
    counter("send_errors", "packets", "transmit errs", "that could not be sent").otel("system.network.errors"),
    counter("send_drops", "packets", "transmit drop", "dropped instead of sent").otel("system.network.packet.dropped"),
];
/// The column of each behind the name.
const COLUMNS: [usize; 8] = [0, 1, 2, 3, 8, 9, 10, 11];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/interfaces",
    about: "bytes, packets, errors, drops of the interfaces of the target's network namespace (/proc/<pid>/net/dev)",
    needs: "nothing",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Interfaces { left_out: 0 }),
};

#[derive(Debug)]
struct Interfaces {
    left_out: usize,
}

impl Sampler for Interfaces {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let (folder, _) = folder(snapshot);
        self.left_out = 0;
        for (name, metrics) in lines(buffers.read(format_args!("{folder}/dev"))?).filter_map(parse) {
            if snapshot.interfaces.len() == DEVICES_MAX {
                self.left_out += 1;
            } else {
                snapshot.interfaces.insert(name.to_owned(), metrics);
            }
        }
        match snapshot.interfaces.is_empty() {
            true => Err(SampleError::lacks(format!("{folder}/dev"), "a line with sixteen numbers")),
            false => Ok(()),
        }
    }

    fn leaves_out(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} interfaces beyond the first {DEVICES_MAX}", self.left_out))
    }
}

/// `    lo: 1 2 3 …`; the two lines of the head have no numbers.
fn parse(line: &[u8]) -> Option<(&str, Metrics)> {
    let colon = line.iter().rposition(|b| *b == b':')?;
    let name = std::str::from_utf8(&line[..colon]).ok()?.trim();
    let numbers: Vec<u64> = words(&line[colon + 1..]).map_while(number).collect();
    let mut metrics = Metrics::default();
    for (metric, column) in METRICS.iter().zip(COLUMNS) {
        metrics.set(metric.name, *numbers.get(column)?);
    }
    Some((name, metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_goes_to_its_name() {
        let (name, metrics) = parse(b"  eth0.5:100 2 3 4 0 0 0 0 900 10 11 12 0 0 0 0").unwrap();
        let values: Vec<_> = METRICS.iter().map(|metric| metrics.of(metric.name).unwrap()).collect();
        assert_eq!((name, values), ("eth0.5", vec![100, 2, 3, 4, 900, 10, 11, 12]));
        assert_eq!(parse(b"Inter-|   Receive    |  Transmit"), None);
        assert_eq!(parse(b" face |bytes    packets errs drop"), None);
        assert_eq!(parse(b"lo: 1 2 3"), None);
    }
}
