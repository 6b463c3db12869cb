//! Calls of 1 ms and more by what their first argument is, and stretches as long between two calls of a thread: what keeps a
//! loop from its other connections. A stretch counts with the time that the thread had no CPU in it; one that has no call
//! after it in the window is not seen, nor is one that began before.

use super::super::{Reading, folded};
use crate::source::bpf::{BpfError, Programs, names};
use model::bpf::LongCall;
use model::threads::DESCRIPTORS;

/// Reads them, those that took longest in all first.
pub(super) fn read(programs: &Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    let origin_ns = reading.origin_ns;
    let mut calls = Vec::new();
    for entry in programs.hash("long_calls")? {
        let [Some(number), Some(kind)] = [0, 4].map(|at| folded::word(&entry.key, at)) else { continue };
        let [count, ns, longest_ns, longest_at_ns, longest_tid] = entry.words[..] else { continue };
        calls.push(LongCall {
            name: names::call(number.cast_signed().into()),
            at: DESCRIPTORS.get(kind as usize).copied().unwrap_or("unknown").to_owned(),
            count,
            ns,
            longest_ns,
            longest_tid: longest_tid as u32,
            longest_at_ns: longest_at_ns.cast_signed().saturating_sub(origin_ns),
        });
    }
    calls.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (&a.name, &a.at).cmp(&(&b.name, &b.at))));
    reading.sample.long_calls = calls;
    Ok(())
}
