//! Puts the workers' intervals of the same tick together, and sums the run.
//!
//! An interval is merged once, when it comes, and goes back to its worker at once: no worker waits for another. It
//! belongs to the tick in which it ends, so one that was cut late (its worker had no empty interval, or slept past the
//! boundary) falls into a later tick, and nothing is lost. A tick is complete when every worker that has not ended has
//! come as far as its end. What came after a worker's end of load is the drain, in rows of its own.
//!
//! Cost: an interval of one worker is taken as it is; of several, each is added bucket by bucket to the tick's sum.

use model::Interval;
use model::recording::{Row, Tick, Totals, WorkerShares};
use std::collections::BTreeMap;

/// Ticks that may wait for a worker before the oldest is taken as it is: a worker that was stopped holds up neither the
/// recording nor the view, and what it did meanwhile falls into the tick in which it comes back.
const WAITING_MAX: usize = 3;

/// Intervals travel boxed: the box goes back to its worker.
type Boxed = Box<Interval>;

/// Which tick: its number, and whether it is of the drain.
type Key = (u64, bool);

/// Ticks under way.
#[derive(Debug)]
pub struct Ticks {
    tick_ns: u64,
    /// How far each worker has come, nanoseconds; `u64::MAX`: it has ended.
    reached_ns: Vec<u64>,
    waiting: BTreeMap<Key, Sum>,
    /// Sums to be used again.
    spare: Vec<Boxed>,
    sequence: u64,
}

/// A tick under way.
#[derive(Debug)]
struct Sum {
    sum: Boxed,
    shares: WorkerShares,
}

impl Ticks {
    /// Nothing waits yet.
    pub fn new(workers: usize, tick_ns: u64) -> Self {
        Ticks {
            tick_ns: tick_ns.max(1),
            reached_ns: vec![0; workers],
            waiting: BTreeMap::new(),
            spare: Vec::new(),
            sequence: 0,
        }
    }

    /// Takes a worker's interval in; what is returned goes back to the worker.
    pub fn push(&mut self, mut interval: Boxed) -> Boxed {
        if let Some(reached_ns) = self.reached_ns.get_mut(usize::from(interval.worker)) {
            *reached_ns = (*reached_ns).max(interval.end_ns);
        }
        let shares = WorkerShares::of(&interval);
        // A tick includes its end: the interval that is cut at it ends there.
        let key = (interval.end_ns.div_ceil(self.tick_ns), interval.is_drain);
        let worker = interval.worker;
        match self.waiting.get_mut(&key) {
            Some(tick) => {
                tick.sum.add_worker(&interval);
                tick.shares = tick.shares.max(shares);
            }
            None => {
                // The first is the sum; in its place its worker gets one that was a sum before.
                let empty = self.spare.pop().unwrap_or_else(|| Box::new(interval.another()));
                let sum = std::mem::replace(&mut interval, empty);
                self.waiting.insert(key, Sum { sum, shares });
            }
        }
        interval.worker = worker;
        interval
    }

    /// A worker has ended: no tick waits for it any more.
    pub fn worker_ended(&mut self, worker: u16) {
        if let Some(reached_ns) = self.reached_ns.get_mut(usize::from(worker)) {
            *reached_ns = u64::MAX;
        }
    }

    /// The oldest tick, where it is complete or others press; [`Ticks::recycle`] takes it back.
    pub fn take(&mut self) -> Option<Tick> {
        let (number, _) = *self.waiting.keys().next()?;
        let reached_ns = self.reached_ns.iter().copied().min().unwrap_or(u64::MAX);
        let is_complete = reached_ns >= number.saturating_mul(self.tick_ns);
        if is_complete || self.waiting.len() > WAITING_MAX { self.take_oldest() } else { None }
    }

    /// The oldest tick, complete or not; `None` when nothing waits.
    pub fn take_oldest(&mut self) -> Option<Tick> {
        let (_, Sum { mut sum, shares }) = self.waiting.pop_first()?;
        sum.sequence = self.sequence;
        self.sequence += 1;
        let row = Row::of(&sum, shares);
        Some(Tick { sum, row })
    }

    /// Takes the memory of a tick back.
    pub fn recycle(&mut self, tick: Tick) {
        let mut sum = tick.sum;
        sum.clear();
        self.spare.push(sum);
    }
}

/// Adds a tick to the run's totals; what lies before the end of warm-up is not counted.
pub fn add_to_totals(totals: &mut Totals, tick: &Tick, warmup_ns: u64, is_ramp_warmup: bool) {
    let (sum, row) = (&tick.sum, &tick.row);
    totals.connections_max = totals.connections_max.max(row.gauges.connections);
    let longest = &mut totals.sum.gauges.reap_delay_ns_max;
    *longest = (*longest).max(row.gauges.reap_delay_ns_max);
    // A worker looks at the clock after it has released what is due: the interval that ends with warm-up may hold
    // the first measured requests. Those due in warm-up it counts apart, so that no request is lost or doubled.
    if sum.end_ns <= warmup_ns {
        totals.sum.add_requests(sum);
        totals.in_time.add(&sum.counts.of_requests());
        return;
    }
    totals.sum.add(sum);
    if !row.is_drain {
        totals.in_time.add(&sum.counts);
    }
    for (part, kinds) in totals.add_to_parts(row, warmup_ns, is_ramp_warmup).into_iter().flatten() {
        part.sum.latency.add_kinds(&sum.latency, kinds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::LatencyKind;

    fn interval(worker: u16, start_ns: u64, end_ns: u64, ok: u64) -> Boxed {
        let mut interval = Box::new(Interval::new(worker));
        interval.start_ns = start_ns;
        interval.end_ns = end_ns;
        interval.counts.ok = ok;
        interval.gauges.connections = 5;
        interval
    }

    /// Pushes, and takes what is complete.
    fn push(ticks: &mut Ticks, interval: Boxed) -> Vec<Tick> {
        let worker = interval.worker;
        assert_eq!(ticks.push(interval).worker, worker, "it goes back to whom it came from");
        std::iter::from_fn(|| ticks.take()).collect()
    }

    #[test]
    fn workers_that_arrive_in_any_order_make_one_tick() {
        let mut ticks = Ticks::new(2, 10);
        assert!(push(&mut ticks, interval(0, 0, 10, 1)).is_empty());
        assert!(push(&mut ticks, interval(0, 10, 20, 2)).is_empty());
        let [tick] = &push(&mut ticks, interval(1, 0, 10, 4))[..] else { panic!("one tick") };
        assert_eq!((tick.row.counts.ok, tick.row.gauges.connections, tick.row.end_ns), (5, 10, 10));
        let [tick] = &push(&mut ticks, interval(1, 10, 20, 8))[..] else { panic!("one tick") };
        assert_eq!(tick.row.counts.ok, 10);
        assert!(ticks.take_oldest().is_none());
    }

    #[test]
    fn a_worker_that_ends_early_holds_up_nothing() {
        let mut ticks = Ticks::new(2, 10);
        assert!(push(&mut ticks, interval(0, 0, 7, 1)).is_empty());
        ticks.worker_ended(0);
        for k in 0..20 {
            let taken = push(&mut ticks, interval(1, 10 * k, 10 * k + 10, 3));
            assert_eq!(taken.len(), 1, "tick {k} waits for nobody");
            assert_eq!(taken[0].row.counts.ok, if k == 0 { 4 } else { 3 });
        }
    }

    #[test]
    fn a_worker_that_stands_still_holds_up_a_few_ticks_and_loses_nothing() {
        let mut ticks = Ticks::new(2, 10);
        let mut totals = Totals::default();
        let mut taken = Vec::new();
        for (worker, start, end) in
            [(0, 0, 10), (0, 10, 20), (0, 20, 30), (0, 30, 40), (0, 40, 50), (1, 0, 55), (0, 50, 60), (1, 55, 60)]
        {
            taken.extend(push(&mut ticks, interval(worker, start, end, 1)));
        }
        taken.extend(std::iter::from_fn(|| ticks.take_oldest()));
        taken.iter().for_each(|tick| add_to_totals(&mut totals, tick, 0, false));
        assert_eq!((totals.sum.counts.ok, totals.in_time.ok), (8, 8));
        assert!(taken.windows(2).all(|t| t[0].row.end_ns <= t[1].row.end_ns));
        assert_eq!(taken.len(), 6);
    }

    #[test]
    fn warm_up_and_drain_are_kept_out_of_the_rate() {
        let mut ticks = Ticks::new(1, 10);
        let mut totals = Totals::default();
        let mut drain = interval(0, 20, 30, 3);
        drain.is_drain = true;
        let mut warmup = interval(0, 0, 10, 0);
        warmup.counts.warmup = 100;
        warmup.counts.bytes_sent = 1000;
        let mut first = interval(0, 10, 20, 7);
        // Sent in warm-up, answered after it: its reply is one of the measured time.
        first.counts.carried_ok = 2;
        for interval in [warmup, first, drain] {
            for tick in push(&mut ticks, interval) {
                add_to_totals(&mut totals, &tick, 10, false);
                ticks.recycle(tick);
            }
        }
        totals.measured_ns = 1_000_000_000;
        assert_eq!((totals.sum.counts.ok, totals.in_time.ok), (10, 7));
        assert_eq!((totals.sum.counts.warmup, totals.sum.counts.bytes_sent), (100, 0));
        assert_eq!(totals.requests_per_s(), 9.0);
    }

    #[test]
    fn the_first_measured_request_may_start_in_the_interval_that_warm_up_ends() {
        let mut ticks = Ticks::new(1, 10);
        let mut totals = Totals::default();
        let mut warmup = interval(0, 0, 10, 0);
        warmup.counts.started = 1;
        for interval in [warmup, interval(0, 10, 20, 1)] {
            for tick in push(&mut ticks, interval) {
                add_to_totals(&mut totals, &tick, 10, false);
            }
        }
        assert_eq!((totals.sum.counts.started, totals.sum.counts.ok), (1, 1));
        assert!(totals.is_conserved());
    }

    #[test]
    fn disturbed_ticks_can_be_left_out() {
        let mut ticks = Ticks::new(1, 1_000_000_000);
        let mut totals = Totals::default();
        for (k, ok) in [(0, 100), (1, 20), (2, 100)] {
            let mut one = interval(0, k * 1_000_000_000, (k + 1) * 1_000_000_000, ok);
            one.latency.record_n(LatencyKind::Response, 1000 * (1 + k), ok as u32);
            for mut tick in push(&mut ticks, one) {
                tick.row.disturbance.waited = k == 1;
                add_to_totals(&mut totals, &tick, 0, false);
            }
        }
        totals.measured_ns = 3_000_000_000;
        let quiet = totals.quiet().unwrap();
        assert_eq!((quiet.in_time.ok, quiet.requests_per_s()), (200, 100.0));
        assert_eq!(quiet.sum.latency.of(LatencyKind::Response).len(), 200);
        assert_eq!(totals.without_windows(), None);
    }

    #[test]
    fn what_disturbed_the_making_of_held_connections_is_no_part_of_the_measured_time() {
        for (is_ramp_warmup, expected) in [(true, (200, 1, 100.0)), (false, (200, 3, 100.0))] {
            let (mut ticks, mut totals) = (Ticks::new(1, 1_000_000_000), Totals::default());
            for (k, ok) in [(0, 0), (1, 0), (2, 100), (3, 100), (4, 100)] {
                let mut one = interval(0, k * 1_000_000_000, (k + 1) * 1_000_000_000, ok);
                one.counts.started = ok;
                for mut tick in push(&mut ticks, one) {
                    tick.row.disturbance.late = k < 2 || k == 4;
                    add_to_totals(&mut totals, &tick, 0, is_ramp_warmup);
                }
            }
            // As the workers say at the end: from the first message on, or from the start.
            totals.measured_ns = if is_ramp_warmup { 3_000_000_000 } else { 5_000_000_000 };
            let (quiet, disturbed) = (totals.quiet().unwrap(), totals.disturbed.unwrap().intervals);
            assert_eq!((quiet.in_time.ok, disturbed, quiet.requests_per_s()), expected);
        }
    }
}
