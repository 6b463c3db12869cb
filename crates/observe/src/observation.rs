//! What a run asks of whoever observes for it: here, or on the target's machine.
//!
//! The run knows only this; who observes knows no run. All times are of the run's clock, nanoseconds since its start.

use crate::observer::Extent;
use model::remote::TargetHost;
use model::snapshot::SamplerStatus;
use model::{Event, Snapshot};
use std::fmt::Debug;

/// How nice a thread is that follows a run: a tenth of a worker's weight on a busy CPU (sched(7)), so that a worker that
/// wakes runs at once, and enough that intervals do not pile up.
pub const FOLLOW_NICE: i32 = 10;

/// Observes for a run, from before its load to after it.
pub trait Observation: Debug + Send {
    /// The target's machine, where it is another.
    fn target_host(&self) -> Option<TargetHost> {
        None
    }

    /// The reading before the load; one from elsewhere is waited for. [`Observation::place`] puts it in time.
    fn before(&mut self) -> Option<Snapshot>;

    /// The run starts: a reading from before it gets its time. `origin_ns`: the run's start, CLOCK_MONOTONIC.
    fn place(&mut self, before: Snapshot, origin_ns: u64) -> Snapshot;

    /// The tick that has just ended was slow: probes that run in windows may look at once.
    fn hint_slow(&mut self) {}

    /// What a tick has: one reading here, of a target elsewhere those that came meanwhile.
    fn snapshots(&mut self, at_ns: i64, extent: Extent) -> Vec<Snapshot>;

    /// One last reading of a target elsewhere; here, the last tick had it.
    fn finish(&mut self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// What happened since this was last asked.
    fn take_events(&mut self) -> Vec<Event>;

    /// How each sampler fared.
    fn statuses(&self) -> Vec<SamplerStatus>;
}
