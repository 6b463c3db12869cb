//! Defects of a server's work, locks, logs and replies, each proved by a reading that plimsoll has no part in: there
//! when on, not there when off or not yet, and there once its start has come.
//!
//! A line a defect, in the file of its reading (`shows`). What only a tracer sees needs strace.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;
mod ported;
mod readings;
mod replies;
mod subject;
mod table;
mod traces;
mod waiting;
mod ways;
mod work;

use common::plimsoll;
use servers::defects::{DEFECTS, Server, Strength};
use std::thread;
use subject::Subject;
use testkit::wait_until;

/// How a defect is proved.
pub struct Case {
    name: &'static str,
    /// As on the command line, with `=`.
    strength: &'static str,
    workers: usize,
    /// The servers it is read on: all that carry it.
    servers: &'static [&'static str],
    /// Whether the independent reading finds it; `None` where it cannot be taken here.
    shows: fn(&Subject) -> Option<bool>,
}

/// Both servers that carry most defects.
pub const BOTH: &[&str] = &["http", "echo"];
/// Those, and the one of WebSocket, where opening a connection is a request too.
pub const ALL: &[&str] = &["http", "echo", "ws"];

/// Those of `BOTH`, and the proxy, whose origin is a sound server.
pub const BOTH_PROXIED: &[&str] = &["http", "echo", "proxy"];
/// Those of `ALL`, and the proxy.
pub const PROXIED: &[&str] = &["http", "echo", "ws", "proxy"];
/// Those of `BOTH_PROXIED`, and the name service.
pub const BOTH_PROXIED_NAMED: &[&str] = &["http", "echo", "proxy", "names"];
/// All servers.
pub const EVERY: &[&str] = &["http", "echo", "ws", "proxy", "names"];

/// The cases, each with the file of its reading.
const CASES: &[&[Case]] = &[work::CASES, waiting::CASES, replies::CASES];

/// Lists cases and makes a test of each, so that they run side by side:
/// `test: "defect" "=strength", workers, servers => reading;`.
macro_rules! cases {
    ($($test:ident: $name:literal $strength:literal, $workers:literal, $servers:expr => $shows:ident;)*) => {
        /// The cases of this file.
        pub const CASES: &[$crate::Case] = &[$($crate::Case {
            name: $name,
            strength: $strength,
            workers: $workers,
            servers: $servers,
            shows: $shows,
        }),*];
        mod tests {
            $(#[test]
            fn $test() {
                $crate::prove($name);
            })*
        }
    };
}
pub(crate) use cases;

fn case_of(name: &str) -> Option<&'static Case> {
    CASES.iter().flat_map(|file| file.iter()).find(|case| case.name == name)
}

/// There when on, not when off, not before its start, and then there.
fn prove(name: &str) {
    let case = case_of(name).unwrap();
    let on = format!("{name}{}", case.strength);
    // Mostly waiting, so side by side.
    thread::scope(|scope| {
        for server in case.servers {
            scope.spawn(|| there_when_on_and_not_when_off(case, server, &on));
        }
        if name != "single-thread" {
            // Beginning is the same for all servers.
            scope.spawn(|| begins_at_its_start(case, case.servers[0], &on));
        }
    });
}

fn there_when_on_and_not_when_off(case: &Case, server: &'static str, on: &str) {
    let read = |defect| (case.shows)(&Subject::start(server, case.workers, defect));
    let Some(shows) = decided(true, || read(Some(on))) else { return };
    assert!(shows, "{server}: {on} is not there");
    assert_eq!(decided(false, || read(None)), Some(false), "{server}: there without {on}");
}

/// What a reading says; where that is not what is expected, what two of three say: what else runs on the machine can be in
/// the way of one.
fn decided(expected: bool, read: impl Fn() -> Option<bool>) -> Option<bool> {
    let first = read()?;
    if first == expected {
        return Some(first);
    }
    let second = read()?;
    if first == second { Some(first) } else { read() }
}

fn begins_at_its_start(case: &Case, server: &'static str, on: &str) {
    let read = || (case.shows)(&Subject::start(server, case.workers, Some(&format!("{on}@1h"))));
    let Some(shows) = decided(false, read) else { return };
    assert!(!shows, "{server}: {on} is there an hour before its start");
    // Whether it is there before a start that comes soon, few readings are short enough to tell.
    let begins = Subject::start(server, case.workers, Some(&format!("{on}@400ms")));
    wait_until("it begins at its start", || (case.shows)(&begins) == Some(true));
}

/// Where tests of defects are: every file there counts.
fn test_sources() -> String {
    let folders = ["crates/cli/tests", "crates/servers/tests"].map(|folder| testkit::workspace().join(folder));
    let mut left = Vec::from(folders);
    let mut text = String::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    text
}

#[test]
fn every_defect_is_proved_on_each_of_its_servers() {
    let sources = test_sources();
    for defect in DEFECTS {
        let name = defect.name;
        match case_of(name) {
            Some(case) => {
                let mut servers: Vec<_> = defect.servers.iter().copied().map(Server::name).collect();
                let mut proved = case.servers.to_vec();
                servers.sort_unstable();
                proved.sort_unstable();
                assert_eq!(proved, servers, "{name}");
            }
            // Those of sockets, memory and accepting have files of their own.
            None => assert!(
                sources.contains(&format!("\"{name}\"")) || sources.contains(&format!("\"{name}=")),
                "no test names the defect {name}: add a case"
            ),
        }
    }
}

#[test]
fn every_defect_says_what_it_makes_and_how_to_see_it() {
    for defect in DEFECTS {
        assert!(defect.see.contains("PID") || defect.see.contains("PORT"), "{}", defect.name);
        assert!(!defect.about.is_empty() && !defect.makes.is_empty() && !defect.servers.is_empty(), "{}", defect.name);
        assert!(
            matches!(defect.strength, Strength::None)
                || ["this", "many", "so much"].iter().any(|word| defect.about.contains(word)),
            "{}: what its strength is",
            defect.name
        );
    }
}

#[test]
fn what_cannot_be_is_a_usage_error_of_one_sentence() {
    for (server, defect, says) in [
        ("http", "single-thread@1s", "cannot begin later than the server"),
        ("http", "missing-reply=0", "expected one of 1 or more"),
        ("http", "error-status=99", "expected a status from 200 to 599"),
        ("http", "error-status=304/2", "expected a status from 200 to 599"),
        ("http", "error-status=503/0", "expected one of 1 or more"),
        ("http", "stop-the-world=1s", "expected more than 1s, for which all are stopped, as every= of the defect"),
        ("http", "stop-the-world=0s", "expected more than 0s, up to 24h as strength"),
        ("http", "stop-the-world=50ms:every=40ms", "as every= of the defect stop-the-world, got 40ms"),
        ("http", "blocked-loop=of=0", "expected 1 or more as of= of the defect blocked-loop, got 0"),
        ("http", "slow-accept=queue=0", "expected 1 or more as queue= of the defect slow-accept, got 0"),
        ("http", "memory-leak=0", "expected 1 byte or more, up to 1TiB"),
        ("http", "fd-leak=0", "expected 1 or more as strength of the defect fd-leak, got 0"),
        ("http", "padded-reply=bytes=1GiB", "expected 67108864 or less as bytes= of the defect padded-reply"),
        ("http", "strlen-reply", "serve http cannot carry the defect strlen-reply: it is one of serve echo"),
        ("echo", "error-status", "serve echo cannot carry the defect error-status"),
        ("echo", "full-buffer-reply=0", "expected 1 byte or more"),
    ] {
        let run = plimsoll(&["serve", server, "--listen", "127.0.0.1:0", "--defect", defect]);
        run.assert_exit(2);
        assert!(run.stderr.contains(says) && run.stderr.trim().lines().count() == 1, "{defect}: {}", run.stderr);
    }
}
