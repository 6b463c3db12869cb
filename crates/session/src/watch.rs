//! Who sees a run while it goes: progress on stderr, a search that counts its blocks and ends a step once it is decided.
//!
//! Called on the session's own thread, which gives way to the workers. What takes long here holds up the recording's ticks.

use model::plan::Plan;
use model::recording::Row;
use model::{Event, Interval};

/// Sees the run while it goes, from the session's own thread.
pub trait Watch: Send {
    /// A tick has ended, all workers together.
    fn on_tick(&mut self, row: &Row, plan: &Plan);
    /// Something happened.
    fn on_event(&mut self, event: &Event);
    /// What whoever started the run knows to have happened, such as that the target it started is gone; asked at each tick,
    /// nanoseconds after the start. Each is told once.
    fn happened(&mut self, _at_ns: i64) -> Option<Event> {
        None
    }
    /// The same tick with its histograms, before it is used again.
    fn on_interval(&mut self, _interval: &Interval<u32>, _plan: &Plan) {}
    /// Whether enough was seen: the run then ends as if it had been planned so.
    fn is_enough(&self) -> bool {
        false
    }
}
