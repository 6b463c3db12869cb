//! `plimsoll diagnose` of recordings: the answer and nothing else, of whatever is left of a recording, with and without a load.

use crate::common::*;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use testkit::process::Guard;
use testkit::wait_until;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The lines' words, wherever the lines end.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_answer_is_that_of_the_report_and_nothing_else() {
    let server = serve_http(&["--defect", "nagle"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nagle.plimsoll");
    plimsoll(&["load", &server.url, "-c", "2", "-n", "60", "-q", "--record", text(&path)]).assert_measured();
    let report = plimsoll(&["report", text(&path), "--json"]).json();
    let run = plimsoll(&["diagnose", text(&path), "--json"]);
    run.assert_exit(0);
    let document = run.json();
    for key in ["gives", "findings", "judged", "losses", "validity", "segments", "end"] {
        assert_eq!(document[key], report[key], "{key}");
    }
    assert_eq!(
        (&document["schema"], &document["gives"]["finding"]),
        (&"plimsoll.diagnosis/1".into(), &"nagle-delayed-ack".into())
    );
    let finding = &document["findings"][0];
    let answer = plimsoll(&["diagnose", text(&path)]);
    answer.assert_exit(0);
    let said = words(&answer.stdout);
    for part in
        [&finding["because"][0]["text"], &finding["because"][1]["text"], &finding["remedy"], &finding["check_yourself"]]
    {
        assert!(said.contains(&words(part.as_str().unwrap())), "no '{part}': {said}");
    }
    for figure in ["how much", "how fast", "Recording", "Could not be judged"] {
        assert!(!said.contains(figure), "a report's '{figure}' is shown: {said}");
    }
    let all = plimsoll(&["diagnose", text(&path), "--all"]);
    assert!(all.stdout.starts_with(&answer.stdout[..40]) && all.stdout.len() > answer.stdout.len(), "{}", all.stdout);
    let markdown = plimsoll(&["diagnose", text(&path), "--markdown"]);
    markdown.assert_exit(0);
    assert!(markdown.stdout.starts_with("## ") && markdown.stdout.contains("**Remedy:**"), "{}", markdown.stdout);
    assert!(markdown.stdout.contains("(`nagle-delayed-ack`)"), "{}", markdown.stdout);
}

#[test]
fn cut_anywhere_it_says_what_is_left_or_why_nothing_is() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.plimsoll");
    plimsoll(&[
        "load",
        &server.url,
        "-c",
        "4",
        "--rate",
        "400/s",
        "-d",
        "2s",
        "-q",
        "--tick",
        "100ms",
        "--record",
        text(&path),
    ])
    .assert_measured();
    let whole = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.plimsoll");
    let mut answered = 0;
    for i in 0..=40 {
        let length = whole.len() * i / 40;
        std::fs::write(&cut, &whole[..length]).unwrap();
        let run = plimsoll(&["diagnose", text(&cut), "--json"]);
        match run.status {
            Some(0) => {
                answered += 1;
                let document = run.json();
                assert!(document["gives"]["text"].is_string(), "cut at {length}: {document}");
                let is_said =
                    document["end"] == "partial" || document["damage"].as_array().is_some_and(|d| !d.is_empty());
                assert!(is_said || length == whole.len(), "cut at {length} and not said: {document}");
            }
            // Cut so early that it is no recording, or later.
            status => {
                assert!(matches!(status, Some(1 | 2)), "cut at {length}: {status:?}");
                assert!(run.stderr.lines().count() == 1 && run.stderr.contains("cut.plimsoll"), "{}", run.stderr);
            }
        }
    }
    assert!(answered >= 1, "the whole file at the least");
    // As a run leaves it that is killed: file and log.
    let killed = folder.path().join("killed.plimsoll");
    let args = [
        "load",
        &server.url,
        "-c",
        "4",
        "--rate",
        "400/s",
        "-d",
        "60s",
        "-q",
        "--tick",
        "100ms",
        "--record",
        text(&killed),
    ];
    let mut load = Guard::spawn(command(&args).stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
    wait_for_load(&server);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    load.signal(9);
    load.wait(testkit::HANG_GUARD).unwrap();
    let run = plimsoll(&["diagnose", text(&killed)]);
    run.assert_exit(0);
    assert!(run.stdout.contains("partial"), "{}", run.stdout);
    plimsoll(&["diagnose", text(&killed), "--exit-status"]).assert_exit(1);
    let log = folder.path().join("killed.plimsoll-wal");
    let log_whole = std::fs::read(&log).unwrap();
    for i in 0..=20 {
        let copy = folder.path().join(format!("log{i}.plimsoll"));
        std::fs::copy(&killed, &copy).unwrap();
        std::fs::write(format!("{}-wal", text(&copy)), &log_whole[..log_whole.len() * i / 20]).unwrap();
        let run = plimsoll(&["diagnose", text(&copy)]);
        assert!(matches!(run.status, Some(0..=2)), "{:?} {}", run.status, run.stderr);
        assert_eq!(run.status == Some(0), !run.stdout.is_empty(), "{}", run.stderr);
        assert!(i < 20 || run.status == Some(0), "{}", run.stderr);
    }
}

#[test]
fn what_was_watched_is_diagnosed_without_a_load() {
    let server = serve_http(&["--workers", "1"]);
    let port = server.url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watched.plimsoll");
    // Somebody else's load: the watch knows nothing of it.
    let url = format!("{}cpu?us=500", server.url);
    let args = ["load", &url, "-c", "8", "-d", "60s", "-q", "--no-record", "--no-observe"];
    let _load = Guard::spawn(command(&args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    wait_for_load(&server);
    let run = plimsoll(&["watch", "--port", &port, "-d", "2s", "--tick", "200ms", "--json", "--record", text(&path)]);
    run.assert_exit(0);
    let live = run.json();
    let sentence = live["gives"]["text"].as_str().unwrap();
    assert!(sentence.contains("load"), "what was not seen is said: {sentence}");
    // A full worker, or a machine that is full of others: in neither case is it said that users lost nothing by it.
    let limits = ["single-thread-bound", "cpu-saturated", "cpu-contention", "neighbour"];
    if let Some(finding) = live["gives"]["finding"].as_str() {
        assert!(limits.contains(&finding), "{sentence}");
        assert_eq!(live["gives"]["standing"], "seen-without-load");
    }
    let nagle = live["judged"].as_array().unwrap().iter().find(|f| f["id"] == "nagle-delayed-ack").unwrap();
    assert_eq!(nagle["status"], "not-observable");
    assert!(nagle["because"][0]["text"].as_str().unwrap().contains("no load was put on"), "{nagle}");
    let recorded = plimsoll(&["diagnose", text(&path), "--json"]);
    recorded.assert_exit(0);
    for key in ["gives", "findings", "judged"] {
        assert_eq!(recorded.json()[key], live[key], "{key}");
    }
    let report = plimsoll(&["report", text(&path)]);
    report.assert_exit(0);
    assert!(report.stdout.contains("no load was put on") && !report.stdout.contains("how much"), "{}", report.stdout);
    assert_eq!(plimsoll(&["report", text(&path), "--json"]).json()["watched"], format!("port {port}"));
    // Killed in the middle, it is diagnosed as far as it goes.
    let killed = folder.path().join("killed.plimsoll");
    let args = ["watch", "--port", &port, "--tick", "100ms", "--record", text(&killed)];
    let mut watch = Guard::spawn(command(&args).stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
    let log = folder.path().join("killed.plimsoll-wal");
    wait_until("some readings are kept", || std::fs::metadata(&log).is_ok_and(|log| log.len() > 200_000));
    watch.signal(9);
    watch.wait(testkit::HANG_GUARD).unwrap();
    let run = plimsoll(&["diagnose", text(&killed)]);
    run.assert_exit(0);
    assert!(run.stdout.contains("partial") && words(&run.stdout).contains("core"), "{}", run.stdout);
}

#[test]
fn imports_are_diagnosed_as_far_as_they_reach() {
    let folder = tempfile::tempdir().unwrap();
    for (format, name) in
        [("sar", "sar-12-comma-restart.txt"), ("nmon", "nmon-16.nmon"), ("vmstat", "vmstat-plain.txt")]
    {
        let sample = testkit::workspace().join("crates/observe/tests/testdata/import").join(name);
        let path = folder.path().join(format!("{format}.plimsoll"));
        plimsoll(&["import", format, text(&sample), "--record", text(&path)]).assert_exit(0);
        let run = plimsoll(&["diagnose", text(&path), "--json"]);
        run.assert_exit(0);
        let document = run.json();
        let gives = &document["gives"];
        assert_eq!((&gives["standing"], &gives["finding"]), (&"unknown".into(), &Value::Null), "{format}: {gives}");
        let sentence = gives["text"].as_str().unwrap();
        assert!(sentence.contains("CPUs were") && sentence.contains("not seen"), "{format}: {sentence}");
        assert_eq!(document["findings"], Value::Array(Vec::new()), "{format}");
        let shown = plimsoll(&["report", text(&path)]);
        assert!(words(&shown.stdout).contains("CPUs were"), "{}", shown.stdout);
    }
}

#[test]
fn what_cannot_be_meant_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.plimsoll");
    std::fs::write(&none, b"not a recording").unwrap();
    let empty = text(folder.path());
    for (args, status, words) in [
        (&["diagnose", text(&none)][..], 2, "none.plimsoll"),
        (&["report", text(&none)], 2, "`plimsoll runs` lists those there are"),
        (&["diagnose", "last", "--folder", empty], 2, "plimsoll runs"),
        (&["diagnose", "last", "--json", "--markdown"], 2, "--markdown"),
        (&["diagnose", "last", "--json", "--all"], 2, "--all"),
        (&["diagnose", "a", "b"], 2, "'b'"),
        (&["watch", "--record", text(&none), "-d", "1s"], 2, "--pid PID"),
    ] {
        let run = plimsoll(args);
        run.assert_exit(status);
        assert!(run.stderr.contains(words) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.stdout);
    }
}
