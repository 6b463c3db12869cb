//! When each of several runs began, on one clock.
//!
//! Runs of one machine and boot were timed by one monotonic clock: their offsets are exact, whatever became of the wall clock.
//! Those of different machines are laid together by their wall clocks, each as far from true time as its kernel said at the
//! run's start (`maxerror`, adjtimex(2)), so that two are apart by no more than the sum. Where a recording does not say when its
//! load began, or its clock was not synchronised, the user may state the bound.

use super::MergeError;
use model::recording::{Recording, RunClock};

/// What is known of a run's beginning.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// The recording's name.
    pub name: &'a str,
    /// By its clocks; `None`: an older recording, or one that stopped before its load began.
    pub clock: Option<&'a RunClock>,
    /// When the run was prepared, on the wall clock, nanoseconds since 1970.
    pub prepared_at_unix_ns: u64,
}

impl<'a> Beginning<'a> {
    /// That of a recording.
    pub fn of(name: &'a str, recording: &'a Recording) -> Self {
        let capsule = &recording.capsule;
        Beginning { name, clock: capsule.clock.as_ref(), prepared_at_unix_ns: capsule.started_at_unix_ns }
    }

    /// On the wall clock, nanoseconds since 1970.
    fn wall_ns(&self) -> u64 {
        self.clock.map_or(self.prepared_at_unix_ns, |clock| clock.wall_ns)
    }

    /// How far that may be from true time, nanoseconds.
    fn error_ns(&self, stated_ns: Option<u64>) -> Result<u64, MergeError> {
        let why = match self.clock {
            None => "its recording does not say",
            Some(RunClock { wall_error_ns: Some(ns), .. }) => return Ok(*ns),
            Some(_) => "the clock of its machine was not synchronised",
        };
        stated_ns.ok_or_else(|| MergeError::Clock { name: self.name.to_owned(), why })
    }
}

/// How long after the first run another one began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offset {
    /// Nanoseconds.
    pub ns: u64,
    /// How far from that the true one may be, nanoseconds; 0: by one clock.
    pub bound_ns: u64,
}

/// The offset of each run from the one that began first. `stated_ns`: how far clocks may be apart where recordings do not say.
///
/// # Errors
/// [`MergeError::Twice`], [`MergeError::Clock`].
pub fn offsets(beginnings: &[Beginning<'_>], stated_ns: Option<u64>) -> Result<Vec<Offset>, MergeError> {
    for (at, one) in beginnings.iter().enumerate() {
        let is_same = |other: &&Beginning<'_>| one.clock.is_some() && one.clock == other.clock;
        if beginnings.iter().take(at).any(|other| is_same(&other)) {
            return Err(MergeError::Twice(one.name.to_owned()));
        }
    }
    let Some(reference) = beginnings.first() else { return Ok(Vec::new()) };
    // On the clock of each one's machine, whose place on the reference's is that of its first run here.
    let placed = |one: &Beginning<'_>| -> Result<(i128, u64), MergeError> {
        let id = |of: &Beginning<'_>| of.clock.map(|clock| clock.id.clone());
        let of_machine = beginnings.iter().find(|other| id(other).is_some() && id(other) == id(one)).unwrap_or(one);
        let within = match (one.clock, of_machine.clock) {
            (Some(own), Some(first)) => i128::from(own.monotonic_ns) - i128::from(first.monotonic_ns),
            _ => 0,
        };
        let is_of_reference = id(reference).is_some() && id(reference) == id(one);
        if is_of_reference {
            return Ok((within, 0));
        }
        let between = i128::from(of_machine.wall_ns()) - i128::from(reference.wall_ns());
        let bound_ns = of_machine.error_ns(stated_ns)?.saturating_add(reference.error_ns(stated_ns)?);
        Ok((between + within, bound_ns))
    };
    let placed = beginnings.iter().map(placed).collect::<Result<Vec<_>, _>>()?;
    let first_ns = placed.iter().map(|(ns, _)| *ns).min().unwrap_or(0);
    let offset =
        |(ns, bound_ns): (i128, u64)| Offset { ns: u64::try_from(ns - first_ns).unwrap_or(u64::MAX), bound_ns };
    Ok(placed.into_iter().map(offset).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(id: &str, monotonic_ns: u64, wall_ns: u64, wall_error_ns: Option<u64>) -> RunClock {
        RunClock { id: id.to_owned(), monotonic_ns, wall_ns, wall_error_ns }
    }

    fn offsets_of(clocks: &[Option<RunClock>], stated_ns: Option<u64>) -> Result<Vec<(u64, u64)>, String> {
        let beginning = |clock: &'_ Option<RunClock>| Beginning {
            name: "r",
            clock: clock.as_ref().map(|clock| &*Box::leak(Box::new(clock.clone()))),
            prepared_at_unix_ns: 50,
        };
        let beginnings: Vec<Beginning<'_>> = clocks.iter().map(beginning).collect();
        let found = offsets(&beginnings, stated_ns).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|offset| (offset.ns, offset.bound_ns)).collect())
    }

    #[test]
    fn runs_of_one_clock_are_laid_exactly_whatever_the_wall_clock_did() {
        // The wall clock was put back by an hour between the two.
        let hour = 3_600_000_000_000;
        let clocks = [Some(clock("a", 1_000, 2 * hour, None)), Some(clock("a", 400, 3 * hour, None))];
        assert_eq!(offsets_of(&clocks, None), Ok(vec![(600, 0), (0, 0)]));
    }

    #[test]
    fn runs_of_several_are_laid_by_the_wall_clock_within_the_sum_of_their_errors() {
        let clocks = [
            Some(clock("a", 1_000, 10_000, Some(30))),
            Some(clock("b", 77_000, 10_500, Some(40))),
            Some(clock("b", 77_200, 99_999, Some(90))),
        ];
        assert_eq!(offsets_of(&clocks, None), Ok(vec![(0, 0), (500, 70), (700, 70)]));
    }

    #[test]
    fn what_is_not_known_must_be_stated() {
        let clocks = [Some(clock("a", 1_000, 60, Some(30))), Some(clock("b", 1, 80, None))];
        assert!(offsets_of(&clocks, None).unwrap_err().contains("--clock-bound"));
        assert_eq!(offsets_of(&clocks, Some(9)), Ok(vec![(0, 0), (20, 39)]));
        let clocks = [clocks[0].clone(), None];
        assert!(offsets_of(&clocks, None).unwrap_err().contains("does not say"));
        // The reference keeps its place though the other one began before it.
        assert_eq!(offsets_of(&clocks, Some(9)), Ok(vec![(10, 0), (0, 39)]));
        assert!(offsets_of(&[clocks[0].clone(), clocks[0].clone()], None).unwrap_err().contains("twice"));
    }

    #[test]
    fn clocks_of_any_value_do_not_make_it_stop() {
        let clocks = [Some(clock("a", u64::MAX, 0, Some(u64::MAX))), Some(clock("b", 0, u64::MAX, Some(u64::MAX)))];
        assert_eq!(offsets_of(&clocks, None), Ok(vec![(0, 0), (u64::MAX, u64::MAX)]));
    }
}
