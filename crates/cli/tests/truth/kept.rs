//! Runs of known causes that are kept in the repository, over several series, days and commits: a case ten times is more than one sitting.
//!
//! `truth/runs.tsv` has a line for each, as it was judged then: a rule that was mended since does not make it right. Series of all cases
//! go on in it where the last one was interrupted, whoever interrupted it. `docs/truth.md` begins with what they come to.

use crate::case::Case;
use crate::page::{matrix, meant, with_interval};
use crate::results::{Judgement, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

const COLUMNS: [&str; 6] = ["case", "seed", "run", "judgement", "said", "commit"];

/// All that are kept.
pub struct Kept {
    path: PathBuf,
    runs: Vec<Run>,
    commit: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Run {
    case: String,
    seed: u64,
    run: usize,
    judgement: Judgement,
    said: String,
    commit: String,
}

impl Run {
    fn of_line(line: &str) -> Option<Self> {
        let [case, seed, run, judgement, said, commit] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let judgement =
            [Judgement::Right, Judgement::Wrong, Judgement::Void].into_iter().find(|one| one.word() == judgement)?;
        let (seed, run) = (seed.parse().ok()?, run.parse().ok()?);
        Some(Run { case: case.to_owned(), seed, run, judgement, said: said.to_owned(), commit: commit.to_owned() })
    }

    fn line(&self) -> String {
        let Run { case, seed, run, judgement, said, commit } = self;
        format!("{case}\t{seed}\t{run}\t{}\t{said}\t{commit}", judgement.word())
    }
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

impl Kept {
    /// Those of the repository.
    pub fn open() -> Self {
        let path = testkit::workspace().join("truth/runs.tsv");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let commit =
            Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(testkit::workspace()).output();
        let commit =
            commit.map_or_else(|_| String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
        Kept { path, runs: text.lines().filter_map(Run::of_line).collect(), commit }
    }

    /// Whether a run of a series was made.
    pub fn has(&self, case: &Case, seed: u64, run: usize) -> bool {
        self.runs.iter().any(|one| one.case == case.name && one.seed == seed && one.run == run)
    }

    /// Keeps one more.
    pub fn keep(&mut self, case: &Case, seed: u64, outcome: &Outcome) {
        let mut file = std::fs::File::options().append(true).create(true).open(&self.path).unwrap();
        if file.metadata().unwrap().len() == 0 {
            writeln!(file, "{}", COLUMNS.join("\t")).unwrap();
        }
        let run = Run {
            case: case.name.clone(),
            seed,
            run: outcome.run,
            judgement: outcome.judgement(case),
            said: outcome.said(),
            commit: self.commit.clone(),
        };
        writeln!(file, "{}", run.line()).unwrap();
        self.runs.push(run);
    }

    /// The page's part about them; empty where there are none.
    pub fn part(&self, cases: &[Case]) -> String {
        if self.runs.is_empty() {
            return String::new();
        }
        let named: BTreeMap<&str, &Case> =
            cases.iter().filter(|case| case.not_yet.is_none()).map(|case| (&*case.name, case)).collect();
        let pooled = || self.runs.iter().filter(|run| named.contains_key(&*run.case));
        let count = |which: Judgement| pooled().filter(|run| run.judgement == which).count();
        let (right, wrong, void) = (count(Judgement::Right), count(Judgement::Wrong), count(Judgement::Void));
        let commits: BTreeSet<&str> = pooled().map(|run| &*run.commit).collect();
        let seeds: BTreeSet<u64> = pooled().map(|run| run.seed).collect();
        let mut part = format!(
            "**{right} of {} runs were right: {}.** {void} were void.\n\n\
             Each as it was judged when it was made (`truth/runs.tsv`, `make truth KEEP=1`), at {} commit{}, with seed{} {}.\n\n",
            right + wrong,
            with_interval(right, right + wrong),
            commits.len(),
            plural(commits.len()),
            plural(seeds.len()),
            seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        );
        let of_two = |which| pooled().filter(|run| has_two_causes(&run.case) && run.judgement == which).count();
        let (both, not_both) = (of_two(Judgement::Right), of_two(Judgement::Wrong));
        if both + not_both > 0 {
            writeln!(
                part,
                "Of {} runs with two causes at once (cases `two-...`) {both} had both named, and none besides: {}.\n",
                both + not_both,
                with_interval(both, both + not_both)
            )
            .unwrap();
        }
        // What a right run named is the case's own, so only wrong ones can have named another cause.
        let another = pooled().filter(|run| run.judgement == Judgement::Wrong && !run.said.starts_with('(')).count();
        writeln!(
            part,
            "A cause that was not there was named in at most {another} of {} runs: {}.\n",
            right + wrong,
            with_interval(another, right + wrong)
        )
        .unwrap();
        part.push_str("## Said first, by what was meant\n\n");
        let not_void = pooled().filter(|run| run.judgement != Judgement::Void);
        part.push_str(&matrix(
            not_void.map(|run| (meant(named[&*run.case]), run.judgement == Judgement::Right, &*run.said)),
        ));
        part.push_str("\n## By case\n\n| case | right | void | said where it was wrong |\n|---|---|---|---|\n");
        let mut by_case: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        pooled().for_each(|run| by_case.entry(&run.case).or_default().push(run));
        for (case, runs) in by_case {
            let of = |which: Judgement| runs.iter().filter(|run| run.judgement == which).count();
            let (right, void) = (of(Judgement::Right), of(Judgement::Void));
            let wrong = runs.iter().filter(|run| run.judgement == Judgement::Wrong).map(|run| &*run.said);
            let wrong = wrong.collect::<Vec<_>>().join(", ");
            writeln!(part, "| {case} | {right} of {} | {void} | {wrong} |", runs.len() - void).unwrap();
        }
        part
    }
}

/// Whether a case has two causes: its name says so.
fn has_two_causes(case: &str) -> bool {
    case.rsplit('/').next().is_some_and(|name| name.starts_with("two-"))
}

#[test]
fn a_kept_run_reads_as_it_was_written_and_all_of_them_come_to_a_page() {
    let run = |case: &str, judgement, said: &str| Run {
        case: case.to_owned(),
        seed: 7,
        run: 1,
        judgement,
        said: said.to_owned(),
        commit: "abc".to_owned(),
    };
    let cases = crate::cases();
    let name = &cases.iter().find(|case| case.not_yet.is_none()).unwrap().name;
    let runs =
        vec![run(name, Judgement::Right, "a"), run(name, Judgement::Wrong, "b"), run(name, Judgement::Void, "c")];
    for one in &runs {
        assert_eq!(Run::of_line(&one.line()).as_ref(), Some(one));
    }
    assert_eq!((Run::of_line(&COLUMNS.join("\t")), Run::of_line("x\t1")), (None, None));
    let kept = Kept { path: PathBuf::new(), runs, commit: String::new() };
    let page = kept.part(&cases);
    assert!(page.contains("**1 of 2 runs were right: 50.0 %") && page.contains("1 were void"), "{page}");
    assert!(page.contains(&format!("| {name} | 1 of 2 | 1 | b |")), "{page}");
    assert!(!page.contains("two causes") && page.contains("was named in at most 1 of 2 runs: 50.0 %"), "{page}");
    assert!(page.contains("| 2 | 1 | a × 1, b × 1 |"), "{page}");
    let two = &cases.iter().find(|case| case.name.starts_with("real/two-")).unwrap().name;
    let runs = [Judgement::Right, Judgement::Right, Judgement::Right, Judgement::Wrong, Judgement::Void];
    let runs = runs.map(|judgement| run(two, judgement, "a")).into_iter().chain([run(name, Judgement::Wrong, "b")]);
    let page = Kept { path: PathBuf::new(), runs: runs.collect(), commit: String::new() }.part(&cases);
    assert!(page.contains("Of 4 runs with two causes at once (cases `two-...`) 3 had both named"), "{page}");
}
