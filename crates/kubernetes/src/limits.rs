//! Every bound of what is placed, and of how often the cluster is asked.

use std::time::Duration;

/// Agents that are placed at once: as many as a run can have.
pub const AGENTS_MAX: u16 = 1024;
/// Characters of the name that objects have: a pod's is that, its index and five letters, and an agent's has 48 at most.
pub const NAME_MAX: usize = 32;
/// Workers of an agent.
pub const CORES_MAX: u16 = 1024;
/// The least memory of an agent: one that waits needs some 30 MB.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Nodes that are observed: a run asks a few, and each pod has every right on its node.
pub const OBSERVED_NODES_MAX: usize = 64;
/// What an observer is sure to have, in thousandths of a CPU: it reads every second or so, and must not come late.
pub const OBSERVER_CPU_MILLIS: u32 = 100;
/// Memory of an observer, at the most: one that has all probes loaded needs some 60 MB.
pub const OBSERVER_MEMORY_BYTES: u64 = 512 << 20;
/// The least room of JetStream: a run's stream takes a gibibyte unless less was asked for.
pub const STORAGE_BYTES_MIN: u64 = 256 << 20;
/// The user that everything runs as: one that no system has an account for.
pub const USER: i64 = 65532;
/// How long an agent may take to end: it ends the run that is under way, and tries for a minute to hand it over.
pub const END_WITHIN_S: i64 = 90;
/// How often a Job starts agents again that failed, all together, until it gives up.
pub const RESTARTS_MAX: i32 = 100;
/// How often the cluster is asked how far it is.
pub const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often an agent may have ended by itself until it is said that it does not run.
pub const ENDED_MAX: i32 = 1;
/// How long agents are to run without one that ends, until it is said that they run.
pub const STEADY_FOR: Duration = Duration::from_secs(3);
/// For how long pods may not run until it is asked why.
pub const POD_WITHIN: Duration = Duration::from_secs(3);
