//! What TLS costs: kind of key × version × (full handshakes, resumed ones, requests on kept connections), interleaved.
//!
//! Every cell is a short run of its own, closed loop; the rounds go through all cells in turn, so that a machine that
//! drifts does so for all, and a cell's figure is the median of its rounds. CPU is the workers' own on our side and the
//! target's threads on the other, where it runs on this machine. Without a URL the targets are reference servers with a
//! key of each kind; with one it is that server, with the key it has.

use crate::embedded::Embedded;
use crate::run::{Options, Outcome, RecordTo, RunError, Watch, run};
use diagnose::usage::run_ns;
use model::Scenario;
use model::Secret;
use model::scenario::WeightedUrl;
use model::snapshot::Role;
use model::tls::{MatrixCell, MatrixLine, TlsVersion};
use resolve::{Host, ResolveError, resolve};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Kinds of key a reference server is given.
const KEYS: [&str; 6] = ["rsa-2048", "rsa-3072", "rsa-4096", "p-256", "p-384", "ed25519"];
const VERSIONS: [TlsVersion; 2] = [TlsVersion::V12, TlsVersion::V13];
/// Length of a cell's run where none is asked for, nanoseconds.
const CELL_NS: u64 = 500_000_000;
/// Rounds where none are asked for.
const ROUNDS: u32 = 3;
const CONNECTIONS: u32 = 16;

/// Why there is no matrix.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// A reference server did not start.
    #[error("a reference server did not start: {0}")]
    Target(io::Error),
    /// A cell could not be planned.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A cell could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It was told to end.
    #[error("interrupted before the matrix was complete")]
    Interrupted,
}

/// Where a line of the matrix is measured.
struct Subject {
    key: String,
    url: Secret,
    ca: Option<PathBuf>,
    /// Ends the server, and the folder of its certificate, with the matrix.
    _server: Option<(Embedded, tempfile::TempDir)>,
}

/// Measures the matrix with `program` (this program) as reference servers where the scenario has no URL.
///
/// # Errors
/// [`MatrixError`]; a cell whose handshakes fail is no error but an empty one.
pub fn tls_matrix(
    program: &Path,
    scenario: &Scenario,
    host: &dyn Host,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Vec<MatrixLine>, MatrixError> {
    let subjects = subjects(program, scenario)?;
    let rounds = scenario.rounds.unwrap_or(ROUNDS).max(1);
    let mut lines: Vec<(MatrixLine, [Vec<MatrixCell>; 3])> = Vec::new();
    for subject in &subjects {
        for version in VERSIONS {
            let line = MatrixLine { key: subject.key.clone(), version, full: None, resumed: None, kept: None };
            lines.push((line, Default::default()));
        }
    }
    for _ in 0..rounds {
        for (at, (line, cells)) in lines.iter_mut().enumerate() {
            let subject = &subjects[at / VERSIONS.len()];
            for (kind, measured) in cells.iter_mut().enumerate() {
                let cell = cell_of(scenario, subject, line.version, kind);
                // A version the server does not speak is not this run's failure.
                let resolved = resolve(&cell, host)?;
                let options =
                    Options { record: RecordTo::Nothing, driver_reason: resolved.driver_reason, ..options.clone() };
                let outcome = run(resolved.plan, &options, watch)?;
                if options.interrupted.load(Ordering::Relaxed) {
                    return Err(MatrixError::Interrupted);
                }
                measured.extend(measure(&outcome, kind));
            }
        }
    }
    Ok(lines
        .into_iter()
        .map(|(line, [full, resumed, kept])| MatrixLine {
            full: median(full),
            resumed: median(resumed),
            kept: median(kept),
            ..line
        })
        .collect())
}

fn subjects(program: &Path, scenario: &Scenario) -> Result<Vec<Subject>, MatrixError> {
    if let Some(first) = scenario.urls.first() {
        let key = "the server's".to_owned();
        return Ok(vec![Subject { key, url: first.url.clone(), ca: scenario.tls.ca.clone(), _server: None }]);
    }
    let start = |key: &&str| {
        // A folder of our own: at a name that can be guessed a link could wait.
        let folder = tempfile::Builder::new().prefix("plimsoll-").tempdir().map_err(MatrixError::Target)?;
        let file = folder.path().join("ca.pem");
        let path = file.to_string_lossy().into_owned();
        let server = Embedded::serve_http(program, &["--tls", "--tls-key", key, "--tls-ca-out", &path])
            .map_err(MatrixError::Target)?;
        let url = Secret::from(&*server.url);
        Ok(Subject { key: (*key).to_owned(), url, ca: Some(file), _server: Some((server, folder)) })
    };
    KEYS.iter().map(start).collect()
}

/// The scenario of a cell: 0 full handshakes, 1 resumed ones, 2 requests on kept connections.
fn cell_of(scenario: &Scenario, subject: &Subject, version: TlsVersion, kind: usize) -> Scenario {
    let mut cell = scenario.clone();
    cell.urls = vec![WeightedUrl { url: subject.url.clone(), weight: 1.0 }];
    cell.rounds = None;
    cell.connections = Some(scenario.connections.unwrap_or(CONNECTIONS));
    cell.threads = Some(scenario.threads.unwrap_or(1));
    cell.duration_ns = Some(scenario.duration_ns.unwrap_or(CELL_NS));
    cell.tls.ca.clone_from(&subject.ca);
    cell.tls.versions = vec![version.name().to_owned()];
    cell.tls.handshake_only = kind < 2;
    cell.tls.resume = Some(kind == 1);
    cell
}

/// A cell's figures; `None` where nothing of its kind was done.
fn measure(outcome: &Outcome, kind: usize) -> Option<MatrixCell> {
    let totals = &outcome.recording.totals;
    let counts = &totals.sum.counts;
    // Resumption starts with one full handshake each; a server that never resumes has none of these.
    let (in_time, all) = match kind {
        0 => (totals.in_time.handshakes_full, counts.handshakes_full),
        1 => (totals.in_time.handshakes_resumed, counts.handshakes_resumed),
        _ => (totals.in_time.ok_arrived(), counts.ok),
    };
    if all == 0 || totals.measured_ns == 0 {
        return None;
    }
    let generator_ns = (counts.cpu_user_ns + counts.cpu_system_ns) as f64;
    Some(MatrixCell {
        per_s: totals.per_s(in_time),
        generator_us_each: generator_ns / all as f64 / 1e3,
        target_us_each: run_ns(&outcome.recording.snapshots, Role::Target).map(|ns| ns / all as f64 / 1e3),
    })
}

/// The cell whose rate is in the middle.
fn median(mut cells: Vec<MatrixCell>) -> Option<MatrixCell> {
    cells.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    cells.get(cells.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_rounds_is_taken() {
        let cell = |per_s| MatrixCell { per_s, generator_us_each: 1.0, target_us_each: None };
        assert_eq!(median(vec![cell(3.0), cell(1.0), cell(2.0)]), Some(cell(2.0)));
        assert_eq!(median(vec![]), None);
    }
}
