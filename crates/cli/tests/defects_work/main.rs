//! Defects of a server's work, locks, logs and replies, each proved by a reading that plimsoll has no part in: there
//! when on, not there when off or not yet, and there once its start has come.
//!
//! A row of `CASES` a defect; `shows` is the independent reading. What only a tracer sees needs strace.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;
mod readings;
mod replies;
mod subject;
mod work;

use common::{plimsoll, wait_until};
use std::thread;
use std::time::Duration;
use subject::Subject;
use target::defects::{DEFECTS, Server, Strength};

/// How a defect is proved.
struct Case {
    name: &'static str,
    /// As on the command line, with `=`.
    strength: &'static str,
    workers: usize,
    /// The servers it is read on: all that carry it.
    servers: &'static [&'static str],
    /// Whether the independent reading finds it; `None` where it cannot be taken here.
    shows: fn(&Subject) -> Option<bool>,
}

const BOTH: &[&str] = &["http", "echo"];

const fn case(
    name: &'static str,
    strength: &'static str,
    workers: usize,
    servers: &'static [&'static str],
    shows: fn(&Subject) -> Option<bool>,
) -> Case {
    Case { name, strength, workers, servers, shows }
}

const CASES: &[Case] = &[
    case("nagle", "", 1, BOTH, work::each_reply_is_two_sends),
    case("memory-per-connection", "=4MiB", 1, BOTH, work::memory_grows_by_4_mib_each),
    case("accept-imbalance", "=5ms", 2, BOTH, work::only_one_worker_sleeps),
    case("cpu-heavy", "=20ms", 1, BOTH, work::each_request_computes),
    case("single-thread", "=20ms", 2, BOTH, work::one_worker_computes),
    case("global-lock", "=20ms", 2, BOTH, work::workers_wait_in_futex),
    case("blocked-loop", "=5ms", 1, BOTH, work::two_of_twenty_sleep),
    case("stop-the-world", "=900ms", 2, BOTH, work::all_workers_stand_at_once),
    case("head-of-line", "=50ms", 1, BOTH, work::one_of_hundred_computes),
    case("slow-backend", "=5ms", 1, BOTH, work::it_has_an_origin_of_its_own),
    case("fsync-log", "", 1, BOTH, work::each_request_is_synced),
    case("slow-log-reader", "=1h", 1, BOTH, work::it_stands_in_write_to_a_pipe),
    case("error-status", "=429/3", 1, &["http"], replies::every_third_is_429),
    case("truncated-reply", "=3", 1, BOTH, replies::one_is_cut),
    case("one-receive-reply", "=1KiB", 1, &["echo"], replies::above_1024_is_cut),
    case("strlen-reply", "", 1, &["echo"], replies::ends_at_a_nul),
    case("padded-reply", "=3", 1, BOTH, replies::one_has_more_behind_it),
    case("fixed-size-reply", "=1KiB", 1, &["echo"], replies::all_are_1024),
    case("corrupted-reply", "=3", 1, BOTH, replies::one_has_a_wrong_byte),
    case("missing-reply", "=3", 1, BOTH, replies::two_of_six_never_come),
    case("full-buffer-reply", "=1KiB", 1, &["echo"], replies::multiples_of_1024_never_come),
];

/// There when on, not when off, not before its start, and then there.
fn prove(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
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
    let Some(shows) = (case.shows)(&Subject::start(server, case.workers, Some(on))) else { return };
    assert!(shows, "{server}: {on} is not there");
    assert_eq!((case.shows)(&Subject::start(server, case.workers, None)), Some(false), "{server}: there without {on}");
}

fn begins_at_its_start(case: &Case, server: &'static str, on: &str) {
    let not_yet = Subject::start(server, case.workers, Some(&format!("{on}@1h")));
    let Some(shows) = (case.shows)(&not_yet) else { return };
    assert!(!shows, "{server}: {on} is there an hour before its start");
    let begins = Subject::start(server, case.workers, Some(&format!("{on}@1500ms")));
    let early = (case.shows)(&begins);
    if begins.started.elapsed() < Duration::from_millis(1500) {
        assert_eq!(early, Some(false), "{server}: {on} is there before its start");
    }
    wait_until("it begins at its start", || (case.shows)(&begins) == Some(true));
}

/// A test a row, so that they run side by side.
macro_rules! prove {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            prove($name);
        })*

        #[test]
        fn each_case_is_a_test() {
            assert_eq!(CASES.iter().map(|case| case.name).collect::<Vec<_>>(), [$($name),*]);
        }
    };
}

prove! {
    nagle "nagle"
    memory_per_connection "memory-per-connection"
    accept_imbalance "accept-imbalance"
    cpu_heavy "cpu-heavy"
    single_thread "single-thread"
    global_lock "global-lock"
    blocked_loop "blocked-loop"
    stop_the_world "stop-the-world"
    head_of_line "head-of-line"
    slow_backend "slow-backend"
    fsync_log "fsync-log"
    slow_log_reader "slow-log-reader"
    error_status "error-status"
    truncated_reply "truncated-reply"
    one_receive_reply "one-receive-reply"
    strlen_reply "strlen-reply"
    padded_reply "padded-reply"
    fixed_size_reply "fixed-size-reply"
    corrupted_reply "corrupted-reply"
    missing_reply "missing-reply"
    full_buffer_reply "full-buffer-reply"
}

/// Where tests of defects are: every file there counts.
fn test_sources() -> String {
    let folders = ["crates/cli/tests", "crates/target/tests"].map(|folder| testkit::workspace().join(folder));
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
        match CASES.iter().find(|case| case.name == name) {
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
        ("http", "stop-the-world=1s", "more than 0s and less than 1s"),
        ("http", "strlen-reply", "serve http cannot carry the defect strlen-reply: it is one of serve echo"),
        ("echo", "error-status", "serve echo cannot carry the defect error-status"),
        ("echo", "full-buffer-reply=0", "expected 1 byte or more"),
    ] {
        let run = plimsoll(&["serve", server, "--listen", "127.0.0.1:0", "--defect", defect]);
        run.assert_exit(2);
        assert!(run.stderr.contains(says) && run.stderr.trim().lines().count() == 1, "{defect}: {}", run.stderr);
    }
}
