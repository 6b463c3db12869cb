//! Known causes, run live: `truth/<case>/case.toml` says what is started, what load is put on, what must be found, what first,
//! and nothing else of the target above "info" may be.
//!
//! `make truth` runs all of them and writes `docs/truth.md`; without `PLIMSOLL_TRUTH` the cases are read and the recordings beside
//! them judged. `PLIMSOLL_TRUTH=nginx,real/puma` runs those that begin so; `PLIMSOLL_TRUTH_RUNS=10` each so often, all of them once
//! before any a second time. What varies is drawn from a seed, a run's is the series' and its number: `PLIMSOLL_TRUTH_SEED=7`
//! makes the same series again, or goes on with it where it was interrupted (its results are in `target/truth/7.jsonl`).
//! `PLIMSOLL_TRUTH_OBSERVE=light` observes at another level than the cases say, where less can be known: what is wrong there is for
//! reading, and no page is made of it.
//! `PLIMSOLL_TRUTH_KEEP=1` adds the runs to those of `truth/runs.tsv`, series of which go on on another day.
//! `PLIMSOLL_TRUTH_RECORD=1` keeps small recordings of right runs beside their cases. On a machine that others use,
//! `cpu-contention` is no wrong answer: what the load average says then is kept beside it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up is a test that fails; a series says each run as it ends"
)]

#[path = "../common/mod.rs"]
mod common;

mod case;
mod kept;
mod page;
mod recorded;
mod results;
mod run;

use case::{Case, cases};
use kept::Kept;
use results::{Judgement, Outcome, Results};
use run::Broken;
use std::collections::BTreeSet;

#[test]
fn every_case_can_be_read_and_names_causes_that_are_there() {
    let judged: BTreeSet<&str> = diagnose::ids().collect();
    let catalogue = || diagnose::catalogue::GROUPS.iter().flat_map(|(_, causes)| *causes).map(|cause| cause.id);
    let all = cases();
    assert!(all.len() >= 80, "{}", all.len());
    for case in all {
        let expected = &case.expect;
        for id in expected.ids() {
            assert!(
                judged.contains(&**id) || catalogue().any(|known| known == id),
                "{}: no cause is called {id}",
                case.name
            );
        }
        // One of the catalogue that no rule judges yet can only stand beside one that can be said.
        let can_be = expected.first.iter().any(|id| judged.contains(&**id));
        assert!(can_be || expected.first.is_empty() || case.not_yet.is_some(), "{}: nobody can say that", case.name);
        assert!(!can_be || case.not_yet.is_none(), "{}: it can be said by now", case.name);
        assert!(case.serve.is_some() != case.command.is_some(), "{}: one target, please", case.name);
        assert!(!case.url.is_empty() && !case.load.is_empty(), "{}: which load?", case.name);
        assert!(expected.ids().next().is_some() || !expected.standing.is_empty(), "{} expects nothing", case.name);
        assert!(!case.part_way || case.serve.is_some(), "{}: only own defects can begin part-way", case.name);
        for proof in &case.proof {
            assert!(proof.grows.is_some() || proof.reaches.is_some(), "{}: '{}' proves nothing", case.name, proof.of);
        }
        let loses = !expected.first.is_empty();
        assert!(!loses || case.visible.is_some(), "{}: what does a user see of it? [visible]", case.name);
        let is_real = case.name.starts_with("real/");
        assert!(!loses || !is_real || !case.proof.is_empty(), "{}: what proves it? [[proof]]", case.name);
    }
}

#[test]
fn a_seed_makes_the_same_again_and_half_of_the_runs_begin_late() {
    let case = cases().into_iter().find(|case| case.part_way && !case.draw.is_empty()).unwrap();
    assert_eq!(case.draw(5), case.draw(5));
    let drawn: Vec<_> = (0..100).map(|seed| case.draw(seed)).collect();
    let late = drawn.iter().filter(|drawn| drawn.moment_s.is_some()).count();
    assert!((30..=70).contains(&late), "{late} of 100");
    let (name, [low, high]) = case.draw.iter().next().unwrap();
    assert!(drawn.iter().all(|drawn| (*low..=*high).contains(&drawn.values[name])));
    assert!(drawn.iter().any(|a| a.values != drawn[0].values));
    let words = case.serve_words(drawn.iter().find(|drawn| drawn.moment_s.is_some()).unwrap()).unwrap();
    let defect = words.iter().skip_while(|word| *word != "--defect").nth(1).unwrap();
    assert!(defect.contains('@') && defect.ends_with("ms"), "{defect}");
}

#[test]
fn known_causes_are_found() {
    let Ok(wanted) = std::env::var("PLIMSOLL_TRUTH") else {
        return testkit::skip("live cases take long: make truth, or PLIMSOLL_TRUTH=all");
    };
    if !testkit::is_root() {
        return testkit::skip("probes of the kernel need root");
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("PLIMSOLL_TRUTH_RUNS").unwrap_or(1) as usize;
    let seed = number("PLIMSOLL_TRUTH_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let is_recording = number("PLIMSOLL_TRUTH_RECORD").is_some();
    run::listen_for_interrupts();
    println!("seed {seed}: PLIMSOLL_TRUTH_SEED={seed} makes the same runs, and goes on where this was interrupted");
    let mut all = cases();
    let level = std::env::var("PLIMSOLL_TRUTH_OBSERVE").ok();
    level.iter().for_each(|level| all.iter_mut().for_each(|case| case.observe.clone_from(level)));
    let series = level.as_ref().map_or_else(|| seed.to_string(), |level| format!("{seed}-{level}"));
    let mut results = Results::of(&series, &all);
    let mut kept = number("PLIMSOLL_TRUTH_KEEP").filter(|_| level.is_none()).map(|_| Kept::open());
    let is_wanted = |case: &&Case| wanted == "all" || wanted.split(',').any(|begin| case.name.starts_with(begin));
    let chosen: Vec<&Case> = all.iter().filter(is_wanted).collect();
    let (here, absent): (Vec<&Case>, Vec<&Case>) = chosen.iter().partition(|case| case.missing_programs().is_empty());
    for case in absent {
        testkit::skip(&format!("{}: not installed: {}", case.name, case.missing_programs().join(", ")));
    }
    let (mut failures, mut is_interrupted) = (Vec::new(), false);
    'series: for run in 0..runs {
        for case in &here {
            if results.find(case, run).is_some() || kept.as_ref().is_some_and(|kept| kept.has(case, seed, run)) {
                continue;
            }
            let own_seed = seed.wrapping_mul(1000).wrapping_add(run as u64);
            match recorded::run(case, run, own_seed, is_recording) {
                Ok(outcome) => {
                    println!("{:32} {}", case.name, outcome.line(case));
                    kept.iter_mut().for_each(|kept| kept.keep(case, seed, &outcome));
                    results.keep(outcome);
                }
                Err(Broken::Interrupted) => {
                    is_interrupted = true;
                    break 'series;
                }
                Err(Broken::Failed(why)) => {
                    println!("{:32} FAILED {why}", case.name);
                    failures.push(format!("{}: {why}", case.name));
                }
            }
        }
    }
    let is_whole = wanted == "all" && kept.is_none() && level.is_none() && !is_interrupted;
    if is_whole || kept.is_some() {
        // A series of another day is no part of the page: what is kept of such ones is.
        let series = is_whole.then(|| page::series(&all, &results, seed));
        let page = page::page(&kept.unwrap_or_else(Kept::open).part(&all), series.as_deref());
        std::fs::write(testkit::workspace().join("docs/truth.md"), page).unwrap();
    }
    assert!(!is_interrupted, "interrupted; PLIMSOLL_TRUTH_SEED={seed} goes on from here");
    failures.extend(here.iter().filter(|case| case.not_yet.is_none()).flat_map(|case| {
        let is_failure = |outcome: &&Outcome| outcome.judgement(case) != Judgement::Right;
        let bad = results.of_case(case).into_iter().filter(is_failure);
        bad.map(|outcome| format!("{}: {}", case.name, outcome.line(case))).collect::<Vec<_>>()
    }));
    assert!(failures.is_empty(), "{} runs are not as they must be:\n{}", failures.len(), failures.join("\n"));
}
