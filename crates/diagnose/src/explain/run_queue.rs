//! Waits for a CPU that are no stranger's doing, beside requests that were slow for no cause that is known.
//!
//! On a machine that target and generator share, a thread of the one runs on while one of the other waits, for some milliseconds each
//! time. `cpu-contention` blames others for that, and here are none. It is not proved which requests waited with the thread, so it
//! is no finding: it is said beside that the cause is not known, or that the machine is full, where the times fit.

use super::ledger::LateWithin;
use crate::causes::{at_its_limit, cpu_throttled};
use crate::facts::{Facts, Host, TURN_NS, duration, percent};
use crate::thresholds::{DEMAND_FULL, NEIGHBOURS, THREAD_WAIT};
use model::finding::{Loss, LossKind};
use model::slow::Wait;

/// A thread that waits for less of the time does so on an idle machine too, each time it is woken.
const OF_TIME_MIN: f64 = 0.01;
/// In the moments at which it waits come as many requests as in others; those that queue behind them are slow too, as many again.
const BEHIND: f64 = 2.0;
/// Of the machine's cores so much with the target is most of it; and a thread that waits for one for so much of what it wants to run is short of it.
const MOST_CORES: f64 = 0.75;
const SHORT_MIN: f64 = 0.5;
/// Of the slow requests' time, so much for a free connection is a line that grew before a full thread, or a full machine: how long it is
/// says nothing of what each of them waited for.
const IN_LINE: f64 = 0.9;

/// Whether slow requests were late by no more than a turn of the scheduler, on average, and not some by far more.
pub(super) fn is_for_a_turn(facts: &Facts<'_>, slow: &Loss) -> bool {
    slow.time.as_ref().is_some_and(|time| time.excess_us * 1e3 <= TURN_NS) && LateWithin::of(facts).is_none()
}

/// Whether nearly all of their time was spent in line, and the target or its machine was full.
fn is_line_before_full(facts: &Facts<'_>, slow: &Loss) -> bool {
    let waits = slow.time.iter().flat_map(|time| &time.waits);
    let in_line: f64 = waits.filter(|part| part.wait == Wait::Queue).map(|part| part.share).sum();
    let is_thread_full = facts.busiest_demand().is_some_and(|demand| demand >= DEMAND_FULL.value);
    in_line >= IN_LINE && (is_thread_full || at_its_limit::is_machine_full(facts))
}

/// Whether the machine is full, and of the target's own work: whatever it does then waits for that.
pub(super) fn is_full_of_it(facts: &Facts<'_>) -> bool {
    let is_most = |host: Host| facts.target_cores.is_some_and(|used| used >= MOST_CORES * host.cores);
    at_its_limit::is_machine_full(facts) && facts.host.is_some_and(is_most)
}

/// A thread of the target that waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Waited<'f> {
    thread: &'f str,
    /// Of all time, 0..=1.
    of_time: f64,
    /// Of the time that it wanted to run, 0..=1.
    of_wanted: f64,
}

impl<'f> Waited<'f> {
    /// The thread that waited most, where slow requests are the loss, may be slow for that, and no stranger nor quota held it up.
    pub(super) fn of(facts: &'f Facts<'_>, losses: &[Loss]) -> Option<Self> {
        let slow = losses.iter().find(|loss| loss.kind == LossKind::Slow)?;
        let is_late = is_for_a_turn(facts, slow) || is_line_before_full(facts, slow);
        let is_full_of_it = is_full_of_it(facts);
        let strangers: f64 = facts.strangers().map(|neighbour| neighbour.cores).sum();
        let is_others = strangers >= NEIGHBOURS.value || cpu_throttled::stops(facts).is_some();
        if !(is_late || is_full_of_it) || is_others || facts.is_target_elsewhere() {
            return None;
        }
        let waited = facts.target_threads.iter().filter_map(|thread| {
            let (run, wait) = (thread.run?, thread.wait?);
            (wait > 0.0).then(|| Waited { thread: &*thread.name, of_time: wait, of_wanted: wait / (run + wait) })
        });
        let most = waited.max_by(|a, b| a.of_time.total_cmp(&b.of_time))?;
        let is_short = is_late || most.of_wanted >= SHORT_MIN;
        (is_short && most.of_time >= OF_TIME_MIN && BEHIND * most.of_time >= facts.kinds.slow).then_some(most)
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

    /// Whether it waited far more than a thread does that finds a core free.
    pub(super) fn is_much(&self) -> bool {
        self.of_wanted > THREAD_WAIT.value
    }

    /// Behind that the cause is not known; where the generator hardly ran, its own threads had the CPU, and a little of that is nothing.
    pub(super) fn beside_unknown(&self, facts: &Facts<'_>) -> String {
        let generator: f64 = facts.generator_threads.iter().filter_map(|thread| thread.run).sum();
        let who = match generator >= NEIGHBOURS.value {
            true => {
                "beside this generator: where they share CPUs, keep them apart (--pin, taskset), or load from another machine"
            }
            false if self.is_much() => "while threads of its own ran",
            false => return String::new(),
        };
        format!("; meanwhile {} waited for a CPU {} of each second, {who}", self.thread, duration(self.of_time * 1e9))
    }
}
