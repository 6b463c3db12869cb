//! Is an open loop honest? The target is stopped (SIGSTOP) for a second in the middle of an even
//! load, and what each tool reports is set against the exact expectation (`drain.rs`).
//! The stop is measured, not assumed; so is the drain, in the very run: from the bytes that went
//! over the loopback interface after the stop, which grow by the same amount with every request.
//! The rate of a closed loop is shown beside it: it is what the drain should be near.
//! Other traffic on loopback would spoil the reading: there must be none.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use floor::process;
use serde_json::json;

use super::shared::{load, method, one};
use crate::args::Settings;
use crate::drain::{self, Stall, StallFacts};
use crate::measure::{self, Measured};
use crate::report::{Document, Table, figure, spread};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::stats::Summary;
use crate::target::Target;
use crate::tools::{self, CLOSED, Kind, Load, OPEN, Row};

const SECONDS: f64 = 10.0;
const ROUNDS: usize = 3;
/// How long the target is meant to stand still.
const STOP: Duration = Duration::from_secs(1);
/// Bytes sent over loopback, one decimal number.
const COUNTER: &str = "/sys/class/net/lo/statistics/tx_bytes";
/// How long the drain is watched, and how often.
const WATCH: Duration = Duration::from_millis(600);
const SAMPLE: Duration = Duration::from_millis(1);

/// Measures the table.
///
/// # Errors
/// nginx could not be started, or the closed loop failed.
pub fn run(settings: &Settings) -> Result<Document> {
    let seconds = settings.seconds.unwrap_or(SECONDS);
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    ensure!(seconds >= 4.0, "a stop of {STOP:?} needs at least 4 s around it");
    let rate_per_s = settings.rate_per_s;
    let rows: Vec<&Row> = tools::wanted(OPEN, settings)
        .into_iter()
        // The bare loops and h2load tell no quantiles.
        .filter(|row| matches!(row.kind, Kind::Plimsoll | Kind::Peer) && row.name != "h2load")
        .collect();
    let mut document =
        Document::new(settings, "Does the report show a target that stood still for a second as it was?");
    document.method = method(settings, seconds, rounds);
    document.method.push(format!(
        "nginx's worker is stopped (SIGSTOP) for {STOP:?} in the middle. Expected: requests due \
         evenly, served in order, none while stopped, the drain as observed on the loopback \
         interface in the same run; response counted from the due time."
    ));
    let mut runs = Vec::new();
    for &connections in settings.connections() {
        let target = Target::start("nginx", &[settings.target_cpu], settings)?;
        let title = format!("{rate_per_s}/s, {connections} connections, {seconds} s");
        say(&title);
        let closed_per_s = closed_rate(&target, connections, settings)?;
        let load = load(&target, connections, seconds, Some(rate_per_s));
        let series =
            rounds::interleave(&rows, rounds, settings, |row| stalled(row, &load, &target, closed_per_s, settings));
        let closed = format!("{title}; closed loop: {closed_per_s:.0}/s");
        document.tables.push(table(closed, &series));
        runs.push(json!({
            "connections": connections, "closed_per_s": closed_per_s, "series": series
        }));
    }
    document.runs = runs.into();
    Ok(document)
}

/// What the target serves when the bare loop asks as fast as it can.
fn closed_rate(target: &Target, connections: usize, settings: &Settings) -> Result<f64> {
    let bare = CLOSED.iter().find(|row| row.kind == Kind::BareEpoll);
    let bare = bare.context("there is no bare epoll loop")?;
    let ceiling = load(target, connections, 2.0, None);
    let measured = one(bare, &ceiling, target, &[settings.load_cpu], settings)
        .context("the closed loop that gives the target's rate")?;
    Ok(measured.reported.ok as f64 / ceiling.seconds)
}

/// A quantile as expected and as reported, in µs.
type Pair = fn(&Measured) -> Option<(f64, f64)>;

fn table(title: String, series: &[Series]) -> Table {
    let columns = [
        "tool",
        "stop s",
        "drain, thousand/s",
        "p90 ms expected",
        "reported",
        "error %",
        "p95 ms expected",
        "reported",
        "error %",
        "p99 ms expected",
        "reported",
        "error %",
        "lag p99 µs",
        "queue p99 ms",
        "service p99 ms",
        "requests",
        "remarks",
    ];
    let mut table = Table::new(title, &columns);
    for one in series {
        let facts = |run: &Measured| run.stall.clone();
        let mut cells = vec![
            one.name.clone(),
            figure(median(one.summary(|run| Some(facts(run)?.stopped_for_s))), 4),
            figure(median(one.summary(|run| Some(facts(run)?.drain_per_s? / 1e3))), 1),
        ];
        let pairs: [Pair; 3] = [
            |run| Some((run.stall.as_ref()?.expected?.p90_us, run.reported.response.p90_us?)),
            |run| Some((run.stall.as_ref()?.expected?.p95_us, run.reported.response.p95_us?)),
            |run| Some((run.stall.as_ref()?.expected?.p99_us, run.reported.response.p99_us?)),
        ];
        for pair in pairs {
            cells.push(figure(median(one.summary(|run| Some(pair(run)?.0 / 1e3))), 1));
            cells.push(figure(median(one.summary(|run| Some(pair(run)?.1 / 1e3))), 1));
            let error = one.summary(|run| {
                let (expected_us, reported_us) = pair(run)?;
                Some((reported_us / expected_us - 1.0) * 100.0)
            });
            cells.push(spread(error, 1));
        }
        cells.extend([
            spread(one.summary(|run| run.reported.lag_p99_us), 0),
            figure(median(one.summary(|run| Some(run.reported.queue_p99_us? / 1e3))), 1),
            figure(median(one.summary(|run| Some(run.reported.service_p99_us? / 1e3))), 1),
            figure(median(one.summary(|run| Some(run.reported.ok as f64))), 0),
            one.remarks(),
        ]);
        table.rows.push(cells);
    }
    table
}

fn median(summary: Option<Summary>) -> Option<f64> {
    summary.map(|summary| summary.median)
}

/// One run with a stop in its middle.
fn stalled(row: &Row, load: &Load, target: &Target, closed_per_s: f64, settings: &Settings) -> Result<Measured> {
    let counter = File::open(COUNTER).with_context(|| format!("opening {COUNTER}"))?;
    let before = read_counter(&counter)?;
    let running = measure::start(row, load, target, &[settings.load_cpu], settings)?;
    let started = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(load.seconds / 2.0) - STOP / 2);
    process::signal(target.worker, process::SIGSTOP)?;
    let stopped_at = started.elapsed();
    std::thread::sleep(STOP);
    let at_resume = read_counter(&counter)?;
    process::signal(target.worker, process::SIGCONT)?;
    let resumed_at = started.elapsed();
    let mut samples = Vec::with_capacity(1000);
    while started.elapsed() < resumed_at + WATCH {
        samples.push((started.elapsed().as_secs_f64(), read_counter(&counter)?));
        std::thread::sleep(SAMPLE);
    }
    let measured = measure::finish(running, target)?;
    let bytes_each = (read_counter(&counter)? - before) / measured.reported.ok as f64;
    let served: Vec<(f64, f64)> =
        samples.into_iter().map(|(at_s, bytes)| (at_s, (bytes - at_resume) / bytes_each)).collect();
    let rate_per_s = load.rate_per_s.unwrap_or(0.0);
    let (stopped_at_s, resumed_at_s) = (stopped_at.as_secs_f64(), resumed_at.as_secs_f64());
    let drain_per_s = drain::observed_drain(&served, rate_per_s, stopped_at_s, resumed_at_s);
    let expect = |drain_per_s: f64| {
        drain::expected(&Stall {
            rate_per_s,
            seconds: load.seconds,
            stopped_at_s,
            stopped_for_s: resumed_at_s - stopped_at_s,
            drain_per_s,
        })
    };
    Ok(Measured {
        stall: Some(StallFacts {
            stopped_at_s,
            stopped_for_s: resumed_at_s - stopped_at_s,
            drain_per_s,
            expected: drain_per_s.and_then(expect),
            expected_closed: expect(closed_per_s),
        }),
        ..measured
    })
}

/// The counter, in bytes: small enough for a float to hold exactly.
fn read_counter(counter: &File) -> Result<f64> {
    let mut buffer = [0_u8; 32];
    let length = counter.read_at(&mut buffer, 0)?;
    let text = std::str::from_utf8(&buffer[..length])?;
    text.trim().parse().with_context(|| format!("{COUNTER} says {text:?}"))
}
