//! The simulation study: the search on queues whose line is known, so many seeds each, against the figures it is to reach.
//!
//! `PLIMSOLL_STUDY_SEEDS=1000 UPDATE_DOCS=1 cargo test -p plimsoll-session --test capacity study` writes the table of
//! docs/capacity.md; without, a few seeds of each model are run, and the bounds leave room for how few they are.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "in a test, a panic is the report")]

mod models;

use models::{Figures, Model, TIME_S, search};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use session::capacity::axis::Requests;
use session::capacity::blocks::{Block, Counted, backlog_growth_per_s, dispersion};
use session::capacity::decision::{Bound, Judge, Verdict, judge, requests_needed};
use session::capacity::fit::{Group, crossing};
use session::capacity::search::{Purpose, Search, Settings, Step};
use std::fmt::Write;

/// Seeds of each model where nobody asks for more.
const SEEDS: u64 = 120;
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/capacity.md");
const BEGIN: &str = "<!-- the simulation study, written by its test -->";
const END: &str = "<!-- end of the simulation study -->";

fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut random = SmallRng::seed_from_u64(seed);
    move || random.random::<f64>()
}

fn figures(model: Model, seeds: u64) -> Figures {
    let searches: Vec<Search> = (0..seeds).map(|seed| search(model, seed, uniform(seed))).collect();
    Figures::of(model, &searches)
}

#[test]
fn the_study() {
    let seeds = std::env::var("PLIMSOLL_STUDY_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let all: Vec<(Model, Figures)> = std::thread::scope(|scope| {
        let started: Vec<_> = Model::ALL.map(|model| (model, scope.spawn(move || figures(model, seeds)))).into();
        started.into_iter().map(|(model, thread)| (model, thread.join().unwrap())).collect()
    });
    let table = table(&all, seeds);
    println!("{table}");
    for (model, found) in &all {
        let name = model.name();
        // What falls short of the aim is said in docs/capacity.md; here it is held to what it reaches, with room for how few
        // seeds there are: of a hundred a share scatters by some percent.
        let is_short = model == &Model::SlowServer;
        let (median, of_95, rightly, covers) =
            if is_short { (0.03, 0.12, 0.85, 0.75) } else { (0.01, 0.035, 0.98, 0.87) };
        assert!(found.open * 50 <= found.searches, "{name}: {found:?}");
        assert!(found.error_median <= median, "{name}: {found:?}");
        assert!(found.error_95 <= of_95, "{name}: {found:?}");
        assert!(found.decided_rightly >= rightly, "{name}: {found:?}");
        assert!(found.covers >= covers, "{name}: {found:?}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the mark where the table begins");
        let (_, after) = rest.split_once(END).expect("the page has the mark where the table ends");
        std::fs::write(PAGE, format!("{before}{BEGIN}\n\n{table}\n{END}{after}")).unwrap();
    }
}

/// The table in the page names every model, whoever ran it last.
#[test]
fn the_page_has_every_model() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let table = page.split(BEGIN).nth(1).and_then(|rest| rest.split(END).next()).unwrap();
    for model in Model::ALL {
        assert!(table.contains(model.name()), "{} is missing: run the study with UPDATE_DOCS=1", model.name());
    }
}

fn table(all: &[(Model, Figures)], seeds: u64) -> String {
    let mut text =
        format!("{seeds} searches of the default length on each model ({TIME_S} s for steps), precision 2 %.\n\n");
    text.push_str(
        "| model | error, median | error, 95th | covers | width, median | decided rightly | undecided | took | open |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for (model, found) in all {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let whole = |share: f64| format!("{:.1} %", 100.0 * share);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {:.0} s | {} |",
            model.name(),
            percent(found.error_median),
            percent(found.error_95),
            whole(found.covers),
            percent(found.width_median),
            whole(found.decided_rightly),
            whole(found.undecided),
            found.took_s,
            found.open
        )
        .unwrap();
    }
    text
}

#[test]
fn a_search_is_a_function_of_its_seed() {
    let line = |seed| search(Model::TokenBucket, seed, uniform(seed)).line();
    assert_eq!(line(3), line(3));
    assert_ne!(line(3), line(4));
}

/// With this seed the first step's backlog grows by chance, far below the line, where no request is late.
#[test]
fn a_backlog_that_grew_once_by_chance_is_not_the_line() {
    let search = search(Model::SlowToForget, 3, uniform(3));
    let first = &search.steps()[0];
    assert!(first.is_growing && first.verdict == Verdict::Missed, "another seed is needed: {first:?}");
    let load = search.line().load.unwrap();
    assert!((load / Model::SlowToForget.line() - 1.0).abs() < 0.1, "{:?}", search.line());
}

fn block(requests: u64, bad: u64, backlog: f64) -> Block {
    Block { seconds: 0.25, requests, bad: vec![bad], backlog }
}

const LATE: Bound = Bound { share_max: 0.01, late_s: 0.05 };

#[test]
fn bursts_are_worth_less_than_single_bad_requests() {
    let of = |bad: &[f64]| -> Vec<Counted> { bad.iter().map(|bad| Counted { requests: 500.0, bad: *bad }).collect() };
    // The same number of bad ones, spread evenly and in one block of eight.
    assert_eq!(dispersion(&of(&[5.0; 16])), 1.0);
    let mut burst = [0.0; 16];
    burst[5] = 80.0;
    assert!(dispersion(&of(&burst)) > 20.0);
    // Once a second: a second is the unit, and seconds are all alike.
    let each_second: Vec<f64> = (0..16).map(|at| if at % 4 == 0 { 20.0 } else { 0.0 }).collect();
    assert!(dispersion(&of(&each_second)) < 8.0, "{}", dispersion(&of(&each_second)));
}

#[test]
fn a_step_is_held_missed_or_undecided() {
    let run = |bad: fn(usize) -> u64| {
        let mut judge = Judge::new(&[LATE], 3.0);
        (0..100).find_map(|at| judge.push(block(500, bad(at), 3.0)).map(|verdict| (verdict, judge.blocks.len())))
    };
    assert_eq!(run(|_| 0), Some((Verdict::Held, 12)), "at its length");
    assert_eq!(run(|_| 50), Some((Verdict::Missed, 12)));
    assert_eq!(run(|_| 490), Some((Verdict::Missed, 4)), "all lost: after a second");
    assert_eq!(run(|_| 5), Some((Verdict::Undecided, 24)), "at the bound: after twice its length");
    assert_eq!(run(|at| if at == 1 { 490 } else { 0 }), Some((Verdict::Undecided, 24)), "one burst");
}

#[test]
fn a_backlog_that_grows_is_seen_before_anything_is_late() {
    let mut judge = Judge::new(&[LATE], 10.0);
    let wave = |at: i32| f64::from((at * 7) % 5);
    let verdict = (0..40)
        .find_map(|at| judge.push(block(500, 0, f64::from(at) * 2.5 + wave(at))).map(|v| (v, judge.blocks.len())));
    let (verdict, blocks) = verdict.unwrap();
    assert!(verdict == Verdict::Missed && blocks < 20, "{verdict:?} after {blocks}");
    let level: Vec<Block> = (0..40).map(|at| block(500, 0, 20.0 + wave(at))).collect();
    assert_eq!(backlog_growth_per_s(&level), None);
    // Where nothing can be late, a backlog is no objective's.
    let mut judge = Judge::new(&[Bound { share_max: 0.01, late_s: 0.0 }], 3.0);
    let held = (0..40).find_map(|at| judge.push(block(500, 0, f64::from(at) * 50.0)));
    assert_eq!(held, Some(Verdict::Held));
}

#[test]
fn the_requests_needed_are_those_that_a_step_takes() {
    let needed = requests_needed(0.01).ceil() as u64;
    let run = |requests: u64| judge(&vec![block(requests / 4, 0, 0.0); 4], &[LATE]);
    assert_eq!((run(needed + 4), run(needed - 8)), (Verdict::Held, Verdict::Undecided));
    assert!(requests_needed(0.001) > 9.0 * requests_needed(0.01));
}

#[test]
fn the_fit_crosses_where_the_share_does() {
    // ln(share) = ln(0.01) + 40 (load / 1000 - 1), of groups that scatter by a tenth.
    let share = |load: f64| 0.01 * (40.0 * (load / 1000.0 - 1.0)).exp();
    let mut groups = Vec::new();
    for (step, load) in [960.0, 980.0, 1000.0, 1020.0, 1040.0].into_iter().enumerate() {
        for at in 0..8 {
            let scatter = if (at + step) % 2 == 0 { 1.1 } else { 0.9 };
            groups.push(Group { load, requests: load, bad: load * share(load) * scatter, step });
        }
    }
    let found = crossing(&groups, 0.01).unwrap();
    let (low, high) = found.interval.unwrap();
    assert!((found.load - 1000.0).abs() < 2.0 && low < 1000.0 && high > 1000.0, "{found:?}");
    assert!((found.steepness - 40.0).abs() < 2.0, "{found:?}");
    // One load has no slope, and none of bad requests neither.
    assert_eq!(crossing(&groups[..8], 0.01), None);
    let none: Vec<Group> = groups.iter().map(|group| Group { bad: 0.0, ..*group }).collect();
    assert_eq!(crossing(&none, 0.01), None);
}

/// A server that holds up to a load and not beyond, without any scatter.
fn deterministic(line: f64, first: f64, is_whole: bool, load_max: f64) -> Search {
    let settings = Settings {
        bounds: vec![LATE],
        precision: 0.02,
        time_s: 55.0,
        beside_s: 0.8,
        requests: Requests::RATE,
        is_whole,
        load_max,
        seed: 1,
    };
    let mut search = Search::new(first, settings);
    let mut tries = 0;
    while let Some(trial) = search.next_trial() {
        tries += 1;
        assert!(tries < 100 && trial.load <= load_max && trial.length_s <= trial.most_s, "{trial:?}");
        let is_held = trial.load <= line;
        let seconds = if is_held { trial.length_s } else { 1.0 };
        let count = (seconds / 0.25) as usize;
        let requests = (trial.load.max(1000.0) / 4.0) as u64;
        search.observe(Step {
            asked: trial.load,
            load: trial.load,
            took_s: seconds + 0.8,
            verdict: if is_held { Verdict::Held } else { Verdict::Missed },
            is_growing: false,
            purpose: trial.purpose,
            blocks: vec![block(requests, if is_held { 0 } else { requests }, 0.0); count],
        });
    }
    search
}

#[test]
fn the_line_is_enclosed_from_any_start_and_held_for_longer() {
    for line in [777.0, 123_456.0] {
        for first in [line / 5.0, line * 0.9, line, line * 1.1, line * 30.0] {
            let search = deterministic(line, first, false, f64::INFINITY);
            let found = search.line();
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            assert!(low <= line && line <= high && high <= low * 1.05, "{line} {first}: {found:?}");
            assert!(search.steps().iter().any(|step| step.purpose == Purpose::Hold), "{line} {first}");
            assert!(search.left_s() >= 0.0);
        }
    }
}

#[test]
fn whole_loads_and_the_highest_load_are_kept_to() {
    let found = deterministic(37.4, 10.0, true, 1000.0).line();
    assert_eq!((found.held, found.missed), (Some(37.0), Some(38.0)));
    let open = deterministic(f64::INFINITY, 10.0, false, 500.0).line();
    assert_eq!((open.held, open.missed, open.load), (Some(500.0), None, None));
    let none = deterministic(0.0, 8.0, true, 500.0).line();
    assert_eq!((none.held, none.missed), (None, Some(1.0)));
}
