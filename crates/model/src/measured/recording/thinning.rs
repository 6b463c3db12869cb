//! Which of many snapshots are kept in memory: every so many-th, evenly over the run, however long it is.

use crate::limits::SNAPSHOTS_MAX;
use crate::snapshot::Snapshot;

/// Adds a snapshot to those that are kept, of every `stride`-th one; when there are [`SNAPSHOTS_MAX`], every second one
/// goes and the stride doubles. `number` counts all snapshots from 0. One that has everything stands in for a partial one
/// before it: what is read once a second must not fall through a stride of another rhythm.
pub fn thin_and_keep(kept: &mut Vec<Snapshot>, stride: &mut u64, number: u64, snapshot: Snapshot) {
    if !number.is_multiple_of(*stride) {
        return stand_in(kept, snapshot);
    }
    if kept.len() >= SNAPSHOTS_MAX {
        let mut of_two = std::mem::take(kept).into_iter();
        while let Some(first) = of_two.next() {
            kept.push(first);
            if let Some(second) = of_two.next() {
                stand_in(kept, second);
            }
        }
        *stride *= 2;
        if !number.is_multiple_of(*stride) {
            return stand_in(kept, snapshot);
        }
    }
    kept.push(snapshot);
}

/// Lets a snapshot that is not kept take the place of the last one, where that one is partial and it is not.
fn stand_in(kept: &mut [Snapshot], snapshot: Snapshot) {
    if let Some(last) = kept.last_mut().filter(|last| last.is_partial && !snapshot.is_partial) {
        *last = snapshot;
    }
}
