//! Which load is tried next, for how long, and where the line lies by what was seen. Pure: it runs no load, and has no clock.
//!
//! 1. **Find**: the load rises, or falls, by growing factors until one step held and one missed; or none holds, as a tenth of it is no
//!    better ([`super::flat`]).
//! 2. **Narrow**: the geometric middle between the highest held load and the lowest missed one, until they are as near as
//!    was asked for, or a step is undecided: then the line is near it, and a step on either side is tried.
//! 3. **Hold**: a longer step at the highest held load: credits, quotas and throttles show late.
//! 4. **Replicate**: steps on both sides of the line, in random order, so that what drifts does so for both, until the
//!    interval is narrow enough or the time is used up.
//!
//! What a load is said to be is decided by all of its steps together. The highest held load counts only below the lowest
//! missed one, as in MLRsearch (RFC 9971, where the lower bound is the largest load below the smallest that failed).
//! A step lasts for the objective over the width wanted: an overload by the share ε makes nothing late before L/ε.

use super::axis::Requests;
use super::blocks::{Block, Counted, dispersion};
use super::decision::{Bound, Verdict, is_far, judge, likelihood_ratio, requests_needed};
use super::fit::{Crossing, Group, crossing};
use super::flat::Flat;

/// First factor between two loads while the line is not enclosed; squared each time.
const GROWTH: f64 = 1.3;
/// and at most so much.
const GROWTH_MAX: f64 = 4.0;
/// Beside an undecided load the next is so many times the precision away.
const BESIDE_UNDECIDED: f64 = 3.0;
/// A step is at least so long, seconds; where the search has the time for it, as this part of it, longer: of the loads 3 to 8 %
/// beyond the line that were taken for held, most had been looked at for a second, in which the queue had not filled
/// (docs/decisions/2026-11-27-intervals-of-few-bursts.md).
const STEP_S_MIN: f64 = 1.0;
const STEP_S_MIN_LONG: f64 = 1.75;
const STEP_PART_MIN: f64 = 1.0 / 28.0;
/// Steps that tell apart loads nearer than this are near the line; they are so long at least, as part of the time: a queue
/// that is nearly full takes long to fill, and what a short step at its beginning shows is not what it comes to.
const NEAR: f64 = 0.1;
const NEAR_PART: f64 = 1.0 / 16.0;
/// Part of the time that a step may take at most.
pub(super) const STEP_PART_MAX: f64 = 1.0 / 6.0;
/// Part of the time that the longer hold takes.
const HOLD_PART: f64 = 1.0 / 6.0;
/// Loads so much nearer to each other than the precision are one.
const SAME: f64 = 0.4;
/// Steps farther from the line than this (in its logarithm) do not enter the fit: it is straight only near by.
const FIT_REACH: f64 = 0.1;
/// and so far where the near ones have no fit.
const FIT_REACH_MAX: f64 = 0.3;
/// Blocks that make a group of the fit: a second.
const GROUP_BLOCKS: usize = 4;
/// From so many times the bound on, a load is beyond the line whatever a fit says.
const EXCESS_SURE: f64 = 5.0;
/// Steps so near (in the logarithm of their load) say how bad requests come at the line.
const BURSTS_REACH: f64 = 0.05;
/// Half the square of the standard errors that make sure: two and a bit.
const SURE: f64 = 2.5;
/// What the generators cannot put on is tried with so many times less.
const GENERATORS_LESS: f64 = 1.25;
/// and not where it is so many times the highest load that held, or less.
const GENERATORS_NEAR: f64 = 1.1;
/// So often a miss below a held load is tried again before it is believed.
const DOUBTS_MAX: usize = 3;

/// What is searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What a step must hold, all of it.
    pub bounds: Vec<Bound>,
    /// Wanted width of the interval, as a share of the line.
    pub precision: f64,
    /// Time for all steps, seconds.
    pub time_s: f64,
    /// What a step takes beside its length: warm-up, threads, the drain. Seconds.
    pub beside_s: f64,
    /// How many requests a load is.
    pub requests: Requests,
    /// Whether loads are whole numbers, such as of connections.
    pub is_whole: bool,
    /// The highest load that may be tried.
    pub load_max: f64,
    /// Seed of the order of replicates.
    pub seed: u64,
}

/// What a step is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To enclose the line.
    Find,
    /// To enclose it more narrowly.
    Narrow,
    /// To see what shows late.
    Hold,
    /// To see whether it comes out the same again.
    Replicate,
    /// To see what gives beyond the line, where nothing has shown it yet.
    Explain,
}

impl Purpose {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Find => "find",
            Purpose::Narrow => "narrow",
            Purpose::Hold => "hold",
            Purpose::Replicate => "replicate",
            Purpose::Explain => "explain",
        }
    }
}

/// A step to be run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The load to put on.
    pub load: f64,
    /// How long it is to be, seconds, and at most.
    pub length_s: f64,
    /// See `length_s`.
    pub most_s: f64,
    /// What for.
    pub purpose: Purpose,
}

/// A step that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The load that was asked for.
    pub asked: f64,
    /// The load that was achieved.
    pub load: f64,
    /// How long it took, everything included, seconds.
    pub took_s: f64,
    /// What was said of it at its end.
    pub verdict: Verdict,
    /// Whether the backlog grew.
    pub is_growing: bool,
    /// What for.
    pub purpose: Purpose,
    /// What it saw.
    pub blocks: Vec<Block>,
}

impl Step {
    fn seconds(&self) -> f64 {
        self.blocks.iter().map(|block| block.seconds).sum()
    }
}

/// A load, and what all of its steps say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The load that was asked for.
    pub asked: f64,
    /// The load that was achieved, over all steps.
    pub load: f64,
    /// What they say.
    pub verdict: Verdict,
    /// How many they are.
    pub steps: usize,
    /// The longest of them, seconds.
    pub longest_s: f64,
    /// It was missed by a backlog that grew, before any request was bad.
    pub is_by_backlog: bool,
}

/// Where the line lies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Line {
    /// The line; `None`: it was not enclosed.
    pub load: Option<f64>,
    /// The ends of its 95 % interval; `None` where it is open.
    pub low: Option<f64>,
    /// See `low`.
    pub high: Option<f64>,
    /// The highest load that held below all that missed.
    pub held: Option<f64>,
    /// The lowest that missed.
    pub missed: Option<f64>,
    /// How steep the knee is, d ln(share) / d ln(load); `None`: no fit, as at a jump.
    pub steepness: Option<f64>,
    /// The overload that the longest step at `held` could not have seen, as a share: the low end is lowered by it.
    pub unseen: f64,
}

/// The search.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    first: f64,
    steps: Vec<Step>,
    /// Sides of the line whose replicates are due in this round: true is above.
    due: Vec<bool>,
    random: u64,
    /// Loads that could not be measured.
    disturbed: usize,
    /// The lowest load that the generators could not put on.
    too_high: Option<f64>,
}

impl Search {
    /// A search that tries this load first.
    pub fn new(first: f64, settings: Settings) -> Self {
        let random = settings.seed;
        Search { first, settings, steps: Vec::new(), due: Vec::new(), random, disturbed: 0, too_high: None }
    }

    /// What was run so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What is searched for.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes a step in.
    pub fn observe(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Takes in that a step was disturbed: its time is gone, and it is run again.
    pub fn disturbed(&mut self, took_s: f64) {
        self.settings.time_s -= took_s;
        self.disturbed += 1;
    }

    /// Takes in that the generators cannot put on so much: no load as high is tried any more. Whether there is a lower one that may say
    /// something: none missed yet, and it is not so near the highest that held.
    pub fn is_too_high(&mut self, load: f64) -> bool {
        let (held, missed) = Search::bracket(&self.points());
        let lower = held.map_or(load / GENERATORS_LESS, |held| (held.asked * load).sqrt());
        let is_room = missed.is_none() && held.is_none_or(|held| load > GENERATORS_NEAR * held.asked);
        if is_room {
            (self.settings.load_max, self.too_high) = (lower, Some(load));
        }
        is_room
    }

    /// Between the highest load, which held, and one that the generators could not put on; `None`: they are near each other.
    fn below_too_high(&mut self, highest: f64) -> Option<(f64, f64, Purpose)> {
        let load = self.too_high.filter(|load| *load > GENERATORS_NEAR * highest)?;
        self.settings.load_max = (highest * load).sqrt();
        Some((self.settings.load_max, load / highest - 1.0, Purpose::Find))
    }

    /// Steps that were disturbed.
    pub fn times_disturbed(&self) -> usize {
        self.disturbed
    }

    /// What is left of the time, seconds.
    pub fn left_s(&self) -> f64 {
        self.settings.time_s - self.steps.iter().map(|step| step.took_s).sum::<f64>()
    }

    /// Each load once, from the lowest to the highest.
    pub fn points(&self) -> Vec<Point> {
        let mut asked: Vec<f64> = self.steps.iter().map(|step| step.asked).collect();
        asked.sort_by(f64::total_cmp);
        asked.dedup();
        asked.into_iter().map(|asked| self.point(asked)).collect()
    }

    /// That no load holds, as fewer requests are no better; `None`: one held, or it is not known.
    pub fn flat(&self) -> Option<Flat> {
        Flat::of(&self.steps, &self.settings.bounds)
    }

    fn point(&self, asked: f64) -> Point {
        let steps: Vec<&Step> = self.steps.iter().filter(|step| step.asked == asked).collect();
        let growing = steps.iter().filter(|step| step.is_growing).count();
        let blocks: Vec<Block> = steps.iter().flat_map(|step| step.blocks.iter().cloned()).collect();
        let seconds: f64 = steps.iter().map(|step| step.seconds()).sum();
        let is_bad = blocks.iter().any(|block| block.bad.iter().any(|bad| *bad > 0));
        // Of two steps of which one has a backlog that grew, and nothing bad, it was chance.
        let is_growing = 2 * growing > steps.len() || (is_bad && 2 * growing == steps.len().max(1));
        let verdict = if is_growing { Verdict::Missed } else { judge(&blocks, &self.settings.bounds) };
        Point {
            asked,
            load: steps.iter().map(|step| step.load * step.seconds()).sum::<f64>() / seconds.max(1e-9),
            verdict,
            steps: steps.len(),
            is_by_backlog: is_growing && !is_bad,
            longest_s: steps.iter().map(|step| step.seconds()).fold(0.0, f64::max),
        }
    }

    /// How long a step must be to tell loads apart that differ by this share.
    fn length_s(&self, load: f64, width: f64) -> f64 {
        let late_s = self.settings.bounds.iter().map(|bound| bound.late_s).fold(0.0, f64::max);
        let needed = self.settings.bounds.iter().map(|bound| requests_needed(bound.share_max)).fold(0.0, f64::max);
        let most_s = (STEP_PART_MAX * self.settings.time_s).max(STEP_S_MIN);
        let least_at_all_s = (STEP_PART_MIN * self.settings.time_s).clamp(STEP_S_MIN, STEP_S_MIN_LONG);
        let least_s = if width <= NEAR { NEAR_PART * self.settings.time_s } else { 0.0 };
        (late_s / width)
            .max(1.2 * needed / self.settings.requests.per_s(load).max(1e-9))
            .max(least_s)
            .clamp(least_at_all_s, most_s)
    }

    fn hold_s(&self) -> f64 {
        (HOLD_PART * self.settings.time_s).max(STEP_S_MIN)
    }

    /// The highest held load below the lowest missed one, and that.
    fn bracket(points: &[Point]) -> (Option<Point>, Option<Point>) {
        let missed = points.iter().find(|point| point.verdict == Verdict::Missed).copied();
        let is_below = |point: &&Point| missed.is_none_or(|missed| point.asked < missed.asked);
        let held = points.iter().rev().filter(is_below).find(|point| point.verdict == Verdict::Held).copied();
        (held, missed)
    }

    /// What to try next; `None`: the search is over.
    pub fn next_trial(&mut self) -> Option<Trial> {
        let (load, width, purpose) = self.choose()?;
        let load = self.allowed(load);
        let length_s = match purpose {
            Purpose::Hold => self.hold_s(),
            _ => self.length_s(load, width),
        };
        let left_s = self.left_s() - self.settings.beside_s;
        if left_s < 0.75 * length_s {
            return None;
        }
        let length_s = length_s.min(left_s);
        let most_s = if purpose == Purpose::Hold { length_s } else { (2.0 * length_s).min(left_s) };
        Some(Trial { load, length_s, most_s, purpose })
    }

    fn allowed(&self, load: f64) -> f64 {
        let load = if self.settings.is_whole { load.round().max(1.0) } else { load };
        load.min(self.settings.load_max)
    }

    fn choose(&mut self) -> Option<(f64, f64, Purpose)> {
        let points = self.points();
        if points.is_empty() {
            return Some((self.first, GROWTH - 1.0, Purpose::Find));
        }
        let (held, missed) = Search::bracket(&points);
        let in_doubt = missed.filter(|missed| {
            missed.steps < DOUBTS_MAX
                && points.iter().any(|point| point.verdict == Verdict::Held && point.asked > missed.asked)
        });
        // A backlog alone says so once in some hundred steps by chance.
        let in_doubt = in_doubt.or(missed.filter(|missed| missed.is_by_backlog && missed.steps == 1));
        if let Some(doubtful) = in_doubt {
            return Some((doubtful.asked, self.settings.precision, Purpose::Replicate));
        }
        match (held, missed) {
            (Some(held), Some(missed)) => self.between(&points, held, missed),
            (_, None) => {
                let highest = points.last()?.asked;
                let is_highest = highest >= self.settings.load_max;
                let growth = self.growth(points.last()?);
                if is_highest {
                    self.below_too_high(highest)
                } else {
                    Some((highest * growth, growth - 1.0, Purpose::Find))
                }
            }
            (None, Some(_)) => {
                let lowest = points.first()?.asked;
                let is_lowest = (self.settings.is_whole && lowest <= 1.0) || self.flat().is_some();
                let growth = self.growth(points.first()?);
                (!is_lowest).then(|| (lowest / growth, growth - 1.0, Purpose::Find))
            }
        }
    }

    /// Grows with each step that did not enclose the line. Beside an undecided load the line is near.
    fn growth(&self, end: &Point) -> f64 {
        if end.verdict == Verdict::Undecided {
            return 1.0 + BESIDE_UNDECIDED * self.settings.precision;
        }
        let tries = self.steps.iter().filter(|step| step.purpose == Purpose::Find).count().clamp(1, 8) as i32 - 1;
        GROWTH.powf(2f64.powi(tries)).min(GROWTH_MAX)
    }

    /// The line is enclosed: comes nearer to it, holds, replicates.
    fn between(&mut self, points: &[Point], held: Point, missed: Point) -> Option<(f64, f64, Purpose)> {
        let precision = self.settings.precision;
        let ratio = missed.asked / held.asked;
        let step = if self.settings.is_whole { 1.0 } else { 0.0 };
        let has_undecided = points.iter().any(|p| p.asked > held.asked && p.asked < missed.asked);
        if !has_undecided && ratio > 1.0 + precision && missed.asked - held.asked > step {
            return Some(((held.asked * missed.asked).sqrt(), (ratio - 1.0) / 2.0, Purpose::Narrow));
        }
        let line = self.line();
        let (below, above) = self.sides(points, held, missed, &line);
        let steps_at = |load: f64| points.iter().filter(|p| p.asked == load).map(|p| p.steps).sum::<usize>();
        let has_held = points.iter().any(|p| p.asked >= below && p.longest_s >= 0.9 * self.hold_s());
        if !has_held && self.left_s() > self.hold_s() && steps_at(above) > 0 {
            return Some((below, precision, Purpose::Hold));
        }
        let width = match (line.low, line.high, line.load) {
            (Some(low), Some(high), Some(load)) => (high - low) / load,
            _ => f64::INFINITY,
        };
        if width <= precision && steps_at(below) >= 2 && steps_at(above) >= 2 {
            return None;
        }
        if self.due.is_empty() {
            let is_first = self.coin();
            self.due = vec![is_first, !is_first];
        }
        let load = if self.due.pop()? { above } else { below };
        let purpose = if steps_at(load) == 0 { Purpose::Narrow } else { Purpose::Replicate };
        Some((load, precision, purpose))
    }

    /// The loads on either side of the line at which steps say most about it: the ends of the bracket where these are near,
    /// else a little below and above the estimate. A load that was tried is tried again rather than one beside it.
    fn sides(&self, points: &[Point], held: Point, missed: Point, line: &Line) -> (f64, f64) {
        let precision = self.settings.precision;
        if missed.asked <= held.asked * (1.0 + precision) && line.steepness.is_none() {
            return (held.asked, missed.asked);
        }
        let between = points.iter().filter(|p| p.asked > held.asked && p.asked < missed.asked);
        let between: Vec<f64> = between.map(|p| p.asked).collect();
        let middle = match between.get(between.len() / 2) {
            Some(undecided) => *undecided,
            None => (held.asked * missed.asked).sqrt(),
        };
        let centre = if line.steepness.is_some() { line.load.unwrap_or(middle) } else { middle };
        let snapped = |load: f64| {
            let near = points.iter().filter(|p| (p.asked / load).ln().abs() < SAME * precision);
            near.min_by(|a, b| (a.asked - load).abs().total_cmp(&(b.asked - load).abs())).map_or(load, |p| p.asked)
        };
        (snapped(self.allowed(centre / (1.0 + precision))), snapped(self.allowed(centre * (1.0 + precision))))
    }

    /// A bit of a sequence that the seed decides (splitmix64, by Sebastiano Vigna, in the public domain).
    fn coin(&mut self) -> bool {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 1 == 1
    }

    /// The crossing of the objective that is crossed first, by the steps near where the line may be: of fits about the middle
    /// of the bracket, about its ends and about what was undecided, the first with an interval, else the first.
    fn crossing(&self, points: &[Point]) -> Option<Crossing> {
        let (held, missed) = Search::bracket(points);
        let undecided: Vec<f64> = points.iter().filter(|p| p.verdict == Verdict::Undecided).map(|p| p.load).collect();
        let ends = [held, missed].into_iter().flatten().map(|point| point.load);
        let middle = held.zip(missed).map(|(held, missed)| (held.load * missed.load).sqrt());
        let middles = undecided.get(undecided.len() / 2).copied().into_iter().chain(middle).chain(ends);
        let reaches = [FIT_REACH, FIT_REACH_MAX];
        let tried = middles.flat_map(|middle| reaches.map(|reach| (middle, reach)));
        let inside = |(middle, reach): (f64, f64)| {
            self.crossing_within(middle, reach).filter(|found| (found.load / middle).ln().abs() <= reach)
        };
        let found: Vec<Crossing> = tried.filter_map(inside).collect();
        found.iter().find(|found| found.interval.is_some()).or(found.first()).copied()
    }

    fn crossing_within(&self, middle: f64, reach: f64) -> Option<Crossing> {
        let is_near = |step: &Step| step.load > 0.0 && (step.load / middle).ln().abs() <= reach;
        let near: Vec<(usize, &Step)> = self.steps.iter().enumerate().filter(|(_, step)| is_near(step)).collect();
        let of = |(objective, bound): (usize, &Bound)| {
            let counted = |step: &Step| -> Vec<Counted> {
                step.blocks.iter().map(|block| Counted::of(block, objective)).collect()
            };
            // A load is left out as a whole: without its worst steps alone it would seem better than it is.
            let is_beyond = |asked: f64| {
                let steps = || near.iter().map(|(_, step)| *step).filter(|step| step.asked == asked);
                let sums: Vec<Counted> = steps().map(|step| Counted::sum(&counted(step))).collect();
                steps().all(|step| step.is_growing) || is_far(Counted::sum(&sums).share(), bound.share_max)
            };
            let mut groups = Vec::new();
            for (number, step) in near.iter().filter(|(_, step)| !is_beyond(step.asked)) {
                groups.extend(counted(step).chunks(GROUP_BLOCKS).map(Counted::sum).map(|group| Group {
                    load: step.load,
                    requests: group.requests,
                    bad: group.bad,
                    step: *number,
                }));
            }
            crossing(&groups, bound.share_max)
        };
        // What misses first is what the line is of: where that has no fit, another objective's is not the line's.
        let bounds = self.settings.bounds.iter().enumerate();
        let binding = Search::bracket(&self.points()).1.map(|missed| self.worst(missed.asked));
        let crossings = bounds.filter(|(at, _)| binding.is_none_or(|binding| binding == *at)).filter_map(of);
        crossings.min_by(|a, b| a.load.total_cmp(&b.load))
    }

    /// How many times its bound the share of bad ones of an objective is at a load.
    fn excess(&self, asked: f64, objective: usize) -> f64 {
        let blocks = self.steps.iter().filter(|step| step.asked == asked).flat_map(|step| &step.blocks);
        let counted: Vec<Counted> = blocks.map(|block| Counted::of(block, objective)).collect();
        Counted::sum(&counted).share() / self.settings.bounds[objective].share_max
    }

    /// The objective that is worst off at a load.
    fn worst(&self, asked: f64) -> usize {
        let excess = |at: &usize| self.excess(asked, *at);
        let all = 0..self.settings.bounds.len();
        all.max_by(|a, b| excess(a).total_cmp(&excess(b))).unwrap_or_default()
    }

    /// How far bad ones come in bursts near a load, of one objective: what scatters at one load does so beside it, too, and
    /// where none was bad nothing tells that they would come one by one.
    fn dispersion_near(&self, load: f64, objective: usize) -> f64 {
        let is_near = |step: &&Step| !step.is_growing && (step.load / load).ln().abs() <= BURSTS_REACH;
        let of = |step: &Step| {
            let counted: Vec<Counted> = step.blocks.iter().map(|block| Counted::of(block, objective)).collect();
            dispersion(&counted)
        };
        self.steps.iter().filter(is_near).map(of).fold(1.0, f64::max)
    }

    /// The highest load below `missed` from which on, all loads up to there taken together, too few were bad for the line to
    /// lie below: more load is never less bad. Of a load that held farther away its own steps are enough.
    fn surely_held(&self, points: &[Point], missed: Point) -> Option<f64> {
        let mut counted = vec![Counted::default(); self.settings.bounds.len()];
        let dispersions: Vec<f64> =
            (0..self.settings.bounds.len()).map(|at| self.dispersion_near(missed.load, at)).collect();
        points.iter().rev().filter(|point| point.asked < missed.asked).find_map(|point| {
            let steps = self.steps.iter().filter(|step| step.asked == point.asked);
            for block in steps.flat_map(|step| &step.blocks) {
                for (objective, sum) in counted.iter_mut().enumerate() {
                    *sum = Counted::sum(&[*sum, Counted::of(block, objective)]);
                }
            }
            let bounds = self.settings.bounds.iter().zip(&counted).zip(&dispersions);
            let is_sure = |((bound, sum), dispersion): ((&Bound, &Counted), &f64)| {
                sum.share() < bound.share_max && likelihood_ratio(*sum, bound.share_max) >= SURE * dispersion
            };
            let is_beside = (missed.load / point.load).ln() > BURSTS_REACH && point.verdict == Verdict::Held;
            (is_beside || bounds.into_iter().all(is_sure)).then_some(point.load)
        })
    }

    /// Where the line lies, by all that was seen.
    pub fn line(&self) -> Line {
        let points = self.points();
        let (held, missed) = Search::bracket(&points);
        let (Some(held), Some(missed)) = (held, missed) else {
            let of = |point: Option<Point>| point.map(|point| point.load);
            let open = Line { low: of(held), high: of(missed), held: of(held), missed: of(missed), ..Line::default() };
            // Where every load near by stayed undecided, all of them together may say where the line is.
            let found = self.crossing(&points).and_then(|found| found.interval.map(|interval| (found, interval)));
            return found.map_or(open, |(found, (low, high))| Line {
                load: Some(found.load),
                low: Some(low),
                high: Some(high),
                steepness: Some(found.steepness),
                ..open
            });
        };
        let late_s = self.settings.bounds.iter().map(|bound| bound.late_s).fold(0.0, f64::max);
        // An overload by less than this would have made nothing late in the longest step there.
        let unseen = (late_s / held.longest_s.max(1e-9)).min(2.0 * self.settings.precision);
        let sure = self.surely_held(&points, missed).unwrap_or(0.0);
        let (mut low, mut high) = (sure.min(held.load) * (1.0 - unseen), missed.load);
        let mut load = (held.load * (1.0 - unseen) * missed.load).sqrt();
        let mut steepness = None;
        // A line beyond a load at which many times too many were bad is the fit's mistake: the share does not go straight there.
        let is_beyond = |found: &Crossing| {
            found.load > missed.load && self.excess(missed.asked, self.worst(missed.asked)) >= EXCESS_SURE
        };
        if let Some(found) = self.crossing(&points).filter(|found| !is_beyond(found)) {
            match found.interval {
                // All steps together say more than the two ends, one of which may have been chance.
                Some(interval) => {
                    (load, low, high, steepness) = (found.load, interval.0, interval.1, Some(found.steepness))
                }
                None if low <= found.load && found.load <= high => {
                    (load, steepness) = (found.load, Some(found.steepness));
                }
                None => {}
            }
        }
        Line {
            load: Some(load),
            low: Some(low),
            high: Some(high),
            held: Some(held.load),
            missed: Some(missed.load),
            steepness,
            unseen,
        }
    }
}
