//! Held connections: what making them costs, what keeping them costs, and how far apart a burst leaves.
//! The target is `plimsoll serve echo --design uring`, which holds what one process of this machine's
//! descriptor limit could not. tcpkali, the peer for this, is in no Debian package: it is not beside.

use anyhow::Result;
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, figure, spread, spread_thousands};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::{HOLDER, Target};
use crate::tools::{self, BURSTS, CONNECTS, HELD, Row};

const SECONDS: f64 = 1.0;
const ROUNDS: usize = 5;
/// Connections made in a run of the first table: what a hard `nofile` of 20,000 leaves to the epoll driver.
const MADE: usize = 15_000;
/// Few and many, of which the second table takes the slope.
const FEW: usize = 1_000;
/// The burst of the third.
const BURST: usize = 1_000;

/// Measures the tables.
///
/// # Errors
/// The target cannot be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let mut document = Document::new(settings, "What do connections cost a generator?");
    document.method = method(settings, seconds, rounds);
    document.method.push(format!(
        "plimsoll makes {MADE} connections as fast as it can, keeps them for {seconds} s and closes them; the bare loop \
         makes and resets them for {seconds} s. CPU time is the whole process's, so the closing is in it."
    ));
    document.method.push(format!(
        "Memory of an idle connection: peak resident memory with {MADE} less that with {FEW}, over their difference."
    ));
    let mut runs = Vec::new();
    let mut measure = |title: &str, rows: &'static [Row], connections: usize| -> Result<Vec<Series>> {
        say(title);
        let rows: Vec<&Row> = tools::wanted(rows, settings);
        let target = Target::start(HOLDER, &[settings.target_cpu], settings)?;
        let load = load(&target, connections, seconds, None);
        let series =
            rounds::interleave(&rows, rounds, settings, |row| one(row, &load, &target, &[settings.load_cpu], settings));
        runs.push(json!({"what": title, "connections": connections, "series": series}));
        Ok(series)
    };
    let made = measure("connects", CONNECTS, MADE)?;
    let few = measure("few held", HELD, FEW)?;
    let many = measure("many held", HELD, MADE)?;
    let bursts = measure("bursts", BURSTS, BURST)?;
    document.tables.push(connects(&made));
    document.tables.push(memory(&few, &many));
    document.tables.push(skew(&bursts));
    document.runs = runs.into();
    Ok(document)
}

fn connects(series: &[Series]) -> Table {
    let columns = ["tool", "thousand connects per CPU-s", "× bare epoll", "remarks"];
    let mut table = Table::new(format!("connections made, {MADE} a run"), &columns);
    let bare = series.iter().find(|series| series.name.starts_with("bare"));
    let per_cpu_s = |run: &Measured| Some(run.requests_per_cpu_second());
    for one in series {
        table.rows.push(vec![
            one.name.clone(),
            spread_thousands(one.summary(per_cpu_s)),
            spread(rounds::ratio(one, bare, per_cpu_s), 2),
            one.remarks(),
        ]);
    }
    table
}

fn memory(few: &[Series], many: &[Series]) -> Table {
    let columns = ["tool", "peak MB, few", "peak MB, many", "bytes an idle connection", "remarks"];
    let mut table = Table::new(format!("memory, {FEW} and {MADE} idle connections"), &columns);
    let bytes = |run: &Measured| run.reported.peak_rss_bytes.map(|bytes| bytes as f64);
    for (few, many) in few.iter().zip(many) {
        let (low, high) = (few.summary(bytes), many.summary(bytes));
        let slope = low.zip(high).map(|(low, high)| (high.median - low.median) / (MADE - FEW) as f64);
        table.rows.push(vec![
            many.name.clone(),
            figure(low.map(|low| low.median / 1e6), 2),
            figure(high.map(|high| high.median / 1e6), 2),
            figure(slope, 1),
            many.remarks(),
        ]);
    }
    table
}

fn skew(series: &[Series]) -> Table {
    let columns = ["tool", "release skew p99, µs", "response p99, µs", "remarks"];
    let mut table = Table::new(format!("bursts of {BURST}, 20 rounds a run"), &columns);
    for one in series {
        table.rows.push(vec![
            one.name.clone(),
            spread(one.summary(|run| run.reported.lag_p99_us), 0),
            spread(one.summary(|run| run.reported.response.p99_us), 0),
            one.remarks(),
        ]);
    }
    table
}
