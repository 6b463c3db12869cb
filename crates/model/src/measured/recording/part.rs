//! A part of a run, summed: its disturbed intervals, those with a window of the probes, a phase of the load.

use super::Row;
use crate::interval::{Counts, Interval};

/// A part of a run's intervals, summed: to be looked at by itself, or taken out of the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Everything summed, the drain included where it belongs to the part.
    pub sum: Interval<u64>,
    /// The counters up to the end of the load, as [`crate::recording::Totals::in_time`].
    pub in_time: Counts,
    /// How long its intervals were together, the drain excluded, nanoseconds.
    pub measured_ns: u64,
    /// How many they were, the drain excluded.
    pub intervals: u64,
}

impl Default for Part {
    fn default() -> Self {
        Part { sum: Interval::new(0), in_time: Counts::default(), measured_ns: 0, intervals: 0 }
    }
}

impl Part {
    /// Takes in a tick's counters and its time; its histograms are added to `sum` apart.
    pub fn add_row(&mut self, row: &Row) {
        self.sum.counts.add(&row.counts);
        if !row.is_drain {
            self.in_time.add(&row.counts);
            self.measured_ns = self.measured_ns.saturating_add(row.end_ns.saturating_sub(row.start_ns));
            self.intervals += 1;
        }
    }

    /// Whether the load came so far, of a phase: half of a tick of it or more. A load that ends where a phase would begin ends
    /// somewhat late, and that is no phase.
    pub fn is_reached(&self, tick_ns: u64) -> bool {
        self.measured_ns > 0 && self.measured_ns.saturating_mul(2) >= tick_ns
    }

    /// Completed requests a second of the part's time, failed ones included.
    pub fn requests_per_s(&self) -> f64 {
        if self.measured_ns == 0 { 0.0 } else { self.in_time.arrived() as f64 * 1e9 / self.measured_ns as f64 }
    }
}
