//! Several loads put on together, on the simulated network: each load's report is what the simulation's own list of it says,
//! whatever the others do, and what ends one early ends all.

use crate::common::*;
use engine::driver::Setup;
use engine::driver::sim::{Action, Log, Passed, Service, Sim, Weather};
use engine::share::Share;
use engine::{Fleet, SimSession};
use model::abort::AbortWhen;
use model::plan::*;
use model::recording::{End, LoadRole, Recording, Row};
use model::{Event, LatencyKind, event};
use session::{Load, Outcome, RecordTo, Watch, run_together_on};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use testkit::recordings;

/// Echoes after a while.
struct Target {
    delay_ns: u64,
    state: u64,
}

impl Service for Target {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, _: u64, bytes: &[u8]) -> Vec<Action> {
        // xorshift: the delay is a function of what came before.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let after_ns = self.delay_ns / 2 + self.state % self.delay_ns;
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns }]
    }
}

/// Keeps what is told of the run.
#[derive(Default)]
struct Told {
    ticks: usize,
    events: Vec<String>,
}

impl Watch for Told {
    fn on_tick(&mut self, _: &Row, _: &Plan) {
        self.ticks += 1;
    }

    fn on_event(&mut self, event: &Event) {
        self.events.push(event.text.clone());
    }
}

fn plan(seed: u64, rate_per_s: Option<f64>, connections: u32, threads: u16, length_ms: u64) -> Plan {
    let length_ns = length_ms * MS;
    let pace = match rate_per_s {
        Some(rate) => Pace::Open {
            profile: vec![Segment { from_per_s: rate, to_per_s: rate, for_ns: length_ns }],
            arrivals: Arrivals::Constant,
        },
        None => Pace::Closed { think: Think::FixedNs(MS) },
    };
    let workload = Workload::Echo(Echo { sizes: Sizes::Fixed(BYTES), content: Content::Text });
    Plan {
        pace,
        connections,
        threads,
        stop: Stop { duration_ns: Some(length_ns), requests: None },
        driver: DriverKind::Sim,
        tick_ns: 100 * MS,
        seed,
        ..recordings::plan(workload, vec![recordings::origin("echo://sim", 80)])
    }
}

fn load(name: &str, role: LoadRole, plan: Plan) -> Load {
    Load { name: name.to_owned(), role, plan, driver_reason: String::new() }
}

/// Each load's outcome, and the lists of what passed, by load and worker.
fn go(loads: &[Load], record: RecordTo, dies_ns: Option<u64>) -> (Vec<Outcome>, Vec<Vec<Vec<Passed>>>, Told) {
    let options = options(record);
    let logs: Vec<Vec<Log>> =
        loads.iter().map(|load| (0..load.plan.threads).map(|_| Arc::new(Mutex::new(Vec::new()))).collect()).collect();
    let start = |plans: &[&Plan]| {
        let one = |(at, plan): (usize, &&Plan)| {
            Fleet::simulated(plan, SimSession::default(), |setup: &Setup, share: &Share| {
                let state = plan.seed << 8 | u64::from(share.worker) | 1;
                let weather =
                    Weather { delay_ns: (10_000, 200_000), dies_ns: dies_ns.filter(|_| at == 1), ..Weather::default() };
                Sim::new(setup, Box::new(Target { delay_ns: 3 * MS, state }), weather, plan.seed)
                    .logged(Arc::clone(&logs[at][usize::from(share.worker)]))
            })
        };
        plans.iter().enumerate().map(one).collect()
    };
    let mut told = Told::default();
    let outcomes = run_together_on(loads, &options, &session::faults::Setup::default(), &mut told, start).unwrap();
    let logs = logs.iter().map(|load| load.iter().map(|log| log.lock().unwrap().clone()).collect()).collect();
    (outcomes, logs, told)
}

/// What a load's recording says, by its own list.
fn check_by_list(recording: &Recording, logs: &[Vec<Passed>], says: &str) {
    let list = exchanges(logs);
    let counts = &recording.totals.sum.counts;
    assert!(recording.totals.is_conserved(), "{says}");
    assert_eq!(counts.started, list.len() as u64, "{says}: each that was sent was started");
    let done = list.iter().filter(|exchange| exchange.done_ns.is_some()).count() as u64;
    assert_eq!(counts.ok, done, "{says}: as many replies as successes");
    let mut service: Vec<u64> = list.iter().filter_map(|e| Some(e.done_ns?.saturating_sub(e.sent_ns))).collect();
    service.sort_unstable();
    let histogram = recording.totals.sum.latency.of(LatencyKind::Service);
    for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
        let expected = service[((q * service.len() as f64).ceil() as usize).clamp(1, service.len()) - 1];
        let got = histogram.value_at_quantile(q);
        let is_alike = got.abs_diff(expected) as f64 <= RESOLUTION * expected as f64 + 2.0;
        assert!(is_alike, "{says}: service q{q}: {got} ns, by the list {expected} ns");
    }
    let says_what = |what: &str| format!("{says}: {what}");
    check_requests(recording, &says_what);
    check_requests_by_list(recording, &list, &says_what);
    let rows: u64 = recording.timeline.rows().iter().map(|row| row.counts.ok).sum();
    assert_eq!(rows, counts.ok, "{says}: rows add up");
}

fn two_loads(r: u64) -> [Load; 2] {
    [
        load("fast", LoadRole::Main, plan(r, Some(800.0), 8, 2, 600)),
        load("slow", LoadRole::Beside, plan(r + 1, None, 3, 1, 400 + 50 * (r % 5))),
    ]
}

#[test]
fn each_load_is_what_its_own_list_says() {
    for seed in 1..=20 {
        let loads = two_loads(seed);
        let (outcomes, logs, told) = go(&loads, RecordTo::Nothing, None);
        assert_eq!(outcomes.len(), 2);
        for ((load, outcome), logs) in loads.iter().zip(&outcomes).zip(&logs) {
            check_by_list(&outcome.recording, logs, &format!("seed {seed}, {}", load.name));
            let together = outcome.recording.capsule.together.as_ref().unwrap();
            assert_eq!(together.this().map(|this| &this.name), Some(&load.name));
        }
        // The one that is shorter does not end the other, and only the main one is shown.
        let ends: Vec<u64> = outcomes.iter().map(|outcome| outcome.recording.totals.measured_ns).collect();
        assert_eq!(ends, [600 * MS, (400 + 50 * (seed % 5)) * MS]);
        assert_eq!(told.ticks, outcomes[0].recording.timeline.rows().len());
    }
}

#[test]
fn a_load_among_others_is_as_it_would_be_alone() {
    let loads = two_loads(7);
    let figures = |recording: &Recording| {
        let sum = &recording.totals.sum;
        (sum.counts.started, sum.counts.ok, sum.latency.of(LatencyKind::Response).value_at_quantile(0.99))
    };
    let (both, ..) = go(&loads, RecordTo::Nothing, None);
    for (at, together) in both.iter().enumerate() {
        let alone = [Load { role: LoadRole::Main, ..loads[at].clone() }];
        let (alone, ..) = go(&alone, RecordTo::Nothing, None);
        assert_eq!(figures(&together.recording), figures(&alone[0].recording), "{}", loads[at].name);
    }
}

#[test]
fn each_load_has_a_recording_that_names_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("run.plimsoll");
    let (outcomes, ..) = go(&two_loads(3), RecordTo::File(main.clone()), None);
    let paths: Vec<&Path> = outcomes.iter().map(|outcome| outcome.recorded_at.as_deref().unwrap()).collect();
    assert_eq!(paths, [main.as_path(), &folder.path().join("run-slow.plimsoll")]);
    for (number, outcome) in outcomes.iter().enumerate() {
        let again = store::Reader::open(outcome.recorded_at.as_deref().unwrap()).unwrap().load().unwrap();
        assert_eq!(again.totals.sum.counts, outcome.recording.totals.sum.counts);
        let together = again.capsule.together.unwrap();
        assert_eq!(together.number, number);
        let files: BTreeMap<&str, Option<&str>> =
            together.loads.iter().map(|load| (load.name.as_str(), load.recording.as_deref())).collect();
        assert_eq!(files, BTreeMap::from([("fast", Some("run.plimsoll")), ("slow", Some("run-slow.plimsoll"))]));
    }
}

#[test]
fn a_run_that_is_not_to_go_on_ends_all_its_loads_and_says_why() {
    let mut loads = two_loads(5);
    // The second target dies; the first load would go on for weeks of its own clock, which no test's patience reaches.
    let weeks_ms = 3_000_000_000;
    loads[0].plan = plan(5, Some(20.0), 1, 1, weeks_ms);
    loads[1].plan.stop.duration_ns = Some(60_000 * MS);
    loads[1].plan.abort_when = vec![AbortWhen::read("errors > 10 % for 300ms").unwrap()];
    let (outcomes, _, told) = go(&loads, RecordTo::Nothing, Some(450 * MS));
    let [main, second] = &outcomes[..] else { panic!("two") };
    let of = |outcome: &Outcome, kind: &str| outcome.recording.events.iter().find(|event| event.kind == kind).cloned();
    let aborted = of(second, event::ABORTED).unwrap();
    assert_eq!(aborted.details.of_kind.as_deref(), Some("errors > 10.0 % for 300 ms"));
    assert!(aborted.text.contains("errors came to"), "{}", aborted.text);
    assert!(second.recording.totals.measured_ns < 2_000 * MS, "{}", second.recording.totals.measured_ns);
    assert_eq!(second.recording.end, End::Complete);
    // First line, expectation and what is told while it runs.
    assert_eq!(second.diagnosis.gives.as_ref().unwrap().text, aborted.text);
    let judged = second.diagnosis.expectations.iter().find(|one| one.expected.starts_with("never errors")).unwrap();
    assert_eq!(judged.state, model::finding::ExpectationState::NotMet);
    assert_eq!(of(main, event::ENDED_TOGETHER).unwrap().text, aborted.text);
    assert!(main.recording.totals.measured_ns < weeks_ms * MS);
    assert!(
        told.events.iter().any(|text| text.starts_with("load 'slow': the run was ended early")),
        "{:?}",
        told.events
    );
}
