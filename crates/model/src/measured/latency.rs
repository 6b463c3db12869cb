//! The kinds of latency kept for every run, and a set of histograms holding one of each.
//!
//! All values are nanoseconds. The range is fixed ([`Histogram`]), so two sets always merge without loss.
//!
//! What has not ended when the run does is right-censored: its age then is a lower bound of what it would have been. Such
//! ages have kinds of their own ([`Kind::censored`]), and [`LatencySet::quantile`] takes both together, as in Kaplan and
//! Meier, "Nonparametric estimation from incomplete observations", JASA 53 (1958), where all censoring comes at the end.

use crate::Histogram;
use hdrhistogram::Counter;

/// What a duration is the duration of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// done − intended, successes only.
    Response,
    /// done − sent, successes only.
    Service,
    /// done − intended of failed requests; a timeout enters at its timeout.
    Failed,
    /// From the start of a connect to its completion.
    Connect,
    /// The TLS handshake: from the TCP connection to the first moment a request may be sent.
    Tls,
    /// first byte − sent, successes only.
    FirstByte,
    /// sent − ready: no connection was free. The target's doing.
    Queue,
    /// ready − intended: the generator's own delay.
    Lag,
    /// done − ready, successes only: the response time without the generator's delay. Recorded only where requests
    /// have a moment to be late for; elsewhere it is the response time.
    Undelayed,
    /// end − intended of requests that had not ended: lower bounds of response times.
    ResponseCensored,
    /// end − sent of those that had been sent: lower bounds of service times.
    ServiceCensored,
    /// end − ready of those that still waited for a connection: lower bounds of queue times.
    QueueCensored,
    /// end − intended of requests that were due and never taken up: lower bounds of lag.
    LagCensored,
}

impl Kind {
    /// All kinds, in the order of [`Kind::index`].
    pub const ALL: [Kind; 13] = [
        Kind::Response,
        Kind::Service,
        Kind::Failed,
        Kind::Connect,
        Kind::Tls,
        Kind::FirstByte,
        Kind::Queue,
        Kind::Lag,
        Kind::Undelayed,
        Kind::ResponseCensored,
        Kind::ServiceCensored,
        Kind::QueueCensored,
        Kind::LagCensored,
    ];

    /// The kinds that are kept apart of intervals with a window of the observer's probes: those of the headline.
    pub const OF_WINDOWS: [Kind; 2] = [Kind::Response, Kind::ResponseCensored];

    /// The kind that holds the lower bounds of this one; `None` where none are kept.
    pub const fn censored(self) -> Option<Kind> {
        match self {
            Kind::Response => Some(Kind::ResponseCensored),
            Kind::Service => Some(Kind::ServiceCensored),
            Kind::Queue => Some(Kind::QueueCensored),
            Kind::Lag => Some(Kind::LagCensored),
            Kind::Failed
            | Kind::Connect
            | Kind::Tls
            | Kind::FirstByte
            | Kind::Undelayed
            | Kind::ResponseCensored
            | Kind::ServiceCensored
            | Kind::QueueCensored
            | Kind::LagCensored => None,
        }
    }

    /// The name in `plimsoll.report/1`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Response => "response",
            Kind::Service => "service",
            Kind::Failed => "failed",
            Kind::Connect => "connect",
            Kind::Tls => "tls",
            Kind::FirstByte => "first_byte",
            Kind::Queue => "queue",
            Kind::Lag => "lag",
            Kind::Undelayed => "undelayed",
            Kind::ResponseCensored => "response_censored",
            Kind::ServiceCensored => "service_censored",
            Kind::QueueCensored => "queue_censored",
            Kind::LagCensored => "lag_censored",
        }
    }

    /// Place in a [`LatencySet`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A figure that may be a lower bound of the true one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtLeast {
    /// The figure, nanoseconds.
    pub ns: u64,
    /// Whether the true one may be larger: of what had ended, too little is at or below it.
    pub is_bound: bool,
}

/// One histogram for each [`Kind`], nanoseconds. One that was never written to takes no memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySet<C: Counter> {
    histograms: [Histogram<C>; Kind::ALL.len()],
}

impl<C: Counter> LatencySet<C> {
    /// An empty set. A histogram's memory is taken when its kind is first recorded, or by [`LatencySet::reserve`].
    pub fn new() -> Self {
        LatencySet { histograms: std::array::from_fn(|_| Histogram::new()) }
    }

    /// Takes the memory of some kinds now, so that recording them will not.
    pub fn reserve(&mut self, kinds: &[Kind]) {
        kinds.iter().for_each(|kind| self.of_mut(*kind).reserve());
    }

    /// The histogram of one kind.
    #[inline]
    pub fn of(&self, kind: Kind) -> &Histogram<C> {
        &self.histograms[kind.index()]
    }

    /// Each kind with its histogram, to be filled in.
    pub fn each_mut(&mut self) -> impl Iterator<Item = (Kind, &mut Histogram<C>)> {
        Kind::ALL.into_iter().zip(&mut self.histograms)
    }

    /// The histogram of one kind, to write to.
    #[inline]
    pub fn of_mut(&mut self, kind: Kind) -> &mut Histogram<C> {
        &mut self.histograms[kind.index()]
    }

    /// Records one duration; longer than the range is recorded as the range's end. Allocates only where its kind was
    /// neither recorded before nor reserved.
    #[inline]
    pub fn record(&mut self, kind: Kind, nanoseconds: u64) {
        self.of_mut(kind).record(nanoseconds);
    }

    /// Records `count` durations of the same length.
    pub fn record_n(&mut self, kind: Kind, nanoseconds: u64, count: C) {
        self.of_mut(kind).record_n(nanoseconds, count);
    }

    /// Empties every histogram, keeping the memory.
    pub fn clear(&mut self) {
        self.histograms.iter_mut().for_each(Histogram::reset);
    }

    /// How many of a kind there are, those that had not ended included.
    pub fn count(&self, kind: Kind) -> u64 {
        self.of(kind).len() + kind.censored().map_or(0, |censored| self.of(censored).len())
    }

    /// The quantile of a kind, 0..=1, with those that had not ended taken in at their age; `None` where there is none.
    ///
    /// With n figures in ascending order it is the ⌈q·n⌉-th, as of the histogram. It is exact where as many are at or below it
    /// that had ended: however long the others take, they do not move it.
    pub fn quantile(&self, kind: Kind, quantile: f64) -> Option<AtLeast> {
        self.quantile_with(kind, kind.censored(), quantile)
    }

    /// The same, with the lower bounds of one kind taken in beside the figures of another.
    pub fn quantile_with(&self, ended: Kind, open: Option<Kind>, quantile: f64) -> Option<AtLeast> {
        let ended = self.of(ended);
        let open = open.map(|open| self.of(open)).filter(|open| !open.is_empty());
        let Some(open) = open else {
            return (!ended.is_empty()).then(|| AtLeast { ns: ended.value_at_quantile(quantile), is_bound: false });
        };
        let all = ended.len() + open.len();
        let rank = ((quantile.clamp(0.0, 1.0) * all as f64).ceil() as u64).clamp(1, all);
        let (mut of_ended, mut of_open) = (ended.iter_recorded().peekable(), open.iter_recorded().peekable());
        let (mut seen, mut seen_ended) = (0, 0);
        loop {
            let value = |next: Option<&(u64, C)>| next.map_or(u64::MAX, |(ns, _)| *ns);
            let (ended_ns, open_ns) = (value(of_ended.peek()), value(of_open.peek()));
            let ns = ended_ns.min(open_ns);
            let count = |next: Option<(u64, C)>| next.map_or(0, |(_, count)| count.as_u64());
            let here = count(of_ended.next_if(|(at_ns, _)| *at_ns == ns));
            seen_ended += here;
            seen += here + count(of_open.next_if(|(at_ns, _)| *at_ns == ns));
            if seen >= rank || ns == u64::MAX {
                return Some(AtLeast { ns, is_bound: seen_ended < rank });
            }
        }
    }

    /// The largest of a kind, those that had not ended included.
    pub fn max(&self, kind: Kind) -> Option<AtLeast> {
        let open = kind.censored().map(|censored| self.of(censored)).filter(|open| !open.is_empty());
        let ended = Some(self.of(kind)).filter(|ended| !ended.is_empty()).map(Histogram::max);
        let ns = ended.max(open.map(Histogram::max))?;
        Some(AtLeast { ns, is_bound: open.is_some() })
    }
}

impl LatencySet<u32> {
    /// Adds another worker's set of the same tick, losslessly: bucket by bucket.
    pub fn add_worker(&mut self, other: &LatencySet<u32>) {
        self.histograms.iter_mut().zip(&other.histograms).for_each(|(into, from)| into.add(from));
    }
}

impl LatencySet<u64> {
    /// Adds another set, losslessly: the buckets are the same, so every value stays in its own.
    pub fn add<D: Counter>(&mut self, other: &LatencySet<D>) {
        self.add_kinds(other, &Kind::ALL);
    }

    /// The same of some kinds only.
    pub fn add_kinds<D: Counter>(&mut self, other: &LatencySet<D>, kinds: &[Kind]) {
        kinds.iter().for_each(|kind| self.of_mut(*kind).add_any(other.of(*kind)));
    }

    /// Some kinds of this set, without another that is a part of it.
    pub fn without(&self, part: &LatencySet<u64>, kinds: &[Kind]) -> LatencySet<u64> {
        let mut rest = LatencySet::new();
        for kind in kinds {
            let left = rest.of_mut(*kind);
            *left = self.of(*kind).clone();
            // It is a part, so every bucket holds at least as many; of a damaged recording nothing is taken away.
            left.subtract(part.of(*kind));
        }
        rest
    }
}

impl<C: Counter> Default for LatencySet<C> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LATENCY_NS_MAX;

    #[test]
    fn names_are_distinct_and_indexed_in_order() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), i);
            assert_eq!(Kind::ALL.iter().filter(|k| k.name() == kind.name()).count(), 1);
        }
    }

    #[test]
    fn merging_is_lossless_and_saturates_at_the_range() {
        let mut a = LatencySet::<u32>::new();
        a.record(Kind::Response, 1);
        a.record(Kind::Response, u64::MAX);
        a.record_n(Kind::Lag, 0, 5);
        let mut sum = LatencySet::<u64>::new();
        sum.add(&a);
        sum.add(&a);
        assert_eq!(sum.of(Kind::Response).len(), 4);
        assert_eq!(sum.of(Kind::Lag).len(), 10);
        assert_eq!(sum.of(Kind::Lag).max(), 0);
        assert!(sum.of(Kind::Response).max() >= LATENCY_NS_MAX);
        a.clear();
        assert_eq!(a, LatencySet::new());
    }

    #[test]
    fn what_has_not_ended_bounds_the_quantiles_that_it_reaches() {
        let mut set = LatencySet::<u64>::new();
        assert_eq!(set.quantile(Kind::Response, 0.5), None);
        for ns in 1..=80 {
            set.record(Kind::Response, ns);
        }
        assert_eq!(set.quantile(Kind::Response, 0.5), Some(AtLeast { ns: 40, is_bound: false }));
        set.record_n(Kind::ResponseCensored, 60, 20);
        // In order: 1..=60, twenty of at least 60, 61..=80.
        assert_eq!(set.count(Kind::Response), 100);
        assert_eq!(set.quantile(Kind::Response, 0.59), Some(AtLeast { ns: 59, is_bound: false }));
        assert_eq!(set.quantile(Kind::Response, 0.70), Some(AtLeast { ns: 60, is_bound: true }));
        assert_eq!(set.quantile(Kind::Response, 0.81), Some(AtLeast { ns: 61, is_bound: true }));
        assert_eq!(set.max(Kind::Response), Some(AtLeast { ns: 80, is_bound: true }));
        // One of a thousand that was there for a moment moves no figure but the largest.
        let mut young = LatencySet::<u64>::new();
        young.record_n(Kind::Response, 50, 500);
        young.record_n(Kind::Response, 70, 499);
        young.record(Kind::ResponseCensored, 20);
        assert_eq!(young.quantile(Kind::Response, 0.4), Some(AtLeast { ns: 50, is_bound: false }));
        assert_eq!(
            young.quantile(Kind::Response, 0.501),
            Some(AtLeast { ns: 50, is_bound: true }),
            "the 501st may be 70"
        );
        assert_eq!(young.quantile(Kind::Response, 0.99), Some(AtLeast { ns: 70, is_bound: false }));
        assert_eq!(young.quantile(Kind::Response, 1.0), Some(AtLeast { ns: 70, is_bound: true }));
        let mut only = LatencySet::<u32>::new();
        only.record(Kind::LagCensored, 7);
        assert_eq!(only.quantile(Kind::Lag, 0.99), Some(AtLeast { ns: 7, is_bound: true }));
    }

    #[test]
    fn a_part_can_be_taken_out_again() {
        let (mut all, mut part) = (LatencySet::<u64>::new(), LatencySet::<u64>::new());
        for ns in [5, 500, 50_000] {
            part.record(Kind::Response, ns);
        }
        all.add(&part);
        all.record(Kind::Response, 70_000);
        let rest = all.without(&part, &Kind::ALL);
        let left = rest.of(Kind::Response);
        assert!(left.len() == 1 && left.min() <= 70_000 && left.max() >= 70_000, "{} to {}", left.min(), left.max());
        assert_eq!(part.without(&all, &[Kind::Response]).of(Kind::Response).len(), 3);
    }
}
