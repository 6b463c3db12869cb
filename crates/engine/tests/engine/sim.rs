//! What only a simulated network can show: exact expectations, determinism, accounting under any weather.

use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use model::LatencyKind;
use model::plan::*;
use proptest::prelude::*;

#[test]
fn a_run_is_a_function_of_its_seed() {
    let weather = Weather { reset: 0.02, cut: 0.3, refuse: 0.1, ..Weather::default() };
    let go = |seed| {
        let mut plan = plan(http());
        plan.seed = seed;
        let sum = run(DriverKind::Sim, plan, weather, answering(http_ok)).unwrap();
        (sum.total, sum.finished)
    };
    assert_eq!(go(1), go(1));
    assert_ne!(go(1), go(2));
}

/// A server that serves one request at a time, 20 µs each, and stands still from 5.0 to 6.0 s.
#[derive(Clone)]
struct Queueing;

impl Service for Queueing {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        vec![]
    }
    fn received(&mut self, _: u64, bytes: &[u8]) -> Vec<Action> {
        vec![reply(bytes)]
    }
}

#[test]
fn a_stall_of_the_target_is_seen_whole_and_never_as_lag() {
    let mut plan = plan(Workload::Echo(Echo { sizes: Sizes::Fixed(16), content: Content::Text }));
    plan.pace = open(5000.0);
    plan.connections = 64;
    plan.stop.duration_ns = Some(10 * S);
    plan.timeouts.reply_ns = 30 * S;
    let weather = Weather { delay_ns: (1000, 1000), stall_ns: Some((5 * S, S)), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan, weather, || Queueing).unwrap();
    sum.assert_conserved("stall");
    assert_eq!(sum.total.counts.ok, 50_000);
    let response = sum.total.latency.of(LatencyKind::Response);
    // Requests due in the stall (5000 of 50000) wait until it ends: uniform between 0 and 1000 ms. So the quantile q
    // is (q − 0.9) / 0.1 of a second; the drain is nearly instant here.
    for (q, expected_ms) in [(0.95, 500.0), (0.99, 900.0)] {
        let got_ms = response.value_at_quantile(q) as f64 / 1e6;
        assert!((got_ms / expected_ms - 1.0).abs() < 0.01, "p{q}: {got_ms} ms, expected {expected_ms} ms");
    }
    assert!(response.value_at_quantile(0.89) < MS);
    // 64 of them were sent into the stall, the others waited for a connection: both are the target's doing.
    assert!(sum.total.latency.of(LatencyKind::Queue).value_at_quantile(0.99) > 850 * MS);
    assert!(sum.total.latency.of(LatencyKind::Lag).max() < MS);
}

#[test]
fn a_generator_that_was_stopped_shows_it_as_lag() {
    let mut plan = plan(echo());
    plan.pace = open(1000.0);
    plan.stop.duration_ns = Some(2 * S);
    let weather = Weather { leap_ns: Some((S, 300 * MS)), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan, weather, answering(echo_back)).unwrap();
    sum.assert_conserved("leap");
    assert_eq!(sum.total.counts.started, 2000);
    let lag = sum.total.latency.of(LatencyKind::Lag);
    assert!(lag.max() >= 299 * MS, "{}", lag.max());
    let late: u64 = lag.iter_recorded().filter(|(ns, _)| *ns >= MS).map(|(_, count)| count).sum();
    assert!(late >= 295);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// started = ok + failed + in flight at the end, whatever the network does.
    #[test]
    fn every_request_is_accounted_for(
        seed in any::<u64>(),
        (refuse, blackhole, reset, cut) in (0.0..0.3f64, 0.0..0.2f64, 0.0..0.1f64, 0.0..0.9f64),
        connections in 1u32..20,
        pipeline in 1u16..5,
        paced in 0u8..3,
        limits in (prop::option::of(1u64..300), prop::option::of(1u32..10)),
        warmup_ns in prop_oneof![Just(0), Just(37 * MS)],
        is_http in any::<bool>(),
    ) {
        let mut plan = plan(if is_http { http() } else { echo() });
        plan.seed = seed;
        plan.connections = connections;
        plan.pipeline = if is_http { pipeline } else { 1 };
        plan.warmup_ns = warmup_ns;
        plan.timeouts = Timeouts { connect_ns: 30 * MS, reply_ns: 40 * MS };
        plan.stop.requests = limits.0;
        plan.requests_per_connection = limits.1;
        plan.drain_ns = 20 * MS;
        plan.queue_capacity = 50;
        plan.pace = match paced {
            0 => Pace::Closed { think: Think::None },
            1 => Pace::Closed { think: Think::ExponentialNs(5 * MS) },
            _ => open(2000.0),
        };
        let weather = Weather { delay_ns: (1000, 3 * MS), refuse, blackhole, reset, cut, ..Weather::default() };
        let service = answering(if is_http { http_ok } else { echo_back });
        let sum = run(DriverKind::Sim, plan.clone(), weather, service).unwrap();
        sum.assert_conserved("weather");
        if let Some(n) = limits.0 {
            prop_assert!(sum.total.counts.started <= n);
        }
        let ok = sum.total.counts.ok;
        prop_assert_eq!(sum.total.latency.of(LatencyKind::Response).len(), ok);
        prop_assert_eq!(sum.total.latency.of(LatencyKind::Failed).len(), sum.total.counts.failed);
        prop_assert_eq!(sum.total.outcomes.seen().map(|(_, n)| n).sum::<u64>(), if is_http { ok } else { 0 });
    }
}

/// Answers the k-th request of each connection after its own delay, whatever came before.
#[derive(Clone)]
struct Delays {
    ns: &'static [u64],
    seen: std::collections::BTreeMap<u64, usize>,
}

impl Service for Delays {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        vec![]
    }
    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let seen = self.seen.entry(connection).or_default();
        let replies = bytes.chunks(16).map(|request| {
            let after_ns = self.ns[*seen % self.ns.len()];
            *seen += 1;
            Action::Reply { bytes: request.to_vec(), after_ns }
        });
        replies.collect()
    }
}

#[test]
fn each_request_has_the_whole_of_its_own_timeout() {
    // Two at once, three to a connection: the third is sent when the first is answered, at 100 ms, and is the oldest when
    // the second is, at 150 ms. Its own 200 ms end at 300 ms, not at the 200 ms of those sent first.
    let mut plan = plan(Workload::Echo(Echo { sizes: Sizes::Fixed(16), content: Content::Text }));
    (plan.connections, plan.pipeline, plan.requests_per_connection) = (1, 2, Some(3));
    plan.timeouts.reply_ns = 200 * MS;
    plan.stop = Stop { duration_ns: Some(10 * S), requests: Some(3) };
    let service = || Delays { ns: &[100 * MS, 150 * MS, 150 * MS], seen: Default::default() };
    let weather = Weather { delay_ns: (1000, 1000), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan, weather, service).unwrap();
    assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (3, 0));
}

#[test]
fn what_has_no_end_is_in_the_figures_with_its_age() {
    let mut plan = plan(Workload::Echo(Echo { sizes: Sizes::Fixed(16), content: Content::Text }));
    plan.pace = open(1000.0);
    plan.connections = 100;
    plan.stop.duration_ns = Some(5 * S);
    (plan.drain_ns, plan.timeouts.reply_ns) = (2 * S, 30 * S);
    // The target stands still from the middle on, for longer than the run.
    let weather = Weather { delay_ns: (1000, 1000), stall_ns: Some((2500 * MS, 60 * S)), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan, weather, || Queueing).unwrap();
    sum.assert_conserved("stalled");
    assert_eq!(sum.in_flight(), 2500);
    let latency = &sum.total.latency;
    assert_eq!(latency.of(LatencyKind::ServiceCensored).len(), 100, "sent into the stall, a connection each");
    assert_eq!(latency.of(LatencyKind::QueueCensored).len(), 2400);
    // Half were answered at once; the others were due evenly from 4.5 s to 2.0 s before the end of the drain.
    let p45 = latency.quantile(LatencyKind::Response, 0.45).unwrap();
    assert!(p45.ns < MS && !p45.is_bound);
    let p99 = latency.quantile(LatencyKind::Response, 0.99).unwrap();
    assert!(p99.is_bound && p99.ns.abs_diff(4450 * MS) < 10 * MS, "{p99:?}");
}

#[test]
fn a_worker_that_was_stopped_says_what_it_never_came_to() {
    let mut plan = plan(Workload::Echo(Echo { sizes: Sizes::Fixed(16), content: Content::Text }));
    plan.pace = open(1000.0);
    plan.stop.duration_ns = Some(S);
    // The clock leaps over the last 400 ms of the load.
    let weather = Weather { delay_ns: (1000, 1000), leap_ns: Some((600 * MS, 500 * MS)), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan, weather, || Queueing).unwrap();
    let counts = sum.total.counts;
    assert_eq!(counts.started + counts.never_taken_up, 1000);
    // Of the 400 that came due meanwhile a batch was still released, half a second late.
    assert!((300..400).contains(&counts.never_taken_up), "{counts:?}");
    assert!(sum.total.latency.of(LatencyKind::LagCensored).max() >= 430 * MS);
    assert!(counts.late_ns >= 490 * MS, "the late turn is the generator's: {counts:?}");
    // In a closed pace no request is late, but the turn is.
    let mut closed = crate::common::plan(echo());
    closed.stop.duration_ns = Some(S);
    let weather = Weather { leap_ns: Some((300 * MS, 200 * MS)), ..Weather::default() };
    let sum = run(DriverKind::Sim, closed, weather, answering(echo_back)).unwrap();
    assert!((190 * MS..260 * MS).contains(&sum.total.counts.late_ns), "{:?}", sum.total.counts);
}

#[test]
fn a_pause_of_a_worker_that_was_stopped_in_the_midst_of_a_turn_is_its_own() {
    // Here a turn has one event, and the send is its last deed: the worker knows by how much it was late for what it does by the clock, at the
    // latest a tick after it had begun to wait. Late for a turn without a reply, it is late for the reply, too.
    for connections in [1, 4, 64] {
        let mut plan = plan(echo());
        (plan.connections, plan.stop.duration_ns) = (connections, Some(S));
        let weather =
            Weather { delay_ns: (20_000, 20_000), leap_in_send_ns: Some((300 * MS, 200 * MS)), ..Weather::default() };
        let sum = run(DriverKind::Sim, plan, weather, answering(echo_back)).unwrap();
        let gap = sum.requests.gaps().max_by_key(|gap| gap.length_ns()).unwrap();
        assert!(gap.length_ns() >= 199 * MS && gap.others_ns() <= 101 * MS, "{connections}: {gap:?}");
    }
}

#[test]
fn a_thousand_first_connects_are_spread_over_turns() {
    let mut plan = plan(echo());
    (plan.connections, plan.stop.duration_ns) = (5000, Some(S));
    let weather = Weather { delay_ns: (5 * MS, 5 * MS), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan, weather, answering(echo_back)).unwrap();
    assert_eq!(sum.total.counts.connected, 5000);
    // A connect takes two delays here; as many as may be under way at once are made in that time, and a user comes when
    // its connection is begun, so it does not wait for those before it.
    assert!(sum.total.latency.of(LatencyKind::Queue).max() < 11 * MS);
    assert!(sum.total.latency.of(LatencyKind::Connect).max() < 11 * MS);
}
