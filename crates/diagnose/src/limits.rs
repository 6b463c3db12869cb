//! The limits only this crate knows: what a run of any length may take in memory.

/// Stretches of time that a history keeps apart; beyond, neighbours are merged in pairs.
pub const STRETCHES_MAX: usize = 512;
/// Metrics that a history keeps, threads not counted: about ten times as many as a machine with a few disks has.
pub const SERIES_MAX: usize = 2048;
/// Processes that a history knows apart; when there are more, those that have ended and used least CPU time go.
pub const PROCESSES_MAX: usize = 256;
/// The same of threads.
pub const THREADS_MAX: usize = 512;
