//! The target's system calls by name: how many, how many failed, how long they took, waiting included.
//!
//! By `sys_enter` and `sys_exit`, which slow every system call of the host while they are on: in windows. Only calls that
//! began and ended in the same window are counted. `futex` is the wait for a lock of the program's own.

use super::{Probe, Reading, object};
use crate::source::bpf::{BpfError, Programs, names};
use model::bpf::CallUse;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/syscalls",
    about: "system calls of the target: how many, errors, time",
    in_windows: true,
    object: object!("syscalls"),
    counts: &["errors", "threads_lost", "unknown_lost"],
    histograms: &["call_ns"],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let ended = reading.sample.histograms.get("syscalls.call_ns").map_or(0, model::bpf::Log2::count);
    reading.sample.counts.insert("syscalls.calls".to_owned(), ended);
    if !reading.window_ended {
        return Ok(());
    }
    let used = |(number, words): (u32, Vec<u64>)| {
        let [count, errors, ns] = words[..] else { return None };
        Some(CallUse { name: names::call(number.into()), count, errors, ns })
    };
    let mut calls: Vec<CallUse> = programs.array("uses")?.into_iter().filter_map(used).collect();
    calls.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    reading.sample.calls = calls;
    Ok(())
}
