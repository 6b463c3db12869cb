//! From `exec` to the first byte of the first request, as a listening socket of the runner sees it.
//! Connections that close without a byte (wrk tries the address first) do not count.
//! The tool is ended as soon as the byte is there: only its beginning is of interest.
//! And how long a run of a single request takes, from the start of its process to its end.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use floor::process;
use serde_json::json;

use super::shared::{load, one};
use crate::args::Settings;
use crate::report::{Document, Table, spread};
use crate::rounds::{self, Series};
use crate::say::say;
use crate::stats::Summary;
use crate::target::Target;
use crate::tools::{self, CLOSED, Load, Row, SINGLE};

const ROUNDS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(10);
/// What a tool gets that wants a reply before it begins in earnest.
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Measures the table.
///
/// # Errors
/// No socket to listen on.
pub fn run(settings: &Settings) -> Result<Document> {
    let rounds = settings.rounds.unwrap_or(ROUNDS);
    let rows = tools::wanted(CLOSED, settings);
    let mut document = Document::new(settings, "How long from exec to the first request?");
    document.method = vec![format!(
        "{rounds} rounds, interleaved; one connection, pinned on CPU {}; from before the process is \
         made to when its first byte has been read by the runner. Medians (minimum–maximum).",
        settings.load_cpu
    )];
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
    let mut failures = vec![String::new(); rows.len()];
    for _ in 0..rounds {
        for (index, row) in rows.iter().enumerate() {
            if row.path(settings).is_none() {
                "not installed".clone_into(&mut failures[index]);
                continue;
            }
            match first_byte(row, settings) {
                Ok(elapsed) => all[index].push(elapsed.as_secs_f64() * 1e3),
                Err(error) => {
                    say(&format!("    {}: {error:#}", row.name));
                    failures[index] = format!("{error:#}");
                }
            }
        }
    }
    let mut table = Table::new("start to first request", &["tool", "ms", "remarks"]);
    for ((row, values_ms), failure) in rows.iter().zip(&all).zip(failures) {
        let summary = Summary::of(values_ms.iter().copied());
        table.rows.push(vec![row.name.to_owned(), spread(summary, 2), failure]);
    }
    document.tables.push(table);
    let runs = rows.iter().zip(&all);
    let starts: Vec<_> = runs.map(|(row, values_ms)| json!({"name": row.name, "start_ms": values_ms})).collect();
    let (table, series) = single(rounds, settings)?;
    document.tables.push(table);
    document.runs = json!({"starts": starts, "single": series});
    Ok(document)
}

/// A run of one request, from its process's start to its end.
fn single(rounds: usize, settings: &Settings) -> Result<(Table, Vec<Series>)> {
    let target = Target::start("responder", &[settings.target_cpu], settings)?;
    let load = load(&target, 1, 1.0, None);
    let rows = tools::wanted(SINGLE, settings);
    let series =
        rounds::interleave(&rows, rounds, settings, |row| one(row, &load, &target, &[settings.load_cpu], settings));
    let mut table = Table::new("a run of one request (-n 1)", &["tool", "wall ms", "CPU ms", "remarks"]);
    for of in &series {
        table.rows.push(vec![
            of.name.clone(),
            spread(of.summary(|run| Some(run.wall_seconds * 1e3)), 1),
            spread(of.summary(|run| Some(run.cpu_seconds * 1e3)), 1),
            of.remarks(),
        ]);
    }
    Ok((table, series))
}

fn first_byte(row: &Row, settings: &Settings) -> Result<Duration> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("a socket to listen on")?;
    let folder = tempfile::tempdir()?;
    let load = Load {
        addr: listener.local_addr()?,
        connections: 1,
        seconds: 1.0,
        rate_per_s: None,
        folder: folder.path().to_owned(),
        certificate: None,
    };
    row.prepare(&load)?;
    let (seen, arrivals) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let acceptor = {
        let over = Arc::clone(&over);
        std::thread::spawn(move || accept(&listener, &seen, &over))
    };
    let program = row.path(settings).context("it is not installed")?;
    let mut command = Command::new(program);
    command
        .args((row.args)(&load))
        .current_dir(&load.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    process::prepare(&mut command, &[settings.load_cpu]);
    let started = Instant::now();
    let child = command.spawn()?;
    let arrival = arrivals.recv_timeout(PATIENCE);
    // Gone already or ended now: both is well.
    let _ = process::signal(child.id(), process::SIGKILL);
    process::wait(child, PATIENCE)?;
    over.store(true, Ordering::Release);
    // The connection that wakes the acceptor for its last time.
    if TcpStream::connect(load.addr).is_ok() {
        let _ = acceptor.join();
    }
    let arrival = arrival.context("no byte came")?;
    Ok(arrival.duration_since(started))
}

/// Takes connections until told that it is over; each is read by a thread of its own, because a
/// tool may open several before it sends on one.
fn accept(listener: &TcpListener, seen: &Sender<Instant>, over: &AtomicBool) {
    while let Ok((mut stream, _)) = listener.accept() {
        if over.load(Ordering::Acquire) {
            return;
        }
        let seen = seen.clone();
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            let got = stream.read(&mut buffer);
            let now = Instant::now();
            if got.is_ok_and(|length| length > 0) {
                // Nobody may be listening any more, on either end.
                let _ = seen.send(now);
                let _ = stream.write_all(REPLY);
            }
        });
    }
}
