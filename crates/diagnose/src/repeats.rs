//! The same run several times: each figure's middle over the runs with its interval, and which expectations held in how many.
//!
//! The middle is Hodges and Lehmann's, the median of the means of all pairs of runs, and the interval is its exact one
//! ([`crate::comparison`] uses the same): no shape is assumed but symmetry, and one wild run moves it little. At 95 % it takes six
//! runs to have one; with five it is at 90 %; with fewer there is none, and the runs' own figures stand alone. A run that is not
//! valid, or was interrupted, is counted and its figures are not used. Pure.

use crate::comparison::{Figures, QUANTITIES, Quantity, ranks};
use model::finding::{Diagnosis, ExpectationState, Status, ValidityState};
use model::recording::{End, Recording};
use model::snapshot::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.repeats/1";
/// Repeats at the most.
pub const REPEATS_MAX: u32 = crate::comparison::REPEATS_MAX;
/// The confidences an interval may have, the best first.
const CONFIDENCES: [f64; 2] = [0.95, 0.9];

/// A run that was repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    /// Always `plimsoll.repeats/1`.
    pub schema: String,
    /// The version that made it.
    pub version: String,
    /// When the first run began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// How it ended.
    pub end: End,
    /// Runs that were asked for.
    pub asked: u32,
    /// Runs that were made.
    pub made: u32,
    /// Each load of the file, the main one first.
    pub loads: Vec<RepeatedLoad>,
}

/// A load over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedLoad {
    /// What it is called; null of the only one.
    pub name: Option<String>,
    /// Runs whose figures are used.
    pub used: u32,
    /// Each figure.
    pub figures: Vec<RepeatedFigure>,
    /// What was expected, and in how many runs it was so.
    pub expectations: Vec<RepeatedExpectation>,
    /// What was found, and in how many runs.
    pub findings: Vec<RepeatedFinding>,
    /// Each run, in order.
    pub runs: Vec<RepeatedRun>,
}

/// A figure over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedFigure {
    /// Which.
    pub quantity: Quantity,
    /// Its middle over the runs, in the quantity's unit.
    pub median: f64,
    /// The lower end of the interval; null where the runs are too few for one.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The interval's confidence; null where there is none.
    pub confidence: Option<f64>,
    /// The smallest of any run.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Runs that have it.
    pub runs: u32,
}

/// An expectation over the runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedExpectation {
    /// The expectation.
    pub expected: String,
    /// Whether the user stated it.
    pub is_stated: bool,
    /// Runs in which it was met.
    pub met: u32,
    /// Runs in which it was not.
    pub not_met: u32,
    /// Runs in which that could not be told.
    pub undetermined: u32,
}

/// A finding over the runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedFinding {
    /// Its id.
    pub id: String,
    /// Runs in which it was found.
    pub runs: u32,
}

/// One run of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedRun {
    /// Its recording; null where none was kept.
    pub recording: Option<String>,
    /// Its figures.
    pub figures: Figures,
    /// Why they are not used; null where they are.
    pub left_out: Option<String>,
    /// The most resident memory of the target, all its processes together, bytes; null where it was not read.
    pub target_memory_bytes_max: Option<u64>,
    /// The most that its deleted and temporary files took on disks, bytes; null where they were not read.
    pub target_files_bytes_max: Option<u64>,
    /// Connections that it had to others, in the mean of all readings; null where they were not read.
    pub target_backends_mean: Option<f64>,
    /// Failed requests by kind.
    pub errors: BTreeMap<String, u64>,
    /// What gives first in it.
    pub gives: Option<String>,
}

impl RepeatedLoad {
    /// A load of which nothing was run yet.
    pub fn new(name: Option<String>) -> Self {
        let (figures, expectations, findings, runs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        RepeatedLoad { name, used: 0, figures, expectations, findings, runs }
    }

    /// Takes a run in, and judges all of them anew.
    pub fn push(&mut self, recording: &Recording, diagnosis: &Diagnosis, kept: Option<String>) {
        let history = crate::history::History::of(&recording.snapshots);
        self.runs.push(RepeatedRun {
            recording: kept,
            figures: Figures::of(recording, &history),
            left_out: left_out(recording, diagnosis),
            target_memory_bytes_max: recording.snapshots.iter().filter_map(resident).max(),
            target_files_bytes_max: recording.snapshots.iter().filter_map(files).max(),
            target_backends_mean: backends(recording),
            errors: recording.totals.sum.errors.seen().map(|(kind, n)| (kind.name().to_owned(), n)).collect(),
            gives: diagnosis.gives.as_ref().map(|gives| gives.text.clone()),
        });
        for judgement in &diagnosis.expectations {
            let at = self.expectations.iter().position(|known| known.expected == judgement.expected);
            let at = at.unwrap_or_else(|| {
                let (expected, is_stated) = (judgement.expected.clone(), judgement.is_stated);
                self.expectations.push(RepeatedExpectation {
                    expected,
                    is_stated,
                    met: 0,
                    not_met: 0,
                    undetermined: 0,
                });
                self.expectations.len() - 1
            });
            let known = &mut self.expectations[at];
            *match judgement.state {
                ExpectationState::Met => &mut known.met,
                ExpectationState::NotMet => &mut known.not_met,
                ExpectationState::Undetermined => &mut known.undetermined,
            } += 1;
        }
        for finding in diagnosis.findings.iter().filter(|finding| finding.status == Status::Supported) {
            match self.findings.iter_mut().find(|known| known.id == finding.id) {
                Some(known) => known.runs += 1,
                None => self.findings.push(RepeatedFinding { id: finding.id.clone(), runs: 1 }),
            }
        }
        self.judge();
    }

    fn judge(&mut self) {
        let used: Vec<&RepeatedRun> = self.runs.iter().filter(|run| run.left_out.is_none()).collect();
        self.used = used.len() as u32;
        let of = |quantity: Quantity| {
            let values: Vec<f64> = used.iter().filter_map(|run| run.figures.get(quantity)).collect();
            figure(quantity, &values)
        };
        self.figures = QUANTITIES.iter().filter_map(|entry| of(entry.quantity)).collect();
    }
}

/// A figure over its runs; `None` where none has it.
fn figure(quantity: Quantity, values: &[f64]) -> Option<RepeatedFigure> {
    let of = |confidence| Some((confidence, ranks::of_pairs(values, confidence)?));
    let estimates: Vec<_> = CONFIDENCES.into_iter().filter_map(of).collect();
    let with_interval = estimates.iter().find(|(_, estimate)| estimate.interval.is_some());
    let (confidence, estimate) = with_interval.or(estimates.first())?;
    Some(RepeatedFigure {
        quantity,
        median: estimate.value,
        low: estimate.interval.map(|(low, _)| low),
        high: estimate.interval.map(|(_, high)| high),
        confidence: estimate.interval.map(|_| *confidence),
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        runs: values.len() as u32,
    })
}

fn resident(snapshot: &Snapshot) -> Option<u64> {
    crate::causes::leaks::of_target(snapshot, |process| process.rss_bytes)
}

fn files(snapshot: &Snapshot) -> Option<u64> {
    let of = |name: &str| crate::causes::leaks::of_target(snapshot, |process| process.metrics.of(name));
    [of("files_deleted_bytes"), of("files_temporary_bytes")].into_iter().flatten().reduce(u64::saturating_add)
}

fn backends(recording: &Recording) -> Option<f64> {
    let read = recording.snapshots.iter().filter_map(|snapshot| snapshot.network.of("outgoing_connections"));
    let (sum, n) = read.fold((0u64, 0u64), |(sum, n), connections| (sum.saturating_add(connections), n + 1));
    (n > 0).then(|| sum as f64 / n as f64)
}

/// Why a run's figures are not used.
fn left_out(recording: &Recording, diagnosis: &Diagnosis) -> Option<String> {
    if recording.end == End::Interrupted {
        return Some("it was interrupted".to_owned());
    }
    if !recording.has_connected() {
        return Some("nothing connected".to_owned());
    }
    (diagnosis.validity.state == ValidityState::NotValid).then(|| {
        let first = diagnosis.validity.reasons.first();
        first.map_or_else(|| "its figures are not valid".to_owned(), |reason| format!("not valid: {}", reason.id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_runs_have_an_interval_of_90_percent_and_six_of_95() {
        let of = |values: &[f64]| figure(Quantity::Throughput, values);
        assert_eq!(of(&[]), None);
        let few = of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((few.median, few.confidence, few.low), (2.0, None, None));
        assert_eq!((few.least, few.most, few.runs), (1.0, 3.0, 3));
        // By hand: of five runs the 15 means of pairs have 3 in their middle, and P = 2 / 32 that all are on one side.
        let five = of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((five.median, five.low, five.high, five.confidence), (3.0, Some(1.0), Some(5.0), Some(0.9)));
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().confidence, Some(0.95));
    }

    #[test]
    fn runs_that_cannot_be_believed_are_counted_and_not_used() {
        let plan = || testkit::recordings::plan(testkit::recordings::echo(1), Vec::new());
        let run = |ok: u64, state| {
            let mut recording = Recording::new(model::recording::Capsule::default(), plan());
            recording.end = End::Complete;
            recording.totals.sum.counts.ok = ok;
            recording.totals.sum.counts.connected = 1;
            recording.totals.in_time.ok = ok;
            recording.totals.measured_ns = 1_000_000_000;
            let mut diagnosis = Diagnosis::default();
            diagnosis.validity.state = state;
            let expected = "rate > 1/s".to_owned();
            let state = if ok > 150 { ExpectationState::Met } else { ExpectationState::NotMet };
            let judgement =
                model::finding::Judgement { expected, is_stated: true, state, got: String::new(), value: None };
            diagnosis.expectations.push(judgement);
            (recording, diagnosis)
        };
        let mut load = RepeatedLoad::new(None);
        for (ok, state) in [(100, ValidityState::Valid), (900, ValidityState::NotValid), (200, ValidityState::Valid)] {
            let (recording, diagnosis) = run(ok, state);
            load.push(&recording, &diagnosis, None);
        }
        assert_eq!((load.used, load.runs.len()), (2, 3));
        let throughput = load.figures.iter().find(|figure| figure.quantity == Quantity::Throughput).unwrap();
        assert_eq!((throughput.median, throughput.runs), (150.0, 2));
        let [expectation] = &load.expectations[..] else { panic!("one") };
        assert_eq!((expectation.met, expectation.not_met), (2, 1));
    }
}
