//! What the first requests of a run say: whether requests wait for each other, alone and beside what is named.

use super::causes_of_real_servers::{alone, stand, waiting, with};
use crate::common::judged::{sampled, told};
use crate::common::{SECOND, open};
use diagnose::diagnose;
use model::LatencyKind;
use model::Recording;
use model::finding::{Diagnosis, LossKind};
use model::plan::{Arrivals, BurstAt, Pace};
use model::request::{IntervalRequests, Kept, Request};
use model::snapshot::Role;
use testkit::recordings::steady;

/// The first line of a closed loop of sixteen whose requests take 40 ms, and whose first took so long, each on a connection of its own.
fn after_a_first_round(took_ms: impl Iterator<Item = f64>, change: impl FnOnce(&mut Recording)) -> String {
    with_first_round(alone("ep_poll", 0, SECOND), took_ms, change)
}

/// The same of another recording.
fn with_first_round(
    mut recording: Recording,
    took_ms: impl Iterator<Item = f64>,
    change: impl FnOnce(&mut Recording),
) -> String {
    let mut tick = IntervalRequests::default();
    for (connection, ms) in (0..).zip(took_ms) {
        let ended_ns = 1_000_000 + (ms * 1e6) as u64;
        let first = Request { sent_ns: 1_000_000, ended_ns, connection, ordinal: 1, ..Request::default() };
        tick.sampled.offer(1000, Kept::new(u64::from(connection), first));
    }
    recording.requests.push(0, 400, &tick);
    change(&mut recording);
    diagnose(&recording).gives.unwrap().text
}

#[test]
fn whether_requests_wait_for_each_other_is_told_by_those_that_found_nobody_before_them() {
    const EXPERIMENT: &str = "tells whether requests wait for each other";
    let unchanged = |_: &mut Recording| {};
    let one_by_one = || (1..=16).map(|n| 2.5 * f64::from(n));
    let queued = after_a_first_round(one_by_one(), unchanged);
    let said = "; they wait for each other, and one is served at a time (of the first 16 the quickest took 2.50 ms); ";
    assert!(queued.contains(said) && queued.ends_with("a semaphore or a pool"), "{queued}");
    let few_at_a_time = after_a_first_round((0..16).map(|n| 10.0 * f64::from(1 + n / 4)), unchanged);
    let said = "they wait for each other, and about 4 are served at a time (of the first 16 the quickest took 10.0 ms)";
    assert!(few_at_a_time.contains(said), "{few_at_a_time}");
    // Each has 2.5 ms between it and the next, and the first needed a tenth of that.
    let paced = after_a_first_round((0..16).map(|n| if n == 0 { 0.25 } else { 2.5 * f64::from(n) }), unchanged);
    let said =
        "they are let through one every 2.50 ms, though alone one takes 250 µs (the quickest of the first 16); why";
    assert!(paced.contains(said), "{paced}");
    assert!(paced.ends_with("; look in its settings for a limit of requests a second"), "{paced}");
    // Seven as quick as the quickest, and three by the rate.
    let not_clear = after_a_first_round((0..16).map(|n| if n < 7 { 7.5 } else { 40.0 }), unchanged);
    assert!(not_clear.contains("they wait for each other (of the first 16"), "{not_clear}");
    let room = "; `plimsoll diagnose URL --experiment` tells for how many there is room";
    assert!(not_clear.ends_with(room), "{not_clear}");
    let alike = after_a_first_round((0..16).map(|n| 39.0 + 0.2 * f64::from(n)), unchanged);
    assert!(
        alike.contains("; each takes so long by itself (so did the first 16, which found nobody before them); "),
        "{alike}"
    );
    assert!(!alike.contains(EXPERIMENT), "{alike}");
    // Where the target is not seen, that is all that is known of it.
    let unseen = |r: &mut Recording| {
        r.snapshots.iter_mut().for_each(|s| s.processes.retain(|process| process.role != Role::Target));
    };
    let remote = after_a_first_round(one_by_one(), unseen);
    assert!(
        remote.starts_with("nothing was lost; requests wait for each other (of the first 16 the quickest took 2.50 ms, half of all 40.0 ms and more), so the target, or the way to it, is at a limit; at which was not seen ("),
        "{remote}"
    );
    let alike = after_a_first_round((0..16).map(|_| 40.0), unseen);
    assert!(alike.starts_with("nothing was lost; how full the target is was not seen ("), "{alike}");
    let neither = [
        ("a delayed ACK, from the second request on", after_a_first_round((0..16).map(|_| 2.0), unchanged)),
        ("a server that is cold", after_a_first_round((1..=16).map(|n| 40.0 + 60.0 * f64::from(n)), unchanged)),
        ("three of the first were sampled", after_a_first_round([2.5, 2.5, 40.0].into_iter(), unchanged)),
        ("seven that are alike are few", after_a_first_round((0..7).map(|_| 40.0), unchanged)),
        (
            "later ones take longer at times",
            after_a_first_round((0..16).map(|_| 40.0), |r| {
                let took_ms = |n: u64| if n < 12 { 40_000_000 } else { 100_000_000 };
                let all: Vec<Request> =
                    (0..16).map(|n| Request { sent_ns: 1, ended_ns: 1 + took_ms(n), ..Request::default() }).collect();
                told(r, all.iter());
            }),
        ),
        ("an open loop", after_a_first_round(one_by_one(), |r| r.plan.pace = steady(390.0, Arrivals::Constant))),
        (
            "any request may be quick",
            after_a_first_round(one_by_one(), |r| {
                let all: Vec<Request> =
                    (1..=16).map(|n| Request { sent_ns: 1, ended_ns: 2_500_000 * n, ..Request::default() }).collect();
                told(r, all.iter());
            }),
        ),
    ];
    for (what, text) in neither {
        assert!(!text.contains("they wait for each other") && !text.contains("by itself"), "{what}: {text}");
    }
}

/// The first line of ten bursts of a hundred, whose requests took so many milliseconds, and cost the target's one thread so many cores.
fn of_bursts(took_ms: impl Fn(u64) -> f64, cores: f64) -> String {
    judged(took_ms, cores).gives.unwrap().text
}

fn judged(took_ms: impl Fn(u64) -> f64, cores: f64) -> Diagnosis {
    let build = waiting().each(|s| s.target = vec![(cores, 0.0)]);
    let mut recording = build.recording();
    recording.plan.connections = 100;
    recording.plan.pace = Pace::Burst { rounds: 10, at: BurstAt::Send, pause_ns: 100_000_000 };
    let request = |n: u64| Request {
        sent_ns: 1,
        ended_ns: 1 + (took_ms(n % 100) * 1e6) as u64,
        ordinal: 1 + (n / 100) as u32,
        ..Request::default()
    };
    sampled(&mut recording, 1000, request);
    diagnose(&recording)
}

#[test]
fn requests_of_a_burst_are_told_to_be_served_so_many_at_a_time() {
    let five = of_bursts(|n| 10.0 * (1 + n / 5) as f64, 0.01);
    let said =
        "; they wait for each other, and about 5 are served at a time (of the first 100 the quickest took 9.99 ms)";
    assert!(five.contains(said), "{five}");
    let alike = of_bursts(|n| 40.0 + 0.01 * n as f64, 0.01);
    assert!(alike.contains("; each takes so long by itself (so did the first 100,"), "{alike}");
    // 400 requests a second of 2 ms each, one after another.
    let worked_through = of_bursts(|n| 2.0 * (1 + n) as f64, 0.8);
    let said = "nothing but the work itself: its one thread works through each burst of 100, one request after another (2.00 ms of CPU time each,";
    assert!(worked_through.starts_with(said), "{worked_through}");
    // Some take as long as others, however many came before: of each burst one in ten is far later than the rest.
    let late = of_bursts(|n| if n < 90 { 4.0 } else { 400.0 }, 0.01);
    assert!(!late.contains("wait for each other") && !late.contains("the work itself"), "{late}");
}

#[test]
fn of_bursts_that_are_neither_even_nor_alike_nothing_is_said() {
    let neither = [
        ("some are quick, and all others alike", of_bursts(|n| if n < 15 { 4.0 } else { 40.0 }, 0.01)),
        (
            "evenly, but the quickest was not alone",
            of_bursts(|n| [30.0, 50.0, 100.0, 150.0, 180.0][(n / 20) as usize], 0.01),
        ),
    ];
    for (what, text) in neither {
        assert!(text.contains("in the target on average"), "{what}: {text}");
        assert!(!text.contains("they wait for each other") && !text.contains("by itself"), "{what}: {text}");
    }
}

#[test]
fn a_burst_whose_last_take_far_longer_has_slow_requests() {
    let is_slow = |took_ms: fn(u64) -> f64| judged(took_ms, 0.01).losses.iter().any(|loss| loss.kind == LossKind::Slow);
    // Evenly up to three quarters; the rest far beyond their turn.
    assert!(is_slow(|n| if n < 80 { 2.0 * (1 + n) as f64 } else { 2000.0 }));
    assert!(!is_slow(|n| 2.0 * (1 + n) as f64));
}

#[test]
fn a_worker_that_is_alone_serves_no_more_than_one_at_a_time() {
    let pool =
        |took_ms: Vec<f64>| with_first_round(alone("hrtimer_nanosleep", 400, SECOND), took_ms.into_iter(), |_| ());
    let one = pool((1..=16).map(|n| 2.5 * f64::from(n)).collect());
    assert!(one.starts_with("the target's only worker waits in each request"), "{one}");
    let four = pool((0..16).map(|n| 10.0 * f64::from(1 + n / 4)).collect());
    assert!(four.contains("they wait for each other, and about 4 are served at a time"), "{four}");
}

#[test]
fn beyond_its_limit_by_the_clock_how_many_are_served_at_a_time_is_told_by_the_quickest() {
    let text = |quickest_ns: u64, ok: u64, rate: f64| {
        let build = open().each(|s| {
            (s.ok, s.response_ns, s.in_flight, s.connections) = (ok, 140_000_000, 64, 64);
            (s.target, s.idle_cores) = (vec![(0.05, 0.0)], 1.8);
        });
        let mut recording = with(
            &build.with(|b| {
                b.in_flight_at_end = (rate as u64).saturating_sub(ok) * 10;
                b.plan.pace = steady(rate, Arrivals::Constant);
                let behind = (1..).map(|second| (rate as u64).saturating_sub(ok) * second);
                b.seconds.iter_mut().zip(behind).for_each(|(s, behind)| s.queued = behind.saturating_sub(64));
            }),
            |_, s| stand(s, "ep_poll"),
        );
        for kind in [LatencyKind::Response, LatencyKind::Undelayed, LatencyKind::Service] {
            let times = recording.totals.sum.latency.of_mut(kind);
            let (all, usual_ns) = (times.len(), times.value_at_quantile(0.5));
            times.reset();
            times.record_n(usual_ns, all - 2);
            times.record_n(quickest_ns, 2);
        }
        diagnose(&recording).gives.unwrap().text
    };
    let five = text(10_000_000, 460, 600.0);
    let said = "wait for each other, and at most about 5 are served at a time (of all the quickest took 9.99 ms)";
    assert!(five.contains(said), "{five}");
    let paced = text(500_000, 100, 150.0);
    assert!(
        paced.contains("are let through one every 10.0 ms, though alone one takes 500 µs (the quickest of all)"),
        "{paced}"
    );
    assert!(!text(10_000_000, 460, 470.0).contains("served at a time"), "it carries nearly all");
    assert!(!text(100_000_000, 460, 600.0).contains("served at a time"), "the quickest waited, too");
}

/// Sixty-four connections of a load by the clock, each of whose requests takes about 140 ms.
#[test]
fn connections_of_the_load_that_are_all_taken_are_its_own_limit() {
    let text = |rate: f64, ok: u64, times_ms: &[(u64, u64)], warmup_ns: u64| {
        let build = open().each(|s| {
            (s.ok, s.response_ns, s.in_flight, s.connections) = (ok, 140_000_000, 64, 64);
            (s.target, s.idle_cores) = (vec![(0.05, 0.0)], 1.8);
        });
        let mut recording = with(
            &build.with(|b| {
                (b.plan.connections, b.plan.warmup_ns) = (64, warmup_ns);
                b.in_flight_at_end = (rate as u64).saturating_sub(ok) * 10;
                b.plan.pace = steady(rate, Arrivals::Constant);
                let behind = (1..).map(|second| (rate as u64).saturating_sub(ok) * second);
                b.seconds.iter_mut().zip(behind).for_each(|(s, behind)| s.queued = behind.saturating_sub(64));
            }),
            |_, s| stand(s, "ep_poll"),
        );
        for kind in [LatencyKind::Response, LatencyKind::Undelayed, LatencyKind::Service] {
            let times = recording.totals.sum.latency.of_mut(kind);
            let all = times.len();
            times.reset();
            times_ms.iter().for_each(|(ms, part)| times.record_n(ms * 1_000_000, all * part / 4));
        }
        diagnose(&recording).gives.unwrap().text
    };
    let alike: &[(u64, u64)] = &[(139, 2), (141, 2)];
    let full = text(600.0, 456, alike, 0);
    let said = "all 64 connections of this load are taken: each request takes 140 ms by itself, so that they carry 45";
    let ends = "/s at most of 600/s asked for, whatever the target can; -c 150 puts all of it on";
    assert!(full.starts_with(said) && full.ends_with(ends), "{full}");
    let tells = "all 64 connections of this load are taken: more of them (-c 150) tell whether the target can do more";
    // What differs by itself, and what was not measured from the first on: a request that found nobody before it may have been quick.
    for (times, warmup_ns) in [(&[(20, 1), (140, 2), (260, 1)][..], 0), (alike, 1)] {
        let not_known = text(600.0, 456, times, warmup_ns);
        assert!(not_known.ends_with(tells) && !not_known.contains("served at a time"), "{not_known}");
    }
    // Some are free, and as many as are needed are there.
    for (rate, ok) in [(600.0, 300), (440.0, 440)] {
        let free = text(rate, ok, alike, 0);
        assert!(!free.contains("of this load are taken"), "{free}");
    }
}

#[test]
fn that_requests_wait_for_each_other_is_said_beside_what_explains_the_smaller_part_of_it() {
    let beside = |run: f64, wait: f64, wall_step_ns: i128| {
        let each = waiting().each(move |s| {
            (s.target, s.idle_cores, s.neighbours) = (vec![(run, wait)], 0.0, [0.9, 0.1]);
        });
        let build = each.at(5, move |s| s.wall_step_ns = wall_step_ns);
        with_first_round(with(&build, |_, s| stand(s, "ep_poll")), (1..=16).map(|n| 2.5 * f64::from(n)), |_| ())
    };
    let (small, large) = (beside(0.1, 0.1, 0), beside(0.05, 0.75, 0));
    assert!(small.starts_with("yes (pid 30) holds CPUs"), "{small}");
    assert!(
        small.contains(
            " unexplained); besides, requests wait for each other, and one is served at a time (of the first 16 the quickest took 2.50 ms); look in"
        ),
        "{small}"
    );
    assert!(large.starts_with("yes (pid 30) holds CPUs") && !large.contains("besides"), "{large}");
    let no_result = beside(0.1, 0.1, 3_600_000_000_000);
    assert!(no_result.starts_with("yes (pid 30) holds CPUs") && !no_result.contains("besides"), "{no_result}");
}
