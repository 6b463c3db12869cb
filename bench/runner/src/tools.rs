//! The table of everything that is measured: a row a tool and mode. To add one, copy a row.
//! A row says how to start the tool on one thread, and who reads its output; closed loops and open
//! loops are separate tables, because few tools do both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::args::Settings;
use crate::machine;
use crate::parse::{self, Parser};
use crate::target::SOCKET;

/// One load, as every tool is asked for it.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where the target listens.
    pub addr: SocketAddr,
    /// Connections held.
    pub connections: usize,
    /// Whole seconds.
    pub seconds: f64,
    /// Requests per second; none in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Where the tool may write.
    pub folder: PathBuf,
    /// Over TLS: the certificate to verify the target by.
    pub certificate: Option<PathBuf>,
}

impl Load {
    /// The target as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.addr)
    }

    fn certificate(&self) -> String {
        self.certificate.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn rate(&self) -> f64 {
        self.rate_per_s.unwrap_or(0.0)
    }
}

/// What a row is, and with it what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// plimsoll; compared with the bare loop of the driver it says it used.
    Plimsoll,
    /// plimsoll, reaping replies together.
    PlimsollBatch,
    /// Another load generator.
    Peer,
    /// A bare loop.
    BareEpoll,
    /// A bare loop.
    BareUring,
    /// A bare loop that waits for several replies.
    BareBatch,
}

/// Which program a row starts.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// The one under test.
    Plimsoll,
    /// The bare loops.
    Floor,
    /// One that is installed, or not.
    Installed(&'static str),
}

/// A tool in one mode.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name in the tables.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What is started.
    pub program: Program,
    /// With which arguments.
    pub args: fn(&Load) -> Vec<String>,
    /// Files it needs, written before.
    pub files: fn(&Load) -> Vec<(PathBuf, String)>,
    /// A second call whose output is read instead: its cost is not counted.
    pub after: Option<fn(&Load) -> Vec<String>>,
    /// Who reads its output.
    pub parse: Parser,
}

const NO_FILES: fn(&Load) -> Vec<(PathBuf, String)> = |_| Vec::new();

macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$($word.to_string()),*] };
}

const fn plimsoll(name: &'static str, kind: Kind, args: fn(&Load) -> Vec<String>) -> Row {
    Row { name, kind, program: Program::Plimsoll, args, files: NO_FILES, after: None, parse: parse::plimsoll::parse }
}

const fn bare(name: &'static str, kind: Kind, args: fn(&Load) -> Vec<String>) -> Row {
    Row { name, kind, program: Program::Floor, args, files: NO_FILES, after: None, parse: parse::floor::parse }
}

const fn peer(program: &'static str, args: fn(&Load) -> Vec<String>, parse: Parser) -> Row {
    Row {
        name: program,
        kind: Kind::Peer,
        program: Program::Installed(program),
        args,
        files: NO_FILES,
        after: None,
        parse,
    }
}

/// The closed loops: the next request when the reply is there.
pub const CLOSED: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| plimsoll_args(load, &[])),
    plimsoll("plimsoll --driver epoll", Kind::Plimsoll, |load| plimsoll_args(load, &["--driver", "epoll"])),
    plimsoll("plimsoll --driver uring", Kind::Plimsoll, |load| plimsoll_args(load, &["--driver", "uring"])),
    plimsoll("plimsoll --batch", Kind::PlimsollBatch, |load| plimsoll_args(load, &["--batch"])),
    plimsoll("plimsoll --no-observe", Kind::Plimsoll, |load| plimsoll_args(load, &["--no-observe"])),
    plimsoll("plimsoll --batch --no-observe", Kind::PlimsollBatch, |load| {
        plimsoll_args(load, &["--batch", "--no-observe"])
    }),
    bare("bare epoll", Kind::BareEpoll, |load| bare_args("epoll", load, &[])),
    bare("bare io_uring", Kind::BareUring, |load| bare_args("uring", load, &[])),
    bare("bare io_uring, batch", Kind::BareBatch, |load| {
        let wait = batch(load.connections).to_string();
        bare_args("uring", load, &["--wait", &wait, "--wait-max-us", "1000"])
    }),
    peer("wrk", wrk_args, parse::wrk::parse),
    peer(
        "ab",
        |load| {
            // -t implies a limit of 50,000 requests; a higher one must come after it.
            words!["-k", "-q", "-c", load.connections, "-t", load.seconds, "-n", load.seconds * 500_000.0, load.url()]
        },
        parse::ab::parse,
    ),
    peer("h2load", |load| h2load_args(load, &[]), parse::h2load::parse),
    peer("oha", |load| oha_args(load, &[]), parse::oha::parse),
    Row {
        files: vegeta_files,
        after: Some(vegeta_report),
        ..peer("vegeta", |load| vegeta_attack(load, Some(load.connections)), parse::vegeta::parse)
    },
    Row { files: k6_files, ..peer("k6", k6_args, parse::k6::parse) },
];

/// The open loops: requests are due by the clock.
pub const OPEN: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| plimsoll_args(load, &[])),
    plimsoll("plimsoll --driver epoll", Kind::Plimsoll, |load| plimsoll_args(load, &["--driver", "epoll"])),
    plimsoll("plimsoll --driver uring", Kind::Plimsoll, |load| plimsoll_args(load, &["--driver", "uring"])),
    bare("bare due-only epoll", Kind::BareEpoll, |load| {
        bare_args("due", load, &["--rate", &load.rate().to_string(), "--epoll"])
    }),
    bare("bare due-only io_uring", Kind::BareUring, |load| {
        bare_args("due", load, &["--rate", &load.rate().to_string()])
    }),
    peer(
        "wrk2",
        |load| {
            words![
                "-t1",
                "--latency",
                format!("-c{}", load.connections),
                format!("-d{}s", load.seconds),
                format!("-R{}", load.rate()),
                load.url()
            ]
        },
        parse::wrk::parse,
    ),
    peer(
        "h2load",
        |load| {
            let each = load.rate() / load.connections as f64;
            h2load_args(load, &["--rps", &each.to_string()])
        },
        parse::h2load::parse,
    ),
    peer("oha", |load| oha_args(load, &["--latency-correction", "-q", &load.rate().to_string()]), parse::oha::parse),
    Row {
        files: vegeta_files,
        after: Some(vegeta_report),
        ..peer("vegeta", |load| vegeta_attack(load, None), parse::vegeta::parse)
    },
    Row { files: k6_files, ..peer("k6", k6_args, parse::k6::parse) },
];

/// What every tool is held to over TLS: one group, one cipher suite, one version, verified where the tool can.
const TLS: [&str; 6] = ["--tls-version", "1.3", "--groups", "X25519", "--ciphers", "TLS_AES_256_GCM_SHA384"];

/// Full TLS handshakes, each with a connection of its own; the peers send a request with it, plimsoll and s_time none.
pub const HANDSHAKES: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| tls_args(load, &["--handshake-only", "--resume", "off"])),
    plimsoll("plimsoll --driver uring", Kind::Plimsoll, |load| {
        tls_args(load, &["--handshake-only", "--resume", "off", "--driver", "uring"])
    }),
    plimsoll("plimsoll, a request each", Kind::Plimsoll, |load| {
        tls_args(load, &["--disable-keepalive", "--resume", "off"])
    }),
    peer(
        "wrk",
        |load| {
            let (connections, seconds) = (format!("-c{}", load.connections), format!("-d{}s", load.seconds));
            words!["-t1", "--latency", connections, seconds, "-H", "Connection: close", load.url()]
        },
        parse::wrk::parse,
    ),
    peer(
        "ab",
        |load| {
            let most = load.seconds * 100_000.0;
            words!["-q", "-f", "TLS1.3", "-c", load.connections, "-t", load.seconds, "-n", most, load.url()]
        },
        parse::ab::parse,
    ),
    peer(
        "openssl",
        |load| words!["s_time", "-connect", load.addr, "-new", "-time", load.seconds.ceil()],
        parse::s_time::parse,
    ),
    peer("oha", |load| oha_args(load, &["--disable-keepalive", "--cacert", &load.certificate()]), parse::oha::parse),
];

/// Requests over TLS connections that are kept.
pub const KEPT: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| tls_args(load, &[])),
    plimsoll("plimsoll --driver uring", Kind::Plimsoll, |load| tls_args(load, &["--driver", "uring"])),
    peer("wrk", wrk_args, parse::wrk::parse),
    peer(
        "ab",
        |load| {
            let most = load.seconds * 500_000.0;
            words!["-k", "-q", "-f", "TLS1.3", "-c", load.connections, "-t", load.seconds, "-n", most, load.url()]
        },
        parse::ab::parse,
    ),
    peer("h2load", |load| h2load_args(load, &[]), parse::h2load::parse),
    peer("oha", |load| oha_args(load, &["--cacert", &load.certificate()]), parse::oha::parse),
];

/// Connections made, kept and closed again.
pub const CONNECTS: &[Row] = &[
    held("plimsoll", |load| hold_args(load, &["--driver", "rings"])),
    held("plimsoll --driver uring", |load| hold_args(load, &["--driver", "uring"])),
    held("plimsoll --driver epoll", |load| hold_args(load, &["--driver", "epoll"])),
    bare("bare epoll", Kind::BareEpoll, |load| {
        words!["connect", "--addr", load.addr, "--connections", 64, "--seconds", load.seconds]
    }),
];

/// Connections that idle.
pub const HELD: &[Row] = &[
    held("plimsoll", |load| hold_args(load, &["--driver", "rings"])),
    held("plimsoll --driver epoll", |load| hold_args(load, &["--driver", "epoll"])),
];

/// Bursts: all connections send at once.
pub const BURSTS: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| burst_args(load, &[])),
    plimsoll("plimsoll --driver epoll", Kind::Plimsoll, |load| burst_args(load, &["--driver", "epoll"])),
];

/// The closed loop with one worker, two and four.
pub const WORKERS: &[Row] = &[
    plimsoll("1 worker", Kind::Plimsoll, |load| workers_args(load, "1")),
    plimsoll("2 workers", Kind::Plimsoll, |load| workers_args(load, "2")),
    plimsoll("4 workers", Kind::Plimsoll, |load| workers_args(load, "4")),
];

/// The closed loop over nginx's unix socket, unobserved: what sleeps then is the worker, mostly.
pub const UNIX: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| unix_args(load, "epoll")),
    plimsoll("plimsoll --driver uring", Kind::Plimsoll, |load| unix_args(load, "uring")),
];

/// A run of a single request.
pub const SINGLE: &[Row] = &[
    plimsoll("plimsoll", Kind::Plimsoll, |load| single_args(load, &[])),
    plimsoll("plimsoll --no-observe", Kind::Plimsoll, |load| single_args(load, &["--no-observe"])),
];

/// One load, observed in different ways: the first is what the others are set against.
pub const OBSERVED: &[Row] = &[
    plimsoll("none", Kind::Plimsoll, |load| plimsoll_args(load, &["--no-observe"])),
    plimsoll("/proc only", Kind::Plimsoll, |load| plimsoll_args(load, &["--observe", "none"])),
    plimsoll("light", Kind::Plimsoll, |load| plimsoll_args(load, &["--observe", "light"])),
    plimsoll("windows", Kind::Plimsoll, |load| plimsoll_args(load, &["--observe", "windows"])),
    plimsoll("full", Kind::Plimsoll, |load| plimsoll_args(load, &["--observe", "full"])),
];

const fn held(name: &'static str, args: fn(&Load) -> Vec<String>) -> Row {
    Row { parse: parse::plimsoll::parse_held, ..plimsoll(name, Kind::Plimsoll, args) }
}

fn hold_args(load: &Load, more: &[&str]) -> Vec<String> {
    let (url, seconds) = (format!("hold://{}", load.addr), format!("{}s", load.seconds));
    let mut args = words!["load", url, "-c", load.connections, "-d", seconds, "--threads", "1"];
    args.extend(words!["--every", "never", "--sweep", "1h", "--connect-rate", "500k/s", "--json", "--no-record", "-q"]);
    args.extend(more.iter().map(|&word| word.to_owned()));
    args
}

fn burst_args(load: &Load, more: &[&str]) -> Vec<String> {
    let url = format!("echo://{}", load.addr);
    let mut args = words!["load", url, "--burst", load.connections, "--rounds", "20", "--size", "16"];
    args.extend(words!["--threads", "1", "--json", "--no-record", "-q"]);
    args.extend(more.iter().map(|&word| word.to_owned()));
    args
}

fn tls_args(load: &Load, more: &[&str]) -> Vec<String> {
    let mut args = plimsoll_args(load, more);
    args.extend(words!["--ca", load.certificate()]);
    args.extend(TLS.map(str::to_owned));
    args
}

fn workers_args(load: &Load, workers: &str) -> Vec<String> {
    let (url, seconds) = (load.url(), format!("{}s", load.seconds));
    let mut args = words!["load", url, "-c", load.connections, "-d", seconds, "--threads", workers];
    // What observing costs does not depend on the number of workers, and would hide what a further one does.
    args.extend(words!["--no-observe", "--json", "--no-record", "-q"]);
    args
}

fn unix_args(load: &Load, driver: &str) -> Vec<String> {
    let url = format!("unix:{}", load.folder.join(SOCKET).display());
    let mut args = words!["load", url, "-c", load.connections, "-d", format!("{}s", load.seconds), "--threads", "1"];
    args.extend(words!["--driver", driver, "--no-observe", "--json", "--no-record", "-q"]);
    args
}

fn single_args(load: &Load, more: &[&str]) -> Vec<String> {
    let mut args = words!["load", load.url(), "-n", "1", "--json", "--no-record", "-q"];
    args.extend(more.iter().map(|&word| word.to_owned()));
    args
}

/// How many replies the batching bare loop waits for: a quarter of the connections, at most 16 of
/// few and 64 of many, so that the others keep the target busy meanwhile.
fn batch(connections: usize) -> usize {
    (connections / 4).clamp(1, if connections < 256 { 16 } else { 64 })
}

fn plimsoll_args(load: &Load, more: &[&str]) -> Vec<String> {
    let mut args = words![
        "load",
        load.url(),
        "-c",
        load.connections,
        "-d",
        format!("{}s", load.seconds),
        "--threads",
        "1",
        "--json",
        "--no-record",
        "-q"
    ];
    if let Some(rate_per_s) = load.rate_per_s {
        args.extend(words!["--rate", format!("{rate_per_s}/s")]);
    }
    args.extend(more.iter().map(|&word| word.to_owned()));
    args
}

fn bare_args(name: &str, load: &Load, more: &[&str]) -> Vec<String> {
    let mut args = words![name, "--addr", load.addr, "--connections", load.connections, "--seconds", load.seconds];
    args.extend(more.iter().map(|&word| word.to_owned()));
    args
}

fn wrk_args(load: &Load) -> Vec<String> {
    words!["-t1", "--latency", format!("-c{}", load.connections), format!("-d{}s", load.seconds), load.url()]
}

fn h2load_args(load: &Load, more: &[&str]) -> Vec<String> {
    let mut args = words!["--h1", "-t1", format!("-c{}", load.connections), format!("-D{}", load.seconds)];
    args.extend(more.iter().map(|&word| word.to_owned()));
    args.push(load.url());
    args
}

fn oha_args(load: &Load, more: &[&str]) -> Vec<String> {
    let mut args =
        words!["--no-tui", "--output-format", "json", "-c", load.connections, "-z", format!("{}s", load.seconds)];
    args.extend(more.iter().map(|&word| word.to_owned()));
    args.push(load.url());
    args
}

fn vegeta_attack(load: &Load, workers_max: Option<usize>) -> Vec<String> {
    let mut args = words![
        "attack",
        "-targets",
        load.folder.join("vegeta-targets").display(),
        "-output",
        load.folder.join("vegeta-results").display(),
        "-duration",
        format!("{}s", load.seconds),
        "-rate",
        load.rate(),
        "-connections",
        load.connections
    ];
    if let Some(workers) = workers_max {
        args.extend(words!["-workers", workers, "-max-workers", workers]);
    }
    args
}

fn vegeta_report(load: &Load) -> Vec<String> {
    words!["report", "-type", "json", load.folder.join("vegeta-results").display()]
}

fn vegeta_files(load: &Load) -> Vec<(PathBuf, String)> {
    vec![(load.folder.join("vegeta-targets"), format!("GET {}\n", load.url()))]
}

fn k6_args(load: &Load) -> Vec<String> {
    words![
        "run",
        "-q",
        "--no-usage-report",
        "--summary-export",
        load.folder.join(parse::k6::SUMMARY).display(),
        load.folder.join("k6.js").display()
    ]
}

fn k6_files(load: &Load) -> Vec<(PathBuf, String)> {
    let scenario = match load.rate_per_s {
        None => format!("executor: 'constant-vus', vus: {}, duration: '{}s'", load.connections, load.seconds),
        Some(rate_per_s) => format!(
            "executor: 'constant-arrival-rate', rate: {}, timeUnit: '1s', duration: '{}s', \
             preAllocatedVUs: {}, maxVUs: {}",
            rate_per_s.round(),
            load.seconds,
            load.connections,
            load.connections
        ),
    };
    let script = format!(
        "import http from 'k6/http';\n\
         export const options = {{\n\
           discardResponseBodies: true,\n\
           summaryTrendStats: ['med', 'p(90)', 'p(95)', 'p(99)', 'max'],\n\
           scenarios: {{ load: {{ {scenario}, gracefulStop: '5s' }} }},\n\
         }};\n\
         export default function () {{ http.get('{}'); }}\n",
        load.url()
    );
    vec![(load.folder.join("k6.js"), script)]
}

/// The rows the settings ask for: those whose names contain a word, or are one behind `=`.
pub fn wanted<'a>(rows: &'a [Row], settings: &Settings) -> Vec<&'a Row> {
    let words = &settings.tools;
    let is_meant = |row: &Row, word: &String| match word.strip_prefix('=') {
        Some(whole) => row.name == whole,
        None => row.name.contains(word),
    };
    rows.iter().filter(|row| words.is_empty() || words.iter().any(|word| is_meant(row, word))).collect()
}

impl Row {
    /// Where its program is; none when it is not installed.
    pub fn path(&self, settings: &Settings) -> Option<PathBuf> {
        let given = |path: &Path| path.is_file().then(|| path.to_owned());
        match self.program {
            Program::Plimsoll => given(&settings.plimsoll),
            Program::Floor => given(&settings.floor),
            Program::Installed(name) => machine::find(name),
        }
    }

    /// Writes the files it needs.
    pub fn prepare(&self, load: &Load) -> Result<()> {
        for (path, text) in (self.files)(load) {
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(rate_per_s: Option<f64>) -> Load {
        Load {
            addr: ([127, 0, 0, 1], 8080).into(),
            connections: 64,
            seconds: 3.0,
            rate_per_s,
            folder: PathBuf::from("/f"),
            certificate: None,
        }
    }

    fn line(rows: &[Row], name: &str, rate_per_s: Option<f64>) -> String {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        (row.args)(&load(rate_per_s)).join(" ")
    }

    #[test]
    fn command_lines_as_they_are_typed() {
        let rate = Some(5000.0);
        for (got, expected) in [
            (
                line(CLOSED, "plimsoll --batch", None),
                "load http://127.0.0.1:8080/ -c 64 -d 3s --threads 1 --json --no-record -q --batch",
            ),
            (
                line(OPEN, "plimsoll", rate),
                "load http://127.0.0.1:8080/ -c 64 -d 3s --threads 1 --json --no-record -q --rate 5000/s",
            ),
            (line(CLOSED, "wrk", None), "-t1 --latency -c64 -d3s http://127.0.0.1:8080/"),
            (line(CLOSED, "ab", None), "-k -q -c 64 -t 3 -n 1500000 http://127.0.0.1:8080/"),
            (line(OPEN, "h2load", rate), "--h1 -t1 -c64 -D3 --rps 78.125 http://127.0.0.1:8080/"),
            (
                line(OPEN, "bare due-only epoll", rate),
                "due --addr 127.0.0.1:8080 --connections 64 --seconds 3 --rate 5000 --epoll",
            ),
            (
                line(CLOSED, "bare io_uring, batch", None),
                "uring --addr 127.0.0.1:8080 --connections 64 --seconds 3 --wait 16 --wait-max-us 1000",
            ),
        ] {
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_batch_is_never_more_than_there_are_connections() {
        for connections in [1, 2, 63, 64, 255, 256, 1000, 8000] {
            assert!((1..=connections).contains(&batch(connections)));
        }
        assert_eq!((batch(64), batch(1000)), (16, 64));
    }

    #[test]
    fn names_are_unique() {
        for rows in [CLOSED, OPEN] {
            let names: std::collections::BTreeSet<_> = rows.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), rows.len());
        }
    }
}
