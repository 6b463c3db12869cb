//! Puts the workers' intervals of the same moment together, and sums the run.
//!
//! Workers cut their intervals at the same boundaries, so intervals are grouped by their end. A worker that had no
//! empty interval at a boundary reports a longer one later: its figures then fall into that later group, none is lost.

use model::interval::Gauges;
use model::recording::{Row, Totals};
use model::{Interval, LatencyKind};
use std::collections::BTreeMap;

/// Groups that may wait for a worker before the oldest is taken as it is.
const GROUPS_WAITING_MAX: usize = 3;

/// Intervals travel boxed: an interval is some hundred bytes of figures, and the box goes back to its worker.
type Boxed = Box<Interval>;

/// Intervals that wait for those of the other workers.
#[derive(Debug)]
pub struct Ticks {
    workers: usize,
    groups: BTreeMap<u64, Vec<Boxed>>,
    /// Memory for the sum of a group, used again and again; made when a group first has several.
    sum: Option<Box<Interval<u64>>>,
}

/// A tick of all workers.
#[derive(Debug)]
pub struct Tick {
    /// Their intervals.
    pub intervals: Vec<Boxed>,
    /// Their sum as a row of the timeline.
    pub row: Row,
}

impl Ticks {
    /// Nothing waits yet.
    pub fn new(workers: usize) -> Self {
        Ticks { workers, groups: BTreeMap::new(), sum: None }
    }

    /// Adds a worker's interval; returns the ticks that are complete now, oldest first.
    pub fn push(&mut self, interval: Boxed) -> Option<Tick> {
        let end_ns = interval.end_ns;
        let group = self.groups.entry(end_ns).or_default();
        group.push(interval);
        let is_complete = group.len() >= self.workers || self.groups.len() > GROUPS_WAITING_MAX;
        if is_complete { self.take_oldest() } else { None }
    }

    /// The oldest tick, complete or not; `None` when nothing waits.
    pub fn take_oldest(&mut self) -> Option<Tick> {
        let (_, intervals) = self.groups.pop_first()?;
        Some(self.tick_of(intervals))
    }

    fn tick_of(&mut self, intervals: Vec<Boxed>) -> Tick {
        let busy = intervals.iter().map(|i| busy_share(i)).fold(0.0, f64::max);
        let row = match &intervals[..] {
            [one] => Row::of(one, busy),
            several => {
                let sum = self.sum.get_or_insert_with(|| Box::new(Interval::new(0)));
                sum.clear();
                sum.start_ns = u64::MAX;
                sum.end_ns = 0;
                let mut gauges = Gauges::default();
                for interval in several {
                    sum.add(interval);
                    gauges.add_worker(&interval.gauges);
                }
                sum.gauges = gauges;
                sum.is_drain = several.iter().all(|i| i.is_drain);
                Row::of(sum, busy)
            }
        };
        Tick { intervals, row }
    }
}

/// The share of the interval its worker was on a CPU, 0..=1.
fn busy_share(interval: &Interval) -> f64 {
    let length_ns = interval.end_ns.saturating_sub(interval.start_ns);
    let cpu_ns = interval.counts.cpu_user_ns + interval.counts.cpu_system_ns;
    // CPU time of very short pieces is dominated by the clock tick's resolution.
    if length_ns < 20_000_000 { 0.0 } else { (cpu_ns as f64 / length_ns as f64).min(1.0) }
}

/// Adds a tick to the run's totals; what lies before the end of warm-up is not counted.
pub fn add_to_totals(totals: &mut Totals, tick: &Tick, warmup_ns: u64) {
    for interval in &tick.intervals {
        // A worker looks at the clock after it has released what is due: the interval that ends with warm-up may hold
        // the first measured requests. Those due in warm-up it counts apart, so that no request is lost or doubled.
        if interval.end_ns <= warmup_ns {
            totals.sum.add_requests(interval);
            totals.in_time.add(&interval.counts.of_requests());
            continue;
        }
        totals.sum.add(interval);
        if !interval.is_drain {
            totals.in_time.add(&interval.counts);
        }
    }
    totals.connections_max = totals.connections_max.max(tick.row.gauges.connections);
    let longest = &mut totals.sum.gauges.reap_delay_ns_max;
    *longest = (*longest).max(tick.row.gauges.reap_delay_ns_max);
}

/// The quantile of the response time so far, nanoseconds; `None` when nothing has ended well.
pub fn response_ns(totals: &Totals, quantile: f64) -> Option<u64> {
    let histogram = totals.sum.latency.of(LatencyKind::Response);
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(worker: u16, start_ns: u64, end_ns: u64, ok: u64) -> Box<Interval> {
        let mut interval = Box::new(Interval::new(worker));
        interval.start_ns = start_ns;
        interval.end_ns = end_ns;
        interval.counts.ok = ok;
        interval.gauges.connections = 5;
        interval
    }

    #[test]
    fn workers_that_arrive_in_any_order_make_one_tick() {
        let mut ticks = Ticks::new(2);
        assert!(ticks.push(interval(0, 0, 10, 1)).is_none());
        assert!(ticks.push(interval(0, 10, 20, 2)).is_none());
        let tick = ticks.push(interval(1, 0, 10, 4)).unwrap();
        assert_eq!((tick.row.counts.ok, tick.row.gauges.connections, tick.row.end_ns), (5, 10, 10));
        let tick = ticks.push(interval(1, 10, 20, 8)).unwrap();
        assert_eq!(tick.row.counts.ok, 10);
        assert!(ticks.take_oldest().is_none());
    }

    #[test]
    fn a_worker_that_skips_a_boundary_loses_nothing() {
        let mut ticks = Ticks::new(2);
        let mut totals = Totals::default();
        let mut all = Vec::new();
        for (w, start, end) in [(0, 0, 10), (0, 10, 20), (0, 20, 30), (0, 30, 40), (1, 0, 40), (0, 40, 50), (1, 40, 50)]
        {
            all.extend(ticks.push(interval(w, start, end, 1)));
        }
        while let Some(tick) = ticks.take_oldest() {
            all.push(tick);
        }
        for tick in &all {
            add_to_totals(&mut totals, tick, 0);
        }
        assert_eq!(totals.sum.counts.ok, 7);
        assert!(all.windows(2).all(|t| t[0].row.end_ns <= t[1].row.end_ns));
    }

    #[test]
    fn warm_up_and_drain_are_kept_out_of_the_rate() {
        let mut ticks = Ticks::new(1);
        let mut totals = Totals::default();
        let mut drain = interval(0, 20, 30, 3);
        drain.is_drain = true;
        let mut warmup = interval(0, 0, 10, 0);
        warmup.counts.warmup = 100;
        warmup.counts.bytes_sent = 1000;
        for interval in [warmup, interval(0, 10, 20, 7), drain] {
            let tick = ticks.push(interval).unwrap();
            add_to_totals(&mut totals, &tick, 10);
        }
        totals.measured_ns = 1_000_000_000;
        assert_eq!((totals.sum.counts.ok, totals.in_time.ok), (10, 7));
        assert_eq!((totals.sum.counts.warmup, totals.sum.counts.bytes_sent), (100, 0));
        assert_eq!(totals.requests_per_s(), 7.0);
    }

    #[test]
    fn the_first_measured_request_may_start_in_the_interval_that_warm_up_ends() {
        let mut ticks = Ticks::new(1);
        let mut totals = Totals::default();
        let mut warmup = interval(0, 0, 10, 0);
        warmup.counts.started = 1;
        for interval in [warmup, interval(0, 10, 20, 1)] {
            let tick = ticks.push(interval).unwrap();
            add_to_totals(&mut totals, &tick, 10);
        }
        assert_eq!((totals.sum.counts.started, totals.sum.counts.ok), (1, 1));
        assert!(totals.is_conserved());
    }
}
