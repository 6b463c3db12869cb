//! What was seen of a target on another machine, as the document says it: which machine, and the clock between.

use crate::figures::generator_host_use;
use model::Snapshot;
use model::remote::TargetHost;
use schemars::JsonSchema;
use serde::Serialize;

/// The target's machine and the link to it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Remote {
    /// Where its observer was asked.
    pub address: String,
    /// Which machine the target's is.
    pub host: TargetHost,
    /// Its monotonic clock less the generator's, nanoseconds, as last estimated; null: it never was.
    pub offset_ns: Option<i64>,
    /// The true offset is at most so far from that, nanoseconds.
    pub bound_ns: Option<u64>,
    /// The widest bound of any reading, nanoseconds.
    pub bound_max_ns: Option<u64>,
    /// Exchanges of stamps it comes from.
    pub exchanges: u64,
    /// Readings that were taken there and are not here.
    pub lost_readings: u64,
    /// How often the link broke.
    pub breaks: u64,
    /// How long it was broken before it was made again, together, seconds.
    pub broken_s: f64,
    /// Share of the generator's own machine's CPU time that was worked, 0..=1; `host_busy` is the target's.
    pub generator_host_busy: Option<f64>,
    /// Share of it taken by the hypervisor, 0..=1.
    pub generator_host_steal: Option<f64>,
    /// Least memory available there, bytes.
    pub generator_memory_available_min_bytes: Option<u64>,
}

impl Remote {
    /// Of some snapshots.
    pub(crate) fn of(host: &TargetHost, snapshots: &[Snapshot]) -> Self {
        let links = || snapshots.iter().filter_map(|snapshot| snapshot.link);
        let last = links().next_back().unwrap_or_default();
        let is_known = last.exchanges > 0;
        let generator = generator_host_use(snapshots);
        let own = snapshots.iter().filter_map(|s| s.generator_host.as_ref());
        Remote {
            address: host.address.clone(),
            host: host.clone(),
            offset_ns: is_known.then_some(last.offset_ns),
            bound_ns: is_known.then_some(last.bound_ns),
            bound_max_ns: links().filter(|link| link.exchanges > 0).map(|link| link.bound_ns).max(),
            exchanges: last.exchanges,
            lost_readings: last.lost,
            breaks: last.breaks,
            broken_s: last.broken_ns as f64 / 1e9,
            generator_host_busy: generator.map(|host| host.busy),
            generator_host_steal: generator.map(|host| host.steal),
            generator_memory_available_min_bytes: own.filter_map(|host| host.memory_available_bytes).min(),
        }
    }
}
