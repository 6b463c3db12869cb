//! `docs/truth.md`: what was found of known causes.

use crate::case::{Case, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The page.
pub fn page(done: &[(Case, Vec<Outcome>)]) -> String {
    let mut page = "# Truth

What was found of causes that are known: each folder of `truth/` is a case, run live. `right`: what must be first was, what must
appear did, and nothing else of the target was above \"info\". Made by `make truth`; do not edit.

A crowded machine (load average above its cores by one, other processes running) shows `cpu-contention` rightly; in how many of the runs
it was so stands in the last column.

## By case

| case | right | gave first | crowded |
|---|---|---|---|
"
    .to_owned();
    let (mut right, mut all) = (0, 0);
    for (case, outcomes) in done {
        let of_case = outcomes.iter().filter(|outcome| outcome.is_right(case)).count();
        let crowded = outcomes.iter().filter(|outcome| outcome.crowded.is_some()).count();
        let first: BTreeSet<&str> =
            outcomes.iter().map(|outcome| outcome.first.as_deref().unwrap_or(&outcome.standing)).collect();
        let first: Vec<&str> = first.into_iter().collect();
        let runs = outcomes.len();
        writeln!(page, "| {} | {of_case} of {runs} | {} | {crowded} of {runs} |", case.name, first.join(", ")).unwrap();
        (right, all) = (right + of_case, all + runs);
    }
    write!(page, "\n{right} of {all} runs were right.\n\n## Found above \"info\", by what was meant\n\n| meant | found |\n|---|---|\n").unwrap();
    let mut matrix: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (case, outcomes) in done {
        let meant = case.expect.first.first().or(case.expect.appear.first()).map_or("(sound)", String::as_str);
        let row = matrix.entry(meant.to_owned()).or_default();
        for outcome in outcomes {
            outcome.above.iter().for_each(|id| *row.entry(id.clone()).or_default() += 1);
            if outcome.above.is_empty() {
                *row.entry(format!("({})", outcome.standing)).or_default() += 1;
            }
        }
    }
    for (meant, found) in matrix {
        let found: Vec<String> = found.into_iter().map(|(id, count)| format!("{id} × {count}")).collect();
        writeln!(page, "| {meant} | {} |", found.join(", ")).unwrap();
    }
    page
}
