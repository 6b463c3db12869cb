//! The metrics of one thing (the machine, a disk, a process), by name.
//!
//! Names come in the same order at nearly every snapshot, so each is looked for where the last one's successor was: a few
//! nanoseconds. Bounded: beyond [`SERIES_MAX`] series of a run, further ones are counted and not kept.

use super::axis::Axis;
use super::series::Series;
use crate::limits::SERIES_MAX;
use model::metrics::{Kind, Metrics};
use serde::{Deserialize, Serialize};

/// Where a reading belongs.
#[derive(Debug)]
pub struct Axes<'a> {
    /// The stretches so far.
    pub axis: &'a Axis,
    /// The number of the last.
    pub at: usize,
    /// When it ends.
    pub at_ns: i64,
}

/// How many series a run has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Kept.
    pub kept: usize,
    /// Beyond the bound: readings that went nowhere.
    pub lost: u64,
}

/// Metrics by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Group {
    all: Vec<(Box<str>, Series)>,
}

impl Group {
    /// Takes readings in.
    pub fn take(&mut self, now: &Axes<'_>, budget: &mut Budget, metrics: &Metrics) {
        let mut near = 0;
        for (name, value) in metrics.iter() {
            self.read(now, budget, &mut near, name, || model::metrics::kind_of(name), value);
        }
    }

    /// Takes one reading in, where there is one.
    pub fn set(&mut self, now: &Axes<'_>, budget: &mut Budget, name: &str, kind: Kind, value: Option<u64>) {
        if let Some(value) = value {
            self.read(now, budget, &mut 0, name, || Some(kind), value);
        }
    }

    fn read(
        &mut self,
        now: &Axes<'_>,
        budget: &mut Budget,
        near: &mut usize,
        name: &str,
        kind: impl FnOnce() -> Option<Kind>,
        value: u64,
    ) {
        if let Some(series) = self.series(budget, near, name, kind) {
            series.read(now, value);
        }
    }

    /// The series of a name, made where there is none; `None` beyond the bound. It is looked for at `near` first.
    pub fn series(
        &mut self,
        budget: &mut Budget,
        near: &mut usize,
        name: &str,
        kind: impl FnOnce() -> Option<Kind>,
    ) -> Option<&mut Series> {
        let is_near = self.all.get(*near).is_some_and(|(known, _)| **known == *name);
        let found = if is_near { Some(*near) } else { self.all.iter().position(|(known, _)| **known == *name) };
        let at = match found {
            Some(at) => at,
            None if budget.kept >= SERIES_MAX => {
                budget.lost += 1;
                return None;
            }
            None => {
                budget.kept += 1;
                self.all.push((name.into(), Series::new(kind())));
                self.all.len() - 1
            }
        };
        *near = at + 1;
        self.all.get_mut(at).map(|(_, series)| series)
    }

    /// The series of a name.
    pub fn of(&self, name: &str) -> Option<&Series> {
        self.all.iter().find(|(known, _)| **known == *name).map(|(_, series)| series)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Series> {
        self.all.iter().map(|(_, series)| series)
    }

    /// All of them, to be changed.
    pub fn each(&mut self, mut of: impl FnMut(&mut Series)) {
        self.all.iter_mut().for_each(|(_, series)| of(series));
    }
}
