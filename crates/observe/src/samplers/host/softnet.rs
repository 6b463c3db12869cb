//! Packets that the cores took from their backlogs, dropped, or left for later, from `/proc/net/softnet_stat`.
//! The whole machine's, in whatever network namespace; summed over the cores. Drops: the backlog was full
//! (`net.core.netdev_max_backlog`); squeezed: the time or budget was up with packets left (`net.core.netdev_budget`).
//! Cost: one read a second. Needs no privilege.

use crate::metric::{Metric, counter};
use crate::samplers::{Entry, SECOND, Sampler};
use crate::source::proc::{Buffers, HotFile, SampleError, lines, words};
use model::Snapshot;

/// In the order of the columns, which are hexadecimal (net/core/net-procfs.c).
const METRICS: &[Metric] = &[
    counter("softnet_processed", "packets", "1st column", "packets taken"),
    counter("softnet_dropped", "packets", "2nd column", "dropped: the core's backlog was full"),
    counter("softnet_squeezed", "rounds", "3rd column", "rounds that ended with packets left"),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "host/softnet",
    about: "packets taken, dropped and left for later by the cores (/proc/net/softnet_stat)",
    needs: "nothing",
    cost: "1 read a second",
    every_ns: SECOND,
    metrics: METRICS,
    make: || Box::new(Softnet { stat: HotFile::new("/proc/net/softnet_stat") }),
};

#[derive(Debug)]
struct Softnet {
    stat: HotFile,
}

impl Sampler for Softnet {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let path = self.stat.path();
        let sums = parse(buffers.read_hot(&mut self.stat)?);
        let sums = sums.ok_or_else(|| SampleError::lacks(path, "three columns of hexadecimal numbers"))?;
        for (metric, sum) in METRICS.iter().zip(sums) {
            snapshot.host.set(metric.name, sum);
        }
        Ok(())
    }
}

fn parse(text: &[u8]) -> Option<[u64; 3]> {
    let mut sums = None;
    for line in lines(text) {
        let sums = sums.get_or_insert([0u64; 3]);
        let mut columns = words(line);
        for sum in sums {
            let column = std::str::from_utf8(columns.next()?).ok()?;
            *sum = sum.saturating_add(u64::from_str_radix(column, 16).ok()?);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_hexadecimal_and_summed() {
        assert_eq!(parse(b"0000000a 00000001 00000000 00000000\n000000ff 00000002 00000003\n"), Some([265, 3, 3]));
        for bad in ["", "0a 01\n", "0a 01 xx\n"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
