//! Connections that the firewall's tracking holds, against how many it may, from `/proc/<pid>/net/stat/nf_conntrack`
//! (of the target's network namespace) and `net.netfilter.nf_conntrack_max` (one for all namespaces).
//! When it is full, new connections are dropped without a word to either end, but for the kernel's log.
//! Cost: two reads a second. Needs no privilege. Disabled where tracking is not loaded.

use super::folder;
use crate::metric::{Metric, counter, gauge};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, SampleError, lines, number, words};
use model::Snapshot;

/// By the columns' names; the number of entries stands in the line of each core, the others are summed.
const METRICS: &[Metric] = &[
    gauge("conntrack_entries", "connections", "entries", "tracked"),
    counter(
        "conntrack_insert_failed",
        "connections",
        "insert_failed",
        "that clashed with another and were not entered",
    ),
    counter("conntrack_drop", "packets", "drop", "dropped: the table was full, or no memory"),
    counter("conntrack_early_drop", "connections", "early_drop", "thrown out to make room for another"),
];
const MAX: Metric = gauge("conntrack_entries_max", "connections", "nf_conntrack_max", "how many may be tracked");
const ALL: &[Metric] = &[METRICS[0], METRICS[1], METRICS[2], METRICS[3], MAX];

pub(crate) const ENTRY: Entry = Entry {
    name: "network/conntrack",
    about: "tracked connections against their bound (/proc/<pid>/net/stat/nf_conntrack)",
    needs: "the module nf_conntrack",
    cost: "2 reads a second",
    every_ns: SECOND,
    metrics: ALL,
    make: || Box::new(Conntrack),
};

#[derive(Debug)]
struct Conntrack;

impl Sampler for Conntrack {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let (folder, _) = folder(snapshot);
        let text = buffers.read(format_args!("{folder}/stat/nf_conntrack"));
        let text = text.map_err(|error| error.or_nothing("connection tracking is not loaded"))?;
        let sums =
            parse(text).ok_or_else(|| SampleError::lacks(format!("{folder}/stat/nf_conntrack"), "its columns"))?;
        for (metric, sum) in METRICS.iter().zip(sums) {
            snapshot.network.set_if(metric.name, sum);
        }
        let max = buffers.read(format_args!("/proc/sys/net/netfilter/nf_conntrack_max"));
        snapshot.network.set_if(MAX.name, max.ok().and_then(number));
        Ok(())
    }
}

/// A line of names and for each core one of hexadecimal numbers.
fn parse(text: &[u8]) -> Option<[Option<u64>; 4]> {
    let mut lines = lines(text);
    let names: Vec<&[u8]> = words(lines.next()?).collect();
    let columns = METRICS.iter().map(|m| names.iter().position(|name| *name == m.source.as_bytes()));
    let columns: Vec<Option<usize>> = columns.collect();
    let mut sums = [None; 4];
    for line in lines {
        let numbers: Vec<&[u8]> = words(line).collect();
        for (i, (sum, column)) in sums.iter_mut().zip(&columns).enumerate() {
            let Some(column) = column else { continue };
            let value = u64::from_str_radix(std::str::from_utf8(numbers.get(*column)?).ok()?, 16).ok()?;
            *sum = Some(if i == 0 { value } else { sum.unwrap_or(0u64).saturating_add(value) });
        }
    }
    sums[0].is_some().then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_not_summed_over_the_cores_and_the_rest_is() {
        let text = b"entries  clashres found insert_failed drop early_drop\n00000010 0 0 00000001 0000000a 2\n00000010 0 0 2 b 3\n";
        assert_eq!(parse(text), Some([Some(16), Some(3), Some(21), Some(5)]));
        for bad in ["", "entries\n", "drop\n1\n", "entries drop\n1\n", "entries\nxyz\n"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn where_it_is_not_loaded_it_is_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let mut snapshot = Snapshot::default();
        match Conntrack.sample(&mut Buffers::below(folder.path()), &mut snapshot) {
            // Whether it is there is asked of this machine.
            Err(error) => assert!(error.is_nothing() || std::path::Path::new("/proc/net/stat/nf_conntrack").exists()),
            Ok(()) => panic!("an empty folder has no such file"),
        }
    }
}
