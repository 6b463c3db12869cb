//! Segments of runs that are known: a step, a drift, a spike, an outage, stalls; and of noise alone, for the false alarms.

use crate::common::{Build, SECOND, open};
use diagnose::diagnose;
use diagnose::segments::change::{Course, changes};
use model::finding::Segment;

/// Normal noise with a correlation from one value to the next, by a seed (SplitMix64, Box and Muller).
struct Noise {
    state: u64,
    last: f64,
    correlation: f64,
    has_heavy_tails: bool,
}

impl Noise {
    fn new(seed: u64, correlation: f64) -> Self {
        let mut noise = Noise { state: seed.wrapping_mul(7919), last: 0.0, correlation, has_heavy_tails: false };
        noise.last = noise.normal();
        noise
    }

    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
    }

    fn next(&mut self) -> f64 {
        let mut own = self.normal();
        if self.has_heavy_tails {
            // Student's t with three degrees of freedom.
            let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
            own /= (squares / 3.0).sqrt();
        }
        self.last = self.correlation * self.last + (1.0 - self.correlation.powi(2)).sqrt() * own;
        self.last
    }
}

/// How many of a thousand seeds of noise alone, four series of so many values, have a cut.
fn alarms(length: usize, correlation: f64, has_heavy_tails: bool) -> usize {
    let has_cut = |seed: u64| {
        let courses: Vec<Course> = (0..4)
            .map(|i| {
                let mut noise = Noise::new(seed * 4 + i, correlation);
                noise.has_heavy_tails = has_heavy_tails;
                // The difference that matters is so small that it takes nothing away from the test.
                let values = (0..length).map(|_| 1000.0 * (1.0 + 0.15 * noise.next())).collect();
                Course { values, noise_min: 10.0, difference_min: 1e-9 }
            })
            .collect();
        !changes(&courses).is_empty()
    };
    (0..1000).filter(|seed| has_cut(*seed)).count()
}

#[test]
fn noise_alone_makes_no_segments() {
    for length in [12, 30, 60, 120] {
        for (correlation, heavy, most) in [(0.0, false, 5), (0.3, false, 10), (0.5, false, 30), (0.0, true, 10)] {
            let alarms = alarms(length, correlation, heavy);
            println!("{length} values, correlation {correlation}, heavy tails {heavy}: {alarms} of 1000");
            assert!(alarms <= most, "{length} values, correlation {correlation}, {heavy}: {alarms} of 1000");
        }
    }
}

/// A minute with noise of three in a hundred; `of` says throughput, response time in ms and failures of each second.
fn minute(seed: u64, of: impl Fn(u64) -> (f64, f64, u64)) -> Build {
    let (mut rates, mut times) = (Noise::new(2 * seed, 0.2), Noise::new(2 * seed + 1, 0.2));
    let mut build = open();
    build.plan = crate::common::closed().plan;
    let usual = build.seconds[0].clone();
    build.seconds = (0..60)
        .map(|i| {
            let (ok, response_ms, failed) = of(i);
            let mut second = usual.clone();
            second.ok = (ok * (1.0 + 0.03 * rates.next())).max(0.0) as u64;
            second.response_ns = (response_ms * 1e6 * (1.0 + 0.03 * times.next())) as u64;
            second.failed = if failed > 0 { vec![(model::ErrorKind::ConnectTimeout, failed)] } else { Vec::new() };
            second
        })
        .collect();
    build
}

fn found(build: &Build) -> Vec<Segment> {
    diagnose(&build.recording()).segments
}

fn starts(build: &Build) -> Vec<f64> {
    found(build).iter().map(|segment| segment.from_s).collect()
}

#[test]
fn a_step_at_half_makes_two_segments_with_their_figures() {
    for seed in 0..50 {
        let build = minute(seed, |i| if i < 30 { (20_000.0, 4.0, 0) } else { (8000.0, 212.0, 0) });
        let segments = found(&build);
        let [first, second] = &segments[..] else { panic!("seed {seed}: {segments:?}") };
        assert_eq!((first.from_s, first.to_s, second.from_s, second.to_s), (0.0, 30.0, 30.0, 60.0));
        assert!((first.requests_per_s / 20_000.0 - 1.0).abs() < 0.03, "{first:?}");
        assert!((second.requests_per_s / 8000.0 - 1.0).abs() < 0.03, "{second:?}");
        assert!((second.response_p99_us.unwrap() / 212_000.0 - 1.0).abs() < 0.05, "{second:?}");
        assert_eq!((first.failed_per_s, second.failed_per_s), (0.0, 0.0));
    }
}

#[test]
fn a_drift_and_a_spike_make_none_and_stalls_few() {
    let mut most = 0;
    for seed in 0..50 {
        let drift = minute(seed, |i| (10_000.0 - 60.0 * i as f64, 4.0, 0));
        assert_eq!(starts(&drift), [0.0], "drift, seed {seed}");
        let spike = minute(seed, |i| if i == 30 { (500.0, 900.0, 0) } else { (10_000.0, 4.0, 0) });
        assert_eq!(starts(&spike), [0.0], "spike, seed {seed}");
        for (every, long) in [(10, 1), (10, 2), (10, 3), (6, 3)] {
            let stalls =
                minute(seed, |i| if i % every >= every - long { (3000.0, 40.0, 0) } else { (10_000.0, 4.0, 0) });
            most = most.max(starts(&stalls).len());
        }
    }
    assert!(most <= 3, "{most} segments of stalls");
}

#[test]
fn an_outage_of_three_seconds_is_a_segment() {
    for seed in 0..50 {
        let outage = minute(seed, |i| if (40..43).contains(&i) { (0.0, 4.0, 500) } else { (10_000.0, 4.0, 0) });
        let segments = found(&outage);
        assert_eq!(segments.iter().map(|s| s.from_s).collect::<Vec<_>>(), [0.0, 40.0, 43.0], "seed {seed}");
        assert_eq!((segments[1].failed_per_s, segments[1].response_p99_us), (500.0, None));
    }
}

#[test]
fn a_fault_begins_a_segment_even_where_nothing_changed() {
    let mut build = minute(1, |_| (10_000.0, 4.0, 0));
    let at = |second: u64, kind: &str| model::Event::new((second * SECOND) as i64 + 400_000_000, kind, "it was done");
    build.events = vec![at(20, "fault-begun"), at(25, "driver-fallback"), at(33, "fault-undone")];
    assert_eq!(starts(&build), [0.0, 20.0, 33.0]);
}

#[test]
fn a_rate_that_changes_by_plan_is_no_change() {
    use model::plan::{Arrivals, Pace, Segment as Step};
    let mut build = minute(3, |i| (if i < 30 { 2000.0 } else { 6000.0 }, 4.0, 0));
    let step = |per_s| Step { from_per_s: per_s, to_per_s: per_s, for_ns: 30 * SECOND };
    build.plan.pace = Pace::Open { profile: vec![step(2000.0), step(6000.0)], arrivals: Arrivals::Constant };
    assert_eq!(starts(&build), [0.0]);
}
