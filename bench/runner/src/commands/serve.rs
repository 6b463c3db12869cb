//! Requests per *server* CPU-second: `plimsoll serve http` beside nginx, both with the same file of
//! 1 KiB, one worker, keep-alive, and the same generator. nginx also with `open_file_cache`, because
//! serve remembers files too. A server that is not busy all the time wakes for fewer requests at a
//! time and looks costlier, so the share of its CPU that it used is shown.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, spread, spread_thousands};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::{FILE_SERVERS, Target};
use crate::tools::{self, CLOSED, Kind, Row};

const SECONDS: f64 = 2.0;
const ROUNDS: usize = 5;

/// The generators, unless others are asked for.
const GENERATORS: [&str; 2] = ["plimsoll", "wrk"];

/// Measures the table of each generator at each number of connections.
///
/// # Errors
/// A server could not be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let mut document =
        Document::new(settings, "How many requests does a server answer for a second of its own CPU time?");
    document.method = method(settings, seconds, rounds);
    document.method.push(
        "Key figure: completed requests / CPU time of the server's process meanwhile (schedstat). One worker each, a \
         file of 1 KiB over kept connections; interleaved server by server, all running, one under load."
            .to_owned(),
    );
    let generators = tools::wanted(CLOSED, settings);
    let generators = generators.iter().filter(|row| !settings.tools.is_empty() || GENERATORS.contains(&row.name));
    let mut runs = Vec::new();
    for generator in generators {
        // A row a server: the same tool under the server's name.
        let rows: Vec<Row> = FILE_SERVERS.iter().map(|name| Row { name, kind: Kind::Peer, ..**generator }).collect();
        for &connections in settings.connections() {
            let title = format!("{}, {connections} connections", generator.name);
            say(&title);
            let start = |name: &&'static str| Ok((*name, Target::start(name, &[settings.target_cpu], settings)?));
            let targets: HashMap<&str, Target> = FILE_SERVERS.iter().map(start).collect::<Result<_>>()?;
            let series = rounds::interleave(&rows.iter().collect::<Vec<_>>(), rounds, settings, |row| {
                let target = targets.get(row.name).context("no such server")?;
                // plimsoll says with 3 and 4 what it thinks of its result; only its kind may.
                let row = Row { kind: generator.kind, ..*row };
                one(&row, &load(target, connections, seconds, None), target, &[settings.load_cpu], settings)
            });
            document.tables.push(table(title, &series));
            runs.push(json!({"generator": generator.name, "connections": connections, "series": series}));
        }
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series]) -> Table {
    let columns =
        ["server", "thousand per server CPU-s", "× nginx", "× nginx, open_file_cache", "server CPU used", "remarks"];
    let mut table = Table::new(title, &columns);
    let of = |name: &str| series.iter().find(|series| series.name == name);
    let per_cpu_s = |run: &Measured| Some(run.reported.ok as f64 / run.target_cpu_seconds);
    for one in series {
        table.rows.push(vec![
            one.name.clone(),
            spread_thousands(one.summary(per_cpu_s)),
            spread(rounds::ratio(one, of(FILE_SERVERS[1]), per_cpu_s), 2),
            spread(rounds::ratio(one, of(FILE_SERVERS[2]), per_cpu_s), 2),
            spread(one.summary(|run| Some(run.target_cpu_seconds / run.wall_seconds)), 2),
            one.remarks(),
        ]);
    }
    table
}
