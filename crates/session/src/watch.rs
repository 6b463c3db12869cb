//! Who sees a run while it goes: progress on stderr, a search that counts its blocks and ends a step once it is decided.
//!
//! Called on the session's own thread, which gives way to the workers. What takes long here holds up the recording's ticks.

use model::finding::Diagnosis;
use model::plan::Plan;
use model::recording::Row;
use model::{Event, Interval, Recording, Snapshot};

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
    /// Whom it shows the run to, where it stands between: who wants to see what it does not look at itself.
    fn passes_on_to(&mut self) -> Option<&mut dyn Watch> {
        None
    }
    /// The same tick with its histograms, before it is used again.
    fn on_interval(&mut self, interval: &Interval<u32>, plan: &Plan) {
        if let Some(next) = self.passes_on_to() {
            next.on_interval(interval, plan);
        }
    }
    /// The machine and the target were read.
    fn on_snapshot(&mut self, snapshot: &Snapshot) {
        if let Some(next) = self.passes_on_to() {
            next.on_snapshot(snapshot);
        }
    }
    /// Whether it wants to know how the run stands: asked once a tick, for that takes the session's thread a while.
    fn wants_standing(&mut self) -> bool {
        self.passes_on_to().is_some_and(|next| next.wants_standing())
    }
    /// How the run stands: what was measured so far, and what would be said of it if it ended now.
    fn on_standing(&mut self, recording: &Recording, diagnosis: &Diagnosis) {
        if let Some(next) = self.passes_on_to() {
            next.on_standing(recording, diagnosis);
        }
    }
    /// The rate of an open pace from now on, as a factor of what was planned; each wish is told once.
    fn rate_factor(&mut self) -> Option<f64> {
        None
    }
    /// The same from a moment on that is said, nanoseconds after the start: with the tick that begins then, or with the next where that is
    /// over. Each wish is told once.
    fn rate_from(&mut self) -> Option<(u64, f64)> {
        self.rate_factor().map(|factor| (0, factor))
    }
    /// Whether enough was seen: the run then ends as if it had been planned so.
    fn is_enough(&self) -> bool {
        false
    }
}
