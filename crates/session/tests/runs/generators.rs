//! Recordings of simulated generators made one: the histograms are those of all requests pooled, whoever is cut short is said, and
//! what does not belong together is refused.

use crate::common::*;
use engine::driver::Setup;
use engine::driver::sim::{Action, Service, Sim, Weather};
use engine::share::Share;
use engine::{Fleet, SimSession};
use model::finding::{Figure, ValidityState};
use model::plan::*;
use model::recording::{End, Row, Shortfall};
use model::{Event, LatencyKind};
use session::generators::clock::Offset;
use session::generators::{Merged, OfAgents, Spec, merge};
use session::{Outcome, RecordTo, Watch, run_on};
use std::path::{Path, PathBuf};
use testkit::recordings;

struct Echoes(u64);

impl Service for Echoes {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, _: u64, bytes: &[u8]) -> Vec<Action> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns: MS + self.0 % (4 * MS) }]
    }
}

struct Silent;

impl Watch for Silent {
    fn on_tick(&mut self, _: &Row, _: &Plan) {}
    fn on_event(&mut self, _: &Event) {}
}

fn plan(seed: u64, rate_per_s: f64) -> Plan {
    // So long that two which are simulated one after another, at once, still overlap by the wall clock.
    let for_ns = 60_000 * MS;
    let workload = Workload::Echo(Echo { sizes: Sizes::Fixed(16), content: Content::Text });
    Plan {
        pace: Pace::Open {
            profile: vec![Segment { from_per_s: rate_per_s, to_per_s: rate_per_s, for_ns }],
            arrivals: Arrivals::Constant,
        },
        connections: 8,
        threads: 2,
        stop: Stop { duration_ns: Some(for_ns), requests: None },
        warmup_ns: 2_000 * MS,
        driver: DriverKind::Sim,
        tick_ns: 2_000 * MS,
        seed,
        ..recordings::plan(workload, vec![recordings::origin("echo://sim", 80)])
    }
}

fn recorded(folder: &Path, name: &str, plan: Plan) -> (PathBuf, Outcome) {
    let path = folder.join(format!("{name}.plimsoll"));
    let options = options(RecordTo::File(path.clone()));
    let outcome = run_on(plan, &options, &mut Silent, |plan| {
        Fleet::simulated(plan, SimSession::default(), |setup: &Setup, share: &Share| {
            let weather = Weather { delay_ns: (10_000, 200_000), ..Weather::default() };
            Sim::new(setup, Box::new(Echoes(plan.seed << 8 | u64::from(share.worker))), weather, plan.seed)
        })
    });
    (path, outcome.unwrap())
}

fn spec(runs: &[&PathBuf], out: PathBuf) -> Spec {
    Spec {
        runs: runs.iter().map(|run| (*run).clone()).collect(),
        out,
        // Simulated runs have no clock that others could be laid beside.
        clock_bound_ns: Some(MS),
        version: "test".to_owned(),
        command: vec![],
        agents: None,
    }
}

fn merged(runs: &[&PathBuf], out: PathBuf) -> Result<Merged, String> {
    merge(&spec(runs, out)).map_err(|error| error.to_string())
}

#[test]
fn merged_quantiles_are_those_of_all_requests_pooled() {
    let folder = tempfile::tempdir().unwrap();
    let made: Vec<(PathBuf, Outcome)> =
        (1..=3).map(|n| recorded(folder.path(), &format!("g{n}"), plan(n, 50.0 * n as f64))).collect();
    let runs: Vec<&PathBuf> = made.iter().map(|(path, _)| path).collect();
    let out = folder.path().join("all.plimsoll");
    let Merged { recording, why_partial, .. } = merged(&runs, out.clone()).unwrap();
    assert_eq!((recording.end, why_partial), (End::Complete, None));
    let mut pooled = model::Interval::<u64>::new(0);
    made.iter().for_each(|(_, outcome)| pooled.add(&outcome.recording.totals.sum));
    for kind in LatencyKind::ALL {
        assert_eq!(recording.totals.sum.latency.of(kind), pooled.latency.of(kind), "{}", kind.name());
    }
    let counts = |of: &model::Counts| (of.started, of.ok, of.failed, of.dropped, of.bytes_sent, of.bytes_received);
    assert_eq!(counts(&recording.totals.sum.counts), counts(&pooled.counts));
    assert!(recording.totals.is_conserved());
    assert_eq!((recording.plan.connections, recording.plan.threads), (24, 6));
    let Pace::Open { profile, .. } = &recording.plan.pace else { panic!("{:?}", recording.plan.pace) };
    assert!((profile[0].from_per_s - 300.0).abs() < 1e-6);
    // Read again, it is an ordinary recording that says the same.
    let again = store::Reader::open(&out).unwrap().load().unwrap();
    assert_eq!(again.totals, recording.totals);
    assert!(!again.integrity.is_damaged(), "{:?}", again.integrity);
    let generators = &again.capsule.generators.as_ref().unwrap().generators;
    let requests: u64 = generators.iter().map(|generator| generator.requests).sum();
    assert_eq!((generators.len(), requests), (3, recording.totals.sum.counts.requests()));
    assert_eq!(generators[0].offset_ns, 0);
    assert!(generators.iter().all(|one| !one.has_readings), "none has read its host");
    let workers: std::collections::BTreeSet<u16> = again.requests.sampled().map(|request| request.worker).collect();
    assert_eq!(workers.len(), 6, "each generator's workers are told apart: {workers:?}");
}

/// As many agents as a run may have, a worker each, of one plan: every histogram is that of all requests pooled, the plan is what
/// was asked of all, and what one of them did not put on speaks against the rate and not against the times.
#[test]
fn sixty_four_agents_are_one_load_and_what_is_missing_of_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = plan(7, 320.0);
    (whole.threads, whole.connections) = (64, 128);
    let made: Vec<(PathBuf, Outcome)> = (0..64u16)
        .map(|worker| {
            let part = Plan { seed: u64::from(worker), ..engine::plan_of(&whole, &(worker..worker + 1)) };
            recorded(folder.path(), &format!("a{worker}"), part)
        })
        .collect();
    let mut pooled = model::Interval::<u64>::new(0);
    made.iter().for_each(|(_, outcome)| pooled.add(&outcome.recording.totals.sum));
    let result = |shortfalls: Vec<Shortfall>, name: &str| {
        let offsets = vec![Offset::default(); made.len()];
        let agents = OfAgents {
            plan: whole.clone(),
            offsets,
            shortfalls,
            events: Vec::new(),
            release_bound_ns: None,
            together: None,
        };
        let runs: Vec<&PathBuf> = made.iter().map(|(path, _)| path).collect();
        merge(&Spec { agents: Some(agents), clock_bound_ns: None, ..spec(&runs, folder.path().join(name)) }).unwrap()
    };
    let Merged { recording, diagnosis, .. } = result(Vec::new(), "whole.plimsoll");
    for kind in LatencyKind::ALL {
        assert_eq!(recording.totals.sum.latency.of(kind), pooled.latency.of(kind), "{}", kind.name());
    }
    assert_eq!((recording.plan.threads, recording.plan.connections), (64, 128));
    assert!(diagnosis.validity.valid, "{:?}", diagnosis.validity.reasons);
    let short = |share| vec![Shortfall { name: "a9".to_owned(), text: "it was lost".to_owned(), share }];
    let little = result(short(0.005), "little.plimsoll").diagnosis.validity;
    assert!(little.valid, "{:?}", little.reasons);
    let much = result(short(0.2), "much.plimsoll").diagnosis.validity;
    let state = |figure| much.figures.iter().find(|verdict| verdict.figure == figure).unwrap().state;
    assert_eq!((state(Figure::Throughput), state(Figure::Response)), (ValidityState::NotValid, ValidityState::Valid));
    assert!(!much.valid && much.reasons.iter().any(|reason| reason.id == "agent-lost"), "{:?}", much.reasons);
}

#[test]
fn what_does_not_belong_together_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _) = recorded(folder.path(), "one", plan(1, 50.0));
    let of = |name: &str, change: fn(&mut Plan)| {
        let mut other = plan(2, 70.0);
        change(&mut other);
        recorded(folder.path(), name, other).0
    };
    let out = folder.path().join("out.plimsoll");
    for (other, expected) in [
        (of("tick", |plan| plan.tick_ns = 1_000 * MS), "the tick of 'one' and of 'tick' differ"),
        (of("warmup", |plan| plan.warmup_ns = 0), "the warm-up of"),
        (of("target", |plan| plan.origins[0].name = "echo://other".to_owned()), "the targets of"),
        (of("timeout", |plan| plan.timeouts.reply_ns += 1), "the timeouts of"),
    ] {
        let refused = merged(&[&one, &other], out.clone()).unwrap_err();
        assert!(refused.contains(expected) && !refused.contains('\n'), "{refused}");
        assert!(!out.exists(), "{refused}");
    }
    let refused = merged(&[&one], out.clone()).unwrap_err();
    assert!(refused.contains("from 2 to"), "{refused}");
    let other = of("other", |_| ());
    let unstated = Spec { clock_bound_ns: None, ..spec(&[&one, &other], out.clone()) };
    let refused = merge(&unstated).unwrap_err().to_string();
    assert!(refused.contains("--clock-bound"), "{refused}");
    merged(&[&one, &other], out.clone()).unwrap();
    let refused = merged(&[&one, &out], folder.path().join("again.plimsoll")).unwrap_err();
    assert!(refused.contains("merged already"), "{refused}");
}

#[test]
fn what_is_cut_or_not_as_it_was_written_is_said_and_never_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _) = recorded(folder.path(), "one", plan(1, 50.0));
    let (other, _) = recorded(folder.path(), "other", plan(2, 70.0));
    let bytes = std::fs::read(&other).unwrap();
    let (mut whole, mut partial, mut refused) = (0, 0, 0);
    for round in 0..18usize {
        let mut broken = bytes.clone();
        if round % 3 == 0 {
            broken.truncate(broken.len() * (round + 1) / 19);
        } else {
            // A stretch of each eighteenth of the file in turn.
            let at = broken.len() * round / 18;
            let until = (at + 40).min(broken.len());
            broken[at..until].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        let path = folder.path().join(format!("broken-{round}.plimsoll"));
        std::fs::write(&path, broken).unwrap();
        let out = folder.path().join(format!("out-{round}.plimsoll"));
        match merged(&[&one, &path], out.clone()) {
            Ok(merged) => {
                let is_partial = merged.why_partial.is_some();
                assert_eq!(is_partial, merged.recording.end == End::Partial);
                let generator = &merged.recording.capsule.generators.as_ref().unwrap().generators;
                assert_eq!(is_partial, generator.iter().any(|one| one.is_damaged || one.end == End::Partial));
                if is_partial {
                    let reason = store::Reader::open(&out).unwrap().partial_reason().unwrap().unwrap();
                    assert!(reason.contains(&format!("'broken-{round}'")), "{reason}");
                    partial += 1;
                } else {
                    whole += 1;
                }
            }
            Err(why) => {
                assert!(!out.exists(), "{why}");
                refused += 1;
            }
        }
    }
    assert!(partial > 0 && refused > 0, "{whole} {partial} {refused}");
}
