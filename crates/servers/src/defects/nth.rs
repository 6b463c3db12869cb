//! One of so many: which requests or replies of a server a defect is in.
//!
//! Counted over all workers by one atomic in memory that forked processes share, so `N` requests have exactly one that is
//! due, in whatever order and in whichever process they come.

use super::defect::{Defect, Setting};
use crate::error::ServeError;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// One request or reply of every so many.
#[derive(Debug)]
pub(super) struct EveryNth {
    nth: u64,
    seen: Shared,
}

impl EveryNth {
    /// The first that is due is the `nth`, which is at least 1.
    pub(super) fn new(nth: u64) -> rustix::io::Result<Self> {
        Ok(Self { nth, seen: Shared::new()? })
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
        (self.seen.count().fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.nth)
    }
}

/// A count that forked processes share.
#[derive(Debug)]
struct Shared(NonNull<AtomicU64>);

// SAFETY: what is in the memory is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> rustix::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory at a place the kernel chooses, which nothing else refers to.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), size_of::<AtomicU64>(), protection, MapFlags::SHARED)? };
        NonNull::new(at.cast()).map(Self).ok_or(rustix::io::Errno::NOMEM)
    }

    fn count(&self) -> &AtomicU64 {
        // SAFETY: a zeroed page has a valid one at its start, and is there as long as this value.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing refers to it any more. A failure leaves it mapped.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<AtomicU64>()) };
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
