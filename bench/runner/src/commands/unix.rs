//! Wake-ups a reply over a unix socket, with one connection: every reply must end one sleep and no more. Counted from
//! outside, as the voluntary switches of all the generator's threads (rusage), so the session's ticks are in it.

use anyhow::Result;
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, spread, spread_thousands};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::Target;
use crate::tools::{self, UNIX};

const SECONDS: f64 = 2.0;
const ROUNDS: usize = 5;

/// Measures the table.
///
/// # Errors
/// nginx could not be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rows = tools::wanted(UNIX, settings);
    // What is counted does not depend on who else uses the CPU: no run is thrown away.
    let mut any_load = settings.clone();
    any_load.other_load_max = f64::INFINITY;
    let mut document = Document::new(settings, "How often does a worker wake for a reply on a unix socket?");
    document.method = method(&any_load, seconds, rounds);
    let mut runs = Vec::new();
    for &connections in settings.connections() {
        let title = format!("nginx over a unix socket, {connections} connections");
        say(&title);
        let target = Target::start("nginx", &[settings.target_cpu], settings)?;
        let load = load(&target, connections, seconds, None);
        let series = rounds::interleave(&rows, rounds, &any_load, |row| {
            one(row, &load, &target, &[settings.load_cpu], settings)
        });
        document.tables.push(table(title, &series));
        runs.push(json!({"connections": connections, "series": series}));
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series]) -> Table {
    let mut table = Table::new(title, &["tool", "sleeps a reply", "thousand per CPU-s", "remarks"]);
    for of in series {
        table.rows.push(vec![
            of.name.clone(),
            spread(of.summary(|run: &Measured| Some(run.sleeps as f64 / run.reported.ok as f64)), 3),
            spread_thousands(of.summary(|run| Some(run.requests_per_cpu_second()))),
            of.remarks(),
        ]);
    }
    table
}
