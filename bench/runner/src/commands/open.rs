//! What an open loop costs: generator CPU-seconds for the same requests due at the same rate, and
//! how far from their due times requests were released, by each tool's own account and as the
//! target saw it.
//! The second is measured apart, against the responder that notes arrivals, because most tools say
//! nothing about it: arrivals in order, against evenly spaced due times, from the earliest of them.

use anyhow::Result;
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::measure::Measured;
use crate::report::{Document, Table, figure, spread};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::target::{STAMPING, Target};
use crate::tools::{self, OPEN, Row};

const SECONDS: f64 = 10.0;
const ROUNDS: usize = 5;

/// Measures the table.
///
/// # Errors
/// nginx or the responder could not be started.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rate_per_s = settings.rate_per_s;
    let rows = tools::wanted(OPEN, settings);
    let mut document =
        Document::new(settings, "What do requests due at a fixed rate cost the generator, and when do they leave?");
    document.method = method(settings, seconds, rounds);
    document.method.push(
        "Late at the target: arrivals at a responder that notes them, against evenly spaced due \
         times from the most punctual arrival on, 99th percentile; one run a tool, apart from the \
         rounds. A tool that spaces requests per connection, and not overall, sends in bursts and \
         shows it here."
            .to_owned(),
    );
    let mut runs = Vec::new();
    for &connections in settings.connections() {
        let title = format!("nginx, {connections} connections, {rate_per_s}/s for {seconds} s");
        say(&title);
        let target = Target::start("nginx", &[settings.target_cpu], settings)?;
        let load = load(&target, connections, seconds, Some(rate_per_s));
        let series =
            rounds::interleave(&rows, rounds, settings, |row| one(row, &load, &target, &[settings.load_cpu], settings));
        drop(target);
        let late = late(&rows, connections, seconds, settings);
        document.tables.push(table(title, &series, &late));
        runs.push(json!({
            "connections": connections, "series": series, "late_at_target_p99_us": late
        }));
    }
    document.runs = runs.into();
    Ok(document)
}

fn table(title: String, series: &[Series], late: &[Option<f64>]) -> Table {
    let columns =
        ["tool", "CPU-s", "× bare epoll", "× wrk2", "requests", "own lag p99 µs", "late at target p99 µs", "remarks"];
    let mut table = Table::new(title, &columns);
    let by_name = |name: &str| series.iter().find(|series| series.name == name);
    let cpu = |run: &Measured| Some(run.cpu_seconds);
    for (one, late_us) in series.iter().zip(late) {
        table.rows.push(vec![
            one.name.clone(),
            spread(one.summary(cpu), 3),
            spread(rounds::ratio(one, by_name("bare due-only epoll"), cpu), 2),
            spread(rounds::ratio(one, by_name("wrk2"), cpu), 2),
            spread(one.summary(|run| Some(run.reported.ok as f64)), 0),
            spread(one.summary(|run| run.reported.lag_p99_us), 0),
            figure(*late_us, 0),
            one.remarks(),
        ]);
    }
    table
}

/// For every row, one undisturbed run against the responder that notes arrivals.
fn late(rows: &[&Row], connections: usize, seconds: f64, settings: &Settings) -> Vec<Option<f64>> {
    rows.iter()
        .map(|row| {
            let mut late_us = None;
            let series = rounds::interleave(&[row], 1, settings, |row| {
                let target = Target::start(STAMPING, &[settings.target_cpu], settings)?;
                let load = load(&target, connections, seconds, Some(settings.rate_per_s));
                let measured = one(row, &load, &target, &[settings.load_cpu], settings)?;
                late_us = lateness_p99_us(&target.stamps()?, settings.rate_per_s);
                Ok(measured)
            });
            // The last run is the one that was not thrown away, if there is one.
            series[0].runs[0].as_ref().and(late_us)
        })
        .collect()
}

/// 99th percentile (nearest rank) of the arrivals' distance from an even schedule whose start is
/// chosen so that no arrival is early. Arrivals are in ns.
fn lateness_p99_us(stamps_ns: &[u64], rate_per_s: f64) -> Option<f64> {
    let first_ns = *stamps_ns.first()?;
    let mut off_us: Vec<f64> = stamps_ns
        .iter()
        .enumerate()
        .map(|(index, stamp_ns)| {
            let since_us = stamp_ns.saturating_sub(first_ns) as f64 / 1e3;
            since_us - index as f64 / rate_per_s * 1e6
        })
        .collect();
    off_us.sort_by(f64::total_cmp);
    let rank = (off_us.len() * 99).div_ceil(100).max(1);
    Some(off_us[rank - 1] - off_us[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_pace_is_never_late() {
        let stamps: Vec<u64> = (0..1000).map(|index| 7_000 + index * 200_000).collect();
        assert!(lateness_p99_us(&stamps, 5000.0).unwrap().abs() < 1e-6);
        assert_eq!(lateness_p99_us(&[], 5000.0), None);
    }

    #[test]
    fn bursts_are_late_by_their_length() {
        // Sixty-four at once, every 12.8 ms: the right rate, the wrong pace. The last of a burst
        // comes 63 × 200 µs too early, so on time is what the last are, and the first are late.
        let stamps: Vec<u64> = (0..6400).map(|index| index / 64 * 12_800_000).collect();
        let late_us = lateness_p99_us(&stamps, 5000.0).unwrap();
        assert!((late_us - 63.0 * 200.0).abs() < 1.0, "{late_us}");
    }
}
