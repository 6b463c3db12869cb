//! What rules ask of the CPUs, by stretch: who wanted them, who had them, what was left.

use super::axis::Cell;
use crate::facts::Demand;
use crate::facts::processes::{demand, summed_cores};
use crate::usage::HostTime;
use model::Snapshot;
use model::snapshot::CpuTimes;

/// What happened between two snapshots, or over several.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cpus {
    /// How much the target wanted to run, times nanoseconds, and for how long that is known.
    pub demand: Option<(Demand, f64)>,
    /// CPU time of the target's host, and for how long it is known, nanoseconds.
    pub host: Option<(HostTime, f64)>,
    /// The same of the generator's.
    pub generator_host: Option<(HostTime, f64)>,
    /// CPU time of the whole target as the kernel sums it, and for how long it is known, nanoseconds.
    pub target: Option<(f64, f64)>,
    /// For how long a CPU quota held the generator, and for how long that is known, nanoseconds.
    pub held: Option<(f64, f64)>,
}

impl Cpus {
    /// What happened between two snapshots.
    pub fn between(a: &Snapshot, b: &Snapshot, passed_ns: f64) -> Self {
        let host = |a: Option<&CpuTimes>, b: Option<&CpuTimes>| {
            a.zip(b).map(|(a, b)| (HostTime::between(a, b), passed_ns)).filter(|(time, _)| time.total_ns > 0.0)
        };
        let quota = a.generator_quota.zip(b.generator_quota);
        Cpus {
            demand: demand(a, b, passed_ns)
                .map(|d| (Demand { low: d.low * passed_ns, high: d.high * passed_ns }, passed_ns)),
            host: host(a.cpu.as_ref(), b.cpu.as_ref()),
            generator_host: host(a.generator_cpu(), b.generator_cpu()),
            target: summed_cores(a, b, passed_ns).map(|cores| (cores * passed_ns, passed_ns)),
            held: quota.map(|(a, b)| (b.throttled_ns.saturating_sub(a.throttled_ns) as f64, passed_ns)),
        }
    }
}

impl Cell for Cpus {
    fn merge(&mut self, later: &Self) {
        self.demand = add(self.demand, later.demand, |a, b| Demand { low: a.low + b.low, high: a.high + b.high });
        self.host = add(self.host, later.host, plus);
        self.generator_host = add(self.generator_host, later.generator_host, plus);
        self.target = add(self.target, later.target, |a, b| a + b);
        self.held = add(self.held, later.held, |a, b| a + b);
    }
}

fn plus(a: HostTime, b: HostTime) -> HostTime {
    HostTime {
        busy_ns: a.busy_ns + b.busy_ns,
        idle_ns: a.idle_ns + b.idle_ns,
        steal_ns: a.steal_ns + b.steal_ns,
        total_ns: a.total_ns + b.total_ns,
    }
}

fn add<T>(a: Option<(T, f64)>, b: Option<(T, f64)>, sum: impl Fn(T, T) -> T) -> Option<(T, f64)> {
    match (a, b) {
        (Some((a, a_ns)), Some((b, b_ns))) => Some((sum(a, b), a_ns + b_ns)),
        (a, b) => a.or(b),
    }
}
