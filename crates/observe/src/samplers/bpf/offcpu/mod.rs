//! Where the target's threads wait: time off a CPU by thread, state and stack.
//!
//! By `sched_switch`, with both stacks taken at each: in windows. What a thread still waits at a window's end counts up to
//! there; of a wait that began before the window neither time nor place is known: `began_before` counts those that ended
//! in it, and one that lasted all through it is not seen. The program's own frames need frame pointers; without
//! them only the innermost is right. Stacks that fell on another's place, and waits beyond the map's bound, are counted
//! as lost. The longest waits of the run are kept, each with its innermost frames; of each window, all are folded.

use super::{Probe, Reading, Runs, folded, object};
use crate::limits::{WAIT_FRAMES_MAX, WAITS_COUNTED_MAX, WAITS_MAX};
use crate::source::bpf::stacks::Kept;
use crate::source::bpf::symbols::Place;
use crate::source::bpf::{BpfError, Entry, Programs};
use crate::source::clock;
use model::bpf::WaitUse;
use model::profile::Period;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const PROBE: Probe = Probe {
    name: "bpf/offcpu",
    about: "time off a CPU by thread, state and stack",
    runs: Runs::InWindows,
    object: object!("offcpu"),
    counts: &["switches", "began_before", "threads_lost", "stacks_lost", "waits_lost"],
    histograms: &["off_ns"],
    read,
};

/// What is kept from window to window.
#[derive(Debug, Default)]
pub(super) struct State {
    kept: Kept,
    /// Each wait's place, how many times and how long: of the whole run.
    waits: BTreeMap<Key, (u64, u64)>,
    /// The end of what was read last.
    to_ns: Option<i64>,
}

/// A thread, its state and its stack. Its id alone would not do: it is given again.
type Key = ((u32, u64), &'static str, Vec<String>);

/// A thread's time off a CPU at one place.
struct Wait {
    tid: u32,
    started_ns: u64,
    state: u32,
    place: Place,
    count: u64,
    ns: u64,
}

fn read(programs: &mut Programs, reading: &mut Reading<'_>) -> Result<(), BpfError> {
    if !reading.window_ended {
        return Ok(());
    }
    let mut stacks = reading.names.offcpu.kept.begin();
    let mut waits = Vec::new();
    let taken = programs.take("waits")?.into_iter().map(|Entry { key, words }| (key, words));
    // After a window nothing writes there any more; without windows each counts when it ends.
    let going_on = if reading.window_from_ns.is_some() { still_waiting(programs) } else { Vec::new() };
    for (key, words) in taken.chain(going_on) {
        let [Some(tid), Some(state), Some(kernel), Some(user)] = [0, 4, 8, 12].map(|at| folded::word(&key, at)) else {
            continue;
        };
        let kernel = stacks.stack(programs, kernel.cast_signed()).to_vec();
        let place =
            Place::new(reading.names.symbols.process_of(tid), &kernel, stacks.stack(programs, user.cast_signed()));
        let started_ns = key.get(16..24).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let figure = |at: usize| words.get(at).copied().unwrap_or(0);
        waits.push(Wait { tid, started_ns, state, place, count: figure(0), ns: figure(1) });
    }
    let state = &mut reading.names.offcpu;
    state.kept.note(programs, &stacks, || standing(programs));
    let last_ns = state.to_ns.replace(reading.at_ns).unwrap_or(reading.at_ns);
    let from_ns = reading.window_from_ns.unwrap_or(last_ns);
    let symbols = &mut reading.names.symbols;
    symbols.find(waits.iter().map(|wait| &wait.place));
    for wait in &waits {
        let mut frames = folded::innermost_first(symbols, &wait.place);
        frames.truncate(WAIT_FRAMES_MAX);
        let key = ((wait.tid, wait.started_ns), state_name(wait.state), frames);
        if state.waits.len() < WAITS_COUNTED_MAX || state.waits.contains_key(&key) {
            let sum = state.waits.entry(key).or_default();
            *sum = (sum.0.saturating_add(wait.count), sum.1.saturating_add(wait.ns));
        }
    }
    reading.sample.waits = longest(&state.waits);
    if !waits.is_empty() {
        let stacks = waits.iter().map(|wait| (folded::frames(symbols, &wait.place, wait.state == 0), wait.ns));
        let stacks = folded::fold(stacks.collect(), 1000, 0);
        reading.profile.off_cpu = Some(Period { from_ns, to_ns: reading.at_ns, stacks });
    }
    Ok(())
}

/// Threads that were off a CPU when the window ended: their waits as the map of ended ones has them.
fn still_waiting(programs: &Programs) -> Vec<(Vec<u8>, Vec<u64>)> {
    let now_ns = clock::monotonic_ns().cast_unsigned();
    let waits = programs.take("gone").unwrap_or_default().into_iter().filter_map(|Entry { words, .. }| {
        let [since_ns, first, second, started_ns] = words[..] else { return None };
        // A thread that has ended waits for nothing.
        let tid = folded::word(&first.to_ne_bytes(), 0)?;
        let is_there = std::path::Path::new(&format!("/proc/{tid}")).exists();
        let key = [first, second, started_ns].map(u64::to_ne_bytes).concat();
        is_there.then(|| (key, vec![1, now_ns.saturating_sub(since_ns)]))
    });
    waits.collect()
}

/// The stacks at which threads are off a CPU now.
fn standing(programs: &Programs) -> BTreeSet<i32> {
    let waits = programs.look("gone").unwrap_or_default();
    let stacks = waits.iter().filter_map(|Entry { words, .. }| words.get(2)).map(|both| both.to_ne_bytes());
    stacks.flat_map(|both| [0, 4].map(|at| folded::word(&both, at))).flatten().map(u32::cast_signed).collect()
}

fn longest(waits: &BTreeMap<Key, (u64, u64)>) -> Vec<WaitUse> {
    let mut all: Vec<_> = waits.iter().collect();
    all.sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
    let used = |(((tid, _), state, stack), (count, ns)): (&Key, &(u64, u64))| WaitUse {
        tid: *tid,
        state: (*state).to_owned(),
        count: *count,
        ns: *ns,
        stack: stack.clone(),
    };
    all.into_iter().take(WAITS_MAX).map(used).collect()
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
