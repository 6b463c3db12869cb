//! The generator's own delay when it has much to do: lag p99 of plimsoll at half of the rate it
//! reached in a closed loop just before, with both cores busy. Measured twice: target and generator
//! on a core each, and both of them spread over both cores.

use anyhow::Result;
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::report::{Document, Table, figure, spread};
use crate::say::say;
use crate::stats::Summary;
use crate::target::Target;
use crate::tools::{self, CLOSED, Kind, OPEN};

const SECONDS: f64 = 5.0;
const ROUNDS: usize = 5;

/// Measures the table.
///
/// # Errors
/// nginx could not be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let both = [settings.target_cpu, settings.load_cpu];
    let places = [
        ("a core each", vec![settings.target_cpu], vec![settings.load_cpu]),
        ("both on both cores", both.to_vec(), both.to_vec()),
    ];
    let mut document = Document::new(settings, "How late does plimsoll itself release requests when it is busy?");
    document.method = method(settings, seconds, rounds);
    document.method.push(
        "Before each open run a closed one of the same driver gives the achievable rate; the open \
         run asks for half of it. Lag is the report's latency.lag.p99_us. Spread over both cores, \
         nginx has two workers; plimsoll keeps its one thread."
            .to_owned(),
    );
    let columns =
        ["place", "tool", "rate asked, thousand/s", "lag p99 µs", "response p99 µs", "generator CPU used", "remarks"];
    let mut runs = Vec::new();
    for &connections in settings.connections() {
        let mut table = Table::new(format!("nginx, {connections} connections"), &columns);
        for (place, target_cpus, load_cpus) in &places {
            let closed = tools::wanted(CLOSED, settings);
            for row in tools::wanted(OPEN, settings) {
                let partner = closed.iter().find(|closed| closed.name == row.name);
                let Some(closed) = partner.filter(|_| row.kind == Kind::Plimsoll) else {
                    continue;
                };
                say(&format!("{} {place}", row.name));
                let target = Target::start("nginx", target_cpus, settings)?;
                let ceiling = load(&target, connections, 2.0, None);
                let mut rates = Vec::new();
                let series = crate::rounds::interleave(&[row], rounds, settings, |row| {
                    let reached = one(closed, &ceiling, &target, load_cpus, settings)?;
                    let rate_per_s = (reached.reported.ok as f64 / ceiling.seconds / 2.0).round();
                    rates.push(rate_per_s);
                    let half = load(&target, connections, seconds, Some(rate_per_s));
                    one(row, &half, &target, load_cpus, settings)
                });
                let series = &series[0];
                table.rows.push(vec![
                    (*place).to_owned(),
                    row.name.to_owned(),
                    figure(Summary::of(rates.iter().copied()).map(|s| s.median / 1e3), 1),
                    spread(series.summary(|run| run.reported.lag_p99_us), 0),
                    spread(series.summary(|run| run.reported.response.p99_us), 0),
                    spread(series.summary(|run| Some(run.cpu_seconds / run.wall_seconds)), 2),
                    series.remarks(),
                ]);
                runs.push(json!({
                    "place": place, "connections": connections, "rates_per_s": rates,
                    "series": series
                }));
            }
        }
        document.tables.push(table);
    }
    document.runs = runs.into();
    Ok(document)
}
