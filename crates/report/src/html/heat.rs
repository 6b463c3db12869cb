//! Response times over time, as a map: a column a tick, a cell for each twentieth of a decade.
//!
//! More ticks than a screen has dots are merged in pairs, as those of a timeline are: no request is lost, only how fine
//! they stand. Cost: at most 1,440 columns of at most 250 cells.

use super::pack::{Column, Columns};
use serde::Serialize;
use std::collections::BTreeMap;

/// Columns at most.
const COLUMNS_MAX: usize = 1440;
/// Cells of a decade.
const CELLS: f64 = 20.0;

/// The map.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    columns: Vec<Part>,
    /// Ticks a column stands for.
    stride: usize,
    pending: usize,
}

/// What ended in a stretch.
#[derive(Debug, Clone)]
struct Part {
    from_ns: u64,
    to_ns: u64,
    cells: BTreeMap<u16, u64>,
}

/// Where the page finds it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Places {
    /// Cells of a decade: cell n holds 10^(n / so many) nanoseconds and more.
    cells: f64,
    /// Columns of the packed: starts and ends, nanoseconds; cells that each has; which; what they hold.
    from: Column,
    to: Column,
    lengths: Column,
    places: Column,
    counts: Column,
}

impl Heat {
    /// Takes in what ended well in a tick: how many requests took how many nanoseconds.
    pub fn push(&mut self, from_ns: u64, to_ns: u64, times: impl Iterator<Item = (u64, u64)>) {
        let mut cells = BTreeMap::new();
        for (ns, count) in times {
            *cells.entry(cell_of(ns)).or_insert(0u64) += count;
        }
        let part = Part { from_ns, to_ns, cells };
        self.stride = self.stride.max(1);
        if self.pending > 0
            && self.pending < self.stride
            && let Some(last) = self.columns.last_mut()
        {
            last.merge(part);
            self.pending += 1;
            return;
        }
        if self.columns.len() >= COLUMNS_MAX {
            let mut halved: Vec<Part> = Vec::with_capacity(COLUMNS_MAX);
            for (i, part) in std::mem::take(&mut self.columns).into_iter().enumerate() {
                match halved.last_mut().filter(|_| i % 2 == 1) {
                    Some(last) => last.merge(part),
                    None => halved.push(part),
                }
            }
            self.columns = halved;
            self.stride *= 2;
        }
        self.columns.push(part);
        self.pending = 1;
    }

    /// How many columns it has.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether nothing ended.
    pub fn is_empty(&self) -> bool {
        self.columns.iter().all(|part| part.cells.is_empty())
    }

    /// How many requests it holds.
    pub fn total(&self) -> u64 {
        self.columns.iter().flat_map(|part| part.cells.values()).sum()
    }

    /// Packs it.
    pub(super) fn packed(&self, to: &mut Columns) -> Option<Places> {
        if self.is_empty() {
            return None;
        }
        let all = || self.columns.iter().flat_map(|part| part.cells.iter());
        Some(Places {
            cells: CELLS,
            from: to.push_whole(self.columns.iter().map(|part| part.from_ns)),
            to: to.push_whole(self.columns.iter().map(|part| part.to_ns)),
            lengths: to.push_whole(self.columns.iter().map(|part| part.cells.len() as u64)),
            places: to.push_whole(all().map(|(cell, _)| u64::from(*cell))),
            counts: to.push_whole(all().map(|(_, count)| *count)),
        })
    }
}

impl Part {
    fn merge(&mut self, later: Part) {
        self.to_ns = later.to_ns;
        for (cell, count) in later.cells {
            *self.cells.entry(cell).or_insert(0) += count;
        }
    }
}

fn cell_of(ns: u64) -> u16 {
    // At most an hour: below cell 252.
    ((ns.max(1) as f64).log10() * CELLS + 1e-9).floor() as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Histogram;

    #[test]
    fn no_request_is_lost_however_many_ticks_there_are() {
        let mut heat = Heat::default();
        let ticks = 5 * COLUMNS_MAX as u64 + 3;
        for tick in 0..ticks {
            let mut times = Histogram::<u64>::new();
            times.record_n(1000 * (tick % 7 + 1), 2);
            heat.push(tick, tick + 1, times.iter_recorded());
        }
        assert!(heat.len() <= COLUMNS_MAX && heat.total() == 2 * ticks, "{} {}", heat.len(), heat.total());
        assert!(heat.columns.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        assert_eq!([1, 9, 10, 1000, 1_000_000].map(cell_of), [0, 19, 20, 60, 120]);
    }
}
