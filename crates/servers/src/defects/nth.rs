//! One of so many: which requests or replies of a server a defect is in.
//!
//! Counted over all workers by one atomic in memory that forked processes share, so `N` requests have exactly one that is
//! due, in whatever order and in whichever process they come.

use super::defect::{Defect, Setting};
use super::shared::Shared;
use crate::error::ServeError;
use std::sync::atomic::{AtomicU64, Ordering};

/// One request or reply of every so many.
#[derive(Debug)]
pub(super) struct EveryNth {
    nth: u64,
    seen: Shared<AtomicU64>,
}

impl EveryNth {
    /// The first that is due is the `nth`, which is at least 1.
    pub(super) fn new(nth: u64) -> rustix::io::Result<Self> {
        Ok(Self { nth, seen: Shared::new(AtomicU64::new(0))? })
    }

    fn for_defect(defect: &'static Defect, nth: u64) -> Result<Self, ServeError> {
        let failed = |source: rustix::io::Errno| ServeError::Defect {
            defect: defect.name,
            doing: "map its counter",
            source: source.into(),
        };
        Self::new(nth).map_err(failed)
    }

    /// As the strength says, which must not be 0.
    pub(super) fn of(setting: &Setting) -> Result<Self, ServeError> {
        match setting.number() {
            0 => Err(ServeError::DefectStrength {
                defect: setting.defect.name,
                expected: "one of 1 or more",
                got: "0".to_owned(),
            }),
            nth => Self::for_defect(setting.defect, nth),
        }
    }

    /// As the part `of` says.
    pub(super) fn of_part(setting: &Setting) -> Result<Self, ServeError> {
        Self::for_defect(setting.defect, setting.part("of").max(1))
    }

    /// Counts one, and says whether it is due.
    pub(super) fn is_due(&self) -> bool {
        (self.seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.nth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_n_is_due() {
        let due = |nth| {
            let every = EveryNth::new(nth).unwrap();
            (1..=6).filter(|_| every.is_due()).count()
        };
        assert_eq!([1, 2, 3, 6, 7].map(due), [6, 3, 2, 1, 0]);
    }
}
