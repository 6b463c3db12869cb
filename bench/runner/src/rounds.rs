//! Rounds: in each, every tool runs once, one after the other, so that all of them see the same
//! machine; the order turns by one place a round, so that none always follows the same neighbour.
//! A run with other load on the machine is thrown away and made again when the machine has become
//! quiet, or has not for long enough, a bounded number of times; a tool that fails twice is not tried
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::args::Settings;
use crate::measure::Measured;
use crate::quiet;
use crate::say::say;
use crate::stats::{self, Interval, Summary};
use crate::tools::{Kind, Row};

/// How often a tool may fail before it is left out.
const FAILURES_MAX: usize = 2;

/// All runs of one row.
#[derive(Debug, Serialize)]
pub struct Series {
    /// The row's name.
    pub name: String,
    #[serde(skip)]
    pub kind: Option<Kind>,
    /// Whether its program was found.
    pub installed: bool,
    /// One a round; none where all attempts were thrown away or failed.
    pub runs: Vec<Option<Measured>>,
    /// Runs thrown away because of other load.
    pub thrown_away: usize,
    /// Why runs failed.
    pub failures: Vec<String>,
}

impl Series {
    /// A figure of every round.
    pub fn figures(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Vec<Option<f64>> {
        let runs = self.runs.iter();
        runs.map(|run| run.as_ref().and_then(&figure)).collect()
    }

    /// Median and spread of a figure.
    pub fn summary(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Option<Summary> {
        Summary::of(self.figures(figure).into_iter().flatten())
    }

    /// The driver its first run says it used.
    pub fn driver(&self) -> Option<&str> {
        let first = self.runs.iter().flatten().next()?;
        first.reported.driver.as_deref()
    }

    /// What to say beside its figures.
    pub fn remarks(&self) -> String {
        let mut remarks = Vec::new();
        if !self.installed {
            return "not installed".to_owned();
        }
        if self.thrown_away > 0 {
            remarks.push(format!("{} thrown away", self.thrown_away));
        }
        let mut judged: BTreeMap<String, usize> = BTreeMap::new();
        for run in self.runs.iter().flatten().filter(|run| run.status != 0) {
            let reasons = run.reported.reasons.join(", ");
            *judged.entry(format!("exit {} {reasons}", run.status).trim().to_owned()).or_default() += 1;
        }
        remarks.extend(judged.into_iter().map(|(said, times)| format!("{times} × {said}")));
        let failed: u64 = self.runs.iter().flatten().map(|run| run.reported.failed).sum();
        if failed > 0 {
            remarks.push(format!("{failed} requests failed"));
        }
        if let Some(failure) = self.failures.first() {
            remarks.push(failure.clone());
        }
        remarks.join("; ")
    }
}

/// Runs every row once a round.
///
/// # Errors
/// None of the rows' own: those are in the series. Only what `run` calls fatal.
pub fn interleave(
    rows: &[&Row],
    rounds: usize,
    settings: &Settings,
    mut run: impl FnMut(&Row) -> Result<Measured>,
) -> Vec<Series> {
    let mut series: Vec<Series> = rows
        .iter()
        .map(|row| Series {
            name: row.name.to_owned(),
            kind: Some(row.kind),
            installed: row.path(settings).is_some(),
            runs: Vec::new(),
            thrown_away: 0,
            failures: Vec::new(),
        })
        .collect();
    for round in 0..rounds {
        for place in 0..rows.len() {
            let index = (place + round) % rows.len();
            let one = &mut series[index];
            let value = if one.installed && one.failures.len() < FAILURES_MAX {
                attempt(rows[index], one, settings, &mut run)
            } else {
                None
            };
            one.runs.push(value);
        }
        say(&format!("  round {} of {rounds} done", round + 1));
    }
    series
}

fn attempt(
    row: &Row,
    series: &mut Series,
    settings: &Settings,
    run: &mut impl FnMut(&Row) -> Result<Measured>,
) -> Option<Measured> {
    for attempt in 0..=settings.retries {
        if attempt > 0 {
            let patience = Duration::from_secs_f64(settings.quiet_patience_s);
            quiet::await_quiet(settings.other_load_max, patience).ok()?;
        }
        match run(row) {
            Ok(measured) if measured.other_load <= settings.other_load_max => {
                say(&format!(
                    "    {:<26} {:>9.0} requests per CPU-second, {:.2} cores of other load",
                    row.name,
                    measured.requests_per_cpu_second(),
                    measured.other_load
                ));
                return Some(measured);
            }
            Ok(measured) => {
                series.thrown_away += 1;
                say(&format!("    {:<26} thrown away: {:.2} cores of other load", row.name, measured.other_load));
            }
            Err(error) => {
                say(&format!("    {:<26} failed: {error:#}", row.name));
                series.failures.push(format!("{error:#}"));
                return None;
            }
        }
    }
    None
}

/// The series `of` is set against when asked for the bare loop of the same kind.
pub fn bare_partner<'a>(of: &Series, all: &'a [Series]) -> Option<&'a Series> {
    let kind = match of.kind? {
        Kind::Plimsoll => match of.driver()? {
            "epoll" => Kind::BareEpoll,
            "uring" => Kind::BareUring,
            _ => return None,
        },
        Kind::PlimsollBatch => Kind::BareBatch,
        // A peer is set against the plainest loop; a bare loop against itself is 1.
        Kind::Peer => Kind::BareEpoll,
        own @ (Kind::BareEpoll | Kind::BareUring | Kind::BareBatch) => own,
    };
    all.iter().find(|series| series.kind == Some(kind))
}

/// Geometric mean of the per-round ratios of a figure of two series, with its 95 % confidence interval.
pub fn interval(
    of: &Series,
    to: Option<&Series>,
    figure: impl Fn(&Measured) -> Option<f64> + Copy,
) -> Option<Interval> {
    stats::interval_of_ratio(&of.figures(figure), &to?.figures(figure))
}

/// Median of the per-round ratios of a figure of two series, with its 95 % interval by ranks: a machine that is slower in
/// some rounds, as one that shares its cores is for seconds at a time, does not move it.
pub fn interval_of_median(
    of: &Series,
    to: Option<&Series>,
    figure: impl Fn(&Measured) -> Option<f64> + Copy,
) -> Option<Interval> {
    stats::interval_of_median_ratio(&of.figures(figure), &to?.figures(figure))
}

/// Median of the per-round ratios of a figure of two series.
pub fn ratio(of: &Series, to: Option<&Series>, figure: impl Fn(&Measured) -> Option<f64> + Copy) -> Option<Summary> {
    stats::ratios(&of.figures(figure), &to?.figures(figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Reported;
    use crate::tools::{CLOSED, Program};

    fn settings() -> Settings {
        let words = ["http".to_owned(), "--quiet-patience".to_owned(), "0".to_owned()];
        Settings::parse(&words).unwrap()
    }

    fn measured(ok: u64, cpu_seconds: f64, other_load: f64) -> Measured {
        Measured {
            reported: Reported { ok, ..Reported::default() },
            cpu_seconds,
            target_cpu_seconds: 0.0,
            wall_seconds: 1.0,
            sleeps: 0,
            peak_rss_bytes: None,
            other_load,
            status: 0,
            stall: None,
        }
    }

    /// A row that needs nothing but a shell to be installed.
    fn row(name: &'static str, kind: Kind) -> Row {
        Row { name, kind, program: Program::Installed("sh"), ..CLOSED[0] }
    }

    #[test]
    fn every_row_runs_once_a_round_and_the_order_turns() {
        let (a, b) = (row("a", Kind::Peer), row("b", Kind::BareEpoll));
        let mut order = String::new();
        let series = interleave(&[&a, &b], 3, &settings(), |row| {
            order.push_str(row.name);
            Ok(measured(if row.name == "a" { 100 } else { 200 }, 2.0, 0.0))
        });
        assert_eq!(order, "abbaab");
        let ratio = ratio(&series[0], bare_partner(&series[0], &series), |run| Some(run.requests_per_cpu_second()));
        assert_eq!(ratio.unwrap().median, 0.5);
    }

    #[test]
    fn a_disturbed_run_is_made_again_but_not_for_ever() {
        let a = row("a", Kind::Peer);
        let mut calls = 0;
        let series = interleave(&[&a], 2, &settings(), |_| {
            calls += 1;
            // Quiet only at the second call; the whole second round is disturbed.
            Ok(measured(1, 1.0, if calls == 2 { 0.01 } else { 0.5 }))
        });
        assert_eq!(calls, 2 + 4);
        assert_eq!(series[0].thrown_away, 1 + 4);
        assert!(series[0].runs[0].is_some() && series[0].runs[1].is_none());
        assert_eq!(series[0].remarks(), "5 thrown away");
    }

    #[test]
    fn a_tool_that_fails_twice_or_is_missing_is_left_out() {
        let a = row("a", Kind::Peer);
        let missing = Row { program: Program::Installed("no-such-program-here"), ..row("missing", Kind::Peer) };
        let mut calls = 0;
        let series = interleave(&[&a, &missing], 5, &settings(), |_| {
            calls += 1;
            anyhow::bail!("no luck")
        });
        assert_eq!(calls, 2);
        assert_eq!(series[0].remarks(), "no luck");
        assert_eq!(series[1].remarks(), "not installed");
        assert_eq!(series[1].runs.len(), 5);
    }

    #[test]
    fn what_runs_said_is_counted() {
        let a = row("a", Kind::Peer);
        let mut round = 0;
        let series = interleave(&[&a], 4, &settings(), |_| {
            round += 1;
            let mut run = measured(1, 1.0, 0.0);
            (run.status, run.reported.reasons) = match round {
                1 => (0, Vec::new()),
                3 => (4, vec!["generator-cpu".to_owned()]),
                _ => (4, vec!["generator-cpu".to_owned(), "steal".to_owned()]),
            };
            Ok(run)
        });
        assert_eq!(series[0].remarks(), "1 × exit 4 generator-cpu; 2 × exit 4 generator-cpu, steal");
    }

    #[test]
    fn plimsoll_is_set_against_the_driver_it_used() {
        let run = |driver: &str| {
            let mut run = measured(1, 1.0, 0.0);
            run.reported.driver = Some(driver.to_owned());
            Some(run)
        };
        let series = |name: &str, kind, runs| Series {
            name: name.to_owned(),
            kind: Some(kind),
            installed: true,
            runs,
            thrown_away: 0,
            failures: Vec::new(),
        };
        let all = [
            series("bare epoll", Kind::BareEpoll, vec![]),
            series("bare io_uring", Kind::BareUring, vec![]),
            series("bare batch", Kind::BareBatch, vec![]),
        ];
        for (driver, kind, partner) in [
            ("epoll", Kind::Plimsoll, Some("bare epoll")),
            ("uring", Kind::Plimsoll, Some("bare io_uring")),
            ("uring", Kind::PlimsollBatch, Some("bare batch")),
            ("sim", Kind::Plimsoll, None),
        ] {
            let of = series("plimsoll", kind, vec![None, run(driver)]);
            let found = bare_partner(&of, &all).map(|series| series.name.as_str());
            assert_eq!(found, partner);
        }
    }
}
