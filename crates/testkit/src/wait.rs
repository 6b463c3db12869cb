//! Waiting for what will be so soon. The time given is a guard against a hang, no measurement.

use std::time::{Duration, Instant};

/// Longer than anything in a test takes on a machine that does other work too.
pub const HANG_GUARD: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until something is there.
///
/// # Panics
/// When it is not there after [`HANG_GUARD`].
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_for_or_show(|| what.to_owned(), look)
}

/// The same; what was waited for is said when it was in vain, with what there is by then.
///
/// # Panics
/// When it is not there after [`HANG_GUARD`].
pub fn wait_for_or_show<T>(what: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < HANG_GUARD, "waited {HANG_GUARD:?}, in vain: {}", what());
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Looks until something is so.
///
/// # Panics
/// When it is not so after [`HANG_GUARD`].
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
