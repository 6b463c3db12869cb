//! The course of a run: rows of a tick each, and when there are too many, of two, four and more. No count and no time is lost by
//! that, only how fine they are; of quantiles the larger of two rows stays. Cost: the memory of all rows, taken with the first.

use super::{Row, STRIDE_MAX};
use crate::limits::TIMELINE_ROWS_MAX;
use serde::{Deserialize, Serialize};

/// The course of a run in at most [`TIMELINE_ROWS_MAX`] rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timeline {
    rows: Vec<Row>,
    /// Ticks a row stands for.
    stride: u64,
    pending: u64,
}

impl Timeline {
    /// Rows, oldest first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether it is one that can have come of ticks: it may have been read from a file.
    pub fn is_sound(&self) -> bool {
        self.rows.len() <= TIMELINE_ROWS_MAX && self.stride <= STRIDE_MAX && self.pending <= self.stride.max(1)
    }

    /// How many ticks a row stands for.
    pub fn stride(&self) -> u64 {
        self.stride.max(1)
    }

    /// Those rows that lie between two moments (nanoseconds since the run's start) as a whole.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Timeline {
        let is_in = |row: &&Row| row.start_ns >= from_ns && row.end_ns <= to_ns;
        Timeline { rows: self.rows.iter().filter(is_in).copied().collect(), ..*self }
    }

    /// Adds a tick. When full, neighbours are merged in pairs and a row stands for twice as many ticks.
    pub fn push(&mut self, row: Row) {
        self.stride = self.stride.max(1);
        if self.pending > 0
            && self.pending < self.stride
            && let Some(last) = self.rows.last_mut().filter(|last| last.is_drain == row.is_drain)
        {
            last.merge(&row);
            self.pending += 1;
            return;
        }
        if self.rows.len() >= TIMELINE_ROWS_MAX {
            self.halve();
            self.stride *= 2;
        }
        if self.rows.capacity() == 0 {
            // All at once: growing by doubling would leave holes as large as the rows.
            self.rows.reserve_exact(TIMELINE_ROWS_MAX);
        }
        self.rows.push(row);
        self.pending = 1;
    }
}

impl Timeline {
    /// Merges neighbours in pairs. A row of the load and one of the drain stay apart: rates are made of the first only.
    fn halve(&mut self) {
        let (mut read, mut kept) = (0, 0);
        while read < self.rows.len() {
            let mut first = self.rows[read];
            read += 1;
            if let Some(second) = self.rows.get(read).filter(|second| second.is_drain == first.is_drain) {
                first.merge(second);
                read += 1;
            }
            self.rows[kept] = first;
            kept += 1;
        }
        self.rows.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Counts;

    fn row(i: u64) -> Row {
        Row { start_ns: i, end_ns: i + 1, counts: Counts { ok: 1, ..Counts::default() }, ..Row::default() }
    }

    #[test]
    fn a_full_timeline_loses_no_count_and_no_time() {
        let mut timeline = Timeline::default();
        let ticks = 5 * TIMELINE_ROWS_MAX as u64 + 7;
        for i in 0..ticks {
            timeline.push(row(i));
        }
        assert!(timeline.rows().len() <= TIMELINE_ROWS_MAX);
        assert_eq!(timeline.rows().iter().map(|r| r.counts.ok).sum::<u64>(), ticks);
        assert_eq!(timeline.rows()[0].start_ns, 0);
        assert_eq!(timeline.rows().last().unwrap().end_ns, ticks);
        assert!(timeline.rows().windows(2).all(|w| w[0].end_ns == w[1].start_ns));
        assert_eq!(timeline.stride(), 8);
    }
}
