//! Where a series of runs changed: each quantity's levels over the runs of one load, in the order in which they were made.
//!
//! By [`crate::segments::change`]: exact optimal partitioning with its penalty, so the same runs always give the same changes.
//! On logarithms, but for failures. It needs twelve runs, and three on either side of a change: fewer are said to be too few, and a
//! single bad run is none. What the runs before and after a change do not share, such as the version, stands beside it.
//!
//! Cost: runs² × quantities.

use super::differences::{Difference, differences};
use super::quantity::{Figures, QUANTITIES, Quantity};
use super::{FAILURES_TOLERANCE, sentence};
use crate::segments::change::{Course, VALUES_MIN, changes};
use crate::statistics::median;
use model::Recording;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document's name and version.
pub const TREND_SCHEMA: &str = "plimsoll.trend/1";
/// Noise is taken to be at least this share of what matters, where the runs themselves have less.
const NOISE: f64 = 0.1;

/// A run of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesRun {
    /// Its id.
    pub id: String,
    /// Its recording, whose readings need not be there.
    pub recording: Recording,
    /// What it came to.
    pub figures: Figures,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// Always `plimsoll.trend/1`.
    pub schema: String,
    /// Relative changes that do not matter.
    pub tolerance: f64,
    /// Each load that the runs put on, the one with most runs first.
    pub series: Vec<Series>,
    /// Recordings that could not be read, or have no load or no valid figures, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// A recording that is in no series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Its id.
    pub id: String,
    /// Why.
    pub why: String,
}

/// The runs of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Where the load goes.
    pub target: String,
    /// The answer in a sentence.
    pub sentence: String,
    /// Its runs, oldest first.
    pub runs: Vec<Point>,
    /// Its changes, oldest first.
    pub changes: Vec<Turn>,
}

/// A run of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Its id.
    pub id: String,
    /// When it began, nanoseconds since 1970.
    pub started_at_unix_ns: u64,
    /// What it came to.
    pub figures: Figures,
}

/// A quantity that has another level from one run on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Which.
    pub quantity: Quantity,
    /// The last run before.
    pub last_before: String,
    /// The first run with the new level.
    pub first_after: String,
    /// Its level before: the median of the runs back to the change before.
    pub before: f64,
    /// Its level after: that of the runs up to the next change.
    pub after: f64,
    /// The change: relative, of failures in shares of the requests.
    pub change: f64,
    /// Whether it is for the worse.
    pub is_worse: bool,
    /// What the two runs do not share beside it.
    pub differences: Vec<Difference>,
}

/// What of a recording must be the same for its runs to be of one series.
pub fn load_of(recording: &Recording) -> String {
    let plan = model::hide::plan(&recording.plan);
    let names: Vec<&str> = plan.origins.iter().map(|origin| origin.name.as_str()).collect();
    let what = serde_json::to_string(&(&plan.workload, &plan.pace, plan.connections, plan.pipeline));
    format!("{names:?} {}", what.unwrap_or_default())
}

/// The series of some runs, in any order.
pub fn trend(mut runs: Vec<SeriesRun>, left_out: Vec<LeftOut>, tolerance: f64) -> Trend {
    runs.sort_by(|a, b| {
        let began = |run: &SeriesRun| run.recording.capsule.started_at_unix_ns;
        began(a).cmp(&began(b)).then_with(|| a.id.cmp(&b.id))
    });
    let mut by_load: std::collections::BTreeMap<String, Vec<SeriesRun>> = std::collections::BTreeMap::new();
    for run in runs {
        by_load.entry(load_of(&run.recording)).or_default().push(run);
    }
    let mut series: Vec<Series> = by_load.into_values().map(|runs| of_load(&runs, tolerance)).collect();
    series.sort_by_key(|series| std::cmp::Reverse(series.runs.len()));
    Trend { schema: TREND_SCHEMA.to_owned(), tolerance, series, left_out }
}

fn of_load(runs: &[SeriesRun], tolerance: f64) -> Series {
    let mut turns: Vec<(usize, Turn)> =
        QUANTITIES.iter().flat_map(|entry| turns(runs, entry.quantity, tolerance)).collect();
    turns.sort_by_key(|(at, _)| *at);
    let changes: Vec<Turn> = turns.into_iter().map(|(_, turn)| turn).collect();
    let target = runs.first().map(|run| {
        let names: Vec<&str> = run.recording.plan.origins.iter().map(|origin| origin.name.as_str()).collect();
        names.join(", ")
    });
    Series {
        target: target.unwrap_or_default(),
        sentence: sentence_of(runs.len(), &changes),
        runs: runs
            .iter()
            .map(|run| Point {
                id: run.id.clone(),
                started_at_unix_ns: run.recording.capsule.started_at_unix_ns,
                figures: run.figures.clone(),
            })
            .collect(),
        changes,
    }
}

/// The changes of a quantity, each with the place among all runs of the first one after it.
fn turns(runs: &[SeriesRun], quantity: Quantity, tolerance: f64) -> Vec<(usize, Turn)> {
    let entry = quantity.entry();
    let of =
        |run: &SeriesRun| run.figures.get(quantity).and_then(|figure| Some((figure, entry.method.scaled(figure)?)));
    let have: Vec<(usize, f64, f64)> =
        runs.iter().enumerate().filter_map(|(at, run)| of(run).map(|(figure, scaled)| (at, figure, scaled))).collect();
    let matters = if entry.method.is_ratio() { tolerance.ln_1p() } else { FAILURES_TOLERANCE };
    let course = Course {
        values: have.iter().map(|(_, _, scaled)| *scaled).collect(),
        noise_min: NOISE * matters,
        difference_min: matters,
    };
    let cuts = changes(&[course]);
    let ends: Vec<usize> = std::iter::once(0).chain(cuts.iter().copied()).chain([have.len()]).collect();
    let level = |from: usize, to: usize| median(have[from..to].iter().map(|(_, figure, _)| *figure).collect());
    ends.windows(3)
        .map(|ends| {
            let (before, after) = (level(ends[0], ends[1]), level(ends[1], ends[2]));
            let (last, first) = (&runs[have[ends[1] - 1].0], &runs[have[ends[1]].0]);
            let change = if entry.method.is_ratio() { after / before - 1.0 } else { after - before };
            let turn = Turn {
                quantity,
                last_before: last.id.clone(),
                first_after: first.id.clone(),
                before,
                after,
                change,
                is_worse: (change < 0.0) == entry.more_is_better,
                differences: differences(&last.recording, &first.recording),
            };
            (have[ends[1]].0, turn)
        })
        .collect()
}

fn sentence_of(runs: usize, changes: &[Turn]) -> String {
    if runs < VALUES_MIN {
        return format!("{runs} runs of this load are too few to tell a change: {VALUES_MIN} at the least");
    }
    match changes {
        [] => format!("Nothing changed over {runs} runs"),
        _ => {
            let all: Vec<String> = changes
                .iter()
                .map(|turn| {
                    let change = sentence::shown_change(turn.quantity, turn.change);
                    format!("{} {change} from {} on", sentence::words(turn.quantity), turn.first_after)
                })
                .collect();
            format!("Over {runs} runs: {}", all.join(", "))
        }
    }
}
