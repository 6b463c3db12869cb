//! What both forms of the bare open loop are told, and the course of their load: what is due,
//! what of it found a free connection, and when to stop waiting for replies.

use std::io;

use crate::args::{Args, Client, UsageError};
use crate::outcome::Outcome;
use crate::schedule::Schedule;
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
    /// Whether the form on epoll is asked for.
    pub epoll: bool,
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

/// A load under way.
#[derive(Debug)]
pub struct Course {
    schedule: Schedule,
    outcome: Outcome,
    /// Requests that are due and found no free connection.
    waiting: u64,
    queue_depth_max: u64,
    start_ns: u64,
    /// When replies are no longer waited for.
    end_ns: u64,
}

impl Course {
    /// Begins now.
    #[must_use]
    pub fn begin(options: &Options) -> Self {
        let start_ns = sys::now_ns();
        let seconds = options.client.seconds;
        Self {
            schedule: Schedule::new(start_ns, options.rate_per_s, seconds),
            outcome: Outcome::default(),
            waiting: 0,
            queue_depth_max: 0,
            start_ns,
            end_ns: start_ns + (seconds * 1e9) as u64 + DRAIN_NS,
        }
    }

    /// Whether replies are still to come.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.outcome.requests < self.schedule.total()
    }

    /// When the next request is due; none once all were.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.schedule.next_due_ns()
    }

    /// A whole reply came.
    pub fn replied(&mut self) {
        self.outcome.requests += 1;
    }

    /// Sends what is due, as far as connections are free. Says whether to go on: not once the time
    /// for the last replies is over, and those that are missing count as errors.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn send_due<C>(&mut self, free: &mut Vec<C>, mut send: impl FnMut(C) -> io::Result<()>) -> io::Result<bool> {
        let now_ns = sys::now_ns();
        while self.schedule.release(now_ns) {
            self.waiting += 1;
        }
        while self.waiting > 0
            && let Some(connection) = free.pop()
        {
            send(connection)?;
            self.waiting -= 1;
        }
        // Whatever is left over now was due and found no connection.
        self.queue_depth_max = self.queue_depth_max.max(self.waiting);
        if now_ns >= self.end_ns {
            self.outcome.errors = self.schedule.total() - self.outcome.requests;
            return Ok(false);
        }
        Ok(true)
    }

    /// What came of it.
    #[must_use]
    pub fn end(mut self) -> Outcome {
        Outcome {
            seconds: (sys::now_ns() - self.start_ns) as f64 / 1e9,
            release_error_p99_us: self.schedule.error_p99_us(),
            queue_depth_max: Some(self.queue_depth_max),
            ..self.outcome
        }
    }
}
