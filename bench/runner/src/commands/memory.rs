//! Peak memory of the generator, in a short run and in a long one: what grows with time shows here.
//! Read from `VmHWM` of the running process every quarter of a second, because the rusage of a child
//! also holds what its parent used before `exec`; a tool's last quarter second may be missing.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::shared::load;
use crate::args::Settings;
use crate::measure::{self, Measured};
use crate::report::{Document, Table, figure, spread};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::Target;
use crate::tools::{self, CLOSED, Load, Row};

const SECONDS: f64 = 10.0;
const ROUNDS: usize = 3;
const SAMPLE: Duration = Duration::from_millis(250);

/// Measures the table.
///
/// # Errors
/// nginx could not be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rows = tools::wanted(CLOSED, settings);
    // Memory does not depend on who else uses the CPU: no run is thrown away.
    let mut any_load = settings.clone();
    any_load.other_load_max = f64::INFINITY;
    let mut document =
        Document::new(settings, "How much memory does a generator take, and does it grow with the length of the run?");
    document.method = vec![format!(
        "{rounds} rounds of {seconds} s, closed loop on nginx. Peak resident set (VmHWM), read every \
         {SAMPLE:?}. The long run, {} s, is made once, by plimsoll with its defaults only.",
        settings.long_seconds
    )];
    let mut runs = Vec::new();
    for &connections in settings.connections() {
        let target = Target::start("nginx", &[settings.target_cpu], settings)?;
        let title = format!("nginx, {connections} connections");
        say(&title);
        let short = load(&target, connections, seconds, None);
        let series = rounds::interleave(&rows, rounds, &any_load, |row| watched(row, &short, &target, settings));
        let ours: Vec<&Row> = rows.iter().copied().filter(|row| row.name == "plimsoll").collect();
        let long = load(&target, connections, settings.long_seconds, None);
        let long_series = rounds::interleave(&ours, 1, &any_load, |row| watched(row, &long, &target, settings));
        document.tables.push(table(title, &series, &long_series));
        runs.push(json!({
            "connections": connections, "short": series, "long": long_series
        }));
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, short: &[Series], long: &[Series]) -> Table {
    let columns = ["tool", "peak MB", "peak MB, long run", "long / short", "own account MB", "remarks"];
    let mut table = Table::new(title, &columns);
    let megabytes = |run: &Measured| Some(run.peak_rss_bytes? as f64 / 1e6);
    for one in short {
        let peak = one.summary(megabytes);
        let long_peak = long.iter().find(|long| long.name == one.name).and_then(|long| long.summary(megabytes));
        let growth = long_peak.zip(peak).map(|(long, short)| long.median / short.median);
        table.rows.push(vec![
            one.name.clone(),
            spread(peak, 2),
            figure(long_peak.map(|peak| peak.median), 2),
            figure(growth, 3),
            spread(one.summary(|run| Some(run.reported.peak_rss_bytes? as f64 / 1e6)), 2),
            one.remarks(),
        ]);
    }
    table
}

/// One run, its memory watched.
fn watched(row: &Row, load: &Load, target: &Target, settings: &Settings) -> Result<Measured> {
    let running = measure::start(row, load, target, &[settings.load_cpu], settings)?;
    let give_up = Instant::now() + Duration::from_secs_f64(load.seconds * 2.0);
    let mut peak_rss_bytes = None;
    while Instant::now() < give_up {
        std::thread::sleep(SAMPLE);
        // A process that ended and was not waited for yet has no memory left to show.
        match peak_rss(running.pid()) {
            Some(bytes) => peak_rss_bytes = Some(bytes),
            None => break,
        }
    }
    let measured = measure::finish(running, target)?;
    Ok(Measured { peak_rss_bytes, ..measured })
}

fn peak_rss(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    floor::outcome::peak_rss_in(&status)
}
