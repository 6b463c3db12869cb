//! Whole runs on the simulated network: what a report says of one must be what the simulation's own list says.
//!
//! From a seed: 1 to 64 workers, 1 to 8 origins, any pace, targets that are slow, stall, cut, reset, serve only some, or
//! die, workers that are stopped, a session that is slow to give intervals back, an interrupt. Nothing here takes real
//! time or threads, so a seed that fails fails again: `PLIMSOLL_SIM_SEED=n` runs it alone, `PLIMSOLL_SIM_SEEDS=n` so many, and
//! `PLIMSOLL_SIM_SECONDS=n` new ones for so long (`make soak`).

use crate::common::*;
use engine::driver::Setup;
use engine::driver::sim::{Action, Log, Passed, Service, Sim, Weather};
use engine::share::Share;
use engine::{Fleet, SimSession};
use model::plan::*;
use model::recording::{Recording, Row};
use model::{Event, LatencyKind};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use session::{Outcome, RecordTo, Watch, run_on};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::recordings;

const S: u64 = 1_000 * MS;
/// When a run that ends by its count ends at the latest.
const COUNTED_NS_MAX: u64 = 5 * S;

/// A target: it echoes after a while, or never on some connections.
#[derive(Clone, Copy)]
struct Target {
    delay_ns: (u64, u64),
    /// Of every so many connections one is answered; 1: all are.
    answers_one_in: u64,
    state: u64,
}

impl Service for Target {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        if !connection.is_multiple_of(self.answers_one_in) {
            return Vec::new();
        }
        // xorshift: the delay is a function of what came before.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let (low, high) = self.delay_ns;
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns: low + self.state % (high - low + 1) }]
    }
}

struct Silent;

impl Watch for Silent {
    fn on_tick(&mut self, _: &Row, _: &Plan) {}
    fn on_event(&mut self, _: &Event) {}
}

/// All that a seed decides.
struct Case {
    plan: Plan,
    target: Target,
    weather: Weather,
    /// The worker that is stopped once: (which, when, how long).
    stopped: Option<(u16, u64, u64)>,
    session: SimSession,
}

fn origin(i: usize, weight: f64, addresses: usize) -> Origin {
    let address = |k: usize| Address::Tcp(format!("127.0.{i}.{}:80", k + 1).parse().unwrap());
    Origin { name: format!("echo://{i}"), addresses: (0..addresses).map(address).collect(), weight }
}

fn case(seed: u64) -> Case {
    let mut r = SmallRng::seed_from_u64(seed);
    let threads: u16 = if r.random_bool(0.02) { 64 } else { [1, 1, 2, 2, 3, 4, 8, 16][r.random_range(0..8)] };
    let origins: usize = [1, 1, 1, 2, 3, 8][r.random_range(0..6)];
    let least = u32::from(threads).max(origins as u32);
    let connections = r.random_range(least..=least + 24);
    let length_ns = r.random_range(250..700) * MS;
    let rate = f64::from(r.random_range(200..3000u32));
    let pace = match r.random_range(0..4) {
        0 => Pace::Closed { think: Think::None },
        1 => Pace::Closed { think: Think::ExponentialNs(r.random_range(1..40) * MS) },
        2 => Pace::Open { profile: vec![flat(rate, length_ns)], arrivals: Arrivals::Constant },
        _ => Pace::Open { profile: vec![flat(rate, length_ns)], arrivals: Arrivals::Poisson },
    };
    let by_count = r.random_bool(0.25);
    let workload = Workload::Echo(Echo { sizes: Sizes::Fixed(BYTES), content: Content::Text });
    let origins = (0..origins).map(|i| origin(i, f64::from(r.random_range(1..4u32)), r.random_range(1..4))).collect();
    let plan = Plan {
        pace,
        connections,
        threads,
        stop: Stop {
            duration_ns: Some(if by_count { COUNTED_NS_MAX } else { length_ns }),
            requests: by_count.then(|| r.random_range(100..2000)),
        },
        warmup_ns: if r.random_bool(0.4) { r.random_range(1..300) * MS } else { 0 },
        drain_ns: r.random_range(0..300) * MS,
        timeouts: Timeouts { connect_ns: 200 * MS, reply_ns: r.random_range(50..2000) * MS },
        reconnect: Backoff { first_ns: 5 * MS, max_ns: 50 * MS },
        requests_per_connection: [None, None, Some(1), Some(7)][r.random_range(0..4)],
        pipeline: [1, 1, 1, 4][r.random_range(0..4)],
        on_full: if r.random_bool(0.2) { OnFull::Drop } else { OnFull::Wait },
        queue_capacity: [10, 100_000][r.random_range(0..2)],
        driver: DriverKind::Sim,
        tick_ns: 100 * MS,
        seed,
        ..recordings::plan(workload, origins)
    };
    // Without think time a quick target would be asked a million times.
    let slow = r.random_range(if matches!(plan.pace, Pace::Closed { .. }) { 8..40 } else { 0..30 }) * MS;
    let target = Target {
        delay_ns: (slow / 4, slow + MS),
        answers_one_in: if r.random_bool(0.15) { r.random_range(2..4) } else { 1 },
        state: seed | 1,
    };
    let moment = |r: &mut SmallRng| r.random_range(0..length_ns);
    let weather = Weather {
        delay_ns: (10_000, r.random_range(10_000..500_000)),
        refuse: if r.random_bool(0.1) { 0.2 } else { 0.0 },
        blackhole: if r.random_bool(0.1) { 0.1 } else { 0.0 },
        reset: if r.random_bool(0.1) { 0.01 } else { 0.0 },
        cut: if r.random_bool(0.3) { 0.3 } else { 0.0 },
        stall_ns: r.random_bool(0.25).then(|| (moment(&mut r), r.random_range(10..800) * MS)),
        leap_ns: None,
        leap_in_send_ns: None,
        dies_ns: r.random_bool(0.1).then(|| moment(&mut r)),
    };
    // Of a stream of its own, so that what a seed decides else stays.
    let mut p = SmallRng::seed_from_u64(seed ^ 0x706f_6c69_6379);
    let retry = |p: &mut SmallRng| OnError::Retry {
        times: p.random_range(1..6),
        backoff_ns: p.random_range(0..50) * MS,
        jitter: [0.0, 0.5, 1.0][p.random_range(0..3)],
        budget: [None, Some(0.0), Some(0.1), Some(1.0)][p.random_range(0..4)],
    };
    let on_error = match p.random_range(0..4) {
        0 => OnError::Wait,
        1 => retry(&mut p),
        _ => OnError::FailFast,
    };
    let plan = Plan { on_error, ..plan };
    let stopped = r.random_bool(0.2).then(|| (r.random_range(0..threads), moment(&mut r), r.random_range(5..900) * MS));
    let session = SimSession {
        give_back_after_ns: [0, 0, 30 * MS, 450 * MS][r.random_range(0..4)],
        interrupt_at_ns: r.random_bool(0.1).then(|| moment(&mut r)),
    };
    Case { plan, target, weather, stopped, session }
}

fn flat(rate: f64, for_ns: u64) -> Segment {
    Segment { from_per_s: rate, to_per_s: rate, for_ns }
}

/// Runs a case: the recording, and what passed, by worker.
fn go(case: &Case) -> (Recording, Vec<Vec<Passed>>) {
    let (outcome, logs) = go_recorded(case, RecordTo::Nothing);
    let mut recording = outcome.recording;
    // The only figures that are the machine's own.
    (recording.totals.cpu_user_ns, recording.totals.cpu_system_ns, recording.totals.peak_rss_bytes) = (0, 0, 0);
    recording.totals.first_request_ns = None;
    (recording, logs)
}

/// The same with all that the run left.
fn go_recorded(case: &Case, record: RecordTo) -> (Outcome, Vec<Vec<Passed>>) {
    go_watched(case, record, &mut Silent)
}

/// The same, seen by somebody.
fn go_watched(case: &Case, record: RecordTo, watch: &mut dyn Watch) -> (Outcome, Vec<Vec<Passed>>) {
    let options = options(record);
    let logs: Vec<Log> = (0..case.plan.threads).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let network = |setup: &Setup, share: &Share| {
        let leap_ns = case.stopped.filter(|(worker, ..)| *worker == share.worker).map(|(_, at, long)| (at, long));
        let seed = case.plan.seed ^ u64::from(share.worker) << 32;
        let service = Target { state: case.target.state ^ u64::from(share.worker) << 16, ..case.target };
        Sim::new(setup, Box::new(service), Weather { leap_ns, ..case.weather }, seed)
            .logged(Arc::clone(&logs[usize::from(share.worker)]))
    };
    let outcome = run_on(case.plan.clone(), &options, watch, |plan| Fleet::simulated(plan, case.session, network));
    (outcome.unwrap(), logs.iter().map(|log| log.lock().unwrap().clone()).collect())
}

/// Wishes for other rates: at which tick, how many times what was planned.
struct Faster(Vec<(u64, f64)>);

impl Watch for Faster {
    fn on_tick(&mut self, row: &Row, _: &Plan) {
        self.0.iter_mut().for_each(|(tick, _)| *tick = tick.saturating_sub(u64::from(row.end_ns > 0)));
    }
    fn on_event(&mut self, _: &Event) {}
    fn rate_factor(&mut self) -> Option<f64> {
        (self.0.first()?.0 == 0).then(|| self.0.remove(0).1)
    }
}

/// What is asked for after a change is what the recording's plan then says, from its moment on, by any number of workers, also
/// where a worker's next request was far away.
#[test]
fn a_rate_that_is_changed_is_kept_to_the_request() {
    for (threads, rate, changes) in [
        (1, 4.0, vec![(10, 100.0)]),
        (3, 4.0, vec![(10, 100.0)]),
        (4, 2000.0, vec![(5, 0.25), (12, 2.0), (12, 1.0)]),
        (2, 1000.0, vec![(3, 0.01)]),
    ] {
        let case = Case {
            plan: Plan {
                pace: Pace::Open { profile: vec![flat(rate, 3 * S)], arrivals: Arrivals::Constant },
                connections: 64,
                threads,
                stop: Stop { duration_ns: Some(3 * S), requests: None },
                queue_capacity: 100_000,
                driver: DriverKind::Sim,
                tick_ns: 100 * MS,
                ..recordings::plan(
                    Workload::Echo(Echo { sizes: Sizes::Fixed(BYTES), content: Content::Text }),
                    vec![origin(0, 1.0, 1)],
                )
            },
            target: Target { delay_ns: (0, MS), answers_one_in: 1, state: 1 },
            weather: Weather::default(),
            stopped: None,
            session: SimSession::default(),
        };
        let says = format!("{threads} workers, {rate}/s, {changes:?}");
        let wished = changes.len();
        let (outcome, logs) = go_watched(&case, RecordTo::Nothing, &mut Faster(changes));
        let recording = outcome.recording;
        let changed: Vec<u64> = recording
            .events
            .iter()
            .filter(|event| event.kind == model::event::RATE_CHANGED)
            .map(|event| event.at_ns as u64)
            .collect();
        assert_eq!(changed.len(), wished, "{says}");
        let sent: Vec<u64> = exchanges(&logs).iter().map(|exchange| exchange.sent_ns).collect();
        let moments: Vec<u64> = [0].into_iter().chain(changed).chain([3 * S]).collect();
        for pair in moments.windows(2) {
            let due = recording.plan.due_between(pair[0], pair[1]).unwrap();
            let counted = sent.iter().filter(|at| (pair[0]..pair[1]).contains(at)).count() as f64;
            let slack = f64::from(threads) + 1.0;
            assert!((counted - due).abs() <= slack, "{says}: {due} due in {pair:?}, {counted} sent");
        }
    }
}

/// The ⌈q·n⌉-th of some figures in order.
fn quantile(sorted: &[u64], q: f64) -> u64 {
    sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// What holds of every run: each request is somewhere, and the timeline adds up to the totals.
fn check_books(recording: &Recording, says: &dyn Fn(&str) -> String) {
    let totals = &recording.totals;
    let counts = &totals.sum.counts;
    // Accounting.
    assert!(totals.is_conserved(), "{}", says("started = ok + failed + unfinished"));
    assert_eq!(counts.failed, totals.sum.errors.total(), "{}", says("each failure has a kind"));
    let unfinished = totals.sum.latency.of(LatencyKind::ResponseCensored).len();
    assert_eq!(unfinished, totals.in_flight_at_end, "{}", says("each unfinished request has its age"));
    assert_eq!(totals.sum.latency.of(LatencyKind::Response).len(), counts.ok, "{}", says("each success its time"));
    assert_eq!(totals.sum.latency.of(LatencyKind::Failed).len(), counts.failed, "{}", says("each failure its time"));

    check_attempts(recording, says);

    // The timeline adds up to the totals, and what is in time to the rows before the drain.
    let rows = recording.timeline.rows();
    let sum = |of: fn(&Row) -> u64, rows: &mut dyn Iterator<Item = &Row>| rows.map(of).sum::<u64>();
    for (what, of) in [
        ("ok", (|row| row.counts.ok) as fn(&Row) -> u64),
        ("failed", |row| row.counts.failed),
        ("started", |row| row.counts.started),
        ("dropped", |row| row.counts.dropped),
        ("never taken up", |row| row.counts.never_taken_up),
    ] {
        let whole = Row { counts: *counts, ..Row::default() };
        assert_eq!(sum(of, &mut rows.iter()), of(&whole), "{}", says(what));
    }
    let in_time = sum(|row| row.counts.arrived(), &mut rows.iter().filter(|row| !row.is_drain));
    assert_eq!(in_time, totals.in_time.arrived(), "{}", says("rows before the drain"));
}

/// What a policy owes: attempts are bounded by it, and without one there is one for each request.
fn check_attempts(recording: &Recording, says: &dyn Fn(&str) -> String) {
    let counts = &recording.totals.sum.counts;
    match recording.plan.on_error {
        OnError::FailFast => assert_eq!((counts.retries, counts.retries_denied), (0, 0), "{}", says("no policy")),
        OnError::Wait => assert_eq!(counts.retries_denied, 0, "{}", says("waiting has no budget")),
        OnError::Retry { times, budget, .. } => {
            assert!(counts.retries <= u64::from(times) * counts.started, "{}", says("retries of each request"));
            if let Some(share) = budget {
                // Each worker keeps its own, and no one spends what it has not earned.
                assert!(counts.retries as f64 <= share * counts.started as f64 + 1e-6, "{}", says("budget"));
            }
        }
    }
}

fn check(seed: u64) {
    let case = case(seed);
    let (recording, logs) = go(&case);
    let plan = &case.plan;
    let totals = &recording.totals;
    let counts = &totals.sum.counts;
    let says = |what: &str| {
        format!(
            "seed {seed}: {what}\n{counts:?}\nin time {:?}, unfinished {}, measured {} ms from {} ms\n{plan:?}\n{:?} {:?} {:?}",
            totals.in_time,
            totals.in_flight_at_end,
            totals.measured_ns / MS,
            totals.measured_from_ns / MS,
            case.weather,
            case.stopped,
            case.session
        )
    };

    check_books(&recording, &says);
    let unfinished = totals.in_flight_at_end;

    // Rates are replies over time, by the simulation's list.
    let list = exchanges(&logs);
    let end_ns = totals.measured_from_ns + totals.measured_ns;
    let is_whole = case.session.interrupt_at_ns.is_none();
    if is_whole && plan.stop.requests.is_none() {
        assert_eq!(totals.measured_ns, plan.stop.duration_ns.unwrap(), "{}", says("measured time"));
    }
    if case.stopped.is_none() && is_whole && plan.stop.requests.is_none() {
        let measured = totals.measured_from_ns..end_ns;
        let replies = list.iter().filter(|e| e.done_ns.is_some_and(|at| measured.contains(&at))).count() as u64;
        let arrived = totals.in_time.ok_arrived();
        // A reply may come at the very moment that a worker ends.
        let slack = u64::from(plan.threads);
        assert!(arrived.abs_diff(replies) <= slack, "{}", says(&format!("{arrived} in time, {replies} by the list")));
    }

    // All that was due is somewhere.
    if let (Pace::Open { profile, arrivals: Arrivals::Constant }, true, None) =
        (&plan.pace, is_whole, plan.stop.requests)
    {
        let due = profile[0].from_per_s * (plan.stop.duration_ns.unwrap() as f64 / 1e9);
        let accounted = (counts.started + counts.dropped + counts.never_taken_up) as f64;
        let slack = 2.0 * f64::from(plan.threads) + 2.0;
        assert!(
            (accounted - due).abs() <= slack,
            "{}",
            says(&format!("{due} were due, {accounted} are accounted for"))
        );
    }
    if let (Some(asked), true) = (plan.stop.requests, is_whole)
        && matches!(plan.pace, Pace::Closed { .. })
        && totals.measured_ns < COUNTED_NS_MAX
    {
        assert_eq!(counts.started, asked, "{}", says("as many as were asked for"));
    }

    // Each origin gets its share, and all of its addresses.
    let of_address: Vec<usize> =
        plan.origins.iter().zip(0..).flat_map(|(o, i)| o.addresses.iter().map(move |_| i)).collect();
    let mut sent = vec![0f64; plan.origins.len()];
    list.iter().for_each(|e| sent[of_address[e.address]] += 1.0);
    let all: f64 = sent.iter().sum();
    let weights: f64 = plan.origins.iter().map(|o| o.weight).sum();
    let is_sound = case.weather.refuse + case.weather.blackhole + case.weather.reset == 0.0
        && case.weather.dies_ns.is_none()
        && counts.retries == 0
        && case.target.answers_one_in == 1;
    if matches!(plan.pace, Pace::Open { .. }) && is_sound && plan.on_full == OnFull::Wait && unfinished == 0 {
        for (origin, sent) in plan.origins.iter().zip(&sent) {
            let share = origin.weight / weights;
            let scatter = 6.0 * (all * share * (1.0 - share)).sqrt() + 3.0 * f64::from(plan.threads);
            let what = format!("{} got {sent} of {all}, its share is {share:.3}", origin.name);
            assert!((sent - all * share).abs() <= scatter || counts.dropped > 0, "{}", says(&what));
        }
    }

    // Every quantile of the service time is that of the list, lower bounds included.
    let is_listed = plan.warmup_ns == 0 && case.stopped.is_none() && is_sound && counts.failed == 0;
    let is_stamped_alike = matches!(plan.pace, Pace::Closed { think: Think::None }) || plan.pipeline == 1;
    if is_listed && is_stamped_alike && counts.ok > 0 {
        let mut service: Vec<u64> = list.iter().filter_map(|e| Some(e.done_ns?.saturating_sub(e.sent_ns))).collect();
        service.sort_unstable();
        assert_eq!(service.len() as u64, counts.ok, "{}", says("as many replies as successes"));
        for q in [0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
            let (expected, histogram) = (quantile(&service, q), totals.sum.latency.of(LatencyKind::Service));
            let got = histogram.value_at_quantile(q);
            let what = format!("service q{q}: {got} ns, by the list {expected} ns");
            // In an open pace replies are looked at late, by at most the bound on the reap delay.
            assert!(got.abs_diff(expected) as f64 <= RESOLUTION * expected as f64 + 2.0, "{}", says(&what));
        }
        let open = list.iter().filter(|e| e.done_ns.is_none()).count() as u64;
        assert_eq!(totals.sum.latency.of(LatencyKind::ServiceCensored).len(), open, "{}", says("sent and unfinished"));
    }

    check_requests(&recording, &says);
    if is_listed && is_stamped_alike && counts.ok > 0 {
        check_requests_by_list(&recording, &list, &says);
    }

    // Every quantile of the response time, where each request's moment is known: an open pace of one origin, in order.
    if let (Pace::Open { arrivals: Arrivals::Constant, profile }, true) = (&plan.pace, is_listed)
        && plan.origins.len() == 1
        && counts.dropped + counts.never_taken_up == 0
        && is_whole
    {
        let mut response = Vec::new();
        for worker in 0..usize::from(plan.threads) {
            let mut of_worker: Vec<&Exchange> = list.iter().filter(|e| e.worker == worker).collect();
            of_worker.sort_by_key(|e| e.sent_ns);
            for (k, exchange) in of_worker.into_iter().enumerate() {
                let due_ns = (worker as f64 + k as f64 * f64::from(plan.threads)) / profile[0].from_per_s * 1e9;
                response.extend(exchange.done_ns.map(|done_ns| done_ns.saturating_sub(due_ns as u64)));
            }
        }
        response.sort_unstable();
        for q in [0.5, 0.9, 0.99, 1.0] {
            let (expected, got) =
                (quantile(&response, q), totals.sum.latency.of(LatencyKind::Response).value_at_quantile(q));
            // Requests sent at one moment may change places in the list: by what is between two of them.
            let what = format!("response q{q}: {got} ns, by the list {expected} ns");
            assert!(got.abs_diff(expected) as f64 <= 0.01 * expected as f64 + 1000.0, "{}", says(&what));
        }
    }

    // What connections gave adds up.
    let users = totals.users.unwrap();
    assert!(users.connections <= u64::from(plan.connections), "{}", says("connections"));
    if is_sound && plan.warmup_ns == 0 && case.target.answers_one_in == 1 {
        assert_eq!(users.served, counts.ok, "{}", says("replies of all connections"));
    }
}

/// Connections that are held, or bursts, from the same seed.
fn check_held_or_burst(seed: u64) {
    let mut case = case(seed);
    case.plan.on_error = OnError::FailFast;
    let mut r = SmallRng::seed_from_u64(!seed);
    let message = Echo { sizes: Sizes::Fixed(BYTES), content: Content::Text };
    let plan = &mut case.plan;
    (plan.pipeline, plan.requests_per_connection, plan.warmup_ns) = (1, None, 0);
    plan.origins.truncate(1);
    let is_held = r.random_bool(0.5);
    if is_held {
        let hold = Hold { message, is_echoed: r.random_bool(0.8), sweep_ns: None, until_failure: r.random_bool(0.2) };
        plan.workload = Workload::Hold(hold);
        let every_ns = r.random_bool(0.8).then(|| r.random_range(20..200) * MS);
        plan.pace = Pace::Held { every_ns, connects_per_s: f64::from(r.random_range(100..2000u32)) };
        plan.stop.requests = None;
        plan.stop.duration_ns = Some(r.random_range(200..600) * MS);
    } else {
        let rounds = r.random_range(1..6);
        let at = if r.random_bool(0.5) { BurstAt::Send } else { BurstAt::Connect };
        plan.pace = Pace::Burst { rounds, at, pause_ns: r.random_range(0..30) * MS };
        plan.timeouts.reply_ns = r.random_range(50..300) * MS;
        let requests = u64::from(rounds) * u64::from(plan.connections);
        plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    }
    let (recording, _) = go(&case);
    let (plan, totals) = (&case.plan, &recording.totals);
    let counts = &totals.sum.counts;
    let says = |what: &str| {
        format!("seed {seed}: {what}\n{counts:?}\n{plan:?}\n{:?} {:?} {:?}", case.weather, case.stopped, case.session)
    };
    check_books(&recording, &says);
    let is_sound = case.weather.refuse + case.weather.blackhole + case.weather.reset == 0.0
        && case.weather.dies_ns.is_none()
        && case.target.answers_one_in == 1
        && case.stopped.is_none()
        && case.session.interrupt_at_ns.is_none()
        && case.weather.stall_ns.is_none();
    if !is_sound || counts.failed > 0 {
        return;
    }
    let connections = u64::from(plan.connections);
    if let Pace::Held { every_ns, .. } = plan.pace {
        assert_eq!(totals.held_at_end, Some(connections), "{}", says("all are held"));
        if let (Some(every_ns), false) = (every_ns, matches!(&plan.workload, Workload::Hold(h) if h.until_failure)) {
            // Each connection sends once in so long; the ends of the measured time cut a message or two of each worker.
            let due = totals.measured_ns as f64 / every_ns as f64 * connections as f64;
            let accounted = (counts.started + counts.dropped + counts.never_taken_up) as f64;
            let slack = 2.0 * f64::from(plan.threads) + 2.0;
            assert!(
                (accounted - due).abs() <= slack,
                "{}",
                says(&format!("{due} were due, {accounted} accounted for"))
            );
        }
    } else {
        assert_eq!(counts.ok, plan.stop.requests.unwrap(), "{}", says("every member of every round"));
        assert_eq!(totals.sum.latency.of(LatencyKind::Lag).max(), 0, "{}", says("released at one moment"));
    }
}

/// Seeds that failed once, a line each; after a `#` it may say what was wrong.
const KEPT: &str = "tests/simulated_seeds.txt";

fn kept() -> Vec<u64> {
    let text = std::fs::read_to_string(KEPT).unwrap();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(|line| line.parse().unwrap()).collect()
}

/// What the environment asks for.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Checks every seed, a thread for each core of the smallest machine: seeds do not know of each other.
fn on_seeds(check: fn(u64)) {
    if let Some(seconds) = asked("PLIMSOLL_SIM_SECONDS") {
        return soak(check, Duration::from_secs(seconds));
    }
    let seeds: Vec<u64> = match asked("PLIMSOLL_SIM_SEED") {
        Some(seed) => vec![seed],
        None => kept().into_iter().chain(0..asked("PLIMSOLL_SIM_SEEDS").unwrap_or(2000)).collect(),
    };
    let (first, second) = seeds.split_at(seeds.len() / 2);
    std::thread::scope(|scope| [first, second].map(|half| scope.spawn(|| half.iter().copied().for_each(check))).len());
    println!("{} seeds", seeds.len());
}

/// Checks seeds that nobody has tried, for so long. One that fails is kept as a test.
fn soak(check: fn(u64), time: Duration) {
    let (began, failed) = (Instant::now(), AtomicBool::new(false));
    // Any start will do, if it is another one the next time.
    let from = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() << 24;
    let next = AtomicU64::new(from);
    let one_after_another = || {
        while began.elapsed() < time && !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if std::panic::catch_unwind(|| check(seed)).is_err() {
                failed.store(true, Ordering::Relaxed);
                let mut file = std::fs::OpenOptions::new().append(true).open(KEPT).unwrap();
                writeln!(file, "{seed}").unwrap();
            }
        }
    };
    std::thread::scope(|scope| [(); 2].map(|()| scope.spawn(one_after_another)).len());
    println!("{} seeds, from {from} on", next.into_inner() - from);
    assert!(!failed.into_inner(), "a seed failed (see above) and is in crates/session/{KEPT} now");
}

#[test]
fn reports_say_what_the_simulation_says() {
    on_seeds(check);
}

#[test]
fn held_connections_and_bursts_are_accounted_for() {
    on_seeds(check_held_or_burst);
}

#[test]
fn a_whole_run_is_a_function_of_its_seed() {
    for seed in 0..40 {
        let (first, second) = (go(&case(seed)).0, go(&case(seed)).0);
        assert_eq!((first.totals, first.timeline), (second.totals, second.timeline), "seed {seed}");
    }
}

/// Runs so long that old ticks are merged: what their recordings hold is what the runs had in memory, and the report is the same.
#[test]
fn the_recording_of_a_long_run_says_what_the_run_said() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..4 {
        let mut case = case(seed);
        // More than 1,200 ticks.
        let length_ns = 130_000 * MS;
        case.plan.pace = Pace::Open { profile: vec![flat(40.0, length_ns)], arrivals: Arrivals::Poisson };
        case.plan.stop = Stop { duration_ns: Some(length_ns), requests: None };
        case.plan.tick_ns = 100 * MS;
        (case.session.interrupt_at_ns, case.weather.dies_ns) = (None, None);
        let path = folder.path().join(format!("{seed}.plimsoll"));
        let (outcome, _) = go_recorded(&case, RecordTo::File(path.clone()));
        assert_eq!(outcome.recording_error, None, "seed {seed}");
        let reader = store::Reader::open(&path).unwrap();
        let (read, history) = reader.load_with_history().unwrap();
        assert!(!read.integrity.is_damaged(), "seed {seed}: {:?}", read.integrity);
        assert!(reader.intervals().count() < 1_200, "seed {seed}: nothing was merged");
        assert_eq!((&read.totals, &read.timeline), (&outcome.recording.totals, &outcome.recording.timeline), "{seed}");
        assert_eq!(read, outcome.recording, "seed {seed}");
        assert_eq!(diagnose::diagnose_with(&read, &history), outcome.diagnosis, "seed {seed}");
    }
}
