//! Where a change holds: since which start of the machine, in which network namespace.
//!
//! A change of before a restart is gone, and one in another namespace is not to be put back here.

use std::os::unix::fs::MetadataExt;

/// The id of this start of the machine, `random(4)`; empty where it cannot be read.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The number of this thread's network namespace, namespaces(7); `None` where it cannot be read.
pub(crate) fn network() -> Option<u64> {
    std::fs::metadata("/proc/thread-self/ns/net").map(|ns| ns.ino()).ok()
}

/// A process in a network namespace; `None` where none is, or none can be seen.
pub(crate) fn process_in_network(network: u64) -> Option<u32> {
    let is_in = |pid: &u32| std::fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| ns.ino() == network);
    let entries = std::fs::read_dir("/proc").ok()?;
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_in)
}

/// The number of a process's network namespace; `None` where it cannot be read.
pub(crate) fn network_of(pid: u32) -> Option<u64> {
    std::fs::metadata(format!("/proc/{pid}/ns/net")).map(|ns| ns.ino()).ok()
}

/// A number that nothing else is named by: drawn for this process, and of the moment.
pub(crate) fn token() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one((std::process::id(), now_unix_ns()))
}

/// Nanoseconds since 1970.
pub(crate) fn now_unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A word that nothing else on this machine is named by: this process, and the moment.
pub(crate) fn mark() -> String {
    format!("{}-{}", std::process::id(), now_unix_ns())
}

/// Whether a word is a mark by its form.
pub(crate) fn is_mark(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.len() <= 20 && part.bytes().all(|b| b.is_ascii_digit());
    word.split_once('-').is_some_and(|(pid, at)| is_number(pid) && is_number(at))
}
