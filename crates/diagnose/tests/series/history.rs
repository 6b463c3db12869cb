//! What is asked of a history: any fact of any window, from all snapshots, and why there is none.

use crate::common::open;
use diagnose::history::{History, Measured, Metric, NoAnswer, ProcessId, Subject, Window};
use diagnose::limits::{PROCESSES_MAX, STRETCHES_MAX, THREADS_MAX};
use model::Snapshot;
use model::snapshot::{CpuTimes, Role, ThreadSample};
use proptest::prelude::*;
use testkit::recordings::{process, thread};

const S: i64 = 1_000_000_000;
const DROPS: Metric<'_> = Metric { of: Subject::Network, name: "listen_drops" };

fn window(from_s: i64, to_s: i64) -> Window {
    Window::new(from_s * S, to_s * S)
}

fn with(at_s: i64, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = Snapshot { at_ns: at_s * S, ..Snapshot::default() };
    change(&mut snapshot);
    snapshot
}

fn drops(at_s: i64, drops: Option<u64>) -> Snapshot {
    with(at_s, |s| s.network.set_if("listen_drops", drops))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-6)
}

#[test]
fn a_missing_reading_is_not_zero_and_its_time_is_known_from_those_around_it() {
    let history = History::of(&[drops(0, Some(100)), drops(1, Some(110)), drops(2, None), drops(3, Some(130))]);
    let whole = history.rate(DROPS, window(0, 3)).unwrap();
    assert_eq!((whole.value, whole.readings, whole.covered_ns), (10.0, 3, 3 * S as u64));
    // The 20 of the two seconds are spread over both.
    assert_eq!(history.growth(DROPS, window(1, 2)).unwrap().value, 10.0);
    // Before the first reading and after the last nothing is known, and that is not nothing.
    let late = History::of(&[drops(0, None), drops(1, Some(5)), drops(2, Some(7)), drops(3, None)]);
    let asked = late.growth(DROPS, window(0, 3)).unwrap();
    assert_eq!((asked.value, asked.window, asked.covered_ns), (2.0, window(1, 2), S as u64));
    assert_eq!(late.growth(DROPS, window(0, 1)), Err(NoAnswer::NotThen));
    assert_eq!(History::of(&[drops(0, None), drops(1, None)]).rate(DROPS, window(0, 1)), Err(NoAnswer::NeverRead));
}

#[test]
fn a_counter_that_fell_was_reset_and_the_time_is_left_out() {
    let history = History::of(&[drops(0, Some(100)), drops(1, Some(110)), drops(2, Some(3)), drops(3, Some(13))]);
    let grown = history.growth(DROPS, window(0, 3)).unwrap();
    assert_eq!((grown.value, grown.covered_ns, grown.resets), (20.0, 2 * S as u64, 1));
    assert_eq!(history.growth(DROPS, window(1, 2)), Err(NoAnswer::OnlyResets));
    // Over the top of 64 bits likewise.
    let wrapped = History::of(&[drops(0, Some(u64::MAX)), drops(1, Some(4))]);
    assert_eq!(wrapped.rate(DROPS, window(0, 1)), Err(NoAnswer::OnlyResets));
}

#[test]
fn a_machine_that_was_started_anew_goes_on_with_no_counter() {
    let at = |at_s: i64, up_s: u64, drops: u64, forks: u64| {
        with(at_s, |s| {
            s.cpu = Some(CpuTimes { idle_ns: up_s * S as u64, ..CpuTimes::default() });
            s.network.set("listen_drops", drops);
            s.host.set("forks", forks);
        })
    };
    // The forks of the new life are more than those of the old: only the CPU time tells.
    let history = History::of(&[at(0, 1000, 5, 10), at(1, 1001, 6, 11), at(2, 1, 0, 500), at(3, 2, 1, 502)]);
    let forks = history.growth(Metric::new(Subject::Machine, "forks"), window(0, 3)).unwrap();
    assert_eq!((forks.value, forks.covered_ns, forks.resets, history.started_anew()), (3.0, 2 * S as u64, 1, 1));
}

#[test]
fn an_id_that_is_used_again_is_another_process() {
    let sample = |start_ticks: u64, user_ns: u64| {
        let mut sample = process(Role::Target, 7, "server", vec![]);
        (sample.start_ticks, sample.user_ns, sample.system_ns) = (start_ticks, Some(user_ns), Some(0));
        sample
    };
    let at = |at_s, start, ns| with(at_s, |s| s.processes = vec![sample(start, ns)]);
    let history = History::of(&[at(0, 1, 900), at(1, 1, 1000), at(2, 2, 5000), at(3, 2, 5300)]);
    let of = |start_ticks| {
        let metric = Metric::new(Subject::Process(ProcessId { pid: 7, start_ticks }), "user_ns");
        history.growth(metric, window(0, 3)).unwrap()
    };
    assert_eq!((of(1).value, of(1).window, of(2).value, of(2).window), (100.0, window(0, 1), 300.0, window(2, 3)));
    // Together they grew by what is known of each: never by the 4,000 between two lives.
    let all = history.growth(Metric::new(Subject::All(Role::Target), "user_ns"), window(0, 3)).unwrap();
    assert_eq!((all.value, all.covered_ns), (400.0, 2 * S as u64));
}

#[test]
fn another_network_namespace_is_another_counter() {
    let at = |at_s, pid, count| {
        with(at_s, |s| {
            s.network_pid = pid;
            s.network.set("listen_drops", count);
        })
    };
    let history = History::of(&[
        at(0, None, 1_000_000),
        at(1, Some(7), 3),
        at(2, Some(7), 5),
        at(3, Some(7), 9),
        at(4, None, 1_000_001),
    ]);
    let grown = history.growth(DROPS, window(0, 3)).unwrap();
    assert_eq!((grown.value, grown.window), (6.0, window(1, 3)));
    // Of the stretches in which it changed nothing is known.
    assert_eq!(history.rate(DROPS, window(0, 1)), Err(NoAnswer::NotThen));
    assert_eq!(history.rate(DROPS, window(3, 4)), Err(NoAnswer::NotThen));
}

#[test]
fn a_kind_is_asked_only_what_it_can_answer() {
    let at = |at_s, value: u64| {
        with(at_s, |s| {
            s.network.set("connections_closing", value);
            s.network.set("tcp_established", value);
            s.network.set("listen_drops", value);
            s.network.set("a_metric_of_tomorrow", value);
        })
    };
    let history = History::of(&[at(0, 50), at(1, 60), at(2, 10), at(3, 20)]);
    let of = |name| Metric::new(Subject::Network, name);
    let all = window(0, 4);
    assert_eq!(history.rate(of("tcp_established"), all), Err(NoAnswer::IsGauge));
    assert_eq!(history.rate(of("a_metric_of_tomorrow"), all), Err(NoAnswer::Undeclared));
    assert_eq!(history.level(of("listen_drops"), all).map(|_| ()), Err(NoAnswer::IsCounter));
    for name in ["connections_closing", "tcp_established"] {
        let Measured { value, readings, .. } = history.level(of(name), all).unwrap();
        assert_eq!((value.mean, value.min, value.max, value.last, readings), (35.0, 10, 60, 20, 4));
    }
    let share = history.share(of("listen_drops"), of("listen_drops"), all).unwrap();
    assert_eq!((share.value, share.resets), (1.0, 2));
    assert_eq!(history.level(of("tcp_established"), window(9, 10)).map(|_| ()), Err(NoAnswer::NotThen));
}

#[test]
fn a_defect_of_the_second_half_is_as_clear_as_one_of_the_first_however_long_the_run_was() {
    for seconds in [60, 600, 7200] {
        let half = seconds / 2;
        let count = |at_s: i64| Some(1000 * (at_s - half).max(0) as u64);
        let history = History::of(&(0..=seconds).map(|at_s| drops(at_s, count(at_s))).collect::<Vec<_>>());
        let rate = |from_s, to_s| history.rate(DROPS, window(from_s, to_s)).unwrap().value;
        // A stretch of a run of two hours is sixteen seconds: what a half touches of the other's is at most one of them.
        let blurred = 1000.0 * 16.0 / half as f64;
        assert!(rate(0, half) <= blurred && rate(half, seconds) >= 1000.0 - blurred, "{seconds} s");
        assert!(near(rate(0, seconds), 500.0));
    }
}

#[test]
fn what_comes_and_goes_without_end_takes_no_memory_without_end() {
    let mut history = History::default();
    for i in 0..3 * PROCESSES_MAX as i64 {
        history.push(&with(i, |s| {
            let own = |pid: u32, run_ns| {
                let threads =
                    vec![ThreadSample { run_ns: Some(run_ns), ..thread(pid, "t") }, thread(pid + 1_000_000, "u")];
                process(Role::Target, pid, "fork", threads)
            };
            // One lives on, three are new at each reading and gone at the second after.
            let new = (0..3).flat_map(|k| [i, i + 1].map(|of| own(100 + 3 * of as u32 + k, i as u64)));
            s.processes = std::iter::once(own(7, 1000 * i as u64)).chain(new).collect();
        }));
    }
    let whole = history.whole().unwrap();
    assert!(history.processes(Role::Target).count() <= PROCESSES_MAX);
    assert!(history.threads(Role::Target, whole).count() <= THREADS_MAX);
    let (id, tid, _) = history.threads(Role::Target, whole).next().unwrap();
    assert_eq!((id.pid, tid), (7, 7), "who lives is kept");
    let run = history.growth(Metric::new(Subject::Thread(id, tid), "run_ns"), whole).unwrap();
    assert_eq!(run.value.round(), 1000.0 * (3 * PROCESSES_MAX - 1) as f64);
}

#[test]
fn what_rules_ask_of_a_long_run_is_what_they_ask_of_a_short_one() {
    // An hour and a half of the same seconds: more than four times as many snapshots as there are stretches.
    let long = open().with(|b| {
        b.plan.stop.duration_ns = None;
        b.seconds = vec![b.seconds[0].clone(); 5 * STRETCHES_MAX];
    });
    let mut all = Vec::new();
    let recording = long.recording_with(|snapshot| all.push(snapshot.clone()));
    assert!(recording.snapshots.len() < all.len() / 10);
    let history = History::of(&all);
    let facts = diagnose::facts::Facts::of(&recording, &history);
    let thread = &facts.target_threads[0];
    assert!((thread.run.unwrap() - 0.33).abs() < 0.001 && (thread.wait.unwrap() - 0.02).abs() < 0.001, "{thread:?}");
    assert!((facts.host.unwrap().idle_cores - 1.3).abs() < 0.001);
    assert!(facts.spans.len() > STRETCHES_MAX / 2);
    assert!(facts.spans.iter().all(|span| (span.target_demand.unwrap().low - 0.35).abs() < 0.001));
}

#[test]
fn rules_see_what_lies_between_the_snapshots_that_are_kept() {
    // A clock that is set by a second and set back in the next: of every eighth snapshot none shows it.
    let build = open().with(|b| {
        b.seconds = vec![b.seconds[0].clone(); 300];
        (b.seconds[100].wall_step_ns, b.seconds[101].wall_step_ns) = (1_000_000_000, -1_000_000_000);
    });
    let mut history = History::default();
    let recording = build.recording_with(|snapshot| history.push(snapshot));
    let judged = |diagnosis: model::finding::Diagnosis| {
        diagnosis.findings.into_iter().find(|finding| finding.id == "clock-step").unwrap().status
    };
    assert_eq!(judged(diagnose::diagnose(&recording)), model::Status::Refuted, "the test would be none");
    assert_eq!(judged(diagnose::diagnose_with(&recording, &history)), model::Status::Supported);
}

#[test]
fn facts_of_a_segment_are_those_of_its_time() {
    // From second 30 on one thread works all the time: over the whole it is two thirds of a core, and no limit.
    let build = open().with(|b| {
        b.seconds = vec![b.seconds[0].clone(); 60];
        for second in &mut b.seconds[30..] {
            (second.target[0], second.response_ns, second.ok) = ((0.98, 0.01), 60_000_000, 3000);
        }
    });
    let recording = build.recording();
    let history = History::of(&recording.snapshots);
    let facts = diagnose::facts::Facts::of(&recording, &history);
    let segments = diagnose::segments::segments(&facts);
    let [first, second] = &segments[..] else { panic!("{segments:?}") };
    let run = |segment| facts.part(diagnose::segments::window(segment)).target_threads[0].run.unwrap();
    assert!((run(first) - 0.33).abs() < 0.02 && (run(second) - 0.98).abs() < 0.02, "{} {}", run(first), run(second));
    assert!((facts.target_threads[0].run.unwrap() - 0.655).abs() < 0.02);
}

proptest! {
    #[test]
    fn any_readings_make_no_negative_and_no_absurd_rate(
        readings in prop::collection::vec((0i64..5, prop::option::of(any::<u64>())), 0..700),
        small in prop::collection::vec(prop::option::of(0u64..1000), 0..700),
        cuts in [0i64..3000, 0i64..3000],
    ) {
        let mut at_ns = 0;
        let mut history = History::default();
        for (passed_s, value) in &readings {
            at_ns += passed_s * S;
            history.push(&Snapshot { at_ns, ..drops(0, *value) });
        }
        for w in [window(0, 3000), window(cuts[0], cuts[1])] {
            if let Ok(rate) = history.rate(DROPS, w) {
                prop_assert!(rate.value >= 0.0 && rate.value.is_finite() && rate.covered_ns <= w.length_ns() + 1);
                prop_assert!(w.from_ns <= rate.window.from_ns && rate.window.to_ns <= w.to_ns);
            }
        }
        // Steps of less than a thousand a second, whatever was reset in between, make no more than that.
        let history = History::of(&small.iter().zip(0..).map(|(v, at_s)| drops(at_s, *v)).collect::<Vec<_>>());
        if let Ok(rate) = history.rate(DROPS, window(cuts[0], cuts[1])) {
            prop_assert!((0.0..=1000.0).contains(&rate.value), "{}", rate.value);
        }
    }

    #[test]
    fn the_rate_of_two_windows_together_is_their_mean_by_time(
        steps in prop::collection::vec((1i64..4, 0u64..1000, any::<bool>()), 2..1500),
        cuts in [0i64..4000, 0i64..4000, 0i64..4000],
    ) {
        let (mut at_s, mut value, mut history) = (0, 0, History::default());
        for (passed_s, more, is_read) in steps {
            at_s += passed_s;
            value += more;
            history.push(&drops(at_s, is_read.then_some(value)));
        }
        let mut cuts = cuts;
        cuts.sort_unstable();
        let [a, b, c] = cuts;
        let parts = [history.rate(DROPS, window(a, b)), history.rate(DROPS, window(b, c))];
        let whole = history.rate(DROPS, window(a, c));
        let known: Vec<_> = parts.into_iter().flatten().collect();
        prop_assert_eq!(known.is_empty(), whole.is_err());
        if let Ok(whole) = whole {
            let covered: f64 = known.iter().map(|part| part.covered_ns as f64).sum();
            let mean = known.iter().map(|part| part.value * part.covered_ns as f64).sum::<f64>() / covered;
            prop_assert!((whole.value - mean).abs() <= 1e-6 * mean.max(1.0), "{} {}", whole.value, mean);
            prop_assert!((whole.covered_ns as f64 - covered).abs() <= 2.0);
        }
    }
}
