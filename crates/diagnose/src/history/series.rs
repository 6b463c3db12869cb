//! One metric over the run, in bounded memory: how much a counter grew in each stretch, or what levels a gauge had.
//!
//! A counter that fell was reset (a reboot, a new process, a wrap): how much it grew meanwhile nobody knows, so that stretch is
//! not covered. A reading that is missing is not zero: growth is counted between the readings that there are, and spread
//! evenly over the time between them.

use super::axis::{Axis, Cell, Track, Window};
use super::group::Axes;
use model::metrics::Kind;
use serde::{Deserialize, Serialize};

/// How much something grew in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Growth {
    /// By how much.
    pub grown: f64,
    /// For how long that is known, nanoseconds; at most the stretch's length.
    pub covered_ns: f64,
    /// Readings that it rests on.
    pub readings: u32,
    /// Times that it fell.
    pub resets: u32,
}

impl Cell for Growth {
    fn merge(&mut self, later: &Self) {
        self.grown += later.grown;
        self.covered_ns += later.covered_ns;
        self.readings = self.readings.saturating_add(later.readings);
        self.resets = self.resets.saturating_add(later.resets);
    }
}

impl Track<Growth> {
    /// Adds what grew since an earlier moment, spread evenly over the time up to the end of stretch `at`.
    pub fn grew(&mut self, axis: &Axis, at: usize, since_ns: i64, grown: f64) {
        let Some(to_ns) = axis.stretch(at).map(|last| last.to_ns) else { return };
        let whole = Window::new(since_ns, to_ns);
        if whole.length_ns() == 0 || !grown.is_finite() {
            return;
        }
        for i in axis.touched(whole) {
            let Some(stretch) = axis.stretch(i) else { continue };
            let covered_ns = stretch.overlap(whole).length_ns() as f64;
            if covered_ns > 0.0
                && let Some(cell) = self.cell_from(i)
            {
                cell.grown += grown * (covered_ns / whole.length_ns() as f64);
                cell.covered_ns += covered_ns;
            }
        }
        if let Some(cell) = self.cell(at) {
            cell.readings = cell.readings.saturating_add(1);
        }
    }

    /// What grew in a window, and for how long that is known.
    pub fn over(&self, axis: &Axis, window: Window) -> Option<(Growth, Window)> {
        let mut sum = Growth::default();
        let mut covered: Option<Window> = None;
        for at in axis.touched(window) {
            let (Some(stretch), Some(cell)) = (axis.stretch(at), self.of(at)) else { continue };
            let common = stretch.overlap(window);
            let share = common.length_ns() as f64 / stretch.length_ns().max(1) as f64;
            if share > 0.0 {
                sum.resets = sum.resets.saturating_add(cell.resets);
            }
            if share > 0.0 && cell.covered_ns > 0.0 {
                sum.grown += share * cell.grown;
                sum.covered_ns += share * cell.covered_ns;
                sum.readings = sum.readings.saturating_add(cell.readings);
                let from_ns = covered.map_or(common.from_ns, |covered| covered.from_ns);
                covered = Some(Window::new(from_ns, common.to_ns));
            }
        }
        covered.map(|covered| (sum, covered))
    }

    /// How often it fell in a window.
    pub fn resets(&self, axis: &Axis, window: Window) -> u32 {
        axis.touched(window).filter_map(|at| self.of(at)).map(|cell| cell.resets).fold(0, u32::saturating_add)
    }
}

/// The levels of a gauge in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Levels {
    /// The lowest.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// The last.
    pub last: u64,
    /// All of them together.
    pub sum: f64,
    /// Readings; with none, all else means nothing.
    pub readings: u32,
}

impl Cell for Levels {
    fn merge(&mut self, later: &Self) {
        if later.readings == 0 {
            return;
        }
        self.min = if self.readings == 0 { later.min } else { self.min.min(later.min) };
        self.max = self.max.max(later.max);
        self.last = later.last;
        self.sum += later.sum;
        self.readings = self.readings.saturating_add(later.readings);
    }
}

impl Track<Levels> {
    /// Adds a reading at the end of stretch `at`.
    pub fn read(&mut self, at: usize, value: u64) {
        if let Some(cell) = self.cell(at) {
            cell.merge(&Levels { min: value, max: value, last: value, sum: value as f64, readings: 1 });
        }
    }

    /// The levels of a window: of the stretches whose middle lies in it.
    pub fn over(&self, axis: &Axis, window: Window) -> Option<(Levels, Window)> {
        let mut sum = Levels::default();
        let mut covered: Option<Window> = None;
        for at in axis.touched(window) {
            let (Some(stretch), Some(cell)) = (axis.stretch(at), self.of(at)) else { continue };
            let middle_ns = stretch.from_ns.midpoint(stretch.to_ns);
            if cell.readings > 0 && (window.from_ns..window.to_ns).contains(&middle_ns) {
                sum.merge(cell);
                let from_ns = covered.map_or(stretch.from_ns, |covered| covered.from_ns);
                covered = Some(Window::new(from_ns, stretch.to_ns));
            }
        }
        covered.map(|covered| (sum, covered))
    }
}

/// One metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Series {
    /// One that grows, and its last reading with its moment.
    Counter(Track<Growth>, Option<(i64, u64)>),
    /// One that is as it is.
    Gauge(Track<Levels>),
    /// Nobody declared what it is: of its levels no more than of a gauge is said, and no rate is made.
    Undeclared(Track<Levels>),
}

impl Series {
    /// An empty one.
    pub fn new(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::Counter) => Series::Counter(Track::default(), None),
            Some(Kind::Gauge) => Series::Gauge(Track::default()),
            None => Series::Undeclared(Track::default()),
        }
    }

    /// Adds a reading at the end of stretch `now.at`.
    pub fn read(&mut self, now: &Axes<'_>, value: u64) {
        match self {
            Series::Counter(track, last) => {
                match last.replace((now.at_ns, value)) {
                    Some((since_ns, before)) if before <= value => {
                        track.grew(now.axis, now.at, since_ns, (value - before) as f64);
                    }
                    Some(_) => fell(track, now.at),
                    None => {}
                };
            }
            Series::Gauge(track) | Series::Undeclared(track) => track.read(now.at, value),
        }
    }

    /// What comes is of another beginning: the machine was started anew.
    pub fn begin_anew(&mut self, at: usize) {
        if let Series::Counter(track, last) = self
            && last.take().is_some()
        {
            fell(track, at);
        }
    }

    /// What comes next is not compared with what was read before.
    pub fn forget(&mut self) {
        if let Series::Counter(_, last) = self {
            *last = None;
        }
    }

    /// Merges as the axis did.
    pub fn halve(&mut self) {
        match self {
            Series::Counter(track, _) => track.halve(),
            Series::Gauge(track) | Series::Undeclared(track) => track.halve(),
        }
    }
}

fn fell(track: &mut Track<Growth>, at: usize) {
    if let Some(cell) = track.cell(at) {
        cell.resets = cell.resets.saturating_add(1);
    }
}
