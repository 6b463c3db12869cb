//! The bare open loop: it sleeps until the next request is due and for nothing else. Awake, it
//! reaps whatever replies are there, sends what is due on free connections, and remembers what
//! found none. A reply alone never wakes it while requests are still to come.
//! Two forms side by side, [`super::due_uring`] and [`super::due_epoll`], over one [`super::due_course`].

use std::io;

use super::due_course::{DRAIN_NS, Options};
use crate::outcome::Outcome;
use crate::sys;

/// Runs the form asked for.
///
/// # Errors
/// The server cannot be reached, or a connection broke: an open loop does not go on with fewer.
pub fn run(options: &Options) -> io::Result<Outcome> {
    let guard_seconds = DRAIN_NS as f64 / 1e9 + super::epoll::GUARD_SECONDS;
    sys::end_after(options.client.seconds + guard_seconds);
    sys::tighten_timer_slack();
    if options.epoll { super::due_epoll::run(options) } else { super::due_uring::run(options) }
}
