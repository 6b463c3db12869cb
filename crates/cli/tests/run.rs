//! Scenario files as a user runs them: what they say is what is put on, and what is wrong in them is said with its place.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::*;
use std::path::PathBuf;

/// A file in a folder of its own.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scenario.toml");
        std::fs::write(&path, text).unwrap();
        File { _folder: folder, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// Of a document, how many requests were asked for and ended.
fn requests(run: &Run) -> u64 {
    run.assert_measured();
    run.json()["totals"]["requests"].as_u64().unwrap()
}

#[test]
fn a_file_is_run_and_flags_and_variables_win_over_it() {
    let server = serve_http(&[]);
    let text = format!(
        "json = true\nno-record = true\nquiet = true\n[load]\nurl = \"{}\"\nrequests = 200\nconnections = 2\n",
        server.url
    );
    let file = File::new(&text);
    assert_eq!(requests(&plimsoll(&["run", file.path()])), 200);
    assert_eq!(requests(&plimsoll(&["run", file.path(), "-n", "50"])), 50);
    let with_variable = |args: &[&str]| requests(&finish(command(args).env("PLIMSOLL_REQUESTS", "70")));
    assert_eq!(with_variable(&["run", file.path()]), 70);
    assert_eq!(with_variable(&["run", file.path(), "-n", "50"]), 50);
}

#[test]
fn an_explained_file_puts_no_load_on() {
    // Nobody listens there.
    let file = File::new("[load]\nurl = \"http://127.0.0.1:1/\"\nrate = \"123/s\"\n");
    for words in [["run", file.path(), "--explain"], ["run", "--explain", file.path()]] {
        let run = plimsoll(&words);
        run.assert_exit(0);
        assert!(run.stdout.contains("123"), "{}", run.stdout);
    }
}

#[test]
fn what_is_wrong_is_one_sentence_with_its_place_and_status_2() {
    let check = |text: &str, said: &str| {
        let file = File::new(text);
        let run = plimsoll(&["run", file.path()]);
        run.assert_exit(2);
        assert_eq!(run.stderr, format!("plimsoll: {}:{said}\n", file.path()), "{text}");
        assert_eq!(run.stdout, "");
    };
    check(
        "[load]\nurl = 'http://h/'\ndurration = 5\n",
        "3:1: the key 'durration' is not known: did you mean 'duration'?",
    );
    check(
        "[load]\nurl = 'ftp://h/'\n",
        "2:1: URL 'ftp://h/': scheme 'ftp' is not spoken by this version: use http://, https://, unix:, https+unix:, echo://, echo+tls://, hold://, hold+tls://, resp://, resp+tls://, redis://, rediss://, ws://, wss://, or hold+ws://",
    );
    // What only the plan shows.
    check("[load]\nurl = 'http://127.0.0.1:1/'\nconnections = 0\n", "3:1: connections: expected at least 1, got '0'");
    let missing = plimsoll(&["run", "/nowhere/at/all.toml"]);
    missing.assert_exit(1);
    assert!(missing.stderr.contains("/nowhere/at/all.toml"), "{}", missing.stderr);
    plimsoll(&["run"]).assert_exit(2);
}

#[test]
fn a_command_line_becomes_a_file_that_runs() {
    let server = serve_http(&[]);
    let line = format!("load {} -n 30 -c 1 --json -q --no-record -u me:hunter2", server.url);
    let written = plimsoll(&["run", "--from", &line]);
    written.assert_exit(0);
    assert!(!written.stdout.contains("hunter2"), "{}", written.stdout);
    let file = File::new(&written.stdout);
    let run = plimsoll(&["run", file.path()]);
    run.assert_exit(2);
    assert!(run.stderr.contains("SECRET_USER"), "{}", run.stderr);
    assert_eq!(requests(&finish(command(&["run", file.path()]).env("SECRET_USER", "me:hunter2"))), 30);
}
