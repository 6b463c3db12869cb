//! From figures to verdicts: shifts with their intervals, Holm over what was declared, and what more repeats would decide.
//!
//! A shift is B's against A's, on the scale of logarithms but for shares. Where each repeat has A twice, B is set against the
//! mean of the two, and A against itself is the noise floor: what chance, drift and neighbours make of nothing. All verdicts of
//! a comparison together are wrong with no more than the stated probability (S. Holm, "A simple sequentially rejective multiple
//! test procedure", Scand. J. Statist. 6 (1979)): the quantity with the smallest chance is judged at α / m, the next at
//! α / (m − 1), up to the first that does not differ; it and all behind it have their intervals at its level.
//!
//! Verdicts, of the interval of a declared quantity: within the tolerance as a whole: equivalent. Else without 0: different.
//! Else undecided. Where A differs from itself, nothing is decided of that quantity. Requests are never resampled: those of one
//! slice are not independent of each other, and a million of them are one observation of the moment.

use super::quantity::{Entry, Figures, Method, QUANTITIES, Quantity};
use super::{Change, Estimate, Judgement, State, means, ranks};
use crate::statistics::{Sample, critical_t};

/// Shares of failures are alike within this many: 0.1 points of a hundred.
pub const FAILURES_TOLERANCE: f64 = 0.001;
/// More repeats than this decide nothing that anybody would wait for.
const MORE_MAX: u32 = 10_000;

/// What a verdict is held to.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// Relative changes that do not matter, such as 0.03.
    pub tolerance: f64,
    /// How probable it is at least that no verdict "different" is wrong, such as 0.98.
    pub confidence: f64,
    /// What verdicts are about; all else is shown without one.
    pub declared: Vec<Quantity>,
}

/// One repeat: slices close to each other in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// Of A.
    pub a: Figures,
    /// Of A once more; absent where nobody ran it.
    pub a_again: Option<Figures>,
    /// Of B.
    pub b: Figures,
}

/// Judges repeats, every quantity in the registry's order.
pub fn judge_pairs(repeats: &[Repeat], bounds: &Bounds) -> Vec<Judgement> {
    judge(bounds, &|entry: &Entry| {
        let scaled = |figures: &Figures| figures.get(entry.quantity).and_then(|figure| entry.method.scaled(figure));
        let pair = |repeat: &Repeat| {
            let (a, b) = (scaled(&repeat.a)?, scaled(&repeat.b)?);
            let again = repeat.a_again.as_ref().map(scaled);
            match again {
                Some(again) => Some((b - (a + again?) / 2.0, Some(again? - a))),
                None => Some((b - a, None)),
            }
        };
        let pairs: Vec<(f64, Option<f64>)> = repeats.iter().filter_map(pair).collect();
        let both_a = repeats.iter().flat_map(|repeat| [Some(&repeat.a), repeat.a_again.as_ref()]).flatten();
        Data {
            a: both_a.filter_map(|figures| figures.get(entry.quantity)).collect(),
            b: repeats.iter().filter_map(|repeat| repeat.b.get(entry.quantity)).collect(),
            shift: Shift::Pairs(pairs.iter().map(|pair| pair.0).collect()),
            floor: pairs.iter().map(|pair| pair.1).collect::<Option<Vec<f64>>>().filter(|floor| !floor.is_empty()),
        }
    })
}

/// Judges two sets of runs that belong to no pairs.
pub fn judge_samples(a: &[Figures], b: &[Figures], bounds: &Bounds) -> Vec<Judgement> {
    judge(bounds, &|entry: &Entry| {
        let of = |side: &[Figures]| -> Vec<f64> { side.iter().filter_map(|run| run.get(entry.quantity)).collect() };
        let scaled = |figures: &[f64]| figures.iter().filter_map(|figure| entry.method.scaled(*figure)).collect();
        let (a, b) = (of(a), of(b));
        Data { shift: Shift::Samples(scaled(&a), scaled(&b)), a, b, floor: None }
    })
}

/// What there is of a quantity.
struct Data {
    /// As measured.
    a: Vec<f64>,
    b: Vec<f64>,
    /// Scaled.
    shift: Shift,
    /// A against itself, where it was run twice.
    floor: Option<Vec<f64>>,
}

enum Shift {
    Pairs(Vec<f64>),
    Samples(Vec<f64>, Vec<f64>),
}

impl Shift {
    fn estimate(&self, method: Method, confidence: f64) -> Option<Estimate> {
        match (self, method) {
            (Shift::Pairs(pairs), Method::MeanOfRatios) => means::of_pairs(pairs, confidence),
            (Shift::Pairs(pairs), _) => ranks::of_pairs(pairs, confidence),
            (Shift::Samples(a, b), Method::MeanOfRatios) => means::of_samples(a, b, confidence),
            (Shift::Samples(a, b), _) => ranks::of_samples(a, b, confidence),
        }
    }

    /// How often both sides were measured.
    fn repeats(&self) -> usize {
        match self {
            Shift::Pairs(pairs) => pairs.len(),
            Shift::Samples(a, b) => a.len().min(b.len()),
        }
    }

    fn freedom(&self, repeats: f64) -> f64 {
        match self {
            Shift::Pairs(_) => repeats - 1.0,
            Shift::Samples(..) => 2.0 * repeats - 2.0,
        }
    }

    /// The standard deviation of one repeat's shift.
    fn deviation(&self) -> Option<f64> {
        match self {
            Shift::Pairs(pairs) => Sample::of(pairs).map(|sample| sample.variance.sqrt()),
            Shift::Samples(a, b) => {
                let (a, b) = (Sample::of(a)?, Sample::of(b)?);
                Some((a.variance + b.variance).sqrt())
            }
        }
    }
}

fn judge(bounds: &Bounds, of: &dyn Fn(&Entry) -> Data) -> Vec<Judgement> {
    let all: Vec<(&Entry, Data)> = QUANTITIES.iter().map(|entry| (entry, of(entry))).collect();
    let levels = levels(&all, bounds);
    all.iter().zip(levels).map(|((entry, data), level)| judgement(entry, data, level, bounds)).collect()
}

/// The confidence that each quantity's interval has, by Holm; of one that was not declared, the stated one.
fn levels(all: &[(&Entry, Data)], bounds: &Bounds) -> Vec<f64> {
    let alpha = 1.0 - bounds.confidence;
    let chance = |(entry, data): &(&Entry, Data)| {
        data.shift.estimate(entry.method, bounds.confidence).map_or(1.0, |estimate| estimate.p)
    };
    let mut declared: Vec<(usize, f64)> = (0..all.len())
        .filter(|at| bounds.declared.contains(&all[*at].0.quantity))
        .map(|at| (at, chance(&all[at])))
        .collect();
    declared.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut levels = vec![bounds.confidence; all.len()];
    let mut has_stopped = false;
    let mut level = bounds.confidence;
    for (place, (at, p)) in declared.iter().enumerate() {
        if !has_stopped {
            let share = alpha / (declared.len() - place) as f64;
            (level, has_stopped) = (1.0 - share, *p > share);
        }
        levels[*at] = level;
    }
    levels
}

fn judgement(entry: &Entry, data: &Data, confidence: f64, bounds: &Bounds) -> Judgement {
    let method = entry.method;
    let estimate = data.shift.estimate(method, confidence);
    let floor = data.floor.as_ref().and_then(|floor| match method {
        Method::MeanOfRatios => means::of_pairs(floor, confidence),
        _ => ranks::of_pairs(floor, confidence),
    });
    let tolerance = if method.is_ratio() { bounds.tolerance.ln_1p() } else { FAILURES_TOLERANCE };
    let verdict = |estimate: &Estimate| match estimate.interval {
        None => State::Undecided,
        Some((low, high)) if -tolerance <= low && high <= tolerance => State::Equivalent,
        Some((low, high)) if low > 0.0 || high < 0.0 => State::Different,
        Some(_) => State::Undecided,
    };
    let is_declared = bounds.declared.contains(&entry.quantity);
    let is_unsteady = floor.as_ref().is_some_and(|floor| verdict(floor) == State::Different);
    let state = match &estimate {
        _ if !is_declared => State::NotDeclared,
        Some(_) if is_unsteady => State::Undecided,
        Some(estimate) => verdict(estimate),
        None => State::Undecided,
    };
    let is_different = state == State::Different;
    let is_worse = is_different && estimate.is_some_and(|estimate| (estimate.value < 0.0) == entry.more_is_better);
    let near = estimate.and_then(|estimate| estimate.interval).map_or(0.0, |(low, high)| low.abs().min(high.abs()));
    let more_repeats = match &estimate {
        Some(estimate) if state == State::Undecided && !is_unsteady => {
            more(&data.shift, method, estimate, confidence, tolerance)
        }
        _ => None,
    };
    let change = |estimate: Estimate| Change {
        value: method.reported(estimate.value),
        low: estimate.interval.map(|(low, _)| method.reported(low)),
        high: estimate.interval.map(|(_, high)| method.reported(high)),
    };
    Judgement {
        quantity: entry.quantity,
        unit: entry.unit.to_owned(),
        a: middle(&data.a),
        b: middle(&data.b),
        change: estimate.map(change),
        against_itself: floor.map(change),
        confidence,
        repeats: u32::try_from(data.shift.repeats()).unwrap_or(u32::MAX),
        state,
        is_worse,
        is_beyond_tolerance: is_worse && near > tolerance,
        is_unsteady: is_declared && is_unsteady,
        more_repeats,
    }
}

/// The median, of an even number the mean of the two in the middle.
fn middle(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// How many more repeats would decide, were the shift and its spread what they seem; `None` where that is out of reach.
fn more(shift: &Shift, method: Method, estimate: &Estimate, confidence: f64, tolerance: f64) -> Option<u32> {
    let now = shift.repeats() as f64;
    // The standard deviation that the present interval speaks of; by ranks it is not quite the sample's.
    let of_interval = estimate
        .interval
        .map(|(low, high)| (high - low) / 2.0 * now.sqrt() / critical_t(shift.freedom(now), confidence));
    let deviation = of_interval.or_else(|| shift.deviation())?;
    let least = if method == Method::MeanOfRatios { 2 } else { ranks::pairs_min(confidence) };
    let would_decide = |repeats: u32| {
        let n = f64::from(repeats);
        let margin = critical_t(shift.freedom(n), confidence) * deviation / n.sqrt();
        margin < estimate.value.abs() || estimate.value.abs() + margin < tolerance
    };
    let from = least.max(shift.repeats() as u32 + 1);
    if from > MORE_MAX || !would_decide(MORE_MAX) {
        return None;
    }
    // More repeats never decide less: halved until the fewest are found.
    let (mut low, mut high) = (from, MORE_MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if would_decide(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low - shift.repeats() as u32)
}
