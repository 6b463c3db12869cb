//! Requests by their kind: the same URL or command, and replies of about the same size. What is slow is so beside quick ones
//! of its own kind.
//!
//! From a sample of all measured requests, each with how many of all it stands for, and within what the histograms of all leave
//! open. The fast band of a kind is the lower quarter of its times; a request is slow where it took three times as long and a
//! millisecond more. So a file of a gigabyte is not slow beside a page, nor one URL that computes beside one that does not; and
//! where all requests of a kind are alike, none is. Queueing that any server has at its utilisation ρ is taken off first: work × ρ ÷ (1 − ρ) (M/M/1, as of a processor that is shared), the work being
//! that of a quick request: the CPU time of a mean one, and no more than the fast band.

use super::Facts;
use crate::thresholds::DEMAND_FULL;
use model::request::{Request, RequestEnd};
use model::split::{Passage, SplitRequest};
use model::{Histogram, LatencyKind, Recording};
use std::collections::BTreeMap;

/// A slow request took so many times the fast band of its kind.
pub const SLOW_TIMES: f64 = 3.0;
/// And so much longer, nanoseconds.
pub const SLOW_BY_NS: f64 = 1e6;
/// Slow requests that were late by more, on average, waited for more than a turn of the scheduler, nanoseconds: it changes who runs every few
/// milliseconds (`base_slice_ns` and the clock tick), and on two cores a handful of threads may come first.
pub const TURN_NS: f64 = 20e6;
/// A kind of which fewer were sampled has no band.
const KIND_MIN: usize = 8;
/// Fewer requests that were split say nothing of all.
const SPLIT_MIN: usize = 8;

/// The fast band of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fast {
    /// How many of the kind were sampled.
    pub count: usize,
    /// The lower quartile of their times, nanoseconds.
    pub ns: f64,
    /// What one of them may stand in line besides, at the target's utilisation, nanoseconds.
    pub queueing_ns: f64,
}

/// A kind of request with its fast band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Its entry of the workload, by its place in the plan.
    pub entry: u16,
    /// Replies had at least so many bytes, and less than twice as many.
    pub bytes_min: u64,
    /// How long they take when nothing holds them up.
    pub fast: Fast,
}

/// A kind with its fast band.
fn band(((entry, digits), fast): (&Kind, &Fast)) -> Band {
    Band { entry: *entry, bytes_min: 1_u64.checked_shl(*digits).unwrap_or(u64::MAX), fast: *fast }
}

/// Which kind: entry of the workload, and the size of the reply by powers of two.
pub type Kind = (u16, u32);

/// All kinds of a run's requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kinds {
    bands: BTreeMap<Kind, Fast>,
    /// The share of all time in requests that slow ones took beyond their kind's band, 0..=1; `None` without requests.
    pub slow_time: Option<f64>,
    /// The share of requests that were slow, 0..=1.
    pub slow: f64,
    /// How many slow ones were looked at.
    pub slow_count: usize,
    /// What slow ones took at the least beyond their kind's band, all of them together, by the histogram of all, nanoseconds.
    pub excess_low_ns: f64,
}

/// Of which kind a request is.
pub fn kind(request: &Request) -> Kind {
    (request.entry, request.received_bytes.checked_ilog2().unwrap_or(0))
}

/// What a request took from when the generator took it up: its own lag is none of the target's.
pub fn taken_ns(request: &Request) -> f64 {
    request.ended_ns.saturating_sub(request.ready_ns) as f64
}

impl Facts<'_> {
    /// The mean of what is taken from the passage of each request, and from the request, nanoseconds: of those of the uniform sample whose
    /// time was split; `None`: too few were.
    pub fn mean_of_split(&self, of: impl Fn(&Passage, &Request) -> u64) -> Option<f64> {
        let (mut count, mut sum_ns) = (0_usize, 0.0);
        for one in self.recording.split.sampled() {
            let SplitRequest { request, passage: Ok(passage), .. } = one else { continue };
            if request.ended_ns > self.start_ns && request.ended_ns <= self.end_ns {
                count += 1;
                sum_ns += of(passage, request) as f64;
            }
        }
        (count >= SPLIT_MIN).then(|| sum_ns / count as f64)
    }

    /// The fast band of each kind from when its requests were sent: where more is asked for than is carried, most of what they take is spent
    /// before, waiting for a connection, and is the same for all.
    pub fn bands_from_sent(&self) -> Vec<Band> {
        let from_sent = |request: &Request| request.ended_ns.saturating_sub(request.sent_ns) as f64;
        fast_by_kind(self.recording, from_sent).iter().map(band).collect()
    }

    /// How much of the time that requests took from being sent they were in the target's hand, read and not yet answered, 0..=1; `None`:
    /// too few were split.
    pub fn in_hand(&self) -> Option<f64> {
        let took_ns = self.mean_of_split(|_, request| request.ended_ns.saturating_sub(request.sent_ns))?;
        let in_hand_ns = self.mean_of_split(|passage, _| passage.written_ns.saturating_sub(passage.read_ns))?;
        (took_ns > 0.0).then(|| in_hand_ns / took_ns)
    }
}

/// How long requests took that ended well, from when they were taken up ([`taken_ns`]).
fn taken(recording: &Recording) -> &Histogram<u64> {
    let of = |kind| recording.totals.sum.latency.of(kind);
    let undelayed = of(LatencyKind::Undelayed);
    if undelayed.is_empty() { of(LatencyKind::Response) } else { undelayed }
}

/// Requests that ended well, each with how many of all it stands for.
fn good(recording: &Recording) -> impl Iterator<Item = (f64, &Request)> {
    recording.requests.weighted().filter(|(_, request)| request.end == RequestEnd::Ok)
}

/// Fewer sampled requests of a length say less of their number than the sample as a whole does.
const LENGTH_MIN: usize = 12;
/// Where the sample is off by more, either way, of any length, the histogram is one of other requests.
const CORRECTED_MAX: f64 = 3.0;

/// How many times more of the requests of each length there were than a sample says, by the histogram of all: its sums of time have
/// no chance left of having drawn too many long ones (D. Holt, T. M. F. Smith, "Post Stratification", 1979).
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Lengths {
    /// By the shortest of those alike, [`length`].
    corrections: BTreeMap<u32, f64>,
}

/// Requests alike: four lengths from one nanosecond to twice as many.
fn length(ns: f64) -> u32 {
    (4.0 * ns.max(1.0).log2()) as u32
}

impl Lengths {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut sampled: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
        for (weight, request) in good(recording) {
            let sum = sampled.entry(length(taken_ns(request))).or_default();
            *sum = (sum.0 + 1, sum.1 + weight);
        }
        let mut all: BTreeMap<u32, f64> = BTreeMap::new();
        for (ns, count) in taken(recording).iter_recorded() {
            *all.entry(length(ns as f64)).or_default() += count as f64;
        }
        let scale = sampled.values().map(|(_, weight)| weight).sum::<f64>() / all.values().sum::<f64>().max(1.0);
        let mut lengths = Lengths::default();
        // From the longest on: where too few of a length were drawn, those next to it are alike.
        let (mut count, mut weight, mut to) = (0, 0.0, u32::MAX);
        let shortest = sampled.keys().next().copied();
        for (from, of) in sampled.iter().rev() {
            (count, weight) = (count + of.0, weight + of.1);
            if count >= LENGTH_MIN || Some(*from) == shortest {
                let there: f64 = all.range(*from..to).map(|(_, count)| count).sum();
                lengths.corrections.insert(*from, there * scale / weight);
                (count, weight, to) = (0, 0.0, *from);
            }
        }
        let is_of_these = |correction: &f64| (1.0 / CORRECTED_MAX..=CORRECTED_MAX).contains(correction);
        if !lengths.corrections.values().all(is_of_these) {
            lengths.corrections.clear();
        }
        lengths
    }

    /// By what the weight of one of the sample is multiplied.
    pub(crate) fn correction(&self, request: &Request) -> f64 {
        self.corrections.range(..=length(taken_ns(request))).next_back().map_or(1.0, |(_, correction)| *correction)
    }
}

/// Of times in ascending order with their weights: the first with more than a quarter of all weight up to it.
fn lower_quartile(times: &[(f64, f64)]) -> f64 {
    let all: f64 = times.iter().map(|(_, weight)| weight).sum();
    let mut so_far = 0.0;
    let is_there = |(_, weight): &&(f64, f64)| {
        so_far += weight;
        so_far > all / 4.0
    };
    times.iter().find(is_there).or(times.last()).map_or(0.0, |(ns, _)| *ns)
}

/// The fast band of each kind, by such a time of its requests.
fn fast_by_kind(recording: &Recording, ns: impl Fn(&Request) -> f64) -> BTreeMap<Kind, Fast> {
    let mut times: BTreeMap<Kind, Vec<(f64, f64)>> = BTreeMap::new();
    for (weight, request) in good(recording) {
        times.entry(kind(request)).or_default().push((ns(request), weight));
    }
    let bands = times.into_iter().filter(|(_, times)| times.len() >= KIND_MIN).map(|(kind, mut times)| {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        (kind, Fast { count: times.len(), ns: lower_quartile(&times), queueing_ns: 0.0 })
    });
    bands.collect()
}

impl Kinds {
    pub(super) fn of(recording: &Recording) -> Self {
        let mut kinds = Kinds { bands: fast_by_kind(recording, taken_ns), ..Kinds::default() };
        kinds.sum_up(recording);
        kinds
    }

    /// Takes off what any server's requests stand in line, whose work takes so long at such a utilisation, 0..=1.
    pub(super) fn allow_queueing(&mut self, recording: &Recording, work_ns: f64, utilisation: f64) {
        let utilisation = utilisation.clamp(0.0, DEMAND_FULL.value);
        for fast in self.bands.values_mut() {
            fast.queueing_ns = work_ns.clamp(0.0, fast.ns) * utilisation / (1.0 - utilisation);
        }
        self.sum_up(recording);
    }

    fn sum_up(&mut self, recording: &Recording) {
        let (mut all, mut all_ns, mut slow, mut excess_ns) = (0.0, 0.0, 0.0, 0.0);
        self.slow_count = 0;
        for (weight, request) in good(recording) {
            all += weight;
            all_ns += weight * taken_ns(request);
            if let Some(ns) = self.excess_ns(request) {
                slow += weight;
                excess_ns += weight * ns;
                self.slow_count += 1;
            }
        }
        if all_ns > 0.0 {
            (self.slow_time, self.slow) = (Some(excess_ns / all_ns), slow / all);
        }
        self.bound(recording);
    }

    /// Keeps what the sample says within what the histograms leave open, which have every request. Of thirty that stood for seconds, beside a
    /// million others, a sample has none, or one that then stands for hundreds; and they may be a third of all time.
    ///
    /// At the least, what took longer than a slow one of the slowest kind is slow, whatever its kind: not where one of the slowest is of a kind without
    /// a band, which may take as long as it should. They count as looked at only where they are late by more than a machine's own turns: of a sound
    /// server four in a thousand took 4 ms for 0.08, and 18 % of all time. At the most, what took longer than a slow one of the quickest kind.
    fn bound(&mut self, recording: &Recording) {
        let taken = taken(recording);
        if self.bands.is_empty() || taken.is_empty() {
            return;
        }
        let usual = |fast: &Fast| fast.ns + fast.queueing_ns;
        let slow = |fast: &Fast| (SLOW_TIMES * fast.ns).max(usual(fast) + SLOW_BY_NS);
        // How many took longer than some time, and how much longer than another.
        let tail = |from_ns: f64, usual_ns: f64| {
            let slow = taken.iter_recorded().filter(|(ns, _)| *ns as f64 > from_ns);
            slow.fold((0_u64, 0.0), |(count, sum_ns), (ns, of)| {
                (count.saturating_add(of), sum_ns + (ns as f64 - usual_ns).max(0.0) * of as f64)
            })
        };
        let of_all = |one: &dyn Fn(&Fast) -> f64, first: f64, either: fn(f64, f64) -> f64| {
            self.bands.values().map(one).fold(first, either)
        };
        let is_known = |request: &Request| request.end != RequestEnd::Ok || self.fast(request).is_some();
        let (low, low_ns) = match recording.requests.slowest().all(is_known) {
            true => tail(of_all(&slow, 0.0, f64::max), of_all(&usual, 0.0, f64::max)),
            false => (0, 0.0),
        };
        self.excess_low_ns = low_ns;
        let (high, high_ns) = tail(of_all(&slow, f64::MAX, f64::min), of_all(&usual, f64::MAX, f64::min));
        let within = |share: f64, low: f64, high: f64| share.max(low).min(high.max(low)).min(1.0);
        let (all, all_ns) = (taken.len() as f64, (taken.mean() * taken.len() as f64).max(1.0));
        self.slow = within(self.slow, low as f64 / all, high as f64 / all);
        self.slow_time = self.slow_time.map(|share| within(share, low_ns / all_ns, high_ns / all_ns));
        if low_ns >= TURN_NS * low as f64 {
            self.slow_count = self.slow_count.max(usize::try_from(low).unwrap_or(usize::MAX));
        }
    }

    /// How much longer a slow request took than the fast band of its kind and the queueing of any server, nanoseconds; `None`
    /// of one that was not slow.
    pub fn excess_ns(&self, request: &Request) -> Option<f64> {
        let fast = self.fast(request)?;
        let (taken, usual) = (taken_ns(request), fast.ns + fast.queueing_ns);
        (taken > SLOW_TIMES * fast.ns && taken > usual + SLOW_BY_NS).then_some(taken - usual)
    }

    /// Every kind that has a band.
    pub fn bands(&self) -> impl Iterator<Item = Band> {
        self.bands.iter().map(band)
    }

    /// Which band is a request's: that of its entry and the size of its reply.
    pub fn band(&self, request: &Request) -> Option<Band> {
        let of = kind(request);
        self.bands().find(|band| (band.entry, band.bytes_min.ilog2()) == of)
    }

    /// The fast band of a request's kind.
    pub fn fast(&self, request: &Request) -> Option<Fast> {
        self.bands.get(&kind(request)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::recording::Capsule;
    use model::request::{IntervalRequests, Kept};

    /// Requests of 1 ms and of 100 ms: so many in the sample, and so many in all.
    fn lengths([quick, long]: [u64; 2], all: [u64; 2]) -> Lengths {
        let mut recording = Recording::new(Capsule::default(), testkit::recordings::any_plan());
        let mut tick = IntervalRequests::default();
        for n in 0..quick + long {
            let ended_ns = if n < quick { 1_000_000 } else { 100_000_000 };
            tick.sampled.offer(1000, Kept::new(n, Request { ended_ns, ..Request::default() }));
        }
        recording.requests.push(0, quick + long, &tick);
        for (ns, count) in [1_000_000, 100_000_000].into_iter().zip(all) {
            recording.totals.sum.latency.record_n(LatencyKind::Undelayed, ns, count);
        }
        Lengths::of(&recording)
    }

    fn corrections(lengths: &Lengths) -> [f64; 2] {
        [1_000_000, 100_000_000].map(|ended_ns| lengths.correction(&Request { ended_ns, ..Request::default() }))
    }

    #[test]
    fn a_sample_with_too_many_long_ones_is_corrected() {
        let [quick, long] = corrections(&lengths([90, 20], [1_000, 100]));
        assert!((quick - 100.0 / 90.0).abs() < 1e-9 && (long - 0.5).abs() < 1e-9, "{quick} {long}");
        // Of five nobody knows, and a histogram that has a quarter of what was drawn is one of others.
        assert_eq!(corrections(&lengths([95, 5], [900, 100])), [1.0, 1.0]);
        assert_eq!(corrections(&lengths([80, 20], [950, 50])), [1.0, 1.0]);
        assert_eq!(
            corrections(&Lengths::of(&Recording::new(Capsule::default(), testkit::recordings::any_plan()))),
            [1.0, 1.0]
        );
    }
}
