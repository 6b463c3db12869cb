//! What is compared: the registry of quantities, and a run's figures of them.
//!
//! To add one, add a variant, its line in [`QUANTITIES`], and where [`Figures::of`] takes it from.

use crate::facts::Facts;
use crate::history::History;
use crate::statistics::mean_95;
use model::LatencyKind;
use model::Recording;
use model::plan::Pace;
use model::quantile::{Permille, shown};
use model::recording::Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run's ticks are put together to as many blocks: neighbours among the ticks are less independent than blocks.
const BLOCKS_MAX: usize = 20;
/// The spread of fewer is not told.
const BLOCKS_MIN: usize = 4;

/// A quantity that two sides are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Requests answered well a second.
    Throughput,
    /// Median response time.
    P50,
    /// 99th percentile of the response time.
    P99,
    /// CPU time of the target for each request.
    Cpu,
    /// Share of the requests that failed, were dropped or had no end.
    Failures,
}

/// How a quantity's shift is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The mean of log ratios, by Student's t.
    MeanOfRatios,
    /// Hodges and Lehmann's shift of log ratios, by ranks.
    RanksOfRatios,
    /// The same of plain differences: of what may be 0.
    RanksOfDifferences,
}

/// A quantity's line.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which.
    pub quantity: Quantity,
    /// Its name in flags and JSON.
    pub name: &'static str,
    /// What it is, for help.
    pub about: &'static str,
    /// The unit of its figures.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// How its shift is estimated.
    pub method: Method,
}

/// Every quantity, in the order of reports.
pub const QUANTITIES: &[Entry] = &[
    Entry {
        quantity: Quantity::Throughput,
        name: "throughput",
        about: "Requests answered well a second",
        unit: "1/s",
        more_is_better: true,
        method: Method::MeanOfRatios,
    },
    Entry {
        quantity: Quantity::P50,
        name: "p50",
        about: "Median response time",
        unit: "us",
        more_is_better: false,
        method: Method::RanksOfRatios,
    },
    Entry {
        quantity: Quantity::P99,
        name: "p99",
        about: "99th percentile of the response time",
        unit: "us",
        more_is_better: false,
        method: Method::RanksOfRatios,
    },
    Entry {
        quantity: Quantity::Cpu,
        name: "cpu",
        about: "CPU time of the target for each request",
        unit: "us",
        more_is_better: false,
        method: Method::MeanOfRatios,
    },
    Entry {
        quantity: Quantity::Failures,
        name: "failures",
        about: "Share of the requests that failed, were dropped or had no end",
        unit: "ratio",
        more_is_better: false,
        method: Method::RanksOfDifferences,
    },
];

impl Quantity {
    /// Its line.
    pub fn entry(self) -> &'static Entry {
        // The registry has all of them, by a test.
        QUANTITIES.iter().find(|entry| entry.quantity == self).unwrap_or(&QUANTITIES[0])
    }

    /// Its name in flags and JSON.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What a verdict is about where nothing was declared: all, but the one that the load's own pace settles. In a closed pace
    /// the median follows from the throughput; in an open one the rate is given.
    pub fn declared_by_default(pace: &Pace) -> Vec<Quantity> {
        let settled = if matches!(pace, Pace::Closed { .. }) { Quantity::P50 } else { Quantity::Throughput };
        QUANTITIES.iter().map(|entry| entry.quantity).filter(|quantity| *quantity != settled).collect()
    }
}

impl Method {
    /// A figure as the scale that shifts are taken on; `None` where it has none there.
    pub(crate) fn scaled(self, figure: f64) -> Option<f64> {
        match self {
            Method::MeanOfRatios | Method::RanksOfRatios => (figure > 0.0).then(|| figure.ln()),
            Method::RanksOfDifferences => Some(figure),
        }
        .filter(|scaled| scaled.is_finite())
    }

    /// A shift as it is reported: relative (0.03: 3 % more), of shares in points of them.
    pub(crate) fn reported(self, shift: f64) -> f64 {
        if self.is_ratio() { shift.exp_m1() } else { shift }
    }

    /// Whether a shift is relative.
    pub fn is_ratio(self) -> bool {
        self != Method::RanksOfDifferences
    }
}

/// A run's figures; one that was not measured, or has too few requests behind it, is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Figures(pub BTreeMap<Quantity, f64>);

impl Figures {
    /// Those of a recording with all that was read in it. Disturbed intervals are in them: a run as short as a slice is taken
    /// or left as a whole.
    pub fn of(recording: &Recording, history: &History) -> Self {
        if recording.capsule.why_no_load().is_some() {
            return Figures::default();
        }
        let totals = &recording.totals;
        let counts = &totals.sum.counts;
        let quantile_us =
            |q| shown(&totals.sum.latency, LatencyKind::Response, Permille(q)).map(|figure| figure.ns as f64 / 1e3);
        let lost = (counts.failed + counts.dropped + counts.never_taken_up + totals.in_flight_at_end) as f64;
        let due = counts.ok as f64 + lost;
        let per_s = totals.requests_per_s();
        let cores = Facts::of(recording, history).target_cores;
        let of = |quantity| match quantity {
            Quantity::Throughput => Some(totals.per_s(totals.in_time.ok_arrived())).filter(|per_s| *per_s > 0.0),
            Quantity::P50 => quantile_us(500),
            Quantity::P99 => quantile_us(990),
            Quantity::Cpu => cores.filter(|_| per_s > 0.0).map(|cores| cores * 1e6 / per_s),
            Quantity::Failures => (due > 0.0).then(|| lost / due),
        };
        let all = QUANTITIES.iter().filter_map(|entry| Some((entry.quantity, of(entry.quantity)?)));
        Figures(all.filter(|(_, figure)| figure.is_finite()).collect())
    }

    /// How far a run's own throughput may be from what it was measured as, relative, at 95 %: by the spread of its ticks, put
    /// together to `BLOCKS_MAX` at the most. It says nothing of what differs from run to run. `None` with fewer than four.
    pub fn own_margin(recording: &Recording, history: &History) -> Option<f64> {
        let facts = Facts::of(recording, history);
        let rate = |rows: &[&Row]| {
            let passed_ns: u64 = rows.iter().map(|row| row.end_ns.saturating_sub(row.start_ns)).sum();
            let ended: f64 = rows.iter().map(|row| row.counts.arrived() as f64).sum();
            (passed_ns > 0).then(|| ended * 1e9 / passed_ns as f64)
        };
        let share = facts.rows.len().div_ceil(BLOCKS_MAX).max(1);
        let rates: Vec<f64> = facts.rows.chunks(share).filter_map(rate).collect();
        let (mean, margin) = mean_95(&rates).filter(|_| rates.len() >= BLOCKS_MIN)?;
        (mean > 0.0).then_some(margin? / mean)
    }

    /// One of them.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.0.get(&quantity).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_has_its_line_and_its_name() {
        for entry in QUANTITIES {
            assert_eq!(entry.quantity.entry().name, entry.name);
            assert_eq!(serde_json::to_value(entry.quantity).unwrap(), entry.name);
        }
        let names: std::collections::BTreeSet<&str> = QUANTITIES.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), 5);
    }
}
