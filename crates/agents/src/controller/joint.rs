//! Ticks of all agents put together, as they come: for who watches the run while it goes.
//!
//! A tick is complete when every agent of which more is to come has come as far as its end; what came after the end of an agent's load
//! is apart, as in one process. Where one is slow, so many ticks wait for it; what comes of it later is a tick of its own then, and
//! nothing is left out. Histograms are added, so quantiles are those of all requests. Without single requests and entries of a
//! workload: these come with the recordings. Cost: the histograms of the ticks that wait.

use model::recording::{Row, Tick, WorkerShares};
use model::{Interval, LatencyKind};
use std::collections::BTreeMap;

/// Which tick: its number, and whether it is of the drain.
type Key = (u64, bool);

/// Ticks under way.
pub(super) struct Joint {
    tick_ns: u64,
    /// Ticks that may wait for an agent.
    waiting_max: usize,
    /// How far each agent has come, nanoseconds; `u64::MAX`: its load has ended.
    reached_ns: Vec<u64>,
    waiting: BTreeMap<Key, (Box<Interval<u64>>, WorkerShares)>,
    sequence: u64,
}

impl Joint {
    /// Of no agent yet.
    pub(super) fn new(waiting_max: usize) -> Self {
        Joint { tick_ns: 1, waiting_max, reached_ns: Vec::new(), waiting: BTreeMap::new(), sequence: 0 }
    }

    /// Of so many agents, whose ticks are of one length.
    pub(super) fn begin(&mut self, agents: usize, tick_ns: u64) {
        (self.tick_ns, self.reached_ns) = (tick_ns.max(1), vec![0; agents]);
    }

    /// Takes a tick of an agent.
    pub(super) fn push(&mut self, agent: usize, interval: Box<Interval<u64>>, row: &Row) {
        if let Some(reached_ns) = self.reached_ns.get_mut(agent) {
            *reached_ns = (*reached_ns).max(interval.end_ns);
        }
        let shares = WorkerShares { busy: row.worker_busy_max, wait: row.worker_wait_max, late: row.worker_late_max };
        let key = (interval.end_ns.div_ceil(self.tick_ns), interval.is_drain);
        match self.waiting.get_mut(&key) {
            Some((sum, of_all)) => {
                sum.add(&interval);
                sum.gauges.add_worker(&interval.gauges);
                *of_all = of_all.max(shares);
            }
            None => drop(self.waiting.insert(key, (interval, shares))),
        }
    }

    /// The load of an agent is over: no tick waits for it any more.
    pub(super) fn ended(&mut self, agent: usize) {
        if let Some(reached_ns) = self.reached_ns.get_mut(agent) {
            *reached_ns = u64::MAX;
        }
    }

    /// The oldest tick, where it is complete, or too many wait; `is_awaited`: more is to come of the agent.
    pub(super) fn take(&mut self, is_awaited: impl Fn(usize) -> bool) -> Option<Tick> {
        let (number, _) = *self.waiting.keys().next()?;
        let end_ns = number.saturating_mul(self.tick_ns);
        let is_complete = self.reached_ns.iter().enumerate().all(|(at, reached)| *reached >= end_ns || !is_awaited(at));
        if is_complete || self.waiting.len() > self.waiting_max { self.take_oldest() } else { None }
    }

    /// The oldest tick, complete or not.
    pub(super) fn take_oldest(&mut self) -> Option<Tick> {
        let (_, (sum, shares)) = self.waiting.pop_first()?;
        let mut sum = Box::new(of_one(&sum));
        sum.sequence = self.sequence;
        self.sequence += 1;
        let row = Row::of(&sum, shares);
        Some(Tick { sum, row })
    }
}

/// The same with the counters that a tick has.
fn of_one(sum: &Interval<u64>) -> Interval<u32> {
    let mut one = Interval::<u32>::new(0);
    (one.start_ns, one.end_ns, one.is_drain) = (sum.start_ns, sum.end_ns, sum.is_drain);
    (one.counts, one.gauges) = (sum.counts, sum.gauges);
    one.errors.merge(&sum.errors);
    one.connection_errors.merge(&sum.connection_errors);
    one.outcomes.merge(&sum.outcomes);
    one.examples = sum.examples;
    for kind in LatencyKind::ALL {
        for (ns, count) in sum.latency.of(kind).iter_recorded() {
            one.latency.record_n(kind, ns, u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(joint: &mut Joint, agent: usize, end_ns: u64, is_drain: bool, response_ns: u64) {
        let mut interval = Box::new(Interval::<u64>::new(0));
        (interval.start_ns, interval.end_ns, interval.is_drain) = (end_ns.saturating_sub(100), end_ns, is_drain);
        (interval.counts.ok, interval.gauges.connections) = (1, 2);
        interval.latency.record(LatencyKind::Response, response_ns);
        joint.push(agent, interval, &Row::default());
    }

    fn all(joint: &mut Joint, awaited: &[usize]) -> Vec<(u64, bool, u64, u64)> {
        std::iter::from_fn(|| joint.take(|agent| awaited.contains(&agent)))
            .map(|Tick { sum, row }| {
                assert_eq!(sum.latency.count(LatencyKind::Response), row.counts.ok);
                (row.end_ns, row.is_drain, row.counts.ok, row.gauges.connections)
            })
            .collect()
    }

    #[test]
    fn a_tick_is_complete_when_all_have_come_to_its_end() {
        let mut joint = Joint::new(3);
        joint.begin(2, 100);
        push(&mut joint, 0, 100, false, 5_000);
        assert_eq!(all(&mut joint, &[0, 1]), []);
        push(&mut joint, 1, 99, false, 9_000);
        // It was cut early, and more of it may belong there.
        assert_eq!(all(&mut joint, &[0, 1]), []);
        push(&mut joint, 1, 200, false, 9_000);
        assert_eq!(all(&mut joint, &[0, 1]), [(100, false, 2, 4)]);
        // Who is lost is not waited for.
        assert_eq!(all(&mut joint, &[1]), [(200, false, 1, 2)]);
    }

    #[test]
    fn what_an_agent_drains_is_apart_and_its_end_holds_nothing_up() {
        let mut joint = Joint::new(3);
        joint.begin(2, 100);
        push(&mut joint, 0, 150, false, 5_000);
        push(&mut joint, 0, 160, true, 5_000);
        push(&mut joint, 1, 140, false, 5_000);
        assert_eq!(all(&mut joint, &[0, 1]), []);
        joint.ended(0);
        joint.ended(1);
        assert_eq!(all(&mut joint, &[0, 1]), [(150, false, 2, 4), (160, true, 1, 2)]);
    }

    #[test]
    fn one_that_is_slow_holds_up_only_so_many_and_nothing_of_it_is_left_out() {
        let mut joint = Joint::new(2);
        joint.begin(2, 100);
        for end_ns in [100, 200, 300] {
            push(&mut joint, 0, end_ns, false, 5_000);
        }
        assert_eq!(all(&mut joint, &[0, 1]), [(100, false, 1, 2)]);
        push(&mut joint, 1, 100, false, 5_000);
        assert_eq!(all(&mut joint, &[0, 1]), [(100, false, 1, 2)]);
    }
}
