//! Known causes, run live: `truth/<case>/case.toml` says what is started, what load is put on, what must be found, what first,
//! and nothing else of the target above "info" may be.
//!
//! `make truth` runs all of them and writes `docs/truth.md`; without `PLIMSOLL_TRUTH` only the cases themselves are read.
//! `PLIMSOLL_TRUTH=nginx,http-nagle` runs those that begin so; `PLIMSOLL_TRUTH_RUNS=10` each so often. On a machine that others
//! use, `cpu-contention` is no wrong answer: what the load average says then is kept beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod case;
mod page;

use case::{Case, Outcome, cases};
use std::collections::BTreeSet;

#[test]
fn every_case_can_be_read_and_names_causes_that_are_there() {
    // Of causes without a rule yet, too: a case may come first.
    let groups = diagnose::catalogue::GROUPS.iter();
    let known: BTreeSet<&str> = groups.flat_map(|(_, causes)| *causes).map(|cause| cause.id).collect();
    let all = cases();
    assert!(all.len() >= 50, "{}", all.len());
    for case in all {
        let expected = &case.expect;
        let ids = [&expected.first, &expected.appear, &expected.also];
        for id in ids.into_iter().flatten() {
            assert!(known.contains(&**id), "{}: no cause is called {id}", case.name);
        }
        assert!(case.serve.is_some() != case.command.is_some(), "{}: one target, please", case.name);
        assert!(
            !(ids.iter().all(|ids| ids.is_empty()) && expected.standing.is_empty()),
            "{} expects nothing",
            case.name
        );
    }
}

#[test]
fn known_causes_are_found() {
    let Ok(wanted) = std::env::var("PLIMSOLL_TRUTH") else {
        return testkit::skip("live cases take ten minutes: make truth, or PLIMSOLL_TRUTH=all");
    };
    if !testkit::is_root() {
        return testkit::skip("probes of the kernel need root");
    }
    let runs: usize = std::env::var("PLIMSOLL_TRUTH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1);
    let is_wanted = |case: &Case| wanted == "all" || wanted.split(',').any(|begin| case.name.starts_with(begin));
    let mut done: Vec<(Case, Vec<Outcome>)> = Vec::new();
    for case in cases().into_iter().filter(is_wanted) {
        let Some(program) = case.missing_program() else {
            let outcomes: Vec<Outcome> = (0..runs).map(|_| case.run()).collect();
            for outcome in &outcomes {
                println!("{:32} {}", case.name, outcome.line(&case));
            }
            done.push((case, outcomes));
            continue;
        };
        testkit::skip(&format!("{}: {program} is not installed", case.name));
    }
    let page = page::page(&done);
    if wanted == "all" {
        std::fs::write(testkit::workspace().join("docs/truth.md"), &page).unwrap();
    }
    let wrong: Vec<String> = done
        .iter()
        .flat_map(|(case, outcomes)| outcomes.iter().map(move |outcome| (case, outcome)))
        .filter(|(case, outcome)| !outcome.is_right(case))
        .map(|(case, outcome)| format!("{}: {}", case.name, outcome.line(case)))
        .collect();
    assert!(wrong.is_empty(), "{} runs are not as they must be:\n{}", wrong.len(), wrong.join("\n"));
}
