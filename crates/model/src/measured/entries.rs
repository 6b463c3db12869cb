//! Figures of single entries of a workload: of each URL, command or named request, where there are several.
//!
//! An entry's place is its index in the plan; names come from [`crate::workload::ProtocolPlan::entry_name`]. Entries beyond
//! [`ENTRIES_MAX`] are counted together, last. A workload of one entry has none of these: its figures are the run's.
//! Not here: unfinished requests; times are of good replies alone. Cost: 300 bytes an entry, and a histogram
//! ([`crate::Histogram`]), of which memory is touched where something is recorded.

use crate::interval::ErrorCounts;
use crate::{ErrorKind, Histogram};
use hdrhistogram::Counter;

/// Entries that have figures of their own; further ones are counted together.
pub const ENTRIES_MAX: usize = 64;

/// What became of the requests of one entry (measured requests only).
#[derive(Debug, Clone, PartialEq)]
pub struct EntryFigures<C: Counter> {
    /// Good replies.
    pub ok: u64,
    /// Failures by kind.
    pub errors: ErrorCounts,
    /// done − intended of good replies, nanoseconds.
    pub response: Histogram<C>,
}

impl<C: Counter> EntryFigures<C> {
    fn new() -> Self {
        EntryFigures { ok: 0, errors: ErrorCounts::default(), response: Histogram::new() }
    }

    /// Requests that ended.
    pub fn requests(&self) -> u64 {
        self.ok.saturating_add(self.errors.total())
    }
}

/// The figures of each entry; empty where there is one entry.
#[derive(Debug, Clone)]
pub struct Entries<C: Counter>(Vec<EntryFigures<C>>);

impl<C: Counter> Default for Entries<C> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

/// How many places so many entries take.
fn places(entries: usize) -> usize {
    if entries < 2 { 0 } else { entries.min(ENTRIES_MAX + 1) }
}

impl<C: Counter> Entries<C> {
    /// Takes the memory that a workload of so many entries needs.
    pub fn reserve(&mut self, entries: usize) {
        self.0.resize_with(places(entries), EntryFigures::new);
        self.0.iter_mut().for_each(|entry| entry.response.reserve());
    }

    /// Takes the memory that another has taken, where that is not done.
    pub fn count_as(&mut self, other: &Entries<C>) {
        if self.0.len() != other.0.len() {
            self.reserve(other.0.len());
        }
    }

    /// Whether entries are counted by themselves.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.0.is_empty()
    }

    /// A request of an entry has its reply.
    #[inline]
    pub fn succeeded(&mut self, entry: u16, response_ns: u64) {
        if let Some(figures) = self.0.get_mut(usize::from(entry).min(ENTRIES_MAX)) {
            figures.ok += 1;
            figures.response.record(response_ns);
        }
    }

    /// A request of an entry failed.
    pub fn failed(&mut self, entry: u16, kind: ErrorKind) {
        if let Some(figures) = self.0.get_mut(usize::from(entry).min(ENTRIES_MAX)) {
            figures.errors.record(kind);
        }
    }

    /// Each entry's, by its place in the plan; the place [`ENTRIES_MAX`] stands for all further ones.
    pub fn iter(&self) -> std::slice::Iter<'_, EntryFigures<C>> {
        self.0.iter()
    }

    /// The same, to be filled in.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, EntryFigures<C>> {
        self.0.iter_mut()
    }

    /// The figures of an entry, made where there are none yet; of the one that stands for several beyond [`ENTRIES_MAX`].
    pub fn of_mut(&mut self, entry: usize) -> &mut EntryFigures<C> {
        let place = entry.min(ENTRIES_MAX);
        if place >= self.0.len() {
            self.0.resize_with(place + 1, EntryFigures::new);
        }
        &mut self.0[place]
    }

    /// Sets all to zero, keeping the memory.
    pub fn clear(&mut self) {
        for entry in &mut self.0 {
            entry.ok = 0;
            entry.errors = ErrorCounts::default();
            entry.response.reset();
        }
    }

    /// Adds the counts of others, not their times.
    fn add_counts<D: Counter>(&mut self, other: &Entries<D>) {
        for (place, from) in other.0.iter().enumerate() {
            let into = self.of_mut(place);
            into.ok += from.ok;
            into.errors.merge(&from.errors);
        }
    }

    /// Adds another worker's of the same tick.
    pub fn add_worker(&mut self, other: &Entries<C>) {
        self.add_counts(other);
        self.0.iter_mut().zip(&other.0).for_each(|(into, from)| into.response.add(&from.response));
    }
}

impl Entries<u64> {
    /// Adds others.
    pub fn add<D: Counter>(&mut self, other: &Entries<D>) {
        self.add_counts(other);
        self.0.iter_mut().zip(&other.0).for_each(|(into, from)| into.response.add_any(&from.response));
    }
}

/// The same figures: whatever memory was taken for.
impl<C: Counter> PartialEq for Entries<C> {
    fn eq(&self, other: &Self) -> bool {
        let seen = |all: &Self| all.0.iter().rposition(|entry| entry.requests() > 0).map_or(0, |last| last + 1);
        self.0[..seen(self)] == other.0[..seen(other)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_apart_and_added_up() {
        let mut tick = Entries::<u32>::default();
        tick.reserve(1);
        assert!(!tick.is_on(), "one entry has the run's figures");
        tick.reserve(3);
        tick.succeeded(0, 1_000_000);
        tick.succeeded(2, 3_000_000);
        tick.failed(2, ErrorKind::Reset);
        tick.succeeded(9, 1);
        let mut other = tick.clone();
        other.clear();
        assert_eq!(other, Entries::default(), "cleared");
        other.succeeded(2, 5_000_000);
        other.add_worker(&tick);
        let mut sum = Entries::<u64>::default();
        sum.add(&other);
        sum.add(&tick);
        let counts: Vec<_> = sum.iter().map(|e| (e.ok, e.errors.total(), e.response.len())).collect();
        assert_eq!(counts, [(2, 0, 2), (0, 0, 0), (3, 2, 3)]);
        assert!(sum.iter().nth(2).unwrap().response.max() >= 5_000_000);
    }

    #[test]
    fn entries_beyond_the_bound_are_counted_together() {
        let mut tick = Entries::<u32>::default();
        tick.reserve(1000);
        for entry in [0, 63, 64, 65, 999, u16::MAX] {
            tick.succeeded(entry, 7);
        }
        let counts: Vec<u64> = tick.iter().map(|entry| entry.ok).collect();
        assert_eq!((counts.len(), counts[0], counts[63], counts[64]), (65, 1, 1, 4));
    }
}
