//! The maps of stacks: what was counted with them is taken out, so that they never fill up.

use super::{BpfError, Entry, Programs, unreadable, words};
use libbpf_rs::{Map, MapCore, MapFlags};
use std::collections::{BTreeMap, BTreeSet};

/// Stacks that may stay in the kernel's maps beyond their tick: a new sample of the same place finds its own again.
const STAY_MAX: usize = 512;

/// The stacks of one reading, each read once.
#[derive(Debug, Default)]
pub(crate) struct Read {
    addresses: BTreeMap<i32, Vec<u64>>,
    forgotten: BTreeMap<i32, Vec<u64>>,
}

impl Read {
    /// The addresses of a stack, innermost first; empty where it was not kept.
    pub(crate) fn stack(&mut self, programs: &Programs, id: i32) -> &[u64] {
        self.addresses.entry(id).or_insert_with(|| {
            let kept = programs.stack(id);
            if kept.is_empty() { self.forgotten.remove(&id).unwrap_or_default() } else { kept }
        })
    }

    /// Their numbers.
    fn ids(&self) -> impl Iterator<Item = i32> + '_ {
        self.addresses.keys().copied().filter(|id| *id >= 0)
    }
}

/// Which stacks are in the kernel's maps.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    ids: BTreeSet<i32>,
    /// Those that were taken out of the maps last: one of them may have been counted once more just before, which the next
    /// reading says.
    forgotten: BTreeMap<i32, Vec<u64>>,
}

impl Kept {
    /// The next reading.
    pub(crate) fn begin(&mut self) -> Read {
        Read { addresses: BTreeMap::new(), forgotten: std::mem::take(&mut self.forgotten) }
    }

    /// Notes what was read. When there are many, those go that were not seen this time, and at which nobody stands now: a
    /// stack that is being counted just now is mostly one of those that were.
    pub(crate) fn note(&mut self, programs: &Programs, read: &Read, standing: impl FnOnce() -> BTreeSet<i32>) {
        let now: BTreeSet<i32> = read.ids().collect();
        if self.ids.len() > STAY_MAX {
            let standing = standing();
            let (stay, go) = self.ids.difference(&now).partition(|id| standing.contains(id));
            self.forgotten = programs.forget_stacks(go);
            self.ids = stay;
        }
        self.ids.extend(now);
    }
}

impl Programs {
    /// Every entry of a hash, which stays there.
    pub(crate) fn look(&self, name: &str) -> Result<Vec<Entry>, BpfError> {
        let map = self.map(name)?;
        let seen = map
            .lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)
            .map_err(|error| unreadable(&map, &error))?;
        Ok(seen.map(entry).collect())
    }

    /// Takes every entry of a hash out of it.
    pub(crate) fn take(&self, name: &str) -> Result<Vec<Entry>, BpfError> {
        let map = self.map(name)?;
        let taken = map
            .lookup_and_delete_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)
            .map_err(|error| unreadable(&map, &error))?;
        Ok(taken.map(entry).collect())
    }

    /// The addresses of a stack, innermost first; empty where it was not kept.
    fn stack(&self, id: i32) -> Vec<u64> {
        let Some((map, key)) = self.map_of_stack(id) else { return Vec::new() };
        let frames = map.lookup(&key.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
        words(&frames).take_while(|address| *address != 0).collect()
    }

    /// Takes stacks out of the maps of stacks; returns their addresses.
    fn forget_stacks(&self, ids: BTreeSet<i32>) -> BTreeMap<i32, Vec<u64>> {
        let forget = |id: i32| {
            let addresses = self.stack(id);
            let (map, key) = self.map_of_stack(id)?;
            // Gone already is as good.
            let _ = map.delete(&key.to_ne_bytes());
            Some((id, addresses))
        };
        ids.into_iter().filter_map(forget).collect()
    }

    /// Where a stack is kept, and its key there: in the second map are those whose place in the first was taken
    /// (`stacks.bpf.h`).
    fn map_of_stack(&self, id: i32) -> Option<(Map<'_>, u32)> {
        let id = u32::try_from(id).ok()?;
        let first = self.found("stacks").ok()?;
        match id.checked_sub(first.max_entries()) {
            None => Some((first, id)),
            Some(number) => Some((self.found("more_stacks").ok()?, number)),
        }
    }
}

fn entry((key, value): (Vec<u8>, Vec<u8>)) -> Entry {
    Entry { words: words(&value).collect(), key }
}
