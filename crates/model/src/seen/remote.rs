//! What a recording has more when the target is observed on another machine than the generator's.
//!
//! Then what a [`crate::Snapshot`] says of host, network and probes is of the target's machine, as where both are one:
//! whoever asks what the target met finds it in the same place. What the generator's own machine says moves into
//! [`GeneratorHost`], and which machine the target's is stands in the capsule as [`TargetHost`]. The wall clock's offset
//! and the time suspended are always the generator's: its clock is the run's.

use crate::metrics::Metrics;
use crate::snapshot::CpuTimes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The target's machine, where it is not the generator's. Read at the start of the run by the observer there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TargetHost {
    /// Where its observer was asked, `HOST:PORT`.
    pub address: String,
    /// Its own name (`nodename` of uname(2)).
    pub name: String,
    /// Version of the plimsoll that observes there.
    pub version: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model and number of cores, in words.
    pub cpu: String,
    /// Cores the observer there may use.
    pub cores: u32,
    /// The machine's memory, bytes.
    pub memory_bytes: u64,
    /// Kernel settings, by their sysctl name; absent where they could not be read.
    pub sysctls: BTreeMap<String, String>,
}

/// The generator's own machine at a snapshot, where the target's is another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeneratorHost {
    /// The machine's CPU time, all cores.
    pub cpu: Option<CpuTimes>,
    /// Each core's, in order.
    pub cores: Vec<CpuTimes>,
    /// Memory available, bytes.
    pub memory_available_bytes: Option<u64>,
    /// The kernel's slab memory, bytes.
    pub slab_bytes: Option<u64>,
    /// Memory of TCP socket buffers, bytes, this network namespace.
    pub socket_memory_bytes: Option<u64>,
    /// TCP sockets in TIME_WAIT, this network namespace.
    pub time_wait: Option<u64>,
    /// The machine's other readings, by name.
    pub host: Metrics,
    /// Those of the generator's network namespace, by name.
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    pub network: Metrics,
    /// Each network interface's of that namespace, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<String, Metrics>,
}

/// The link to the observer on the target's machine, up to a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Link {
    /// CLOCK_MONOTONIC there less CLOCK_MONOTONIC here, nanoseconds: what was taken off the snapshot's time.
    pub offset_ns: i64,
    /// The true offset is at most so far from it, nanoseconds: half the round trip it was found by, and what two clocks
    /// may have drifted since.
    pub bound_ns: u64,
    /// Exchanges of stamps so far.
    pub exchanges: u64,
    /// Snapshots that were taken there and did not come here: the link was slow, or nobody took them.
    pub lost: u64,
    /// How often the link broke.
    pub breaks: u64,
    /// How long it was broken, together, nanoseconds: up to this snapshot.
    pub broken_ns: u64,
}
