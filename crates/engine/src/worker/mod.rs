//! The workers: each puts one worker's share of a plan on, through one driver, and keeps its books in a [`Ledger`].
//!
//! One kind a folder: [`requests`] as the pace says, [`held`] connections, [`burst`]s. A worker is driven in steps, each
//! one turn of its loop and the sleep after it: a thread of its own steps it to its end, and a simulation steps many in
//! turn on one thread. Generic over protocol and driver, so that nothing is looked up while load is put on.
//!
//! [`Ledger`]: crate::ledger::Ledger

pub mod burst;
pub mod held;
pub mod requests;

/// A worker under way.
pub trait Work {
    /// Starts the worker's clock: the moment the run began, on CLOCK_MONOTONIC, nanoseconds.
    fn begin(&mut self, origin_ns: u64);

    /// One turn of the loop: what has happened, what is due, then sleep until there is more. `false`: it is over.
    fn step(&mut self) -> bool;

    /// Closes what is open, and hands over the last interval and how it ended.
    fn finish(self: Box<Self>);

    /// The worker's clock, nanoseconds since the run's start.
    fn now_ns(&mut self) -> u64;
}
