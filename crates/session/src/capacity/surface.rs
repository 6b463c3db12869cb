//! The load line over one parameter of the load, or two: a search of its own at each value, or pair of values.
//!
//! Searches are run in random order, so that what drifts over the hour does so for all of them and does not look like an effect of the
//! parameter. Each has the same time. One that finds nothing (no answer at this size, an objective that cannot be decided at so few
//! requests a second) says why and leaves the others be; what would be the same for every one ends all. What other processes have
//! found already is not searched again, and a search that was cut off goes on from its steps.
//!
//! Cost: the time of all searches, which is known beforehand; memory for one search at a time, and its document.

use super::live::{CapacityError, Follow, Found, Spec, capacity};
use super::over::{Over, OverError};
use super::search::Step;
use crate::run::{Hands, Options};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use resolve::Host;
use std::sync::atomic::Ordering;

/// Most searches of a surface.
pub const CELLS_MAX: usize = 36;

/// What is known of a cell beforehand.
#[derive(Debug, Clone)]
pub enum Known {
    /// All of it: it is not searched again.
    Whole,
    /// The steps of a search that was cut off; none of one that is new.
    Steps(Vec<Step>),
}

/// Sees a surface while it is searched.
pub trait FollowSurface {
    /// What another process has found of a cell.
    fn known(&self, at: usize) -> Known;
    /// The search of a cell begins; the one that sees it.
    fn on_cell(&mut self, at: usize, spec: &Spec) -> &mut dyn Follow;
    /// It has ended.
    fn on_found(&mut self, at: usize, found: Result<&Found, &CapacityError>);
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceEnded {
    /// Every cell was searched.
    Done,
    /// It was told to.
    Interrupted,
}

/// The values at each cell, the last parameter varying fastest.
pub fn cells(over: &[Over]) -> Vec<Vec<u64>> {
    over.iter().fold(vec![Vec::new()], |cells, one| {
        cells.iter().flat_map(|at| one.values.iter().map(|value| [&at[..], &[*value]].concat())).collect()
    })
}

/// The search of a cell.
///
/// # Errors
/// The load has no such parameter.
pub fn spec_at(base: &Spec, over: &[Over], values: &[u64]) -> Result<Spec, OverError> {
    let put = |scenario, (one, value): (&Over, &u64)| one.of.put(*value, base.of, scenario);
    let scenario = over.iter().zip(values).try_fold(base.scenario.clone(), put)?;
    Ok(Spec { scenario, ..base.clone() })
}

/// Searches every cell that is not known, by `hands`. `base`: what all searches have in common, with the time of each.
///
/// # Errors
/// [`CapacityError`] that every search would have.
pub fn surface(
    base: &Spec,
    over: &[Over],
    host: &dyn Host,
    options: &Options,
    hands: &mut dyn Hands,
    follow: &mut dyn FollowSurface,
) -> Result<SurfaceEnded, CapacityError> {
    let cells = cells(over);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.shuffle(&mut StdRng::seed_from_u64(base.seed));
    for at in order {
        let Known::Steps(known) = follow.known(at) else { continue };
        let spec = Spec { known, ..spec_at(base, over, &cells[at])? };
        let found = capacity(&spec, host, options, hands, follow.on_cell(at, &spec));
        match found {
            Ok(found) => follow.on_found(at, Ok(&found)),
            Err(CapacityError::Interrupted) => return Ok(SurfaceEnded::Interrupted),
            Err(error) if error.is_of_this_load() => follow.on_found(at, Err(&error)),
            Err(error) => return Err(error),
        }
        if options.interrupted.load(Ordering::Relaxed) {
            return Ok(SurfaceEnded::Interrupted);
        }
    }
    Ok(SurfaceEnded::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_a_cell() {
        let over = |text| Over::parse(text).unwrap();
        assert_eq!(cells(&[over("size=1,2,3")]), vec![vec![1], vec![2], vec![3]]);
        let two = cells(&[over("size=1,2"), over("connections=7,9")]);
        assert_eq!(two, vec![vec![1, 7], vec![1, 9], vec![2, 7], vec![2, 9]]);
    }
}
