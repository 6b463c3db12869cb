//! Places of threads to folded stacks: names put to addresses, what is alike added up, bounded.

use crate::source::bpf::symbols::{Place, Symbols};
use model::limits::PROFILE_TICK_NODES_MAX;
use model::profile::{Folding, PREEMPTED, Stacks};
use std::collections::BTreeMap;

/// The scheduler's own function: what stands inside it is the probe.
const SCHEDULER: &str = "__schedule_[k]";

/// The frames of a place, innermost first, without those of the probe.
pub(super) fn innermost_first(symbols: &Symbols, place: &Place) -> Vec<String> {
    let (mut kernel, user) = symbols.frames(place);
    if let Some(scheduler) = kernel.iter().position(|name| *name == SCHEDULER) {
        kernel.drain(..=scheduler);
    }
    kernel.into_iter().chain(user).map(str::to_owned).collect()
}

/// The frames of a place as they are folded: outermost first, the process's name before them.
pub(super) fn frames(symbols: &Symbols, place: &Place, is_preempted: bool) -> Vec<String> {
    let mut frames = vec![symbols.program(place.pid).to_owned()];
    frames.extend(innermost_first(symbols, place).into_iter().rev());
    if is_preempted {
        frames.push(PREEMPTED.to_owned());
    }
    frames
}

/// Folds stacks, those counted most first, each count divided by `unit`; `lost`: counted and without a stack.
pub(super) fn fold(stacks: Vec<(Vec<String>, u64)>, unit: u64, lost: u64) -> Stacks {
    let mut sums: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for (frames, count) in stacks {
        let sum = sums.entry(frames).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut sums: Vec<(Vec<String>, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut folding = Folding::new(PROFILE_TICK_NODES_MAX);
    for (frames, count) in sums {
        folding.add(&frames, count / unit.max(1));
    }
    folding.lose(lost);
    folding.into_stacks()
}

/// A number of 32 bits in a map's key.
pub(super) fn word(key: &[u8], at: usize) -> Option<u32> {
    key.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_stacks_are_added_before_they_are_rounded() {
        let stack = |frames: &[&str], ns| (frames.iter().map(|frame| (*frame).to_owned()).collect(), ns);
        let stacks = vec![stack(&["p", "lock"], 600), stack(&["p", "read"], 999), stack(&["p", "lock"], 500)];
        let folded = fold(stacks, 1000, 3);
        assert_eq!((folded.folded(), folded.lost), (vec!["p;lock 1".to_owned()], 3));
    }
}
