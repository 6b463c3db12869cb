//! Every fixed limit of this crate, in one place.
//!
//! Observation must not become load: what could grow with the target (processes, threads, table sizes) is bounded here.

use std::time::Duration;

/// Threads read of one process, the lowest ids first; `threads_total` says how many there are.
pub const THREADS_MAX: usize = 256;
/// Processes of the target that are watched, the lowest ids first; an event says when there are more.
pub const PROCESSES_MAX: usize = 64;
/// Sockets of the target whose state the probes keep, at the most (some 80 bytes each while they are open).
pub const BPF_SOCKETS_MAX: u32 = 65_536;
/// Costly probes run for at least so long, nanoseconds: ticks of a second may come a little early.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_NS_MIN: i64 = 900_000_000;
/// And then not for so many times as long, their own time included.
#[cfg(feature = "bpf")]
pub(crate) const WINDOW_EVERY: i64 = 10;
/// Places where threads wait that are kept, the longest waits first.
#[cfg(feature = "bpf")]
pub(crate) const WAITS_MAX: usize = 20;
/// Frames kept of each, innermost first.
#[cfg(feature = "bpf")]
pub(crate) const WAIT_FRAMES_MAX: usize = 24;
/// Shortest time between two searches for a target that has gone, nanoseconds.
pub(crate) const SEARCH_EVERY_NS: i64 = 1_000_000_000;
/// Searches for a target that has gone, after which it is given up.
pub(crate) const SEARCHES_MAX: u32 = 120;
/// Bytes of one `/proc` file that are read at the most (a `/proc/stat` of 4,096 cores is about 400 KiB).
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;
/// Bytes of the list of listening sockets that are read by netlink at the most (some 120 a socket).
pub(crate) const LISTENERS_BYTES_MAX: usize = 16 << 20;
/// Longest wait for a part of that list, which the kernel makes while it is asked for.
pub(crate) const LISTENERS_WAIT: Duration = Duration::from_secs(1);
