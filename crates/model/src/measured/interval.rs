//! One tick of one worker: counters, error counts, outcome counts and histograms.
//!
//! Two sets of memory travel round and round between worker and session; nothing here allocates after
//! it is made. Accounting: over a run, `started = ok + failed + in flight at the end`, always;
//! dropped requests and those never taken up were not started.

use crate::LatencySet;
use crate::entries::Entries;
use crate::error_kind::{ErrorExample, ErrorKind, FailureClass};
use crate::outcomes::OutcomeCounts;
use crate::request::IntervalRequests;
use hdrhistogram::Counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of an interval, or summed over a run. Requests due in warm-up are only in `warmup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    /// Requests taken up by a worker: they were sent, or wait for a connection.
    pub started: u64,
    /// With the reply that was due.
    pub ok: u64,
    /// Without.
    pub failed: u64,
    /// Never started: the queue for a connection was full, or the run was told to drop.
    pub dropped: u64,
    /// Never started: due before the end of the load, and the generator had not come to them by then.
    pub never_taken_up: u64,
    /// Requests due during warm-up that ended, well or not.
    pub warmup: u64,
    /// Of those, the ones that ended well after warm-up: replies that came in the measured time, which rates count, and
    /// nothing else does.
    pub carried_ok: u64,
    /// The same of those that failed after warm-up.
    pub carried_failed: u64,
    /// Bytes of requests handed over; with TLS before they are encrypted.
    pub bytes_sent: u64,
    /// Bytes received; with TLS after they were decrypted.
    pub bytes_received: u64,
    /// Connections established; with TLS, those whose handshake was done.
    pub connected: u64,
    /// Attempts to connect that failed.
    pub connect_failed: u64,
    /// TLS handshakes done in full.
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Connections closed by us.
    pub closed_by_us: u64,
    /// Connections closed or reset by the peer.
    pub closed_by_peer: u64,
    /// Times the worker woke.
    pub wakeups: u64,
    /// User CPU time of the worker, nanoseconds.
    pub cpu_user_ns: u64,
    /// System CPU time of the worker, nanoseconds.
    pub cpu_system_ns: u64,
    /// Time the worker could have run and was not given a CPU, nanoseconds (run-queue wait, `schedstat`); 0 where the
    /// kernel does not say.
    pub cpu_wait_ns: u64,
    /// Attempts at requests beyond the first of each (`--on-error`).
    pub retries: u64,
    /// Requests that failed for want of a retry that the budget did not allow (`--retry-budget`).
    pub retries_denied: u64,
    /// Time by which turns of the worker's loop were late, nanoseconds: it was to wake at a moment and woke later, or a
    /// turn took longer than the CPU time it used; each beyond [`LATE_NS_MIN`]. Whatever stopped it: another process, a
    /// quota, the hypervisor, a signal.
    pub late_ns: u64,
}

/// A turn of a worker's loop that is less late than this is as any thread's that wakes up, nanoseconds.
pub const LATE_NS_MIN: u64 = 1_000_000;

impl Counts {
    /// Adds another's.
    pub fn add(&mut self, other: &Counts) {
        self.started += other.started;
        self.ok += other.ok;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.never_taken_up += other.never_taken_up;
        self.warmup += other.warmup;
        self.carried_ok += other.carried_ok;
        self.carried_failed += other.carried_failed;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.connected += other.connected;
        self.connect_failed += other.connect_failed;
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.closed_by_us += other.closed_by_us;
        self.closed_by_peer += other.closed_by_peer;
        self.wakeups += other.wakeups;
        self.cpu_user_ns += other.cpu_user_ns;
        self.cpu_system_ns += other.cpu_system_ns;
        self.cpu_wait_ns += other.cpu_wait_ns;
        self.retries += other.retries;
        self.retries_denied += other.retries_denied;
        self.late_ns += other.late_ns;
    }

    /// What is left without another's, which is a part of it.
    pub fn without(&self, part: &Counts) -> Counts {
        Counts {
            started: self.started.saturating_sub(part.started),
            ok: self.ok.saturating_sub(part.ok),
            failed: self.failed.saturating_sub(part.failed),
            dropped: self.dropped.saturating_sub(part.dropped),
            never_taken_up: self.never_taken_up.saturating_sub(part.never_taken_up),
            warmup: self.warmup.saturating_sub(part.warmup),
            carried_ok: self.carried_ok.saturating_sub(part.carried_ok),
            carried_failed: self.carried_failed.saturating_sub(part.carried_failed),
            bytes_sent: self.bytes_sent.saturating_sub(part.bytes_sent),
            bytes_received: self.bytes_received.saturating_sub(part.bytes_received),
            connected: self.connected.saturating_sub(part.connected),
            connect_failed: self.connect_failed.saturating_sub(part.connect_failed),
            handshakes_full: self.handshakes_full.saturating_sub(part.handshakes_full),
            handshakes_resumed: self.handshakes_resumed.saturating_sub(part.handshakes_resumed),
            closed_by_us: self.closed_by_us.saturating_sub(part.closed_by_us),
            closed_by_peer: self.closed_by_peer.saturating_sub(part.closed_by_peer),
            wakeups: self.wakeups.saturating_sub(part.wakeups),
            cpu_user_ns: self.cpu_user_ns.saturating_sub(part.cpu_user_ns),
            cpu_system_ns: self.cpu_system_ns.saturating_sub(part.cpu_system_ns),
            cpu_wait_ns: self.cpu_wait_ns.saturating_sub(part.cpu_wait_ns),
            retries: self.retries.saturating_sub(part.retries),
            retries_denied: self.retries_denied.saturating_sub(part.retries_denied),
            late_ns: self.late_ns.saturating_sub(part.late_ns),
        }
    }

    /// Attempts at the requests that were started, first ones and retries.
    pub fn attempts(&self) -> u64 {
        self.started.saturating_add(self.retries)
    }

    /// Requests that ended.
    pub fn requests(&self) -> u64 {
        self.ok.saturating_add(self.failed)
    }

    /// Replies that came well in the measured time, whenever their request was due: what a rate of successes is made of.
    pub fn ok_arrived(&self) -> u64 {
        self.ok.saturating_add(self.carried_ok)
    }

    /// All requests that ended in the measured time, whenever they were due: what a rate is made of.
    pub fn arrived(&self) -> u64 {
        self.requests().saturating_add(self.carried_ok).saturating_add(self.carried_failed)
    }

    /// Only what counts requests: a worker knows of each whether it was due after warm-up, so these are right even of
    /// an interval cut in warm-up. Bytes, connections and CPU time are not told apart and are zero here.
    pub fn of_requests(&self) -> Counts {
        let Counts { started, ok, failed, dropped, never_taken_up, warmup, carried_ok, carried_failed, .. } = *self;
        let Counts { retries, retries_denied, .. } = *self;
        Counts {
            started,
            ok,
            failed,
            dropped,
            never_taken_up,
            warmup,
            carried_ok,
            carried_failed,
            retries,
            retries_denied,
            ..Counts::default()
        }
    }
}

/// Readings at the end of an interval: not summed over time, but summed over workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Gauges {
    /// Connections established.
    pub connections: u64,
    /// Requests sent and not yet answered.
    pub in_flight: u64,
    /// Requests waiting for a connection.
    pub queued: u64,
    /// Longest time a completion that was there may have waited before the worker looked, nanoseconds (the largest, over workers).
    pub reap_delay_ns_max: u64,
}

impl Gauges {
    /// Adds another worker's reading of the same moment.
    pub fn add_worker(&mut self, other: &Gauges) {
        self.connections += other.connections;
        self.in_flight += other.in_flight;
        self.queued += other.queued;
        self.reap_delay_ns_max = self.reap_delay_ns_max.max(other.reap_delay_ns_max);
    }
}

/// Failures counted by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCounts {
    counts: [u64; ErrorKind::COUNT],
}

impl Default for ErrorCounts {
    fn default() -> Self {
        ErrorCounts { counts: [0; ErrorKind::COUNT] }
    }
}

impl ErrorCounts {
    /// Counts one failure.
    #[inline]
    pub fn record(&mut self, kind: ErrorKind) {
        self.counts[kind.index()] += 1;
    }

    /// Counts several failures of one kind.
    pub fn add(&mut self, kind: ErrorKind, count: u64) {
        self.counts[kind.index()] += count;
    }

    /// How many of one kind.
    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.counts[kind.index()]
    }

    /// How many of the kinds of a class.
    pub fn of_class(&self, class: FailureClass) -> u64 {
        self.seen().filter(|(kind, _)| kind.class() == class).map(|(_, count)| count).fold(0, u64::saturating_add)
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::saturating_add)
    }

    /// Every kind seen, with its count.
    pub fn seen(&self) -> impl Iterator<Item = (ErrorKind, u64)> + '_ {
        ErrorKind::ALL.iter().map(|k| (*k, self.of(*k))).filter(|(_, n)| *n > 0)
    }

    /// Adds the counts of another interval or worker.
    pub fn merge(&mut self, other: &ErrorCounts) {
        for (into, from) in self.counts.iter_mut().zip(other.counts) {
            *into += from;
        }
    }
}

/// One tick of one worker (`C` = u32), or several summed (`C` = u64).
#[derive(Debug, Clone, PartialEq)]
pub struct Interval<C: Counter = u32> {
    /// The worker's index; of a sum, 0.
    pub worker: u16,
    /// Which tick: the same number over all workers.
    pub sequence: u64,
    /// Start and end, nanoseconds since the run's start.
    pub start_ns: u64,
    /// See `start_ns`.
    pub end_ns: u64,
    /// Whether it lies after the end of the load, while requests in flight were waited for.
    pub is_drain: bool,
    /// Counters.
    pub counts: Counts,
    /// Readings at the end.
    pub gauges: Gauges,
    /// Failures by kind (measured requests only).
    pub errors: ErrorCounts,
    /// What befell connections while no request was theirs to fail, by kind: attempts to connect, unsolicited bytes.
    pub connection_errors: ErrorCounts,
    /// Replies by outcome (measured requests only).
    pub outcomes: OutcomeCounts,
    /// What became of each entry of the workload, where there are several (measured requests only).
    pub entries: Entries<C>,
    /// Histograms, nanoseconds (measured requests only).
    pub latency: LatencySet<C>,
    /// The first failure of each kind in this interval.
    pub examples: [Option<ErrorExample>; ErrorKind::COUNT],
    /// Single requests and gaps. Of one tick only: sums over time have none ([`crate::run_requests`] does).
    pub requests: IntervalRequests,
}

impl<C: Counter> Interval<C> {
    /// An empty interval, all memory allocated.
    pub fn new(worker: u16) -> Self {
        Interval {
            worker,
            sequence: 0,
            start_ns: 0,
            end_ns: 0,
            is_drain: false,
            counts: Counts::default(),
            gauges: Gauges::default(),
            errors: ErrorCounts::default(),
            connection_errors: ErrorCounts::default(),
            outcomes: OutcomeCounts::default(),
            entries: Entries::default(),
            latency: LatencySet::new(),
            examples: [None; ErrorKind::COUNT],
            requests: IntervalRequests::default(),
        }
    }

    /// An empty one that counts the same outcomes and entries.
    pub fn another(&self) -> Self {
        let mut another = Interval::new(self.worker);
        another.outcomes.count_as(&self.outcomes);
        another.entries.count_as(&self.entries);
        another.requests.reserve();
        another
    }

    /// Empties it for the next tick, keeping the memory. Does not allocate.
    pub fn clear(&mut self) {
        self.is_drain = false;
        self.counts = Counts::default();
        self.gauges = Gauges::default();
        self.errors = ErrorCounts::default();
        self.connection_errors = ErrorCounts::default();
        self.outcomes.clear();
        self.entries.clear();
        self.latency.clear();
        self.examples = [None; ErrorKind::COUNT];
        self.requests.clear();
    }

    /// Counts a failure, keeping the first example of its kind.
    pub fn record_error(&mut self, example: ErrorExample) {
        self.errors.record(example.kind);
        let slot = &mut self.examples[example.kind.index()];
        if slot.is_none() {
            *slot = Some(example);
        }
    }
}

impl Interval<u32> {
    /// Adds another worker's interval of the same tick: its gauges too, which are of the same moment.
    pub fn add_worker(&mut self, other: &Interval<u32>) {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.is_drain &= other.is_drain;
        self.counts.add(&other.counts);
        self.gauges.add_worker(&other.gauges);
        self.connection_errors.merge(&other.connection_errors);
        self.add_tallies(other);
        self.entries.add_worker(&other.entries);
        self.latency.add_worker(&other.latency);
        self.requests.merge(&other.requests);
    }
}

impl Interval<u64> {
    /// Adds another worker's interval of the same tick, or a later one's figures.
    pub fn add<D: Counter>(&mut self, other: &Interval<D>) {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.counts.add(&other.counts);
        self.connection_errors.merge(&other.connection_errors);
        self.add_figures(other);
    }

    /// Adds only what is known of each measured request: see [`Counts::of_requests`].
    pub fn add_requests<D: Counter>(&mut self, other: &Interval<D>) {
        self.counts.add(&other.counts.of_requests());
        self.add_figures(other);
    }

    fn add_figures<D: Counter>(&mut self, other: &Interval<D>) {
        self.add_tallies(other);
        self.entries.add(&other.entries);
        self.latency.add(&other.latency);
    }
}

impl<C: Counter> Interval<C> {
    fn add_tallies<D: Counter>(&mut self, other: &Interval<D>) {
        self.errors.merge(&other.errors);
        self.outcomes.merge(&other.outcomes);
        for (into, from) in self.examples.iter_mut().zip(other.examples) {
            if into.is_none() {
                *into = from;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_interval_is_a_new_one() {
        let mut i = Interval::<u32>::new(3);
        let example = ErrorExample {
            kind: ErrorKind::Reset,
            phase: crate::Phase::Reply,
            errno: 104,
            detail: 0,
            unsent_bytes: 0,
            at_ns: 5,
            origin: 0,
        };
        i.record_error(example);
        i.record_error(ErrorExample { at_ns: 9, ..example });
        assert_eq!(i.errors.of(ErrorKind::Reset), 2);
        assert_eq!(i.examples[ErrorKind::Reset.index()].unwrap().at_ns, 5);
        i.counts.ok = 4;
        i.latency.record(crate::LatencyKind::Response, 7);
        let mut sum = Interval::<u64>::new(0);
        sum.add(&i);
        sum.add(&i);
        assert_eq!((sum.counts.ok, sum.errors.total(), sum.latency.of(crate::LatencyKind::Response).len()), (8, 4, 2));
        i.clear();
        assert_eq!(i, Interval::new(3));
    }
}
