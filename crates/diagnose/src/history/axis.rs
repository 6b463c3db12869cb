//! The time between snapshots in at most [`STRETCHES_MAX`] stretches, and what is kept of each.
//!
//! A stretch reaches from one snapshot to the next; when there are too many, neighbours are merged in pairs and each new one
//! stands for twice as many snapshots. The first has no length: it is the first snapshot itself. Everything that is kept by
//! stretch is a [`Track`], and is merged with them. What is asked of a part of a stretch is taken as spread evenly over it.

use crate::limits::STRETCHES_MAX;
use serde::{Deserialize, Serialize};

/// A part of the run, nanoseconds since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// From.
    pub from_ns: i64,
    /// To.
    pub to_ns: i64,
}

impl Window {
    /// All the time there is.
    pub const EVER: Window = Window { from_ns: i64::MIN, to_ns: i64::MAX };

    /// From and to.
    pub fn new(from_ns: i64, to_ns: i64) -> Self {
        Window { from_ns, to_ns }
    }

    /// How long it is; zero where it ends before it begins.
    pub fn length_ns(&self) -> u64 {
        length_ns(self.from_ns, self.to_ns)
    }

    /// What both have in common; of no length where that is nothing.
    pub fn overlap(&self, other: Window) -> Window {
        let from_ns = self.from_ns.max(other.from_ns);
        Window { from_ns, to_ns: self.to_ns.min(other.to_ns).max(from_ns) }
    }
}

fn length_ns(from_ns: i64, to_ns: i64) -> u64 {
    // Of moments in the wrong order there is nothing; the difference of any two fits.
    if to_ns > from_ns { to_ns.abs_diff(from_ns) } else { 0 }
}

/// The stretches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Axis {
    pub(super) start_ns: i64,
    pub(super) ends_ns: Vec<i64>,
    /// Snapshots that a new stretch stands for.
    stride: u64,
    pending: u64,
}

/// What a new snapshot changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The stretch that it ends.
    pub at: usize,
    /// Whether neighbours were merged for it: then all tracks must be.
    pub halved: bool,
}

impl Axis {
    /// Adds a snapshot's moment; `None` where it is not later than the last one.
    pub fn push(&mut self, at_ns: i64) -> Option<Step> {
        match self.ends_ns.last() {
            None => {
                (self.start_ns, self.stride, self.pending) = (at_ns, 1, 1);
                self.ends_ns.push(at_ns);
                return Some(Step { at: 0, halved: false });
            }
            Some(last_ns) if *last_ns >= at_ns => return None,
            Some(_) => {}
        }
        let mut halved = false;
        if self.pending < self.stride
            && let Some(last_ns) = self.ends_ns.last_mut()
        {
            *last_ns = at_ns;
            self.pending += 1;
        } else {
            if self.ends_ns.len() >= STRETCHES_MAX {
                halve(&mut self.ends_ns, |first, second| *first = second);
                self.stride = self.stride.saturating_mul(2);
                halved = true;
            }
            self.ends_ns.push(at_ns);
            self.pending = 1;
        }
        Some(Step { at: self.ends_ns.len() - 1, halved })
    }

    /// A stretch by its number.
    pub fn stretch(&self, at: usize) -> Option<Window> {
        let to_ns = *self.ends_ns.get(at)?;
        let from_ns = at.checked_sub(1).and_then(|before| self.ends_ns.get(before)).copied();
        Some(Window { from_ns: from_ns.unwrap_or(self.start_ns), to_ns })
    }

    /// The numbers of the stretches that a window touches, and of those with a moment in it.
    pub fn touched(&self, window: Window) -> std::ops::Range<usize> {
        let first = self.ends_ns.partition_point(|end_ns| *end_ns < window.from_ns);
        let after = self.ends_ns.partition_point(|end_ns| *end_ns < window.to_ns);
        first..(after + 1).min(self.ends_ns.len()).max(first)
    }

    /// The moments at which stretches end, oldest first: snapshots were taken there.
    pub fn ends_ns(&self) -> &[i64] {
        &self.ends_ns
    }
}

/// Merges neighbours in pairs.
fn halve<T: Clone>(all: &mut Vec<T>, mut merge: impl FnMut(&mut T, T)) {
    let mut merged = Vec::with_capacity(all.len().div_ceil(2));
    let mut old = std::mem::take(all).into_iter();
    while let Some(mut first) = old.next() {
        if let Some(second) = old.next() {
            merge(&mut first, second);
        }
        merged.push(first);
    }
    *all = merged;
}

/// What is kept of one stretch.
pub trait Cell: Clone + Default {
    /// Takes a later stretch's in.
    fn merge(&mut self, later: &Self);
}

/// What is kept by stretch, from the first on of which anything is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track<C> {
    /// The number of the first stretch that it has a cell of.
    pub(super) first: usize,
    pub(super) cells: Vec<C>,
}

impl<C: Cell> Track<C> {
    /// The cell of a stretch, made where there is none; `None` before the first.
    pub fn cell(&mut self, at: usize) -> Option<&mut C> {
        if self.cells.is_empty() {
            self.first = at;
        }
        let index = at.checked_sub(self.first)?;
        if index >= self.cells.len() {
            self.cells.resize_with(index + 1, C::default);
        }
        self.cells.get_mut(index)
    }

    /// As [`Track::cell`], room being made before the first.
    pub fn cell_from(&mut self, at: usize) -> Option<&mut C> {
        if !self.cells.is_empty() && at < self.first {
            let before = std::iter::repeat_n(C::default(), self.first - at);
            self.cells.splice(0..0, before);
            self.first = at;
        }
        self.cell(at)
    }

    /// Whether all of it is of so many stretches.
    pub fn is_within(&self, stretches: usize) -> bool {
        self.first.saturating_add(self.cells.len()) <= stretches || self.cells.is_empty()
    }

    /// What is known of a stretch.
    pub fn of(&self, at: usize) -> Option<&C> {
        self.cells.get(at.checked_sub(self.first)?)
    }

    /// Merges as the axis did.
    pub fn halve(&mut self) {
        if self.first % 2 == 1 && !self.cells.is_empty() {
            // The first one's neighbour has nothing.
            self.cells.insert(0, C::default());
            self.first -= 1;
        }
        self.first /= 2;
        halve(&mut self.cells, |first, second| first.merge(&second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Default, PartialEq)]
    struct Sum(u64);
    impl Cell for Sum {
        fn merge(&mut self, later: &Self) {
            self.0 += later.0;
        }
    }

    #[test]
    fn a_full_axis_keeps_all_of_the_time_and_its_tracks_follow() {
        let (mut axis, mut early, mut late) = (Axis::default(), Track::<Sum>::default(), Track::<Sum>::default());
        let snapshots = 5 * STRETCHES_MAX as i64 + 7;
        for at_ns in 0..snapshots {
            let step = axis.push(at_ns).unwrap();
            if step.halved {
                early.halve();
                late.halve();
            }
            early.cell(step.at).unwrap().0 += 1;
            if at_ns >= 701 {
                late.cell(step.at).unwrap().0 += 1;
            }
        }
        assert!(axis.ends_ns().len() <= STRETCHES_MAX && axis.ends_ns().len() > STRETCHES_MAX / 2);
        let stretches: Vec<Window> = (0..axis.ends_ns().len()).filter_map(|at| axis.stretch(at)).collect();
        assert_eq!((stretches[0].from_ns, stretches.last().unwrap().to_ns), (0, snapshots - 1));
        assert!(stretches.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        for (at, stretch) in stretches.iter().enumerate() {
            // The first stretch has the first snapshot as well, which ends nothing.
            let ended = stretch.length_ns() + u64::from(at == 0);
            assert_eq!(early.of(at), Some(&Sum(ended)), "{at}");
            let of_late = stretch.to_ns.min(snapshots) - stretch.from_ns.max(700).min(stretch.to_ns);
            assert_eq!(late.of(at).map_or(0, |sum| sum.0), of_late as u64, "{at}");
        }
        assert_eq!(axis.push(snapshots - 1), None, "time goes on");
    }
}
