//! The bare open loop: it sleeps until the next request is due and for nothing else. Awake, it
//! reaps whatever replies are there, sends what is due on free connections, and remembers what
//! found none. A reply alone never wakes it while requests are still to come.
//! Two forms side by side: [`super::due_uring`] and [`super::due_epoll`].

use std::io;

use crate::args::{Args, Client, UsageError};
use crate::outcome::Outcome;
use crate::sys;

/// Most requests per second asked for.
pub const RATE_MAX: f64 = 10_000_000.0;

/// How long replies are waited for after the last request was due, in ns.
pub const DRAIN_NS: u64 = 5_000_000_000;

/// What both forms are told.
#[derive(Debug)]
pub struct Options {
    /// Server, connections, time.
    pub client: Client,
    /// Requests due per second.
    pub rate_per_s: f64,
    epoll: bool,
}

impl Options {
    /// Reads them from the command line.
    ///
    /// # Errors
    /// See [`Args::client`]; a rate that is not above 0 and at most [`RATE_MAX`].
    pub fn from_args(args: &Args) -> Result<Self, UsageError> {
        let rate_per_s: f64 = args.required("rate")?;
        if !(rate_per_s > 0.0 && rate_per_s <= RATE_MAX) {
            return Err(UsageError(format!("--rate: {rate_per_s} is not above 0 and at most {RATE_MAX}")));
        }
        Ok(Self { client: args.client()?, rate_per_s, epoll: args.flag("epoll") })
    }

    /// The name the result goes under.
    #[must_use]
    pub fn tool(&self) -> &'static str {
        if self.epoll { "floor-due-epoll" } else { "floor-due-uring" }
    }
}

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
