//! Where a series of runs changed: levels, single bad runs, loads apart, too few runs.

use diagnose::comparison::{Figures, Quantity, SeriesRun, Trend, trend};
use model::Recording;
use model::recording::Capsule;
use testkit::recordings::any_plan;

/// A run of the night `n`: noise of half a percent that follows no order.
fn run(n: u64, p99_us: f64, version: &str) -> SeriesRun {
    let capsule =
        Capsule { started_at_unix_ns: n * 86_400_000_000_000, version: version.to_owned(), ..Capsule::default() };
    let noise = 1.0 + 0.005 * ((n * 7919 % 13) as f64 / 6.0 - 1.0);
    let figures = [(Quantity::P99, p99_us * noise), (Quantity::Throughput, 1000.0 / noise), (Quantity::Failures, 0.0)];
    SeriesRun {
        id: format!("run-{n:02}"),
        recording: Recording::new(capsule, any_plan()),
        figures: Figures(figures.into()),
    }
}

fn of(runs: Vec<SeriesRun>) -> Trend {
    trend(runs, Vec::new(), 0.03)
}

#[test]
fn the_run_from_which_on_it_is_another_is_named_with_what_else_changed() {
    let series = |n: u64| if n < 17 { run(n, 4000.0, "1.0") } else { run(n, 4600.0, "1.1") };
    let mut runs: Vec<SeriesRun> = (0..30).map(series).collect();
    let found = of(runs.clone());
    let [turn] = &found.series[0].changes[..] else { panic!("{:?}", found.series[0].changes) };
    assert_eq!((turn.quantity, &*turn.last_before, &*turn.first_after), (Quantity::P99, "run-16", "run-17"));
    assert!((turn.change - 0.15).abs() < 0.01 && turn.is_worse, "{turn:?}");
    let version = turn.differences.iter().find(|difference| difference.name == "version").unwrap();
    assert_eq!((&*version.a, &*version.b), ("1.0", "1.1"));
    assert!(found.series[0].sentence.contains("p99 +15.") && found.series[0].sentence.contains("from run-17 on"));
    // The order in which they are given says nothing.
    runs.reverse();
    assert_eq!(of(runs), found);
}

#[test]
fn one_bad_night_and_what_is_within_the_tolerance_are_no_change() {
    let one_bad = (0..30).map(|n| run(n, if n == 12 { 9000.0 } else { 4000.0 }, "1"));
    assert_eq!(of(one_bad.collect()).series[0].changes, []);
    let small = (0..30).map(|n| run(n, if n < 15 { 4000.0 } else { 4080.0 }, "1"));
    let found = of(small.collect());
    assert_eq!(found.series[0].changes, [], "2 %");
    assert_eq!(found.series[0].sentence, "Nothing changed over 30 runs");
    let better: Vec<SeriesRun> = (0..30).map(|n| run(n, if n < 15 { 4000.0 } else { 3000.0 }, "1")).collect();
    assert!(!of(better).series[0].changes[0].is_worse);
}

#[test]
fn loads_are_apart_and_few_runs_tell_nothing() {
    let mut runs: Vec<SeriesRun> = (0..20).map(|n| run(n, 4000.0, "1")).collect();
    for run in &mut runs[14..] {
        run.recording.plan.connections = 99;
        run.figures.0.insert(Quantity::P99, 90_000.0);
    }
    let found = of(runs);
    let counts: Vec<usize> = found.series.iter().map(|series| series.runs.len()).collect();
    assert_eq!(counts, [14, 6], "the one with most runs first");
    assert!(found.series.iter().all(|series| series.changes.is_empty()));
    assert!(found.series[1].sentence.contains("too few"), "{}", found.series[1].sentence);
    assert_eq!(of(Vec::new()).series, []);
}

/// A figure that some runs do not have is looked for among those that have it.
#[test]
fn runs_without_a_figure_are_passed_over() {
    let runs = (0..40).map(|n| {
        let mut run = run(n, if n < 20 { 4000.0 } else { 5000.0 }, "1");
        if n % 3 == 0 {
            run.figures.0.remove(&Quantity::P99);
        }
        run
    });
    let found = of(runs.collect());
    let turn = &found.series[0].changes[0];
    assert_eq!((&*turn.last_before, &*turn.first_after), ("run-19", "run-20"));
}
