//! A part of the measured time with its own figures: the whole of it, or the quiet part, so that what is asked of the one
//! can be asked of the other.

use super::processes::Span;
use model::interval::Counts;
use model::recording::{Recording, Row};
use model::{LatencyKind, LatencySet};
use std::borrow::Cow;

/// A part of the measured time.
#[derive(Debug)]
pub struct Scope<'r> {
    /// Its rows, each longer than nothing.
    pub rows: Vec<&'r Row>,
    /// The stretches between snapshots that lie in it, by more than half.
    pub spans: Vec<Span>,
    /// Its histograms.
    pub latency: Cow<'r, LatencySet<u64>>,
    /// Its counters up to the end of the load.
    pub counts: Counts,
    /// How long it is, nanoseconds.
    pub measured_ns: u64,
}

impl<'r> Scope<'r> {
    pub(super) fn whole(recording: &'r Recording, rows: &[&'r Row], spans: &[Span]) -> Self {
        let totals = &recording.totals;
        Scope {
            rows: rows.to_vec(),
            spans: spans.to_vec(),
            latency: Cow::Borrowed(&totals.sum.latency),
            // What was never taken up is counted when the load has ended.
            counts: Counts { never_taken_up: totals.sum.counts.never_taken_up, ..totals.in_time },
            measured_ns: totals.measured_ns,
        }
    }

    pub(super) fn quiet(recording: &'r Recording, rows: &[&'r Row], spans: &[Span]) -> Option<Self> {
        let part = recording.totals.quiet()?;
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| !row.disturbance.is_any()).collect();
        let is_in = |span: &&Span| {
            let overlap = |row: &&Row| {
                let (from, to) = (signed(row.start_ns).max(span.from_ns), signed(row.end_ns).min(span.to_ns));
                to.saturating_sub(from).max(0) as f64
            };
            let within: f64 = rows.iter().map(overlap).sum();
            within > 0.5 * span.to_ns.saturating_sub(span.from_ns) as f64
        };
        Some(Scope {
            spans: spans.iter().filter(is_in).copied().collect(),
            rows,
            latency: Cow::Owned(part.sum.latency),
            counts: Counts { never_taken_up: part.sum.counts.never_taken_up, ..part.in_time },
            measured_ns: part.measured_ns,
        })
    }

    /// Requests that ended in it, a second, failed ones included.
    pub fn requests_per_s(&self) -> f64 {
        if self.measured_ns == 0 { 0.0 } else { self.arrived() * 1e9 / self.measured_ns as f64 }
    }

    /// Requests that ended in it, failed ones included, whenever they were due.
    pub fn arrived(&self) -> f64 {
        let c = &self.counts;
        [c.ok, c.failed, c.carried_ok, c.carried_failed].into_iter().map(|n| n as f64).sum()
    }

    /// The stretch between snapshots that covers a row's middle.
    pub fn span_of(&self, row: &Row) -> Option<&Span> {
        let middle_ns = signed(row.start_ns / 2 + row.end_ns / 2);
        self.spans.iter().find(|s| s.from_ns <= middle_ns && middle_ns < s.to_ns)
    }

    /// The quantile that stands for the tail of a kind, by what ended: p99, or the highest one with ten samples above it
    /// where there are fewer than a thousand. `None` below twenty samples.
    pub fn tail(&self, kind: LatencyKind) -> Option<f64> {
        model::quantile::tail_of(self.latency.of(kind).len())
    }

    /// The mean of something of the rows, each weighted by its length; 0 without rows.
    pub fn mean_over_rows(&self, of: impl Fn(&Row) -> f64) -> f64 {
        let (mut sum, mut length) = (0.0, 0.0);
        for row in &self.rows {
            let row_ns = row.end_ns.saturating_sub(row.start_ns) as f64;
            let value = of(row);
            if value.is_finite() {
                sum += value * row_ns;
                length += row_ns;
            }
        }
        if length > 0.0 { sum / length } else { 0.0 }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
