//! A search whose steps others put on: what it does where they are the limit, are away, or are more.
//!
//! Their loads are made up: each request is answered in a moment below the target's limit and late above it, and a load that is more than
//! the generators can put on is not valid, by a reason of the generator's. No time passes in a step.

use model::event::Details;
use model::finding::{About, Diagnosis, Finding, Reason, Severity, Status, Validity, ValidityState};
use model::plan::{Pace, Plan};
use model::recording::{Capsule, Row};
use model::scenario::WeightedUrl;
use model::{Event, Interval, LatencyKind, Recording, Scenario};
use resolve::SystemHost;
use session::capacity::axis::Of;
use session::capacity::calibration::Settles;
use session::capacity::live::{CapacityError, Ended, Follow, Found, Ran, Spec, capacity};
use session::capacity::objective::Objective;
use session::capacity::search::{Line, Purpose, Trial};
use session::{Hands, Options, Outcome, RecordTo, RunError, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the target carries a second.
const LIMIT_PER_S: f64 = 1000.0;

/// Generators, each of which puts on so much.
struct Generators {
    now: u16,
    most: u16,
    each_per_s: f64,
    /// From this many loads on the server is gone.
    gone_from: usize,
    /// So many loads fail at first, after the first closed run, as nobody is there.
    away: u32,
    /// Rates that were asked for.
    asked: Vec<f64>,
    /// What the target answers a second in a closed loop.
    limit_per_s: f64,
    /// From this rate on it answers late.
    late_from_per_s: f64,
    /// What a connection carries a second.
    each_per_connection_s: f64,
    /// By the clock they put on this part of what they do in a closed loop.
    open_part: f64,
    /// A step by the clock takes so long.
    takes: Duration,
    /// What gives is found beyond the line.
    gives: bool,
    /// From so many connections on that ask as fast as it answers, the server ends, and is not there any more.
    ends_at: u32,
    has_ended: bool,
    /// For the next load it is there again.
    is_back: bool,
}

impl Generators {
    fn new(now: u16, most: u16, each_per_s: f64) -> Self {
        Generators {
            now,
            most,
            each_per_s,
            gone_from: usize::MAX,
            away: 0,
            asked: Vec::new(),
            limit_per_s: LIMIT_PER_S,
            late_from_per_s: LIMIT_PER_S,
            each_per_connection_s: f64::INFINITY,
            open_part: 1.0,
            takes: Duration::ZERO,
            gives: false,
            ends_at: u32::MAX,
            has_ended: false,
            is_back: false,
        }
    }
}

impl Hands for Generators {
    fn put_on(&mut self, plan: Plan, _: &Options, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        let is_open = matches!(plan.pace, Pace::Open { .. });
        let part = if is_open { self.open_part } else { 1.0 };
        let can_per_s = part * self.each_per_s * f64::from(self.now);
        let of_connections = self.each_per_connection_s * f64::from(plan.connections);
        let per_s = match &plan.pace {
            Pace::Open { profile, .. } => {
                if self.away > 0 {
                    self.away -= 1;
                    return Err(RunError::ByOthers { text: "expected 2 agents, got 1".to_owned(), is_usage: false });
                }
                self.asked.push(profile[0].from_per_s);
                profile[0].from_per_s
            }
            _ => can_per_s.min(self.limit_per_s).min(of_connections),
        };
        if is_open {
            std::thread::sleep(self.takes);
        }
        let ends_now = !is_open && !self.has_ended && plan.connections >= self.ends_at;
        self.has_ended |= ends_now;
        let ticks = plan.planned_ns().unwrap().div_ceil(plan.tick_ns);
        let mut recording = Recording::new(Capsule::default(), plan.clone());
        if ends_now {
            let details = Details { exit_code: Some(1), ..Details::default() };
            recording
                .events
                .push(Event::new(1, "target-exit", "the target's process x (7) exited with code 1").with(details));
        }
        let totals = &mut recording.totals;
        for tick in 0..ticks {
            let mut interval = Interval::<u32>::new(0);
            (interval.start_ns, interval.end_ns) = (tick * plan.tick_ns, (tick + 1) * plan.tick_ns);
            let requests = (per_s * plan.tick_ns as f64 / 1e9).round() as u64;
            (interval.counts.started, interval.counts.ok) = (requests, requests);
            if self.asked.len() > self.gone_from || (self.has_ended && (ends_now || !self.is_back)) {
                (interval.counts.ok, interval.counts.failed) = (0, requests);
            }
            let response_ns = if per_s > self.late_from_per_s { 500_000_000 } else { 1_000_000 };
            interval.latency.record_n(LatencyKind::Response, response_ns, interval.counts.ok as u32);
            if interval.end_ns > plan.warmup_ns {
                totals.in_time.add(&interval.counts);
                totals.sum.counts.add(&interval.counts);
                totals.measured_ns += plan.tick_ns;
            }
            watch.on_tick(&Row::default(), &plan);
            watch.on_interval(&interval, &plan);
            if watch.is_enough() {
                break;
            }
        }
        let mut diagnosis =
            Diagnosis { validity: Validity::of(ValidityState::Valid, Vec::new()), ..Diagnosis::default() };
        if self.gives && per_s > self.late_from_per_s {
            diagnosis.findings.push(full());
        }
        if is_open && per_s > can_per_s {
            let reason = Reason { id: "generator-cpu".to_owned(), text: "generator 'a': it is full".to_owned() };
            diagnosis.validity = Validity::of(ValidityState::NotValid, vec![reason]);
        }
        Ok(Outcome { recording, diagnosis, recorded_at: None, recording_error: None })
    }

    fn beside(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn add(&mut self) -> Option<String> {
        let before = self.now;
        self.now = (2 * before).min(self.most);
        (self.now > before).then(|| format!("{before} are the limit: {} from here on", self.now))
    }

    fn standing(&mut self) -> Option<String> {
        Some(format!("{} of them", self.now))
    }
}

/// As no time passes, a search ends after so many steps.
const STEPS: usize = 25;

/// What was said.
#[derive(Debug, Default)]
struct Said {
    added: Vec<String>,
    disturbed: Vec<String>,
    interrupted: Arc<AtomicBool>,
    planned: Option<Spec>,
}

impl Watch for Said {
    fn on_tick(&mut self, _: &Row, _: &Plan) {}
    fn on_event(&mut self, _: &Event) {}
}

impl Follow for Said {
    fn on_plan(&mut self, spec: &Spec, _: &str) {
        self.planned = Some(spec.clone());
    }
    fn on_trial(&mut self, _: usize, _: &Trial) {}
    fn on_step(&mut self, ran: &[Ran], _: &Line) {
        self.interrupted.store(ran.len() >= STEPS, Ordering::Relaxed);
    }
    fn on_disturbed(&mut self, _: &Trial, why: &str) {
        self.disturbed.push(why.to_owned());
    }
    fn on_added(&mut self, what: &str) {
        self.added.push(what.to_owned());
    }
}

fn full() -> Finding {
    Finding {
        id: "full".to_owned(),
        about: About::Target,
        status: Status::Supported,
        severity: Severity::Warning,
        title: "it is full".to_owned(),
        because: Vec::new(),
        remedy: String::new(),
        check_yourself: String::new(),
        confidence: 1.0,
        causes: Vec::new(),
        because_of: Vec::new(),
        explains: None,
    }
}

fn search(hands: &mut Generators) -> (Found, Said) {
    search_of(spec(Some(8)), hands)
}

fn search_of(spec: Spec, hands: &mut Generators) -> (Found, Said) {
    try_search(spec, hands).unwrap()
}

fn spec(connections: Option<u32>) -> Spec {
    let url = WeightedUrl { url: "http://127.0.0.1:1/".into(), weight: 1.0 };
    Spec {
        scenario: Scenario { urls: vec![url], connections, threads: Some(1), ..Scenario::default() },
        objectives: Objective::list("p95 < 50 ms").unwrap(),
        of: Of::Rate,
        precision: 0.05,
        time: Duration::from_secs(20),
        known: Vec::new(),
        seed: 1,
        settles: Settles::default(),
    }
}

fn try_search(spec: Spec, hands: &mut Generators) -> Result<(Found, Said), CapacityError> {
    let mut said = Said::default();
    let options = Options {
        record: RecordTo::Nothing,
        command: Vec::new(),
        record_secrets: false,
        version: "1".to_owned(),
        driver_reason: String::new(),
        observe: false,
        probes: model::bpf::Level::None,
        observe_at: None,
        behind: Vec::new(),
        interrupted: Arc::clone(&said.interrupted),
    };
    let host = SystemHost::new(engine::driver::uring::available, engine::tls::NAMES);
    let found = capacity(&spec, &host, &options, hands, &mut said)?;
    Ok((found, said))
}

#[test]
fn generators_that_suffice_find_the_targets_line() {
    let (found, said) = search(&mut Generators::new(2, 2, 10_000.0));
    let line = found.search.line();
    assert_eq!(found.ended, Ended::Interrupted);
    assert!(line.held.unwrap() <= LIMIT_PER_S && line.missed.unwrap() >= LIMIT_PER_S, "{line:?}");
    assert!(line.missed.unwrap() < 1.1 * line.held.unwrap(), "{line:?}");
    assert!(said.added.is_empty() && said.disturbed.is_empty());
}

#[test]
fn where_the_generators_are_the_limit_more_are_called_until_the_target_is() {
    let mut hands = Generators::new(1, 4, 700.0);
    let (found, said) = search(&mut hands);
    let line = found.search.line();
    // No more than are needed.
    assert_eq!((hands.now, found.ended), (2, Ended::Interrupted), "{said:?}", said = said.added);
    assert!(line.held.unwrap() <= LIMIT_PER_S && line.missed.unwrap() >= LIMIT_PER_S, "{line:?}");
    assert_eq!(said.added, ["1 are the limit: 2 from here on"]);
}

#[test]
fn where_there_are_no_more_the_search_says_that_the_generators_are_the_limit_and_claims_no_line_of_the_target() {
    let mut hands = Generators::new(1, 2, 200.0);
    let (found, said) = search(&mut hands);
    let Ended::Disturbed { why, is_generator, load } = &found.ended else { panic!("{:?}", found.ended) };
    assert!(is_generator, "{why}");
    assert_eq!(why, "generator 'a': it is full (2 of them)");
    assert!(*load > 400, "{load}");
    assert_eq!(said.added.len(), 1);
    // What was not put on is neither held nor missed.
    assert!(found.ran.iter().all(|one| one.step.asked <= 400.0), "{:?}", found.ran.len());
    assert_eq!(found.search.line().missed, None);
}

/// A first load that is more than the generators can put on says nothing of the target: its line may lie below.
#[test]
fn a_load_that_is_too_much_for_the_generators_is_lowered_until_it_says_something() {
    // By the clock they put on much less than in a closed loop.
    let mut hands = Generators { open_part: 0.5, ..Generators::new(1, 1, 4_000.0) };
    (hands.limit_per_s, hands.late_from_per_s) = (3_500.0, f64::INFINITY);
    let (found, _) = search(&mut hands);
    let Ended::Disturbed { is_generator, load, .. } = &found.ended else { panic!("{:?}", found.ended) };
    assert!(*is_generator && *load > 2_000, "{load}");
    let line = found.search.line();
    assert!(line.missed.is_none() && line.held.unwrap() > 1_400.0, "{line:?}");
    // Where the line is below it is found.
    let mut hands = Generators { open_part: 0.35, ..Generators::new(1, 1, 4_000.0) };
    (hands.limit_per_s, hands.late_from_per_s) = (3_500.0, 1_200.0);
    let (found, _) = search(&mut hands);
    let line = found.search.line();
    assert!(line.held.unwrap() <= 1_200.0 && line.missed.unwrap() >= 1_200.0, "{line:?}");
}

#[test]
fn connections_are_doubled_while_that_carries_more_where_nobody_said_how_many() {
    let plan = |settles: bool, connections: Option<u32>, hands: &mut Generators| {
        let settles = Settles { connections: settles, ..Settles::default() };
        search_of(Spec { settles, ..spec(connections) }, hands).1.planned.unwrap().scenario.connections
    };
    let each_ms = |each_per_connection_s: f64| Generators { each_per_connection_s, ..Generators::new(1, 1, 10_000.0) };
    // Each request takes 100 ms: 50 connections carry 500, and 100 the 1,000 that the target does.
    assert_eq!(plan(true, None, &mut each_ms(10.0)), Some(100));
    assert_eq!(plan(true, None, &mut each_ms(1.0)), Some(800));
    assert_eq!(plan(true, None, &mut each_ms(1_000.0)), None);
    assert_eq!(plan(false, None, &mut each_ms(10.0)), None);
    assert_eq!(plan(false, Some(50), &mut each_ms(10.0)), Some(50));
}

#[test]
fn what_nobody_asked_for_is_settled_by_what_is_answered() {
    let few = || Generators { limit_per_s: 300.0, late_from_per_s: 300.0, ..Generators::new(1, 1, 10_000.0) };
    let planned = |objectives: &str, settles: Settles| {
        let base = spec(Some(8));
        let spec = Spec { objectives: Objective::list(objectives).unwrap(), settles, ..base };
        try_search(spec, &mut few()).map(|(_, said)| {
            let planned = said.planned.unwrap();
            (Objective::words(&planned.objectives), planned.time.as_secs())
        })
    };
    let others = || Objective::list("p95 < 50 ms").ok();
    let hard = "errors < 0.1 %";
    // 4,498 requests are 15 s at 300 a second.
    let refused = planned(hard, Settles::default()).unwrap_err().to_string();
    assert!(refused.contains("a step needs 4498 requests") && refused.contains("give --time 180s"), "{refused}");
    let settled = |settles| planned(hard, settles).unwrap();
    assert_eq!(settled(Settles { time: true, ..Settles::default() }), ("errors < 0.1 %".to_owned(), 180));
    assert_eq!(
        settled(Settles { objectives: others(), time: true, ..Settles::default() }),
        ("p95 < 50.0 ms".to_owned(), 20)
    );
    // What can be decided stays.
    assert_eq!(
        planned("p90 < 50 ms", Settles { objectives: others(), time: true, ..Settles::default() }).unwrap(),
        ("p90 < 50.0 ms".to_owned(), 20)
    );
    // Ten minutes are the most.
    let long = planned("errors < 0.02 %", Settles { time: true, ..Settles::default() });
    assert!(matches!(long, Err(CapacityError::Undecidable { .. })), "{long:?}");
}

/// The steps of a search that are there to be looked at: their loads, how many blocks they have, and the lowest load that missed.
fn looked_at(gives: bool) -> (Vec<(f64, usize)>, Option<f64>) {
    // Each step takes some time, so that the search ends by it.
    let takes = Duration::from_millis(800);
    let mut hands = Generators { gives, takes, ..Generators::new(1, 1, 10_000.0) };
    let (found, _) = search_of(spec(Some(8)), &mut hands);
    let explain = found.ran.iter().filter(|one| one.step.purpose == Purpose::Explain);
    (explain.map(|one| (one.step.asked, one.step.blocks.len())).collect(), found.search.line().missed)
}

#[test]
fn where_no_step_says_what_gives_the_last_one_is_put_on_to_be_looked_at() {
    let (looked_at, missed) = looked_at(false);
    let [(load, blocks)] = looked_at[..] else { panic!("{looked_at:?}") };
    assert!((load / missed.unwrap() - 1.0).abs() < 0.02, "{load} {missed:?}");
    // Of a quarter of a second each, to its end: a sixth of the time.
    assert!(blocks >= 11, "{blocks}");
}

#[test]
fn what_is_told_needs_no_step_to_be_looked_at() {
    assert_eq!(looked_at(true).0, []);
}

#[test]
fn who_is_away_for_a_while_costs_time_and_nothing_that_is_known() {
    let mut hands = Generators { away: 2, ..Generators::new(2, 2, 10_000.0) };
    let (found, said) = search(&mut hands);
    assert_eq!(said.disturbed, ["expected 2 agents, got 1"; 2]);
    assert!(found.search.line().held.is_some());
    let mut gone = Generators { away: u32::MAX, ..Generators::new(2, 2, 10_000.0) };
    let (found, _) = search(&mut gone);
    let Ended::Disturbed { why, is_generator, .. } = &found.ended else { panic!("{:?}", found.ended) };
    assert_eq!((&**why, is_generator), ("expected 2 agents, got 1", &false));
    assert_eq!((found.search.line().held, found.ran.len()), (None, 0));
}

/// It is not to be looked for in its address.
#[test]
fn a_server_that_ends_before_the_search_is_said_to_have_ended_and_under_what() {
    let ends_at = |ends_at: u32| Generators { ends_at, each_per_connection_s: 10.0, ..Generators::new(1, 1, 10_000.0) };
    let said = "the target's process x (7) exited with code 1 while 50 connections asked as fast as it answered";
    let error = try_search(spec(Some(50)), &mut ends_at(1)).unwrap_err();
    let told = format!("got nothing in time: {said}; start it again, and ask less of it at once (-c)");
    assert!(error.to_string().ends_with(&told), "{error}");
    let settles = Settles { connections: true, ..Settles::default() };
    let (found, _) = try_search(Spec { settles, ..spec(None) }, &mut ends_at(100)).unwrap();
    let Ended::Disturbed { why, .. } = &found.ended else { panic!("{:?}", found.ended) };
    assert_eq!(*why, format!("the server takes no connection any more ({})", said.replace("50", "100")));
    // One that is there again, and is gone later, did not go of that.
    let mut again = Generators { is_back: true, gone_from: 1, ..ends_at(100) };
    let (found, _) =
        try_search(Spec { settles: Settles { connections: true, ..Settles::default() }, ..spec(None) }, &mut again)
            .unwrap();
    let Ended::Disturbed { why, .. } = &found.ended else { panic!("{:?}", found.ended) };
    assert_eq!(why, "the server takes no connection any more (nothing in time)");
}

/// One that is gone misses no objective, and so there is no line between what it held and what it was not there for.
#[test]
fn a_server_that_is_gone_in_the_midst_of_a_search_makes_no_line() {
    let mut hands = Generators { gone_from: 1, ..Generators::new(2, 2, 10_000.0) };
    let (found, said) = search(&mut hands);
    let Ended::Disturbed { why, is_generator, .. } = &found.ended else { panic!("{:?}", found.ended) };
    assert_eq!((&**why, is_generator), ("the server takes no connection any more (nothing in time)", &false));
    assert_eq!((said.disturbed.len(), found.ran.len()), (3, 1));
    assert_eq!((found.search.line().load, found.search.line().missed), (None, None));
}
