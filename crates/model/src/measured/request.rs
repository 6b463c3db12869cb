//! Single requests that were kept of all that were made, and the longest pauses: what histograms cannot tell.
//!
//! Of each interval a uniform sample of all requests that ended is kept, the slowest successes, and a uniform sample of
//! those that got no reply. Each kept request has a key; a set holds those with the smallest keys. A uniform key for each
//! request makes a uniform sample, and the sample of two intervals, or of two workers, is again the smallest keys of both
//! (bottom-k sampling: E. Cohen, H. Kaplan, "Summarizing data using bottom-k sketches", PODC 2007). So sets merge without
//! loss of that property, however many requests each side had.

use crate::ErrorKind;
use crate::limits::{
    GAPS_KEPT, OUTAGES_KEPT, REQUESTS_FAILED_KEPT, REQUESTS_FULL_TICKS, REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT,
    TICK_GAPS_KEPT, TICK_OUTAGES_KEPT,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequestEnd {
    /// With the reply that was due.
    #[default]
    Ok,
    /// Without: the kind of failure.
    Failed(ErrorKind),
    /// Not before the run did.
    Unfinished,
}

/// One request as its worker saw it. Moments are nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// When it was due.
    pub intended_ns: u64,
    /// When the worker took it up.
    pub ready_ns: u64,
    /// When it left on a connection; 0: it never did.
    pub sent_ns: u64,
    /// When the first byte of its reply came; 0: none has.
    pub first_byte_ns: u64,
    /// When it ended; of one that did not, when the run did.
    pub ended_ns: u64,
    /// When its connection was begun.
    pub connect_ns: u64,
    /// Service time of the request before it on its connection, nanoseconds; `None`: it was the first.
    pub before_ns: Option<u64>,
    /// Its worker.
    pub worker: u16,
    /// The place of its connection at that worker.
    pub connection: u32,
    /// Which connection of that place: a number that changes with each new one.
    pub life: u32,
    /// Which request of its connection, from 1 on.
    pub ordinal: u32,
    /// Its origin, by its place in the plan.
    pub origin: u16,
    /// Which of the origin's addresses.
    pub address: u16,
    /// Which entry of the workload, of several URLs or commands, by its place in the plan.
    pub entry: u16,
    /// Bytes that were given to be sent.
    pub sent_bytes: u32,
    /// Bytes of its reply that came.
    pub received_bytes: u32,
    /// The outcome its reply stated, in the protocol's own numbers; 0: none.
    pub outcome: u16,
    /// How it ended.
    pub end: RequestEnd,
    /// Our end of its connection over TCP; `None`: it is not known. Not kept in a recording but for requests that were joined
    /// with what the target's machine saw of them ([`crate::split`]).
    pub local: Option<SocketAddr>,
}

impl Request {
    /// From when it was due to its end, nanoseconds.
    pub fn response_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.intended_ns)
    }

    /// From when it was sent to its end, nanoseconds; `None`: it never was.
    pub fn service_ns(&self) -> Option<u64> {
        (self.sent_ns > 0).then(|| self.ended_ns.saturating_sub(self.sent_ns))
    }
}

/// A request with the key it was kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The smaller, the longer it is kept.
    pub key: u64,
    /// What is kept.
    pub request: Request,
    /// Of the uniform sample of a tick that had no room for all: requests of the tick with this key or a larger one may lack. `None`: not one
    /// lacks, or it is not known yet ([`IntervalRequests::drawn`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<u64>,
}

impl Kept {
    /// One with its key.
    pub fn new(key: u64, request: Request) -> Self {
        Kept { key, request, below: None }
    }
}

/// A key, and below which key its tick lacks nothing.
pub(crate) type Place = (u64, Option<u64>);

/// Of what was kept of several ticks that which is uniform over all of them. A tick keeps about as many of a hundred requests as of a
/// hundred thousand, so one that was slow would count as much as one that was not: only below the smallest key from which on a tick
/// lacks some do all of them have what they had.
pub(crate) fn uniform<'k, T: 'k>(
    all: impl Iterator<Item = &'k T> + Clone,
    place: impl Fn(&T) -> Place + Copy,
) -> impl Iterator<Item = &'k T> + Clone {
    let below = all.clone().filter_map(|one| place(one).1).min();
    all.filter(move |one| below.is_none_or(|below| place(one).0 < below))
}

/// Of what was kept of several ticks each with how many requests of its tick it stands for: the keys are uniform, so below the key from
/// which on its tick lacks some there is that share of all of them (D. G. Horvitz, D. J. Thompson, "A generalization of sampling without
/// replacement from a finite universe", 1952). Sums of all ticks are sums of these with their weights: of time, which few requests
/// may have taken, such sums are far surer than those of [`uniform`].
pub(crate) fn weighted<'k, T: 'k>(
    all: impl Iterator<Item = &'k T> + Clone,
    place: impl Fn(&T) -> Place + Copy,
) -> impl Iterator<Item = (f64, &'k T)> + Clone {
    const KEYS: f64 = u64::MAX as f64;
    all.filter_map(move |one| match place(one) {
        (_, None) => Some((1.0, one)),
        (key, Some(below)) => (key < below).then(|| (KEYS / below as f64, one)),
    })
}

/// Things of which those with the smallest keys are kept, in no order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Smallest {
    kept: Vec<Kept>,
    /// Where it is full: the largest key, so that most of what comes is refused at a glance.
    bound: Option<u64>,
}

impl Smallest {
    /// Those that are kept.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Kept> + Clone {
        self.kept.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The largest key; `None`: there is none.
    pub fn largest(&self) -> Option<u64> {
        self.bound.or_else(|| self.kept.iter().map(|kept| kept.key).max())
    }

    /// Takes one in, if it is among the `room` smallest. Allocates only where room was not reserved.
    pub fn offer(&mut self, room: usize, new: Kept) {
        if self.kept.len() < room {
            self.bound = None;
            return self.kept.push(new);
        }
        if self.bound.is_some_and(|bound| new.key >= bound) {
            return;
        }
        // Looked through once: the largest, which may have to go, and the one below it, which may then be the largest.
        let (mut at, mut largest, mut below) = (0, None, None);
        for (index, Kept { key, .. }) in self.kept.iter().enumerate() {
            if largest.is_none_or(|largest| *key > largest) {
                (at, below, largest) = (index, largest, Some(*key));
            } else if below.is_none_or(|below| *key > below) {
                below = Some(*key);
            }
        }
        if largest.is_some_and(|largest| new.key < largest) {
            self.kept[at] = new;
            largest = below.max(Some(new.key));
        }
        self.bound = largest;
    }

    /// Leaves only the `room` smallest.
    pub fn cut(&mut self, room: usize) {
        if self.kept.len() > room {
            self.kept.sort_unstable_by_key(|kept| kept.key);
            self.kept.truncate(room);
            self.bound = None;
        }
    }

    fn merge(&mut self, room: usize, other: &Smallest) {
        for kept in &other.kept {
            self.offer(room, *kept);
        }
    }
}

/// A span in which no request of a worker ended though some were under way. Moments are nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// When the last request before it ended, or the first in it was sent.
    pub from_ns: u64,
    /// When the next one ended, or the run did.
    pub to_ns: u64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Connections they were on.
    pub connections: u64,
    /// Connections established.
    pub open: u64,
    /// The worker.
    pub worker: u16,
    /// How much of it the worker itself may have caused, by waiting for a CPU or waking late, nanoseconds: at most.
    pub own_ns_max: u64,
}

impl Gap {
    /// Its length, nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// How much of it was not the worker's own doing, nanoseconds: at least.
    pub fn others_ns(&self) -> u64 {
        self.length_ns().saturating_sub(self.own_ns_max)
    }
}

/// A span in which no request of a worker ended well, though some failed or a connection could not be had: from its last
/// success to its next. Moments are nanoseconds since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outage {
    /// The worker.
    pub worker: u16,
    /// The last success before it; 0: there was none.
    pub from_ns: u64,
    /// The next success; `None`: there was none up to the end of the interval.
    pub to_ns: Option<u64>,
    /// The first failure in it.
    pub first_failed_ns: u64,
    /// The last failure in it.
    pub last_failed_ns: u64,
    /// Attempts in it that failed: requests, or attempts to connect without one.
    pub failed: u64,
}

/// How many gaps are kept of a stretch of a run: enough that a pause of all workers is among them with each one's part.
pub(crate) fn gaps_of_stretch(gaps: &[Gap]) -> usize {
    let workers = gaps.iter().map(|gap| usize::from(gap.worker) + 1).max().unwrap_or(0);
    (2 * workers).max(GAPS_KEPT)
}

/// What is kept of one interval's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalRequests {
    /// A uniform sample of all that ended, well or not.
    pub sampled: Smallest,
    /// The successes that took longest, by the key [`slowness_key`].
    pub slowest: Smallest,
    /// A uniform sample of those without the reply that was due.
    pub failed: Smallest,
    /// The longest gaps that ended in it.
    pub gaps: Vec<Gap>,
    /// The longest outages that ended in it, and of each worker the one that had not. On their way to the session only, which
    /// makes events of what is common to all workers ([`crate::event::OUTAGE`]).
    pub outages: Vec<Outage>,
}

/// Which of an interval's sets of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// [`IntervalRequests::sampled`].
    Sampled,
    /// [`IntervalRequests::slowest`].
    Slowest,
    /// [`IntervalRequests::failed`].
    Failed,
}

/// How many requests the uniform sample of a tick with this number has room for.
fn room_of_sample(sequence: u64) -> usize {
    if sequence < REQUESTS_FULL_TICKS { REQUESTS_KEPT } else { REQUESTS_KEPT / 16 }
}

/// The key by which the slowest are kept.
pub fn slowness_key(response_ns: u64) -> u64 {
    u64::MAX - response_ns
}

impl IntervalRequests {
    /// Takes the memory for all that may be kept.
    pub fn reserve(&mut self) {
        self.sampled.kept.reserve_exact(REQUESTS_KEPT);
        self.slowest.kept.reserve_exact(REQUESTS_SLOWEST_KEPT);
        self.failed.kept.reserve_exact(REQUESTS_FAILED_KEPT);
        self.gaps.reserve_exact(GAPS_KEPT);
        self.outages.reserve_exact(OUTAGES_KEPT + 1);
    }

    /// Empties it, keeping the memory.
    pub fn clear(&mut self) {
        for set in [&mut self.sampled, &mut self.slowest, &mut self.failed] {
            set.kept.clear();
            set.bound = None;
        }
        self.gaps.clear();
        self.outages.clear();
    }

    /// Adds one without asking whether it belongs there: what was kept is read again.
    pub fn restore(&mut self, set: Set, kept: Kept) {
        match set {
            Set::Sampled => self.sampled.kept.push(kept),
            Set::Slowest => self.slowest.kept.push(kept),
            Set::Failed => self.failed.kept.push(kept),
        }
    }

    /// Takes one into a set, if it is among the smallest that the set has room for.
    pub fn offer(&mut self, set: Set, kept: Kept) {
        match set {
            Set::Sampled => self.sampled.offer(REQUESTS_KEPT, kept),
            Set::Slowest => self.slowest.offer(REQUESTS_SLOWEST_KEPT, kept),
            Set::Failed => self.failed.offer(REQUESTS_FAILED_KEPT, kept),
        }
    }

    /// Takes in a gap, if it is among the longest that a tick has room for.
    pub fn offer_any_gap(&mut self, gap: Gap) {
        self.keep_gap(TICK_GAPS_KEPT, gap);
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.sampled.is_empty() && self.slowest.is_empty() && self.failed.is_empty() && self.gaps.is_empty()
    }

    /// Keeps a gap of a worker, if it is among its longest.
    pub fn offer_gap(&mut self, gap: Gap) {
        self.keep_gap(GAPS_KEPT, gap);
    }

    fn keep_gap(&mut self, room: usize, gap: Gap) {
        if self.gaps.len() < room {
            return self.gaps.push(gap);
        }
        if let Some(shortest) = self.gaps.iter_mut().min_by_key(|kept| kept.length_ns())
            && gap.length_ns() > shortest.length_ns()
        {
            *shortest = gap;
        }
    }

    /// Keeps an outage that has ended, if it is among the longest of its worker.
    pub fn offer_outage(&mut self, outage: Outage) {
        if self.outages.len() < OUTAGES_KEPT {
            return self.outages.push(outage);
        }
        let length_ns = |outage: &Outage| outage.to_ns.unwrap_or(u64::MAX).saturating_sub(outage.from_ns);
        if let Some(shortest) = self.outages.iter_mut().min_by_key(|kept| length_ns(kept))
            && length_ns(&outage) > length_ns(shortest)
        {
            *shortest = outage;
        }
    }

    /// Takes in what another worker kept of the same tick, or what was kept of a neighbouring one.
    pub fn merge(&mut self, other: &IntervalRequests) {
        self.sampled.merge(REQUESTS_KEPT, &other.sampled);
        self.slowest.merge(REQUESTS_SLOWEST_KEPT, &other.slowest);
        self.failed.merge(REQUESTS_FAILED_KEPT, &other.failed);
        other.gaps.iter().for_each(|gap| self.keep_gap(TICK_GAPS_KEPT, *gap));
        let room = TICK_OUTAGES_KEPT.saturating_sub(self.outages.len());
        self.outages.extend(other.outages.iter().take(room));
    }

    /// The uniform sample of the tick with this number: each with the key from which on the tick may lack some, where it has as many
    /// as it has room for.
    pub fn drawn(&self, sequence: u64) -> impl Iterator<Item = Kept> + '_ {
        let is_full = self.sampled.len() >= room_of_sample(sequence);
        let below = is_full.then(|| self.sampled.largest()).flatten();
        self.sampled.iter().map(move |kept| Kept { below: kept.below.or(below), ..*kept })
    }

    /// Says of a tick that was made of other recordings' from which key on its sample may lack some, where it is full. What is known of its
    /// parts stays.
    pub fn close(&mut self) {
        let is_full = self.sampled.len() >= REQUESTS_KEPT;
        if let Some(largest) = self.sampled.largest().filter(|_| is_full) {
            let kept = &mut self.sampled.kept;
            kept.iter_mut().for_each(|kept| kept.below = Some(kept.below.map_or(largest, |below| below.min(largest))));
        }
    }

    /// Leaves of a tick so late in a long run only a part: the first [`REQUESTS_FULL_TICKS`] are kept whole, and of later ones
    /// a sixteenth of the sample and an eighth of the rest. So a recording of a day stays small.
    pub fn thin(&mut self, sequence: u64) {
        if sequence < REQUESTS_FULL_TICKS {
            return;
        }
        self.sampled.cut(room_of_sample(sequence));
        self.slowest.cut(REQUESTS_SLOWEST_KEPT / 8);
        self.failed.cut(REQUESTS_FAILED_KEPT / 8);
        self.gaps.sort_unstable_by_key(|gap| std::cmp::Reverse(gap.length_ns()));
        self.gaps.truncate(gaps_of_stretch(&self.gaps) / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(key: u64) -> Kept {
        Kept::new(key, Request { ended_ns: key, ..Request::default() })
    }

    fn keys(set: &Smallest) -> Vec<u64> {
        let mut keys: Vec<u64> = set.iter().map(|kept| kept.key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn the_smallest_stay_in_whatever_order_they_come() {
        let mut up = Smallest::default();
        let mut down = Smallest::default();
        (0..1000).for_each(|key| up.offer(10, kept(key)));
        (0..1000).rev().for_each(|key| down.offer(10, kept(key)));
        assert_eq!(keys(&up), (0..10).collect::<Vec<_>>());
        assert_eq!((keys(&down), down.largest()), (keys(&up), Some(9)));
        up.cut(3);
        assert_eq!(keys(&up), [0, 1, 2]);
    }

    #[test]
    fn the_largest_key_is_known_after_each_whatever_comes_equal_keys_too() {
        let mut set = Smallest::default();
        for key in (0..500).map(|n: u64| n * 7919 % 101) {
            set.offer(7, kept(key));
            assert_eq!(set.largest(), keys(&set).last().copied());
        }
        assert_eq!(keys(&set), [0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn sets_of_two_workers_are_the_set_of_all_their_requests() {
        let (mut all, mut even, mut odd) =
            (IntervalRequests::default(), IntervalRequests::default(), IntervalRequests::default());
        for key in (0..1000).map(|n: u64| n * 7919 % 1009) {
            all.sampled.offer(REQUESTS_KEPT, kept(key));
            let side = if key % 2 == 0 { &mut even } else { &mut odd };
            side.sampled.offer(REQUESTS_KEPT, kept(key));
        }
        even.merge(&odd);
        assert_eq!(keys(&even.sampled), keys(&all.sampled));
    }

    #[test]
    fn the_longest_outages_stay_and_one_that_has_not_ended_is_beside_them() {
        let mut requests = IntervalRequests::default();
        requests.reserve();
        let room = requests.outages.capacity();
        (0..100).for_each(|ms| requests.offer_outage(Outage { to_ns: Some(ms), ..Outage::default() }));
        requests.outages.push(Outage::default());
        assert_eq!((requests.outages.len(), requests.outages.capacity()), (OUTAGES_KEPT + 1, room));
        assert!(requests.outages.iter().all(|outage| outage.to_ns.is_none_or(|ns| ns >= 100 - OUTAGES_KEPT as u64)));
    }

    #[test]
    fn the_longest_gaps_stay() {
        let mut requests = IntervalRequests::default();
        let gap = |ms: u64| Gap { from_ns: 5, to_ns: 5 + ms, ..Gap::default() };
        (0..100).for_each(|ms| requests.offer_gap(gap(ms)));
        let mut lengths: Vec<u64> = requests.gaps.iter().map(Gap::length_ns).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, (100 - GAPS_KEPT as u64..100).collect::<Vec<_>>());
        requests.thin(REQUESTS_FULL_TICKS - 1);
        assert_eq!(requests.gaps.len(), GAPS_KEPT);
        requests.thin(REQUESTS_FULL_TICKS);
        let lengths: Vec<u64> = requests.gaps.iter().map(Gap::length_ns).collect();
        assert_eq!(lengths, [99, 98]);
    }
}
