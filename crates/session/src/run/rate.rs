//! Another rate of an open pace, as whoever watches a run may want it while it goes on.
//!
//! It begins with a tick, which every worker wakes for at the latest: each then goes through the same profile, so what is asked
//! for from there on is what the plan says, to the request. The recording's plan is changed with it, and so nothing that reads
//! a plan need know of changes.

use super::Session;
use engine::Fleet;
use model::Event;
use model::plan::Pace;
use model::rate::scaled_from;

/// A tick that begins sooner than that may find workers that were not told, nanoseconds.
const TOLD_NS: u64 = 10_000_000;

/// The rate that was last asked for.
#[derive(Debug)]
pub(super) struct Changed {
    /// How many times what was planned at first.
    factor: f64,
    from_ns: u64,
}

impl Default for Changed {
    fn default() -> Self {
        Changed { factor: 1.0, from_ns: 0 }
    }
}

impl Session<'_> {
    /// Follows a wish for another rate, once the one before has come to pass.
    pub(super) fn change_rate(&mut self, fleet: &mut Fleet) {
        let now_ns = u64::try_from(fleet.now_ns()).unwrap_or(0);
        // Workers know of one change alone: the last has begun, and a tick has gone by in which they have heard of it.
        let tick_ns = self.recording.plan.tick_ns.max(1);
        if self.rate.from_ns > 0 && now_ns < self.rate.from_ns.saturating_add(tick_ns) {
            return;
        }
        let Some((wanted_ns, factor)) = self.watch.rate_from() else { return };
        let Pace::Open { profile, .. } = &mut self.recording.plan.pace else { return };
        let from_ns = now_ns.saturating_add(TOLD_NS).max(wanted_ns).div_ceil(tick_ns).saturating_mul(tick_ns);
        *profile = scaled_from(profile, from_ns, factor / self.rate.factor);
        self.rate = Changed { factor, from_ns };
        fleet.control().set_rate(from_ns, factor);
        let mut kept = self.kept_plan.take();
        if let Some(kept) = &mut kept {
            kept.pace.clone_from(&self.recording.plan.pace);
        }
        let plan = kept.as_ref().unwrap_or(&self.recording.plan).clone();
        self.append(|writer| writer.keep_plan(&plan));
        self.kept_plan = kept;
        let text = format!("the rate is {:.0} % of what was planned from here on", 100.0 * factor);
        self.event(Event::new(from_ns as i64, model::event::RATE_CHANGED, text));
    }
}
