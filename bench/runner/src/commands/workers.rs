//! Requests per generator CPU-second with one worker, two and four, on the fixed responder. On one CPU the workers take
//! turns, so what is shown is what each further one costs by itself; on both CPUs they run at once, beside the target.

use anyhow::Result;
use serde_json::json;

use super::shared::{bounds, load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, figure, spread_thousands};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::Target;
use crate::tools::{self, WORKERS};

const SECONDS: f64 = 5.0;
const ROUNDS: usize = 10;

/// Measures both tables.
///
/// # Errors
/// The responder could not be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rows = tools::wanted(WORKERS, settings);
    let mut document = Document::new(settings, "What does a further worker cost, in requests per CPU-second?");
    document.method = method(settings, seconds, rounds);
    document.method.push("On both CPUs: target and generator are pinned to both.".to_owned());
    let (target_cpu, load_cpu) = ([settings.target_cpu], [settings.load_cpu]);
    let both = [settings.target_cpu, settings.load_cpu];
    let places = [("generator on one CPU", &target_cpu[..], &load_cpu[..]), ("generator on both CPUs", &both, &both)];
    let mut runs = Vec::new();
    for (place, target_cpus, load_cpus) in places {
        for &connections in settings.connections() {
            let title = format!("{place}, {connections} connections");
            say(&title);
            let target = Target::start("responder", target_cpus, settings)?;
            let load = load(&target, connections, seconds, None);
            let series =
                rounds::interleave(&rows, rounds, settings, |row| one(row, &load, &target, load_cpus, settings));
            document.tables.push(table(title, &series));
            runs.push(json!({"place": place, "connections": connections, "series": series}));
        }
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series]) -> Table {
    let mut table = Table::new(title, &["workers", "thousand per CPU-s", "× one", "95 %", "remarks"]);
    let alone = series.iter().find(|series| series.name == WORKERS[0].name);
    let per_cpu_s = |run: &Measured| Some(run.requests_per_cpu_second());
    for of in series {
        let ratio = rounds::interval(of, alone, per_cpu_s);
        table.rows.push(vec![
            of.name.clone(),
            spread_thousands(of.summary(per_cpu_s)),
            figure(ratio.map(|ratio| ratio.middle), 3),
            bounds(ratio),
            of.remarks(),
        ]);
    }
    table
}
