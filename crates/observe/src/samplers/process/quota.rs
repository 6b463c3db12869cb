//! How a CPU quota holds the generator: the tightest of its control group's and of those above it, with how often and how
//! long its threads were stopped (`cpu.max` and `cpu.stat`; version 1 `cpu.cfs_quota_us`, `throttled_time`).
//! What lies above a container's mount is not seen: there its own group's quota is what binds.
//! Cost: one to three small files a group a tick, mostly one to three groups. Needs no privilege.

use crate::metric::{Metric, counter, gauge};
use crate::samplers::{EACH, Entry, Sampler};
use crate::source::cgroup::{self, OwnGroups};
use crate::source::proc::{Buffers, SampleError};
use crate::source::setting::Root;
use model::Snapshot;
use model::readings::Reading;

const METRICS: &[Metric] = &[
    gauge("generator_quota.cpus", "CPUs", "cpu.max; v1 cpu.cfs_quota_us", "CPU time that is allowed"),
    counter("generator_quota.throttled", "periods", "cpu.stat nr_throttled", "periods in which it was used up"),
    counter(
        "generator_quota.throttled_ns",
        "ns",
        "cpu.stat throttled_usec; v1 throttled_time",
        "time its threads were stopped",
    ),
];

pub(crate) const ENTRY: Entry = Entry {
    name: "process/quota",
    about: "the CPU quota that binds the generator, and how it was held by it (cgroup v1, v2)",
    needs: "control groups mounted, version 1 or 2",
    cost: "1 to 3 files a group a tick",
    every_ns: EACH,
    metrics: METRICS,
    make: || Box::new(GeneratorQuota::default()),
};

#[derive(Debug, Default)]
struct GeneratorQuota {
    groups: OwnGroups,
}

impl Sampler for GeneratorQuota {
    fn sample(&mut self, buffers: &mut Buffers, snapshot: &mut Snapshot) -> Result<(), SampleError> {
        let root = Root::at(if buffers.root().is_empty() { "/" } else { buffers.root() });
        match cgroup::quota(&root, &mut self.groups) {
            Reading::Known(Some(quota)) => {
                snapshot.generator_quota = Some(quota);
                Ok(())
            }
            Reading::Known(None) => Err(SampleError::nothing("no CPU quota binds the generator")),
            Reading::Absent => {
                Err(SampleError::nothing("the control group's files are not mounted where they can be read"))
            }
            Reading::Unreadable(reason) => Err(SampleError::Refused { reason }),
        }
    }
}
