//! `docs/truth.md`: what was found of causes that are known.

use crate::case::Case;
use crate::results::{Judgement, Outcome, Results};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const HEAD: &str = "# Truth

What was found of causes that are known: each folder of `truth/` is a case, run live. `right`: what must be first was, what must
appear did, and nothing else of the target was above \"info\" but what these bring about. Made by `make truth`; do not edit.

A run counts only if its cause was there (readings of the kernel's and the servers' own, which plimsoll has no part in) and its
loss was to be seen by a user; the others are `void`, and so is that of a sound server of which nothing is blamed in a report that
says itself that it is no result. `not yet`: the case says why it cannot be right, and is not among the pooled ones. A crowded machine (load average above its cores by one, other processes running) shows `cpu-contention` rightly.

";

/// A share with its 95 % interval, after Wilson (1927): it holds for few runs and for shares next to all, where the usual
/// one does not.
fn wilson(right: usize, all: usize) -> (f64, f64) {
    const Z: f64 = 1.96;
    if all == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (all as f64, right as f64 / all as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// A part of a whole in per cent, with its interval.
pub fn with_interval(part: usize, whole: usize) -> String {
    let (low, high) = wilson(part, whole);
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    format!("{share:.1} %, at 95 % between {:.1} and {:.1} %", 100.0 * low, 100.0 * high)
}

/// The page: what is kept over several series, and the one that was made just now.
pub fn page(kept: &str, series: Option<&str>) -> String {
    [HEAD, kept, series.unwrap_or_default()].concat()
}

/// What a case means to be said: the first of what must be first, or must appear.
pub fn meant(case: &Case) -> &str {
    case.expect.first.first().or(case.expect.appear.first()).map_or("(sound)", String::as_str)
}

/// What was said first, by what was meant, of runs that are not void: what was meant, whether it was right, what was said.
pub fn matrix<'a>(runs: impl Iterator<Item = (&'a str, bool, &'a str)>) -> String {
    let mut matrix: BTreeMap<&str, (usize, usize, BTreeMap<&str, usize>)> = BTreeMap::new();
    for (meant, is_right, said) in runs {
        let row = matrix.entry(meant).or_default();
        row.0 += 1;
        row.1 += usize::from(is_right);
        *row.2.entry(said).or_default() += 1;
    }
    let mut table = "| meant | runs | right | said |\n|---|---|---|---|\n".to_owned();
    for (meant, (runs, right, said)) in matrix {
        let said: Vec<String> = said.into_iter().map(|(id, count)| format!("{id} × {count}")).collect();
        writeln!(table, "| {meant} | {runs} | {right} | {} |", said.join(", ")).unwrap();
    }
    table
}

/// The page's part about one series.
pub fn series(cases: &[Case], results: &Results, seed: u64) -> String {
    let done: Vec<(&Case, Vec<&Outcome>)> =
        cases.iter().map(|case| (case, results.of_case(case))).filter(|(_, all)| !all.is_empty()).collect();
    let counted = || done.iter().filter(|(case, _)| case.not_yet.is_none());
    let count = |which: Judgement| {
        counted().map(|(case, all)| all.iter().filter(|o| o.judgement(case) == which).count()).sum::<usize>()
    };
    let (right, wrong, void) = (count(Judgement::Right), count(Judgement::Wrong), count(Judgement::Void));
    let mut page = String::new();
    writeln!(
        page,
        "\n## The last whole series\n\nSeed {seed}: {right} of {} runs were right: {}. {void} were void.\n",
        right + wrong,
        with_interval(right, right + wrong)
    )
    .unwrap();
    page.push_str("### By case\n\n| case | right | said | void | crowded |\n|---|---|---|---|---|\n");
    for (case, all) in &done {
        let of = |which| all.iter().filter(|o| o.judgement(case) == which).count();
        let (right, void) = (of(Judgement::Right), of(Judgement::Void));
        let crowded = all.iter().filter(|o| o.crowded.is_some()).count();
        let said: BTreeSet<String> = all.iter().map(|o| o.said()).collect();
        let said: Vec<String> = said.into_iter().collect();
        let not_yet = if case.not_yet.is_some() { " (not yet)" } else { "" };
        let counted = all.len() - void;
        let said = said.join(", ");
        writeln!(page, "| {} | {right} of {counted}{not_yet} | {said} | {void} | {crowded} |", case.name).unwrap();
    }
    let counted = || {
        done.iter().flat_map(|(case, all)| all.iter().map(move |outcome| (*case, *outcome, outcome.judgement(case))))
    };
    let counted = || counted().filter(|(_, _, judgement)| *judgement != Judgement::Void);
    let said: Vec<String> = counted().map(|(_, outcome, _)| outcome.said()).collect();
    let rows = counted().zip(&said);
    page.push_str("\n### Said first, by what was meant\n\n");
    page.push_str(&matrix(
        rows.map(|((case, _, judgement), said)| (meant(case), judgement == Judgement::Right, &**said)),
    ));
    let mut extra: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (case, outcome, _) in counted() {
        for id in outcome.wrong(case) {
            *extra.entry((&case.name, id)).or_default() += 1;
        }
    }
    page.push_str("\n### Found above \"info\" and not meant\n\n");
    for ((case, id), count) in &extra {
        writeln!(page, "- {case}: {id} × {count}").unwrap();
    }
    if extra.is_empty() {
        page.push_str("Nothing.\n");
    }
    let not_yet: Vec<_> = done.iter().filter_map(|(case, _)| Some((&case.name, case.not_yet.as_ref()?))).collect();
    if !not_yet.is_empty() {
        page.push_str("\n### Not yet\n\n");
        not_yet.iter().for_each(|(name, why)| writeln!(page, "- {name}: {why}").unwrap());
    }
    page
}

#[test]
fn an_interval_is_wilsons() {
    // Figures of the formula done by hand: 9 of 10, and 0 of 10 with its upper end z² ÷ (n + z²).
    let (low, high) = wilson(9, 10);
    assert!((low - 0.5958).abs() < 5e-4 && (high - 0.9821).abs() < 5e-4, "{low} {high}");
    let (low, high) = wilson(0, 10);
    assert!(low.abs() < 1e-9 && (high - 3.8416 / 13.8416).abs() < 1e-4, "{low} {high}");
    assert_eq!(wilson(0, 0), (0.0, 1.0));
}
