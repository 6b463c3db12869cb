//! When requests are due. Open pace: a schedule of moments fixed beforehand; closed pace: think times.
//!
//! An open schedule is the inverse of the cumulative rate: the k-th request is due when the integral of the rate
//! reaches k. A worker takes one request in so many ([`Part::step`]), from an offset on: worker i of w equal ones the
//! requests k ≡ i (mod w), so the workers together keep the whole rate's spacing. Poisson arrivals put exponential steps
//! of that mean in the place of the step (time change of a unit-rate process).

use model::plan::{Arrivals, Pace, Segment, Think};
use model::rate::scaled_from;
use rand::RngExt;
use rand::rngs::SmallRng;

/// Which of all requests are one worker's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The first, counted in requests of all workers.
    pub offset: f64,
    /// From one of its requests to its next, counted so; infinite: it has none.
    pub step: f64,
}

impl Part {
    /// That of worker i of so many equal ones.
    pub fn equal(worker: u16, workers: u16) -> Self {
        Part { offset: f64::from(worker), step: f64::from(workers.max(1)) }
    }

    /// A share of all requests, 0..=1, for the worker of this index of so many.
    pub fn of_share(share: f64, worker: u16, workers: u16) -> Self {
        if share <= 0.0 {
            return Part { offset: f64::INFINITY, step: f64::INFINITY };
        }
        let step = 1.0 / share;
        Part { offset: step * f64::from(worker) / f64::from(workers.max(1)), step }
    }
}

/// The due moments of one worker, in order, nanoseconds since the run's start.
#[derive(Debug, Clone)]
pub struct Schedule {
    profile: Vec<Segment>,
    arrivals: Arrivals,
    step: f64,
    /// The integral of the rate at which the next request is due, and at which the last was that was given.
    cumulative: f64,
    given: f64,
    /// How many times as planned the rate is.
    factor: f64,
    segment: usize,
    /// Start of `segment`, and the integral of the rate until then.
    segment_start_ns: f64,
    segment_start_cumulative: f64,
}

impl Schedule {
    /// The schedule of one worker; `None` for a closed pace.
    pub fn of(pace: &Pace, part: Part, random: &mut SmallRng) -> Option<Self> {
        let Pace::Open { profile, arrivals } = pace else { return None };
        let mut schedule = Schedule {
            profile: profile.clone(),
            arrivals: *arrivals,
            step: part.step,
            cumulative: part.offset,
            given: 0.0,
            factor: 1.0,
            segment: 0,
            segment_start_ns: 0.0,
            segment_start_cumulative: 0.0,
        };
        if *arrivals == Arrivals::Poisson && part.step.is_finite() {
            schedule.cumulative = 0.0;
            schedule.step(random);
        }
        Some(schedule)
    }

    /// The next due moment; `u64::MAX` when no more will be due (the rate has fallen to zero for good).
    pub fn next(&mut self, random: &mut SmallRng) -> u64 {
        let due_ns = self.moment_ns();
        self.given = self.cumulative;
        self.step(random);
        due_ns
    }

    /// From a moment on the rate is so many times as planned. When the request is due now whose moment was given last; `None`:
    /// the rate is that already. The whole's spacing stays, as each worker goes through the same profile.
    #[inline]
    pub fn change(&mut self, from_ns: u64, factor: f64) -> Option<u64> {
        if factor == self.factor { None } else { Some(self.changed(from_ns, factor)) }
    }

    #[cold]
    fn changed(&mut self, from_ns: u64, factor: f64) -> u64 {
        self.profile = scaled_from(&self.profile, from_ns, factor / self.factor);
        self.factor = factor;
        // What was due before the moment is due as before: the profile is gone through anew.
        (self.segment, self.segment_start_ns, self.segment_start_cumulative) = (0, 0.0, 0.0);
        let next = std::mem::replace(&mut self.cumulative, self.given);
        let due_ns = self.moment_ns();
        self.cumulative = next;
        due_ns
    }

    fn step(&mut self, random: &mut SmallRng) {
        self.cumulative += match self.arrivals {
            Arrivals::Constant => self.step,
            Arrivals::Poisson => exponential(random) * self.step,
        };
    }

    /// The moment at which the integral of the rate reaches `self.cumulative`.
    fn moment_ns(&mut self) -> u64 {
        if !self.cumulative.is_finite() {
            return u64::MAX;
        }
        loop {
            let Some(segment) = self.profile.get(self.segment) else { return u64::MAX };
            let is_last = self.segment + 1 == self.profile.len();
            let length_s = segment.for_ns as f64 / 1e9;
            let area = segment.due();
            let missing = self.cumulative - self.segment_start_cumulative;
            if missing < area || (is_last && area > 0.0 && missing <= area) {
                return (self.segment_start_ns + 1e9 * into_segment_s(segment, length_s, missing)) as u64;
            }
            if is_last {
                // The end rate holds for ever.
                if segment.to_per_s <= 0.0 {
                    return u64::MAX;
                }
                let beyond_s = (missing - area) / segment.to_per_s;
                return (self.segment_start_ns + segment.for_ns as f64 + 1e9 * beyond_s) as u64;
            }
            self.segment_start_ns += segment.for_ns as f64;
            self.segment_start_cumulative += area;
            self.segment += 1;
        }
    }
}

/// Seconds into a segment at which `missing` requests have been due: the root of `from·t + slope·t²/2 = missing`.
fn into_segment_s(segment: &Segment, length_s: f64, missing: f64) -> f64 {
    let slope = (segment.to_per_s - segment.from_per_s) / length_s;
    let from = segment.from_per_s;
    // This form of the root has no cancellation and holds for slope = 0 too.
    let root = (from * from + 2.0 * slope * missing).max(0.0).sqrt();
    if from + root <= 0.0 { 0.0 } else { 2.0 * missing / (from + root) }
}

/// Think time after a reply, nanoseconds.
pub fn think_ns(think: Think, random: &mut SmallRng) -> u64 {
    match think {
        Think::None => 0,
        Think::FixedNs(ns) => ns,
        Think::UniformNs(low, high) => random.random_range(low..=high.max(low)),
        Think::ExponentialNs(mean) => (exponential(random) * mean as f64) as u64,
    }
}

/// An exponential variate of mean 1, by inversion.
fn exponential(random: &mut SmallRng) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn dues(profile: &[Segment], arrivals: Arrivals, workers: u16, until_ns: u64) -> Vec<u64> {
        let pace = Pace::Open { profile: profile.to_vec(), arrivals };
        let mut all = Vec::new();
        for worker in 0..workers {
            let mut random = SmallRng::seed_from_u64(u64::from(worker) + 1);
            let mut schedule = Schedule::of(&pace, Part::equal(worker, workers), &mut random).unwrap();
            let mut last = 0;
            loop {
                let due = schedule.next(&mut random);
                assert!(due >= last, "moments never go back");
                last = due;
                if due >= until_ns {
                    break;
                }
                all.push(due);
            }
        }
        all.sort_unstable();
        all
    }

    fn flat(rate: f64) -> Segment {
        Segment { from_per_s: rate, to_per_s: rate, for_ns: 1_000_000_000 }
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced_over_any_number_of_workers() {
        for workers in [1, 2, 3, 7] {
            let all = dues(&[flat(1000.0)], Arrivals::Constant, workers, 5_000_000_000);
            assert_eq!(all.len(), 5000);
            assert!(all.iter().enumerate().all(|(k, due)| due.abs_diff(k as u64 * 1_000_000) <= 1), "{workers}");
        }
    }

    /// All moments of some workers until then, of whom each hears of a change at some request of its own before it.
    fn changed(arrivals: Arrivals, workers: u16, changes: &[(u64, f64)], until_ns: u64) -> Vec<u64> {
        let pace = Pace::Open { profile: vec![flat(1000.0)], arrivals };
        let mut all = Vec::new();
        for worker in 0..workers {
            let mut random = SmallRng::seed_from_u64(u64::from(worker) + 1);
            let mut schedule = Schedule::of(&pace, Part::equal(worker, workers), &mut random).unwrap();
            let (mut due, mut changes) = (schedule.next(&mut random), changes.iter().peekable());
            while due < until_ns {
                if let Some((from_ns, factor)) = changes.next_if(|(from_ns, _)| due + 100_000_000 >= *from_ns) {
                    due = schedule.change(*from_ns, *factor).unwrap();
                    assert_eq!(schedule.change(*from_ns, *factor), None, "once");
                    continue;
                }
                all.push(due);
                due = schedule.next(&mut random);
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn a_rate_that_is_changed_is_that_rate_from_its_moment_on_and_evenly_spaced_over_any_number_of_workers() {
        const S: u64 = 1_000_000_000;
        for workers in [1, 2, 7] {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let all = changed(arrivals, workers, &[(2 * S, 4.0), (4 * S, 0.5)], 6 * S);
                let count = |from, to| all.iter().filter(|due| (from..to).contains(*due)).count() as f64;
                for (counted, wanted) in
                    [(count(0, 2 * S), 2000.0), (count(2 * S, 4 * S), 8000.0), (count(4 * S, 6 * S), 1000.0)]
                {
                    let slack = if arrivals == Arrivals::Constant { 1.0 } else { 5.0 * f64::sqrt(wanted) };
                    assert!(
                        (counted - wanted).abs() <= slack,
                        "{workers} workers, {arrivals:?}: {counted} of {wanted}"
                    );
                }
            }
            let all = changed(Arrivals::Constant, workers, &[(2 * S, 4.0)], 3 * S);
            let gaps = all.windows(2).filter(|pair| pair[0] > 2 * S + 1_000_000).map(|pair| pair[1] - pair[0]);
            assert!(
                gaps.into_iter().all(|gap| gap.abs_diff(250_000) <= 2),
                "{workers} workers keep the whole's spacing"
            );
        }
    }

    #[test]
    fn ramps_and_steps_have_the_area_under_their_rate() {
        let ramp = [Segment { from_per_s: 0.0, to_per_s: 2000.0, for_ns: 2_000_000_000 }];
        assert!(dues(&ramp, Arrivals::Constant, 2, 2_000_000_000).len().abs_diff(2000) <= 1);
        let down = [Segment { from_per_s: 2000.0, to_per_s: 0.0, for_ns: 2_000_000_000 }];
        let all = dues(&down, Arrivals::Constant, 2, 20_000_000_000);
        assert!(all.len().abs_diff(2000) <= 1 && *all.last().unwrap() <= 2_000_000_000);
        let steps = [flat(100.0), flat(300.0)];
        let all = dues(&steps, Arrivals::Constant, 3, 4_000_000_000);
        assert_eq!(all.len(), 100 + 300 * 3);
        assert_eq!(all.iter().filter(|due| **due < 1_000_000_000).count(), 100);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_variance_of_one() {
        let all = dues(&[flat(2000.0)], Arrivals::Poisson, 3, 20_000_000_000);
        let n = all.len() as f64;
        assert!((n - 40_000.0).abs() < 5.0 * 200.0, "{n}");
        let gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        let cv = variance.sqrt() / mean;
        assert!((0.95..1.05).contains(&cv), "{cv}");
    }

    #[test]
    fn unequal_shares_make_the_whole_rate_together() {
        let pace = Pace::Open { profile: vec![flat(1000.0)], arrivals: Arrivals::Constant };
        let counts = [0.75, 0.25, 0.0].map(|share| {
            let part = Part::of_share(share, 0, 3);
            let mut random = SmallRng::seed_from_u64(1);
            let mut schedule = Schedule::of(&pace, part, &mut random).unwrap();
            std::iter::from_fn(|| Some(schedule.next(&mut random))).take_while(|due| *due < 2_000_000_000).count()
        });
        assert!(counts[0].abs_diff(1500) <= 1 && counts[1].abs_diff(500) <= 1 && counts[2] == 0, "{counts:?}");
    }
}
