//! Which single requests of an interval are kept, and the gaps between replies.
//!
//! The uniform sample is drawn by skipping (algorithm L: K.-H. Li, "Reservoir-sampling algorithms of time complexity
//! O(n(1 + log(N/n)))", ACM TOMS 20, 1994): how many requests are passed over is drawn once, so that the hot path counts
//! down and compares, and does nothing else. Each kept request has its key all the same, so that samples can be merged
//! ([`model::request`]).

use super::Stamps;
use model::limits::{GAP_NS_MIN, REQUESTS_FAILED_KEPT, REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT};
use model::request::{Gap, IntervalRequests, Kept, Request, RequestEnd, slowness_key};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// What a worker knows of a request beside its stamps. Asked for only where the request is kept, or ended a gap.
pub trait Witness {
    /// All but moments, worker and end.
    fn particulars(&self) -> Request;
    /// Which entry of the workload it is, of several.
    fn entry(&self) -> u16 {
        0
    }
    /// Connections that had a request under way until now, of so many requests: one each, unless it is said otherwise.
    fn busy_connections(&self, in_flight: u64) -> u64 {
        in_flight
    }
}

/// All that is known is said beforehand: of a load whose requests are few, one on a connection at the most.
impl Witness for Request {
    fn particulars(&self) -> Request {
        *self
    }

    fn entry(&self) -> u16 {
        self.entry
    }
}

/// Draws the requests of one worker that are kept.
#[derive(Debug)]
pub struct Picking {
    random: SmallRng,
    worker: u16,
    /// Requests to pass over before the next one of the uniform sample.
    skip: u64,
    /// A success that takes longer is among the slowest.
    slow_above_ns: u64,
    /// Since when no request has ended though some are under way.
    quiet_since_ns: u64,
    /// The longest gap that ended in the present turn of the worker's loop: how much of it was the worker's own doing is
    /// known when the turn ends.
    of_turn: Option<Gap>,
    /// Time the worker was runnable without a CPU, when that was last looked at, nanoseconds.
    waited_ns: u64,
    /// For how long the worker was late for its turns and stood still in the midst of them, from that of the last end on, nanoseconds.
    late_ns: u64,
}

impl Picking {
    /// For a worker.
    pub fn new(seed: u64, worker: u16) -> Self {
        Picking {
            random: SmallRng::seed_from_u64(seed ^ 0x7069_636b ^ (u64::from(worker) << 32)),
            worker,
            skip: 0,
            slow_above_ns: 0,
            quiet_since_ns: u64::MAX,
            of_turn: None,
            waited_ns: 0,
            late_ns: 0,
        }
    }

    /// Another interval begins, of which nothing is kept yet.
    pub fn restart(&mut self) {
        (self.skip, self.slow_above_ns) = (0, 0);
    }

    /// A request was sent while none was under way.
    #[inline]
    pub fn first_in_flight(&mut self, sent_ns: u64) {
        self.quiet_since_ns = sent_ns;
    }

    /// A measured request ended well.
    #[inline]
    pub fn succeeded(&mut self, kept: &mut IntervalRequests, stamps: &Stamps, at_ns: u64, witness: &impl Witness) {
        let response_ns = at_ns.saturating_sub(stamps.intended_ns);
        if self.skip > 0 && response_ns <= self.slow_above_ns {
            self.skip -= 1;
            return;
        }
        self.keep_success(kept, stamps, at_ns, witness);
    }

    #[cold]
    fn keep_success(&mut self, kept: &mut IntervalRequests, stamps: &Stamps, at_ns: u64, witness: &impl Witness) {
        let request = self.request(stamps, at_ns, RequestEnd::Ok, witness);
        self.sample(kept, request);
        let key = slowness_key(request.response_ns());
        kept.slowest.offer(REQUESTS_SLOWEST_KEPT, Kept::new(key, request));
        if kept.slowest.len() >= REQUESTS_SLOWEST_KEPT {
            self.slow_above_ns = kept.slowest.largest().map_or(0, |key| u64::MAX - key);
        }
    }

    /// A measured request ended without the reply that was due, or did not end.
    pub fn failed(
        &mut self,
        kept: &mut IntervalRequests,
        stamps: &Stamps,
        at_ns: u64,
        end: RequestEnd,
        witness: &impl Witness,
    ) {
        let request = self.request(stamps, at_ns, end, witness);
        if end != RequestEnd::Unfinished {
            self.sample(kept, request);
        }
        let key = self.random.next_u64();
        kept.failed.offer(REQUESTS_FAILED_KEPT, Kept::new(key, request));
    }

    fn request(&self, stamps: &Stamps, at_ns: u64, end: RequestEnd, witness: &impl Witness) -> Request {
        let Stamps { intended_ns, ready_ns, sent_ns, first_byte_ns } = *stamps;
        let worker = self.worker;
        Request { intended_ns, ready_ns, sent_ns, first_byte_ns, ended_ns: at_ns, worker, end, ..witness.particulars() }
    }

    /// Takes the request into the uniform sample, if its turn has come.
    fn sample(&mut self, kept: &mut IntervalRequests, request: Request) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        // Until there are enough each is kept; from then on a request is kept if its key is below the largest one there.
        // Its turn has come, so it is: its key is uniform below that.
        let below = if kept.sampled.len() < REQUESTS_KEPT { u64::MAX } else { kept.sampled.largest().unwrap_or(0) };
        let key = (self.random.random::<f64>() * below as f64) as u64;
        kept.sampled.offer(REQUESTS_KEPT, Kept::new(key.min(below.saturating_sub(1)), request));
        if kept.sampled.len() >= REQUESTS_KEPT {
            let share = kept.sampled.largest().unwrap_or(0) as f64 / u64::MAX as f64;
            // Geometric: requests until one has a key below the share. `1 - random` is never 0.
            let skip = (1.0 - self.random.random::<f64>()).ln() / (-share).ln_1p();
            self.skip = if skip.is_finite() { skip as u64 } else { u64::MAX };
        }
    }

    /// A request ended, measured or not: a gap is one of time. Since when none had, where that was a gap.
    #[inline]
    pub fn ended(&mut self, at_ns: u64) -> Option<u64> {
        let since_ns = std::mem::replace(&mut self.quiet_since_ns, at_ns);
        (at_ns.saturating_sub(since_ns) >= GAP_NS_MIN).then_some(since_ns)
    }

    /// A gap has ended in the present turn.
    #[cold]
    pub fn gap(&mut self, gap: Gap) {
        if self.of_turn.is_none_or(|other| other.length_ns() < gap.length_ns()) {
            self.of_turn = Some(Gap { worker: self.worker, ..gap });
        }
    }

    /// Whether a gap has ended in the present turn.
    #[inline]
    pub fn has_gap(&self) -> bool {
        self.of_turn.is_some()
    }

    /// The worker was so late for the present turn, or stood still so long in its midst: no reply was late by that. Before the turn's gap is
    /// judged.
    #[inline]
    pub fn late(&mut self, late_ns: u64) {
        self.late_ns = self.late_ns.saturating_add(late_ns);
    }

    /// The turn has ended, and the worker has been runnable without a CPU so long since it began. Keeps the turn's gap. Some of that time may
    /// be in both, so what is left for others is at the least as much.
    #[cold]
    pub fn judge_gap(&mut self, kept: &mut IntervalRequests, waited_ns: u64) {
        let own_ns = self.late_ns.saturating_add(waited_ns.saturating_sub(self.waited_ns));
        self.waited_ns = waited_ns;
        if let Some(gap) = self.of_turn.take() {
            kept.offer_gap(Gap { own_ns_max: own_ns.min(gap.length_ns()), ..gap });
        }
    }

    /// The turn that began then is over, in whose midst the worker stood still for so long. It may have been after the last end, in the quiet
    /// that goes on.
    #[inline]
    pub fn turn_is_over(&mut self, began_ns: u64, stood_ns: u64) {
        if self.quiet_since_ns >= began_ns {
            self.late_ns = stood_ns;
        }
    }

    /// How long the worker has been runnable without a CPU, when so many requests are under way. Not taken while a gap may be
    /// open: all that was waited in it counts as the worker's own.
    pub fn waited(&mut self, waited_ns: u64, now_ns: u64, in_flight: u64) {
        let may_be_open = in_flight > 0 && now_ns.saturating_sub(self.quiet_since_ns) >= GAP_NS_MIN;
        if !may_be_open && self.of_turn.is_none() {
            self.waited_ns = waited_ns;
        }
    }

    /// Since when the gap at the end of a run has been open, if there is one.
    pub fn open_gap(&self, now_ns: u64) -> Option<u64> {
        (now_ns.saturating_sub(self.quiet_since_ns) >= GAP_NS_MIN).then_some(self.quiet_since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::run_requests::RunRequests;

    fn ended_after(picking: &mut Picking, kept: &mut IntervalRequests, at_ns: u64, response_ns: u64, cause: u16) {
        let intended_ns = at_ns - response_ns;
        let stamps = Stamps { first_byte_ns: at_ns, ..Stamps::sent(intended_ns, intended_ns, intended_ns) };
        picking.succeeded(kept, &stamps, at_ns, &Request { entry: cause, ..Request::default() });
    }

    #[test]
    fn the_slowest_of_an_interval_are_kept_whatever_the_order() {
        for step in [1, 7919, 10_007 - 1] {
            let mut picking = Picking::new(1, 0);
            let mut kept = IntervalRequests::default();
            for n in 1..10_007 {
                let response_ns = n * step % 10_007;
                ended_after(&mut picking, &mut kept, 1_000_000, response_ns, 0);
            }
            let mut slowest: Vec<u64> = kept.slowest.iter().map(|kept| kept.request.response_ns()).collect();
            slowest.sort_unstable();
            assert_eq!(slowest, (10_007 - REQUESTS_SLOWEST_KEPT as u64..10_007).collect::<Vec<_>>());
            assert_eq!(kept.sampled.len(), REQUESTS_KEPT);
        }
    }

    /// A thousand requests of each of ten causes, mixed, in ten intervals, those of a cause by one unit slower than those of the
    /// one before it: the sample's share of each cause, of the requests and of their time, is within three points of the truth
    /// in 95 of a hundred runs at the least; and the mean of the former is the truth.
    #[test]
    fn a_cause_has_the_share_in_the_sample_that_it_has_in_the_run() {
        let (mut within, mut time_within, mut all, mut sum) = (0, 0, 0, 0.0);
        for seed in 0..200 {
            let mut picking = Picking::new(seed, 0);
            let mut order = SmallRng::seed_from_u64(seed);
            let mut run = RunRequests::default();
            let mut true_ns = [0; 10];
            for interval in 0..10 {
                let mut kept = IntervalRequests::default();
                for n in 0..1000_u64 {
                    let cause = order.random_range(0..10_u16);
                    let took_ns = 1000 * u64::from(cause);
                    true_ns[usize::from(cause)] += took_ns;
                    ended_after(&mut picking, &mut kept, 1_000_000 + n, took_ns, cause);
                }
                run.push(interval, 1000, &kept);
                picking.restart();
            }
            assert_eq!(run.drawn().count(), 10 * REQUESTS_KEPT);
            let count = run.sampled().count();
            assert!(
                (900..10 * REQUESTS_KEPT).contains(&count),
                "ten intervals alike have about as much to compare: {count}"
            );
            let sampled_ns: u64 = run.sampled().map(Request::response_ns).sum();
            for (cause, cause_ns) in (0..10).zip(true_ns) {
                let of_cause = || run.sampled().filter(|request| request.entry == cause);
                let share = of_cause().count() as f64 / count as f64;
                let time = of_cause().map(Request::response_ns).sum::<u64>() as f64 / sampled_ns as f64;
                let true_time = cause_ns as f64 / true_ns.iter().sum::<u64>() as f64;
                all += 1;
                within += u32::from((share - 0.1).abs() <= 0.03);
                time_within += u32::from((time - true_time).abs() <= 0.03);
                sum += share;
            }
        }
        assert!(f64::from(within) >= 0.95 * f64::from(all), "{within} of {all}");
        assert!(f64::from(time_within) >= 0.95 * f64::from(all), "{time_within} of {all}");
        assert!((sum / f64::from(all) - 0.1).abs() < 1e-9, "they are shares of one whole");
    }

    /// Intervals of very different numbers of requests: merged, each request has the same chance.
    #[test]
    fn merged_samples_are_uniform_over_all_requests() {
        let mut of_first = 0;
        for seed in 0..400 {
            let mut merged = IntervalRequests::default();
            for (worker, requests) in [(0, 500), (1, 4500)] {
                let mut picking = Picking::new(seed, worker);
                let mut kept = IntervalRequests::default();
                (0..requests).for_each(|n| ended_after(&mut picking, &mut kept, 1_000_000 + n, 5, worker));
                merged.merge(&kept);
            }
            of_first += merged.sampled.iter().filter(|kept| kept.request.entry == 0).count();
        }
        // A tenth of 400 samples of 128: 5120, with a standard deviation of 67.
        assert!((5120 - 300..5120 + 300).contains(&of_first), "{of_first}");
    }

    #[test]
    fn a_worker_that_is_stopped_in_the_midst_of_a_turn_was_not_kept_waiting() {
        let (mut picking, mut kept) = (Picking::new(1, 0), IntervalRequests::default());
        let stopped_ns = 20 * GAP_NS_MIN;
        let mut gap_until = |picking: &mut Picking, to_ns: u64, stood_ns: u64, began_ns: u64| {
            let from_ns = picking.ended(to_ns).unwrap();
            picking.gap(Gap { from_ns, to_ns, in_flight: 2, ..Gap::default() });
            picking.late(stood_ns);
            picking.judge_gap(&mut kept, 0);
            picking.turn_is_over(began_ns, stood_ns);
            kept.gaps.last().unwrap().others_ns()
        };
        picking.first_in_flight(0);
        picking.turn_is_over(0, 0);
        // Between the replies of one turn.
        assert_eq!(gap_until(&mut picking, stopped_ns + 100, stopped_ns, 50), 100);
        // It may have been behind the last of them: the next gap is at the most so much shorter.
        assert_eq!(gap_until(&mut picking, 2 * stopped_ns + 300, 0, 2 * stopped_ns), 200);
        // Of a turn with a reply and without a stop nothing is left.
        assert_eq!(gap_until(&mut picking, 3 * stopped_ns + 300, 0, 3 * stopped_ns), stopped_ns);
        // A stop in a turn without a reply, and none in that which ends the gap.
        picking.late(stopped_ns);
        picking.turn_is_over(3 * stopped_ns + 400, stopped_ns);
        assert_eq!(gap_until(&mut picking, 5 * stopped_ns, 0, 5 * stopped_ns - 10), stopped_ns - 300);
    }

    #[test]
    fn a_gap_is_what_is_left_of_a_pause_without_the_workers_own_part() {
        let mut picking = Picking::new(1, 3);
        let mut kept = IntervalRequests::default();
        assert_eq!(picking.ended(100), None, "nothing was under way");
        picking.first_in_flight(1_000);
        assert_eq!(picking.ended(1_000 + GAP_NS_MIN - 1), None);
        assert_eq!(picking.ended(1_000 + 2 * GAP_NS_MIN - 2), None, "each reply begins anew");
        let from_ns = picking.ended(10 * GAP_NS_MIN).unwrap();
        assert_eq!(from_ns, 1_000 + 2 * GAP_NS_MIN - 2);
        picking.waited(7, from_ns, 1);
        picking.gap(Gap { from_ns, to_ns: from_ns + 8 * GAP_NS_MIN, in_flight: 2, ..Gap::default() });
        assert!(picking.has_gap() && kept.gaps.is_empty());
        picking.late(100);
        picking.judge_gap(&mut kept, 57);
        let [gap] = kept.gaps[..] else { panic!("{:?}", kept.gaps) };
        assert_eq!((gap.worker, gap.own_ns_max, gap.others_ns()), (3, 150, 8 * GAP_NS_MIN - 150));
        assert!(!picking.has_gap());
        // An interval that ends while a gap is open takes nothing of what was waited in it away; an idle worker's does.
        let later_ns = 20 * GAP_NS_MIN;
        picking.waited(500, later_ns, 1);
        picking.gap(Gap { from_ns: later_ns - 9 * GAP_NS_MIN, to_ns: later_ns, ..Gap::default() });
        picking.turn_is_over(0, 0);
        picking.judge_gap(&mut kept, 600);
        assert_eq!(kept.gaps[1].own_ns_max, 600 - 57);
        picking.waited(900, later_ns, 0);
        picking.gap(Gap { from_ns: later_ns, to_ns: later_ns + GAP_NS_MIN, ..Gap::default() });
        picking.judge_gap(&mut kept, 950);
        assert_eq!(kept.gaps[2].own_ns_max, 50);
    }
}
