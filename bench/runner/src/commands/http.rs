//! Requests per generator CPU-second, HTTP/1.1 keep-alive, closed loop: every tool on every target
//! at every number of connections. Against nginx the target is the limit, against the fixed
//! responder the generator is: a generator that waits wakes for fewer events and looks costlier.

use anyhow::Result;
use serde_json::json;

use super::shared::{bounds, load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, spread, spread_thousands};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::Target;
use crate::tools::{self, CLOSED};

const SECONDS: f64 = 3.0;
const ROUNDS: usize = 5;

/// Measures the matrix.
///
/// # Errors
/// No target at all could be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rows = tools::wanted(CLOSED, settings);
    let mut document =
        Document::new(settings, "How many requests does a generator put on for a second of its own CPU time?");
    document.method = method(settings, seconds, rounds);
    document.method.push(
        "Key figure: completed requests / (user + system time of the whole generator process, \
         wait4). × bare: against the bare loop of the same driver and mode, with the 95 % interval of the median by ranks."
            .to_owned(),
    );
    let mut runs = Vec::new();
    for name in &settings.targets {
        for &connections in settings.connections() {
            let title = format!("{name}, {connections} connections");
            say(&title);
            let target = match Target::start(name, &[settings.target_cpu], settings) {
                Ok(target) => target,
                Err(error) => {
                    let why = format!("{error:#}");
                    say(&format!("  left out: {why}"));
                    document.method.push(format!("Left out: {title}: {why}."));
                    continue;
                }
            };
            let load = load(&target, connections, seconds, None);
            let series = rounds::interleave(&rows, rounds, settings, |row| {
                one(row, &load, &target, &[settings.load_cpu], settings)
            });
            document.tables.push(table(title, &series));
            runs.push(json!({"target": name, "connections": connections, "series": series}));
        }
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series]) -> Table {
    let columns = ["tool", "thousand per CPU-s", "× wrk", "× bare", "95 %", "thousand per s", "CPU used", "remarks"];
    let mut table = Table::new(title, &columns);
    let wrk = series.iter().find(|series| series.name == "wrk");
    let per_cpu_s = |run: &Measured| Some(run.requests_per_cpu_second());
    for one in series {
        let bare = rounds::bare_partner(one, series);
        let mut remarks = one.remarks();
        if one.name == "plimsoll"
            && let Some(driver) = one.driver()
        {
            remarks = format!("driver {driver}; {remarks}");
        }
        table.rows.push(vec![
            one.name.clone(),
            spread_thousands(one.summary(per_cpu_s)),
            spread(rounds::ratio(one, wrk, per_cpu_s), 2),
            spread(rounds::ratio(one, bare, per_cpu_s), 2),
            bounds(rounds::interval_of_median(one, bare, per_cpu_s)),
            spread_thousands(one.summary(|run| Some(run.reported.ok as f64 / run.wall_seconds))),
            spread(one.summary(|run| Some(run.cpu_seconds / run.wall_seconds)), 2),
            remarks.trim_end_matches("; ").to_owned(),
        ]);
    }
    table
}
