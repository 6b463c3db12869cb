//! Two sides compared: what differs, by how much and from … to …, what is alike within a tolerance, what cannot be told yet.
//!
//! `quantity`: what is compared. [`decide`]: the method, its verdicts and what they are worth (`tests/comparisons.rs` has the
//! simulation study; docs/comparing.md its table). `ranks` and `means`: the estimates. `differences`: what else is not the
//! same of the runs. [`Comparison`] is the document, `plimsoll.comparison/1`. Pure: slices were run by `session::comparison`.

pub mod decide;
mod differences;
mod means;
mod quantity;
pub(crate) mod ranks;
mod sentence;
mod trend;

pub use decide::{Bounds, FAILURES_TOLERANCE, Repeat, judge_pairs, judge_samples};
pub use differences::{Difference, FindingSeen, Seen, differences, findings_seen};
pub use quantity::{Entry, Figures, Method, QUANTITIES, Quantity};
pub use sentence::{shown_change, shown_figure, words};
pub use trend::{LeftOut, Point, Series, SeriesRun, TREND_SCHEMA, Trend, Turn, trend};

use model::recording::End;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The document's name and version.
pub const SCHEMA: &str = "plimsoll.comparison/1";
/// Repeats at the most.
pub const REPEATS_MAX: u32 = 200;

/// A shift, on the scale it is taken on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    /// `None`: too few repeats for one at the confidence asked for.
    pub(crate) interval: Option<(f64, f64)>,
    /// How probable such a shift or a larger one is where there is none.
    pub(crate) p: f64,
}

/// A change from A to B.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Relative (0.03: 3 % more); of failures in shares of the requests (0.01: one point more).
    pub value: f64,
    /// The lower end of its interval; null where the repeats are too few for one.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// What is said of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The interval leaves out 0, and is not within the tolerance.
    Different,
    /// All of the interval is within the tolerance.
    Equivalent,
    /// Neither, or A differs from itself.
    Undecided,
    /// Nobody asked for a verdict on it.
    NotDeclared,
}

/// A quantity judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Which.
    pub quantity: Quantity,
    /// The unit of `a` and `b`.
    pub unit: String,
    /// The median over A's runs; null where none has it.
    pub a: Option<f64>,
    /// The same of B's.
    pub b: Option<f64>,
    /// From A to B; null where no repeat has both.
    pub change: Option<Change>,
    /// From A to A again: the noise floor; null where A was not run twice.
    pub against_itself: Option<Change>,
    /// The confidence of both intervals, which makes that of the whole what was asked for.
    pub confidence: f64,
    /// Repeats in which both sides have it.
    pub repeats: u32,
    /// The verdict.
    pub state: State,
    /// Whether it is different, and for the worse.
    pub is_worse: bool,
    /// Whether it is worse, and the near end of its interval is beyond the tolerance: exit status 3.
    pub is_beyond_tolerance: bool,
    /// Whether A differed from itself, so that nothing is decided.
    pub is_unsteady: bool,
    /// About how many more repeats would decide; null where it is decided, or that is out of reach.
    pub more_repeats: Option<u32>,
}

/// Which side a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A.
    A,
    /// A again, which tells how much nothing comes to.
    AgainA,
    /// B.
    B,
}

impl Side {
    /// The letter that stands for it.
    pub const fn letter(self) -> char {
        match self {
            Side::A | Side::AgainA => 'a',
            Side::B => 'b',
        }
    }
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Of which repeat, counted from 1; of recordings that belong to no pairs, the run's number on its side.
    pub repeat: u32,
    /// Whose it is.
    pub side: Side,
    /// When it began, seconds since the first.
    pub at_s: f64,
    /// Its recording; null where none was kept.
    pub recording: Option<String>,
    /// What it came to.
    pub figures: Figures,
    /// How far its throughput may be from what it was measured as, relative, at 95 %, by the spread of its own ticks; null
    /// where they are too few. Of what differs from run to run it says nothing.
    #[serde(default)]
    pub own_margin: Option<f64>,
    /// What disturbed the generator meanwhile; its figures are not used then. By the generator's own signals only.
    pub disturbed: Option<String>,
    /// What gives first in it, in a sentence.
    pub gives: Option<String>,
}

/// How two sides' runs belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// In repeats, whose slices are close to each other in time.
    Paired,
    /// In none.
    Unpaired,
    /// One run each: chance cannot be told from change.
    Single,
}

/// What was compared with what, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Always `plimsoll.comparison/1`.
    pub schema: String,
    /// The version that made it.
    pub version: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// A: its URL, command or recordings.
    pub a: String,
    /// B.
    pub b: String,
    /// How it ended.
    pub end: End,
    /// How runs belong together.
    pub pairing: Pairing,
    /// Repeats that were asked for; of recordings, runs of the smaller side.
    pub repeats: u32,
    /// Length of a slice, seconds, its warm-up left out; null of recordings.
    pub slice_s: Option<f64>,
    /// The seed of the order of slices; null of recordings.
    pub seed: Option<u64>,
    /// Relative changes that do not matter.
    pub tolerance: f64,
    /// How probable it is at least that no verdict "different" is wrong.
    pub confidence: f64,
    /// What verdicts are about.
    pub declared: Vec<Quantity>,
    /// The command line, without secrets; empty in files of older versions.
    #[serde(default)]
    pub command: Vec<String>,
    /// The answer in a sentence or a few.
    pub sentence: String,
    /// Every quantity.
    pub judgements: Vec<Judgement>,
    /// What of settings, hosts and versions is not the same.
    pub differences: Vec<Difference>,
    /// What was found in the runs of either side.
    pub findings: Vec<FindingSeen>,
    /// Every run, in the order in which they were made.
    pub slices: Vec<Slice>,
}

impl Comparison {
    /// Judges the slices anew, and says what that comes to. Repeats of which a slice is missing or was disturbed are left out.
    pub fn judge(&mut self) {
        let bounds = Bounds { tolerance: self.tolerance, confidence: self.confidence, declared: self.declared.clone() };
        // Of one run each nothing is judged, and what disturbed one stands beside its figures.
        let is_single = self.pairing == Pairing::Single;
        let sound = |side: Side| {
            self.slices.iter().filter(move |slice| slice.side == side && (is_single || slice.disturbed.is_none()))
        };
        self.judgements = match self.pairing {
            Pairing::Paired => {
                let of = |side: Side, repeat: u32| sound(side).rfind(|slice| slice.repeat == repeat);
                let has_again = self.slices.iter().any(|slice| slice.side == Side::AgainA);
                let repeat = |number: u32| {
                    let (a, b) = (of(Side::A, number)?, of(Side::B, number)?);
                    let again = of(Side::AgainA, number);
                    (again.is_some() || !has_again).then(|| Repeat {
                        a: a.figures.clone(),
                        a_again: again.map(|again| again.figures.clone()),
                        b: b.figures.clone(),
                    })
                };
                let numbers: BTreeSet<u32> = self.slices.iter().map(|slice| slice.repeat).collect();
                judge_pairs(&numbers.into_iter().filter_map(repeat).collect::<Vec<_>>(), &bounds)
            }
            Pairing::Unpaired | Pairing::Single => {
                let figures = |side| sound(side).map(|slice| slice.figures.clone()).collect::<Vec<_>>();
                judge_samples(&figures(Side::A), &figures(Side::B), &bounds)
            }
        };
        self.sentence = sentence::of(self);
    }

    /// Repeats that verdicts rest on.
    pub fn whole_repeats(&self) -> u32 {
        self.judgements.iter().map(|judgement| judgement.repeats).max().unwrap_or(0)
    }
}
