//! The target's system calls by name: how many, how many failed, how long they took, waiting included. Of `accept`, which
//! connections, so that `sockets` tells the accept queue from the time until the first read; of `futex`, where; of `open` and
//! `openat`, which files.
//!
//! By `sys_enter` and `sys_exit`, which slow every system call of the host while they are on: in windows. Only calls that
//! began and ended in the same window have a time, which favours short ones: how many a window cut is counted, those that
//! had begun before it (`began_before`) and those that had not ended when it, or the counting in it, did (`not_ended`, also
//! by name). A thread that is in one call all through the window is in neither. What is accepted through io_uring is not seen. `accepts.empty_handed`:
//! no connection waited, or no descriptor was left. Calls of 1 ms and more are kept by what they are at, and so are stretches
//! in which a thread was in none (`long`).

mod futex;
mod long;
mod opens;

use super::{Probe, Reading, Runs, folded, object};
use crate::source::bpf::{BpfError, Programs, names};
use model::bpf::CallUse;
use std::collections::BTreeMap;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/syscalls",
    about: "system calls of the target: how many, errors, time; connections accepted; waits in futex by address; long calls; files opened most",
    runs: Runs::UntilEnough,
    object: object!("syscalls"),
    counts: &[
        "errors",
        "began_before",
        "threads_lost",
        "unknown_lost",
        "failures_lost",
        "accepts.accepted",
        "accepts.empty_handed",
        "futex.waits",
        "futex.timed_waits",
        "futex.timeouts",
        "futex.not_slept",
        "futex.addresses_lost",
        "futex.waiters_lost",
        "long_lost",
        "opens.unread",
        "opens.paths_lost",
    ],
    histograms: &["call_ns", "futex.wait_ns", "futex.timed_wait_ns"],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let ended = reading.sample.histograms.get("syscalls.call_ns").map_or(0, model::bpf::Log2::count);
    reading.sample.counts.insert("syscalls.calls".to_owned(), ended);
    if !reading.window_ended {
        return Ok(());
    }
    let mut failures: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    for entry in programs.hash("failures")? {
        let [Some(number), Some(error)] = [0, 4].map(|at| folded::word(&entry.key, at)) else { continue };
        let times = entry.words.first().copied().unwrap_or(0);
        failures.entry(number).or_default().insert(names::error(error), times);
    }
    let mut used = |(number, words): (u32, Vec<u64>)| {
        let [count, errors, ns, begun] = words[..] else { return None };
        let not_ended = begun.saturating_sub(count);
        let errors_by = failures.remove(&number).unwrap_or_default();
        Some(CallUse { name: names::call(number.into()), count, errors, ns, not_ended, errors_by })
    };
    let mut calls: Vec<CallUse> = programs.array("uses")?.into_iter().filter_map(&mut used).collect();
    let not_ended = calls.iter().map(|call| call.not_ended).sum();
    reading.sample.counts.insert("syscalls.not_ended".to_owned(), not_ended);
    calls.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    reading.sample.calls = calls;
    long::read(programs, reading)?;
    futex::read(programs, reading)?;
    opens::read(programs, reading)
}
