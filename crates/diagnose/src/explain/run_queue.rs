//! Waits for a CPU that are no stranger's doing, beside requests that were slow for no cause that is known.
//!
//! On a machine that target and generator share, a thread of the one runs on while one of the other waits, for some milliseconds each
//! time. `cpu-contention` blames others for that, and here are none. It is not proved which requests waited with the thread, so it
//! is no finding: it is said beside that the cause is not known, or that the machine is full, where the times fit.

use crate::causes::cpu_throttled;
use crate::facts::{Facts, TURN_NS, duration, percent};
use crate::thresholds::NEIGHBOURS;
use model::finding::{Loss, LossKind};

/// A thread that waits for less of the time does so on an idle machine too, each time it is woken.
const OF_TIME_MIN: f64 = 0.01;
/// In the moments at which it waits come as many requests as in others; those that queue behind them are slow too, as many again.
const BEHIND: f64 = 2.0;

/// A thread of the target that waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Waited<'f> {
    thread: &'f str,
    /// Of all time, 0..=1.
    of_time: f64,
    /// Of the time that it wanted to run, 0..=1.
    pub(super) of_wanted: f64,
}

impl<'f> Waited<'f> {
    /// The thread that waited most, where slow requests are the loss, may be slow for that, and no stranger nor quota held it up.
    pub(super) fn of(facts: &'f Facts<'_>, losses: &[Loss]) -> Option<Self> {
        let slow = losses.iter().find(|loss| loss.kind == LossKind::Slow)?;
        let is_short = slow.time.as_ref().is_some_and(|time| time.excess_us * 1e3 <= TURN_NS);
        let strangers: f64 = facts.strangers().map(|neighbour| neighbour.cores).sum();
        let is_others = strangers >= NEIGHBOURS.value || cpu_throttled::stops(facts).is_some();
        if !is_short || is_others || facts.is_target_elsewhere() {
            return None;
        }
        let waited = facts.target_threads.iter().filter_map(|thread| {
            let (run, wait) = (thread.run?, thread.wait?);
            (wait > 0.0).then(|| Waited { thread: &*thread.name, of_time: wait, of_wanted: wait / (run + wait) })
        });
        let most = waited.max_by(|a, b| a.of_time.total_cmp(&b.of_time))?;
        (most.of_time >= OF_TIME_MIN && BEHIND * most.of_time >= facts.kinds.slow).then_some(most)
    }

    /// Behind that a full machine is the limit, of slow requests too.
    pub(super) fn beside_full(&self, slow: &Loss) -> String {
        format!(
            "; {}, while {} waited for a CPU {} of the time it wanted one",
            slow.text,
            self.thread,
            percent(self.of_wanted)
        )
    }

    /// Behind that the cause is not known; nothing where the generator hardly ran, as it could not be who had the CPU.
    pub(super) fn beside_unknown(&self, facts: &Facts<'_>) -> String {
        let generator: f64 = facts.generator_threads.iter().filter_map(|thread| thread.run).sum();
        if generator < NEIGHBOURS.value {
            return String::new();
        }
        format!(
            "; meanwhile {} waited for a CPU {} of each second, beside this generator: where they share CPUs, keep them apart (--pin, taskset), or load from another machine",
            self.thread,
            duration(self.of_time * 1e9)
        )
    }
}
