//! What the generator itself has used: CPU time, memory, and the time since it was started.
//!
//! Peak memory is `VmHWM` of `/proc/self/status`, not `ru_maxrss`: the latter survives `execve`, so a small program
//! started by a large one would show the large one's size.

use crate::source::proc::{Buffers, number_after};
use crate::source::stat::{Stat, ticks_ns};
use crate::source::{clock, own as source};

/// What this process has used since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// User CPU time of all threads, living and gone, nanoseconds.
    pub user_ns: u64,
    /// System CPU time of all threads, living and gone, nanoseconds.
    pub system_ns: u64,
    /// Highest resident memory, bytes; 0 where `/proc` cannot be read.
    pub peak_rss_bytes: u64,
}

/// What this process has used so far.
pub fn rusage() -> Usage {
    let (user_ns, system_ns) = source::own_cpu_ns();
    let status = Buffers::default().read_single(format_args!("/proc/self/status")).map(|s| number_after(s, b"VmHWM:"));
    let peak_kib = status.ok().flatten().unwrap_or(0);
    Usage { user_ns, system_ns, peak_rss_bytes: peak_kib.saturating_mul(1024) }
}

/// The most memory is counted anew from here on (proc_pid_clear_refs(5)); where the kernel refuses, it stays what it was.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Gives back memory that a part of the program has needed, before another that does not: what is free of the heap, and the mapped
/// pages of code and constants, which come from the page cache again at their next touch (for a load some 100 faults of 1 to 2 µs).
pub fn give_back() {
    source::trim_heap();
    source::unmap_constants();
}

/// Nanoseconds since this process was started (`execve` does not restart it); `None` where `/proc` cannot be read.
///
/// The start is known to a clock tick only (`starttime` of proc(5)), so this is up to 10 ms too long, never too short.
pub fn since_process_start_ns() -> Option<u64> {
    let now_ns = clock::boottime_ns();
    let mut buffers = Buffers::default();
    let stat = Stat::parse(buffers.read_single(format_args!("/proc/self/stat")).ok()?)?;
    u64::try_from(now_ns - i128::from(ticks_ns(stat.start_ticks))).ok()
}
