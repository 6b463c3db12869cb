//! Single requests and gaps of a whole run, in memory of a fixed size.
//!
//! The uniform sample is one over all requests of the run ([`crate::request`]): of what was kept of each tick, only what all ticks
//! have alike counts. So of a stretch of the run ([`RunRequests::within`]) more may count than of the whole. The slowest, the failures and the gaps are
//! kept stretch by stretch of the run, so that those of one bad minute do not push out all others: when there are too
//! many, two neighbouring stretches become one.

use crate::limits::{RUN_EXAMPLES_KEPT, RUN_REQUESTS_KEPT};
use crate::request::{
    Gap, IntervalRequests, Kept, Request, RequestEnd, Set, Smallest, gaps_of_stretch, uniform, weighted,
};
use serde::{Deserialize, Serialize};

/// So many requests of a stretch are kept.
const OF_A_STRETCH: usize = 8;

/// What is kept of a run's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunRequests {
    sampled: Smallest,
    /// How many requests the sample was drawn from: those that ended, warm-up left out.
    drawn_from: u64,
    slowest: Stretches<Kept>,
    failed: Stretches<Kept>,
    gaps: Stretches<Gap>,
}

impl RunRequests {
    /// Takes in what was kept of a tick in which so many measured requests ended.
    pub fn push(&mut self, sequence: u64, ended: u64, tick: &IntervalRequests) {
        self.drawn_from = self.drawn_from.saturating_add(ended);
        tick.drawn(sequence).for_each(|kept| self.sampled.offer(RUN_REQUESTS_KEPT, kept));
        self.slowest.push(sequence, OF_A_STRETCH, tick.slowest.iter().copied());
        self.failed.push(sequence, OF_A_STRETCH, tick.failed.iter().copied());
        self.gaps.push(sequence, gaps_of_stretch(&tick.gaps), tick.gaps.iter().copied());
    }

    /// Whether it is one that can have come of ticks: it may have been read from a file.
    pub fn is_sound(&self) -> bool {
        self.sampled.len() <= RUN_REQUESTS_KEPT
            && self.slowest.is_sound()
            && self.failed.is_sound()
            && self.gaps.is_sound()
    }

    /// What of them ended between two moments (nanoseconds since the run's start), in which so many did: the uniform sample's
    /// part is one of these.
    pub fn within(&self, from_ns: u64, to_ns: u64, ended: u64) -> RunRequests {
        let is_in = |request: &Request| request.ended_ns > from_ns && request.ended_ns <= to_ns;
        let mut sampled = Smallest::default();
        let run_below = self.below();
        // What the run had no room for is missing in its part, which would have room.
        self.sampled.iter().filter(|kept| is_in(&kept.request)).for_each(|kept| {
            sampled.offer(RUN_REQUESTS_KEPT, Kept { below: kept.below.into_iter().chain(run_below).min(), ..*kept })
        });
        RunRequests {
            sampled,
            drawn_from: ended,
            slowest: self.slowest.that(|kept| is_in(&kept.request)),
            failed: self.failed.that(|kept| is_in(&kept.request)),
            gaps: self.gaps.that(|gap| gap.from_ns >= from_ns && gap.to_ns <= to_ns),
        }
    }

    /// A uniform sample of all measured requests that ended, in no order.
    pub fn sampled(&self) -> impl Iterator<Item = &Request> + Clone {
        uniform(self.sampled.iter(), |kept| (kept.key, kept.below)).map(|kept| &kept.request)
    }

    /// Measured requests that ended, in no order, each with how many of all it stands for. Of sums, such as of time.
    pub fn weighted(&self) -> impl Iterator<Item = (f64, &Request)> + Clone {
        let run_below = self.below();
        let place = move |kept: &Kept| (kept.key, kept.below.into_iter().chain(run_below).min());
        weighted(self.sampled.iter(), place).map(|(weight, kept)| (weight, &kept.request))
    }

    /// From which key on requests lack as the run has no room for them; `None`: it had room for all.
    fn below(&self) -> Option<u64> {
        self.sampled.largest().filter(|_| self.sampled.len() >= RUN_REQUESTS_KEPT)
    }

    /// Every request that was drawn, in no order, more of a slow stretch than its share: to look at, not to count.
    pub fn drawn(&self) -> impl Iterator<Item = &Request> {
        self.sampled.iter().map(|kept| &kept.request)
    }

    /// Every request with the key it is kept by, and of which set it is.
    pub fn kept(&self) -> impl Iterator<Item = (Set, Kept)> + '_ {
        let stretches =
            |set, of: &'_ Stretches<Kept>| of.items.iter().map(move |(_, kept)| (set, *kept)).collect::<Vec<_>>();
        let sampled = self.sampled.iter().map(|kept| (Set::Sampled, *kept));
        sampled.chain(stretches(Set::Slowest, &self.slowest)).chain(stretches(Set::Failed, &self.failed))
    }

    /// How many requests the sample was drawn from.
    pub fn drawn_from(&self) -> u64 {
        self.drawn_from
    }

    /// The slowest of each stretch, oldest stretch first.
    pub fn slowest(&self) -> impl Iterator<Item = &Request> {
        self.slowest.items.iter().map(|(_, kept)| &kept.request)
    }

    /// Requests without the reply that was due, oldest stretch first; a sample where there were many.
    pub fn failed(&self) -> impl Iterator<Item = &Request> {
        self.failed.items.iter().map(|(_, kept)| &kept.request)
    }

    /// The longest gaps of each stretch, oldest stretch first, each of one worker.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.items.iter().map(|(_, gap)| gap)
    }

    /// Spans in which no worker's request ended though each of `workers` had some under way, longest first: what stood still
    /// as a whole. Each with the sums of its workers, and the largest [`Gap::own_ns_max`] of them.
    pub fn common_gaps(&self, workers: u16) -> Vec<Gap> {
        let mut common: Vec<Gap> = Vec::new();
        for worker in 0..workers {
            if worker > 0 && common.is_empty() {
                break;
            }
            let own: Vec<&Gap> = self.gaps().filter(|gap| gap.worker == worker).collect();
            common = if worker == 0 { own.into_iter().copied().collect() } else { overlaps(&common, &own) };
        }
        common.sort_by_key(|gap| (std::cmp::Reverse(gap.length_ns()), gap.from_ns));
        common
    }
}

/// Where spans of two lists overlap for long enough to be called a gap.
fn overlaps(some: &[Gap], others: &[&Gap]) -> Vec<Gap> {
    let mut both = Vec::new();
    for a in some {
        for b in others {
            let gap = Gap {
                from_ns: a.from_ns.max(b.from_ns),
                to_ns: a.to_ns.min(b.to_ns),
                in_flight: a.in_flight.saturating_add(b.in_flight),
                connections: a.connections.saturating_add(b.connections),
                open: a.open.saturating_add(b.open),
                worker: 0,
                own_ns_max: a.own_ns_max.max(b.own_ns_max),
            };
            if gap.length_ns() >= crate::limits::GAP_NS_MIN && both.len() < RUN_EXAMPLES_KEPT {
                both.push(gap);
            }
        }
    }
    both
}

/// What can be kept by a key: the smallest stay.
trait Keyed: Copy {
    fn key(&self) -> u64;
}

impl Keyed for Kept {
    fn key(&self) -> u64 {
        self.key
    }
}

impl Keyed for Gap {
    fn key(&self) -> u64 {
        u64::MAX - self.length_ns()
    }
}

/// A bounded number of things of each stretch of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stretches<T> {
    /// Ticks a stretch has.
    ticks: u64,
    /// How many things are kept of a stretch.
    room: usize,
    /// Each with the number of its stretch, in ascending order.
    items: Vec<(u64, T)>,
}

impl<T> Default for Stretches<T> {
    fn default() -> Self {
        Stretches { ticks: 1, room: 0, items: Vec::new() }
    }
}

impl<T: Keyed> Stretches<T> {
    fn that(&self, is_one: impl Fn(&T) -> bool) -> Self {
        let items = self.items.iter().filter(|(_, item)| is_one(item)).copied().collect();
        Stretches { ticks: self.ticks, room: self.room, items }
    }

    fn is_sound(&self) -> bool {
        let is_in_order = self.items.is_sorted_by_key(|(stretch, _)| *stretch);
        self.ticks > 0 && self.room.max(self.items.len()) <= RUN_EXAMPLES_KEPT && is_in_order
    }

    fn push(&mut self, sequence: u64, room: usize, of_tick: impl Iterator<Item = T>) {
        self.room = self.room.max(room);
        let stretch = sequence / self.ticks;
        self.items.extend(of_tick.map(|item| (stretch, item)));
        self.cut_last();
        while self.items.len() > RUN_EXAMPLES_KEPT {
            self.widen();
        }
    }

    /// Leaves of the youngest stretch what is kept of one.
    fn cut_last(&mut self) {
        let Some((last, _)) = self.items.last() else { return };
        let from = self.items.partition_point(|(stretch, _)| stretch < last);
        cut(&mut self.items, from, self.room);
    }

    /// Stretches become twice as long.
    fn widen(&mut self) {
        self.ticks = self.ticks.saturating_mul(2);
        let old = std::mem::take(&mut self.items);
        let mut from = 0;
        for (stretch, item) in old {
            let stretch = stretch / 2;
            if self.items.last().is_some_and(|(last, _)| *last != stretch) {
                cut(&mut self.items, from, self.room);
                from = self.items.len();
            }
            self.items.push((stretch, item));
        }
        cut(&mut self.items, from, self.room);
    }
}

/// Leaves of the items from a place on those with the smallest keys.
fn cut<T: Keyed>(items: &mut Vec<(u64, T)>, from: usize, room: usize) {
    if let Some(tail) = items.get_mut(from..) {
        tail.sort_by_key(|(_, item)| item.key());
    }
    items.truncate(from.saturating_add(room));
}

impl RequestEnd {
    /// The fixed word of it.
    pub fn name(self) -> &'static str {
        match self {
            RequestEnd::Ok => "ok",
            RequestEnd::Failed(kind) => kind.name(),
            RequestEnd::Unfinished => "unfinished",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::REQUESTS_FULL_TICKS;
    use crate::request::slowness_key;

    fn tick(sequence: u64, slow_ns: u64) -> IntervalRequests {
        let mut tick = IntervalRequests::default();
        for n in 0..20 {
            let request = Request { intended_ns: sequence, ended_ns: sequence + slow_ns + n, ..Request::default() };
            tick.slowest.offer(16, Kept::new(slowness_key(request.response_ns()), request));
            let key = (sequence * 20 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            tick.sampled.offer(16, Kept::new(key, request));
        }
        tick
    }

    #[test]
    fn memory_is_bounded_and_each_stretch_keeps_its_slowest() {
        let mut run = RunRequests::default();
        for sequence in 0..10_000 {
            // One bad stretch, a hundred times as slow as all others.
            let slow_ns = if (5_000..5_300).contains(&sequence) { 100_000 } else { 1_000 };
            run.push(sequence, 20, &tick(sequence, slow_ns));
        }
        assert_eq!((run.drawn_from(), run.sampled().count()), (200_000, RUN_REQUESTS_KEPT));
        let slowest: Vec<&Request> = run.slowest().collect();
        assert!(slowest.len() <= RUN_EXAMPLES_KEPT && slowest.len() > RUN_EXAMPLES_KEPT / 4);
        let early = slowest.iter().filter(|request| request.intended_ns < 5_000);
        assert!(early.clone().count() > 400, "{}", early.count());
        assert!(slowest.iter().any(|request| request.response_ns() == 100_019));
        assert!(slowest.windows(2).all(|pair| pair[0].intended_ns / 128 <= pair[1].intended_ns / 128));
    }

    /// A tick in which so many ended, every one of them as slow, by keys from a generator of numbers.
    fn tick_of(random: &mut u64, sequence: u64, ended: u64, slow_ns: u64) -> IntervalRequests {
        let mut tick = IntervalRequests::default();
        for _ in 0..ended {
            // Marsaglia's xorshift64.
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            let ended_ns = sequence * 1_000_000_000 + 5;
            let request = Request { intended_ns: ended_ns - slow_ns, ended_ns, ..Request::default() };
            tick.offer(Set::Sampled, Kept::new(*random, request));
        }
        tick.thin(sequence);
        tick
    }

    /// Seven ticks of 20,000 quick requests and a drain of 143 slow ones: a thousandth is slow, though the drain has an eighth of what
    /// is kept. The same where the full ticks are late ones, of which less is kept, and where there are more than a run keeps.
    #[test]
    fn a_tick_of_few_requests_counts_as_much_as_it_has() {
        for (first, full) in [(1, 7), (1, 60), (REQUESTS_FULL_TICKS + 1, 60)] {
            let (mut random, mut slow, mut count, mut slow_time) = (7, 0, 0, 0.0);
            let run_is_full = first == 1 && full == 60;
            for _ in 0..20 {
                let mut run = RunRequests::default();
                for sequence in first..first + full {
                    run.push(sequence, 20_000, &tick_of(&mut random, sequence, 20_000, 1));
                }
                let drain = first + full;
                run.push(drain, 143, &tick_of(&mut random, drain, 143, 4));
                let is_slow = |request: &&Request| request.response_ns() == 4;
                slow += run.sampled().filter(is_slow).count();
                count += run.sampled().count();
                let weighted: f64 = run.weighted().map(|(weight, _)| weight).sum();
                let all = full as f64 * 20_000.0 + 143.0;
                assert!((weighted / all - 1.0).abs() < 0.2, "they stand for all: {weighted} of {all}");
                let drained = run.weighted().filter(|(_, request)| is_slow(request));
                slow_time += drained.map(|(weight, request)| weight * request.response_ns() as f64).sum::<f64>();
                // Of the drain alone all counts that was kept, up to the key from which on some lack.
                let own = run.within(drain * 1_000_000_000, (drain + 1) * 1_000_000_000, 143);
                assert!(own.sampled().count() + 1 >= own.drawn().count(), "{first} {full}");
                assert!(own.sampled().all(|request| request.response_ns() == 4));
            }
            let share = slow as f64 / count as f64;
            let truth = 143.0 / (full as f64 * 20_000.0 + 143.0);
            assert!(share < 4.0 * truth, "{share} of {count}, not {truth}");
            let slow_time = slow_time / 20.0 / (143.0 * 4.0);
            // Sixty full ticks leave a run less than one of the drain.
            let off = if run_is_full { 1.5 } else { 0.25 };
            assert!((slow_time - 1.0).abs() < off, "{first} {full}: the time of the slow ones is known: {slow_time}");
            assert!(count / 20 > 60, "enough is left to count: {count}");
        }
    }

    #[test]
    fn a_gap_of_all_workers_is_where_theirs_overlap() {
        let gap = |worker, from_ms: u64, to_ms: u64| Gap {
            from_ns: from_ms * 1_000_000,
            to_ns: to_ms * 1_000_000,
            in_flight: 3,
            connections: 2,
            open: 5,
            worker,
            own_ns_max: u64::from(worker),
        };
        let mut run = RunRequests::default();
        let gaps = vec![gap(0, 0, 100), gap(0, 200, 250), gap(1, 90, 210), gap(1, 220, 300)];
        run.push(0, 0, &IntervalRequests { gaps, ..IntervalRequests::default() });
        let spans: Vec<(u64, u64)> =
            run.common_gaps(2).iter().map(|gap| (gap.from_ns / 1_000_000, gap.to_ns / 1_000_000)).collect();
        assert_eq!(spans, [(220, 250), (90, 100), (200, 210)]);
        let first = run.common_gaps(2)[0];
        assert_eq!((first.in_flight, first.connections, first.open, first.own_ns_max), (6, 4, 10, 1));
        assert_eq!(run.common_gaps(1).len(), 2, "of one worker its own");
        assert!(run.common_gaps(3).is_empty(), "the third never stood still");
    }
}
