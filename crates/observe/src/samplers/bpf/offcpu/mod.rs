//! Where the target's threads wait: time off a CPU by thread, state and stack.
//!
//! By `sched_switch`, with both stacks taken at each: in windows. The program's own frames need frame pointers; without
//! them only the innermost is right. Stacks that fell on another's place, and waits beyond the map's bound, are counted
//! as lost. The longest are kept, each with its innermost frames.

use super::{Probe, Reading, object};
use crate::limits::{WAIT_FRAMES_MAX, WAITS_MAX};
use crate::source::bpf::symbols::{Kernel, Program};
use crate::source::bpf::{BpfError, Entry, Programs};
use model::bpf::WaitUse;
use std::collections::BTreeMap;

pub(super) const PROBE: Probe = Probe {
    name: "bpf/offcpu",
    about: "time off a CPU by thread, state and stack",
    in_windows: true,
    object: object!("offcpu"),
    counts: &["switches", "threads_lost", "stacks_lost", "waits_lost"],
    histograms: &["off_ns"],
    read,
};

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    if !reading.window_ended {
        return Ok(());
    }
    let mut waits = programs.hash("waits")?;
    let ns = |words: &[u64]| words.get(1).copied().unwrap_or(0);
    waits.sort_by_key(|wait| std::cmp::Reverse(ns(&wait.words)));
    waits.truncate(WAITS_MAX);
    let kernel = reading.names.kernel.get_or_insert_with(Kernel::read);
    let mut maps: BTreeMap<u32, Program> = BTreeMap::new();
    for Entry { key, words } in waits {
        let word = |at: usize| key.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        let (Some(tid), Some(state), Some(kernel_stack), Some(user_stack)) = (word(0), word(4), word(8), word(12))
        else {
            continue;
        };
        let program = maps.entry(tid).or_insert_with(|| Program::read(tid));
        let mut in_kernel: Vec<String> =
            programs.stack(kernel_stack.cast_signed()).into_iter().map(|address| kernel.name(address)).collect();
        // The probe itself and the scheduler stand before the function that waits.
        if let Some(scheduler) = in_kernel.iter().position(|name| name == "__schedule") {
            in_kernel.drain(..=scheduler);
        }
        let in_program = programs.stack(user_stack.cast_signed()).into_iter().map(|address| program.name(address));
        reading.sample.waits.push(WaitUse {
            tid,
            state: state_name(state).to_owned(),
            count: words.first().copied().unwrap_or(0),
            ns: ns(&words),
            stack: in_kernel.into_iter().chain(in_program).take(WAIT_FRAMES_MAX).collect(),
        });
    }
    Ok(())
}

/// The state in which a thread left its CPU (include/linux/sched.h).
fn state_name(state: u32) -> &'static str {
    match state {
        0 => "runnable",
        state if state & 1 != 0 => "sleeping",
        state if state & 2 != 0 => "uninterruptible",
        _ => "other",
    }
}
