//! What a pipeline builds on: an expectation that is not met ends with status 3, and is said in the first lines.

use crate::common::*;
use std::net::TcpListener;
use std::time::Duration;

/// A run of a moment, as a document; its status was one of `statuses`. What is undetermined because the tests beside this
/// one took the generator's CPU is status 4.
#[track_caller]
fn load(args: &[&str], status: i32) -> serde_json::Value {
    let run = plimsoll(&[&["load"], args, &["--json", "--no-record", "-q"]].concat());
    if run.status == Some(4) && status != 4 {
        assert_valid_or_disturbed(&run.json());
    } else {
        run.assert_exit(status);
    }
    run.json()
}

fn states(document: &serde_json::Value) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let all = document["expectations"].as_array().unwrap();
    all.iter().map(|e| (text(&e["expected"]), text(&e["state"]))).collect()
}

#[test]
fn replies_that_are_not_as_expected_are_status_3() {
    let server = serve_http(&[]);
    let missing = format!("{}status?code=404", server.url);
    let url = &*server.url;
    let cases: [(&[&str], i32, &str); 8] = [
        (&[&missing, "--expect-status", "200"], 3, "no errors"),
        (&[&missing, "--expect-status", "404"], 0, "no errors"),
        (&[url, "--expect-body", "never there"], 3, "no errors"),
        (&[url, "--expect-body-sha256", &"0".repeat(64)], 3, "no errors"),
        (&[&missing, "--expect-status", "200", "--expect-errors", "any"], 0, "errors <= 100.0 %"),
        (&[&missing, "--expect-errors", "below 1 %"], 3, "errors < 1 %"),
        (&[url, "--expect-errors", "none"], 0, "no errors"),
        // Nothing was said, and it goes without saying.
        (&[&missing], 3, "errors <= 50.0 %"),
    ];
    for (args, status, expected) in cases {
        let doc = load(&[args, &["-n", "50", "-c", "2"]].concat(), status);
        let state = if status == 0 { "met" } else { "not-met" };
        assert_eq!(states(&doc), [(expected.to_owned(), state.to_owned())], "{args:?}");
    }
    assert!(states(&load(&[url, "-n", "50"], 0)).is_empty());
    // Half of them is the bound: with one of three URLs missing nothing is amiss.
    let doc = load(&[url, url, &missing, "-n", "300", "-c", "3"], 0);
    assert!(states(&doc).is_empty() && doc["totals"]["failed"].as_u64() > Some(0), "{}", doc["totals"]);
}

#[test]
fn bounds_on_figures_are_judged_and_said_first() {
    let server = serve_http(&[]);
    let list = "p50 < 10 s, mean < 10 s, max < 20 s, errors < 0.1 %, rate > 1/s";
    let doc = load(&[&server.url, "-n", "500", "-c", "4", "--expect", list], 0);
    assert!(states(&doc).iter().all(|(_, state)| state == "met" || state == "undetermined"), "{:?}", states(&doc));
    let args = ["load", &server.url, "-n", "500", "-c", "4", "--no-record", "-q"];
    let run = plimsoll(&[&args[..], &["--expect", "p50 < 1ns", "--expect", "errors < 1 %, rate > 100m/s"]].concat());
    if run.status == Some(4) {
        return assert!(run.stdout.contains("not valid"), "{}", run.stdout);
    }
    run.assert_exit(3);
    let line = |start: &str| run.stdout.lines().position(|line| line.trim_start().starts_with(start));
    let told = line("Expected p50 < 1.00 ns, got ").unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(told < line("how much").unwrap(), "before the figures:\n{}", run.stdout);
    for words in ["p50 < 1.00 ns: not met: ", "errors < 1 %: met: none", "rate > 100M/s: not met: "] {
        assert!(run.stdout.contains(words), "{words}:\n{}", run.stdout);
    }
}

#[test]
fn connections_that_are_all_lost_are_status_3() {
    // It takes them all, lets them stand for a moment, and ends.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("hold://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let taken: Vec<_> = listener.incoming().take(20).collect();
        std::thread::sleep(Duration::from_millis(500));
        drop(taken);
    });
    let doc = load(&[&url, "-c", "20", "--every", "never", "--watch-close", "-d", "2s"], 3);
    server.join().unwrap();
    assert_eq!(states(&doc), [("errors <= 50.0 %".to_owned(), "not-met".to_owned())], "{}", doc["held"]);
    let healthy = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let url = healthy.url.replace("echo://", "hold://");
    let doc = load(&[&url, "-c", "20", "-d", "500ms", "--expect", "connections >= 20, errors < 1 %"], 0);
    assert!(states(&doc).iter().all(|(_, state)| state == "met"), "{:?}", states(&doc));
}

#[test]
fn what_can_not_be_expected_is_refused_in_a_sentence() {
    let load = |args: &[&str]| plimsoll(&[&["load", "http://127.0.0.1:1/"], args].concat());
    for (args, words) in [
        (&["--expect", "p99 < 50"][..], "--expect: expected a time with its unit, such as 50 ms, got '50'"),
        (&["--expect", "p99"], "got 'p99'"),
        (&["--expect", "connections > 5"], "only hold:// holds connections"),
        (&["--expect-errors", "few"], "--expect-errors: expected a share such as 0.1 %, or none, got 'few'"),
        (&["--expect", "errors < 1 %", "--expect-errors", "2 %"], "say it in one of them"),
    ] {
        let run = load(args);
        run.assert_exit(2);
        assert!(run.stderr.contains(words) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
    // What could not run did not fail an expectation.
    load(&["-n", "5", "--give-up", "200ms", "--tick", "100ms", "--expect-status", "200", "--no-record"]).assert_exit(1);
    let run = load(&["--expect", "p99<50ms, errors<0.1%", "--explain"]);
    assert!(run.stdout.contains("p99 < 50.0 ms, errors < 0.1 %; else the exit status is 3"), "{}", run.stdout);
}
