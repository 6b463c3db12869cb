//! What a long recording takes: writes one of so many ticks, made of the snapshots of a real one, and reads it as
//! `plimsoll report` does, all of it through a history and the diagnosis.
//!
//! ```sh
//! plimsoll load URL -d 60s --record real.plimsoll
//! cargo run --release --workspace --example long_recording -- write real.plimsoll day.plimsoll 86400
//! cargo run --release --workspace --example long_recording -- read day.plimsoll
//! ```
//!
//! Snapshots are the real ones over and over, each lap with its own times; counters begin anew with each lap. Latencies are
//! drawn from a fixed seed around a tenth of a millisecond, with a tail.
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use diagnose::history::History;
use model::recording::{End, Tick};
use model::{Interval, LatencyKind, Recording, Snapshot};
use std::error::Error;
use std::path::Path;
use store::{Reader, Writer};

const SECOND_NS: u64 = 1_000_000_000;
const REQUESTS: u32 = 3000;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", from, to, ticks] => write(Path::new(from), Path::new(to), ticks.parse()?),
        ["read", file] => read(Path::new(file)),
        _ => Err("expected: write REAL NEW TICKS, or: read FILE".into()),
    }
}

fn write(from: &Path, to: &Path, ticks: u64) -> Result<(), Box<dyn Error>> {
    let mut real: Vec<Snapshot> = Vec::new();
    let recording = Reader::open(from)?.load_with(|snapshot| real.push(snapshot.clone()))?;
    // The first and the last belong to no tick of the load.
    let real =
        real.get(1..real.len().saturating_sub(1)).filter(|real| !real.is_empty()).ok_or("it has no snapshots")?;
    let mut writer = Writer::create(to, &recording.capsule, &recording.plan)?;
    let mut run = Recording::new(recording.capsule.clone(), recording.plan.clone());
    let mut history = History::default();
    let (mut state, mut merging_ns) = (1u64, Vec::new());
    for (number, snapshot) in (0..ticks).zip(real.iter().cycle()) {
        let interval = interval(number, &mut state);
        let end_ns = interval.end_ns;
        let mut tick = Tick::of([&interval]);
        run.totals.sum.add(&interval);
        run.totals.in_time.add(&interval.counts);
        run.timeline.push(tick.row);
        tick.sum.requests.thin(number);
        run.requests.push(number, tick.row.counts.requests(), &tick.sum.requests);
        let snapshot = Snapshot { at_ns: i64::try_from(end_ns)? + 1_000_000, ..snapshot.clone() };
        writer.append(Some(&tick), Some(&snapshot), &[])?;
        history.push(&snapshot);
        run.push_snapshot(number, snapshot);
        if writer.is_merge_due() {
            let begun = cpu_ns();
            writer.merge(&run, &history)?;
            merging_ns.push(cpu_ns().saturating_sub(begun));
        }
    }
    run.totals.measured_ns = ticks * SECOND_NS;
    writer.finish(&run.totals, &recording.samplers, End::Complete, None)?;
    let bytes = std::fs::metadata(to)?.len();
    println!("{ticks} ticks: {:.1} MB, {} bytes a tick", bytes as f64 / 1e6, bytes / ticks.max(1));
    merging_ns.sort_unstable();
    let ms = |at: usize| merging_ns.get(at).copied().unwrap_or(0) as f64 / 1e6;
    let count = merging_ns.len();
    println!(
        "CPU time of {count} merges: {:.0} ms mostly, {:.0} ms at most",
        ms(count / 2),
        ms(count.saturating_sub(1))
    );
    println!("memory: {:?} KiB at most", memory_kib("VmHWM:"));
    Ok(())
}

/// A second of a load.
fn interval(number: u64, state: &mut u64) -> Interval<u32> {
    let mut interval = Interval::new(0);
    (interval.sequence, interval.start_ns, interval.end_ns) = (number, number * SECOND_NS, (number + 1) * SECOND_NS);
    let counts = &mut interval.counts;
    (counts.started, counts.ok) = (u64::from(REQUESTS), u64::from(REQUESTS));
    interval.gauges.connections = 50;
    for _ in 0..REQUESTS {
        // xorshift64: the sum of four uniform ones is bell-shaped enough; one in a hundred is ten times as long.
        let mut uniform = || {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 11) as f64 / (1u64 << 53) as f64
        };
        let bell: f64 = (0..4).map(|_| uniform()).sum::<f64>() - 2.0;
        let tail = if uniform() < 0.01 { 10.0 } else { 1.0 };
        let ns = (100_000.0 * (bell * 0.3).exp() * tail) as u64;
        for kind in [LatencyKind::Response, LatencyKind::Undelayed] {
            interval.latency.record(kind, ns + 30_000);
        }
        interval.latency.record(LatencyKind::Service, ns);
        interval.latency.record(LatencyKind::FirstByte, ns);
        interval.latency.record(LatencyKind::Lag, 10_000 + (uniform() * 30_000.0) as u64);
        interval.latency.record(LatencyKind::Queue, 0);
        interval.outcomes.add(200, 1);
    }
    interval
}

fn read(file: &Path) -> Result<(), Box<dyn Error>> {
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
    let begun = cpu_ns();
    let reader = Reader::open(file)?;
    let (recording, history) = reader.load_with_history()?;
    let loaded = cpu_ns();
    let diagnosis = diagnose::diagnose_with(&recording, &history);
    let (judged, peak) = (cpu_ns(), memory_kib("VmHWM:"));
    let (read, judge) = (ms(begun, loaded), ms(loaded, judged));
    println!("CPU time: read in {read:.0} ms, judged in {judge:.1} ms; {peak:?} KiB at most");
    println!("{} findings, {} segments", diagnosis.findings.len(), diagnosis.segments.len());
    let rows = reader.intervals().count();
    println!("all {rows} rows again in {:.0} ms", ms(judged, cpu_ns()));
    let mut snapshots: Vec<Snapshot> = Vec::new();
    reader.load_with(|snapshot| {
        if snapshots.len() < 100 {
            snapshots.push(snapshot.clone());
        }
    })?;
    // What the history alone takes of it: some of the snapshots again and again, into another one.
    const PUSHED: usize = 10_000;
    let (before, mut at_ns, mut pushing_ms) = (memory_kib("VmRSS:"), 0, 0.0);
    let mut again = History::default();
    for snapshot in snapshots.iter().cycle().take(PUSHED) {
        at_ns += 1_000_000_000;
        let snapshot = Snapshot { at_ns, ..snapshot.clone() };
        let begun = cpu_ns();
        again.push(&snapshot);
        pushing_ms += ms(begun, cpu_ns());
    }
    let each_us = pushing_ms * 1e3 / PUSHED as f64;
    let after = memory_kib("VmRSS:");
    println!("a history of {PUSHED} snapshots: {each_us:.0} µs each, memory {before:?} → {after:?} KiB");
    Ok(())
}

/// CPU time of this thread so far, nanoseconds: on a machine that others use, time passed says little.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn memory_kib(what: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(what))?.trim().trim_end_matches(" kB").parse().ok()
}
