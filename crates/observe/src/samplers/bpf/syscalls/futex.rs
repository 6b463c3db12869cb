//! Where the target's threads wait in `futex`: for locks, conditions and whatever else a program makes of it; by address,
//! and by how many different threads.
//!
//! A thread without work waits by futex as well, for a condition: a wait with a time limit is such a one almost always and
//! is counted apart, one without may be. A lock is told by its address having several waiters and short waits that add
//! up. `locks` has the kernel's own. Not counted: `futex_waitv`, and `futex_wait` of Linux 6.7.

use super::super::Reading;
use crate::limits::FUTEXES_MAX;
use crate::source::bpf::symbols::areas::Areas;
use crate::source::bpf::{BpfError, Entry, Programs};
use model::bpf::FutexUse;
use std::collections::BTreeMap;

/// Reads the addresses, those of the longest waits first.
pub(super) fn read(programs: &Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let mut futexes: Vec<FutexUse> = programs.hash("addresses")?.iter().filter_map(of_entry).collect();
    futexes.sort_by_key(|futex| std::cmp::Reverse((futex.ns, futex.timed_ns)));
    futexes.truncate(FUTEXES_MAX);
    let mut areas: BTreeMap<u32, Areas> = BTreeMap::new();
    for futex in &mut futexes {
        let of_process = areas.entry(futex.pid).or_insert_with(|| Areas::read(futex.pid).unwrap_or_default());
        futex.place = of_process.data(futex.address);
    }
    reading.sample.futexes = futexes;
    Ok(())
}

fn of_entry(entry: &Entry) -> Option<FutexUse> {
    let [count, ns, waiters, timed_count, timed_ns, timeouts] = entry.words[..] else { return None };
    let address = u64::from_ne_bytes(entry.key.get(..8)?.try_into().ok()?);
    let pid = u32::from_ne_bytes(entry.key.get(8..12)?.try_into().ok()?);
    Some(FutexUse { pid, address, place: String::new(), count, ns, waiters, timed_count, timed_ns, timeouts })
}
