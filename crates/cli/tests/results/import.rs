//! `plimsoll import` as a user runs it: what becomes of the text, and what the other commands make of the recording.

use crate::common::*;
use std::io::Write;
use std::process::Stdio;

fn sample(name: &str) -> String {
    let path = testkit::workspace().join("crates/observe/tests/testdata/import").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_text_is_a_recording_that_every_command_knows() {
    let folder = tempfile::tempdir().unwrap();
    let text = sample("sar-12-comma-restart.txt");
    let state = folder.path().to_str().unwrap();
    let run = finish(command(&["import", "sar", &text]).env("XDG_STATE_HOME", state));
    run.assert_exit(0);
    for words in
        ["import sar", "db01", "2026-11-21T00:00:01", "host-restarted", "CPU 45.0 % busy", "taken", "--timeline"]
    {
        assert!(run.stdout.contains(words), "no '{words}': {}", run.stdout);
    }
    for words in ["how much", "requests/s", "p99", "asked for"] {
        assert!(!run.stdout.contains(words), "a load's '{words}' is shown: {}", run.stdout);
    }
    let runs = folder.path().join("plimsoll/runs");
    let runs = runs.to_str().unwrap();
    let list = plimsoll(&["runs", "--folder", runs]);
    assert!(
        list.stdout.contains("import sar sar-12-comma-restart.txt") && list.stdout.contains("2026-11-21 00:00"),
        "{}",
        list.stdout
    );
    let report = plimsoll(&["report", "last", "--folder", runs]);
    report.assert_exit(0);
    // Wherever its lines end.
    let words = report.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Could not be judged") && words.contains("no load was put on"), "{words}");
    let timeline = plimsoll(&["report", "last", "--folder", runs, "--timeline=swap_in_pages,context_switches"]);
    assert!(timeline.stdout.contains("600.0 s") && timeline.stdout.contains("2.5"), "{}", timeline.stdout);
    let usual = plimsoll(&["report", "last", "--folder", runs, "--timeline"]);
    assert!(usual.stdout.contains("host CPU") && usual.stdout.contains("softirq"), "{}", usual.stdout);
    assert!(!usual.stdout.contains("target CPU"), "{}", usual.stdout);
    let document = plimsoll(&["report", "last", "--folder", runs, "--json"]).json();
    assert_eq!((&document["import"]["format"], &document["import"]["samples"]), (&"sar".into(), &5.into()));
    assert_eq!((&document["end"], &document["validity"]["valid"]), (&"complete".into(), &true.into()));
    assert_eq!(document["observed"]["metrics"]["host"]["swap_in_pages"]["delta"], 1500);
    assert_eq!(document["events"][0]["kind"], "host-restarted");
    assert_eq!(document["findings"].as_array().unwrap().len(), 0);
    let judged = document["judged"].as_array().unwrap();
    let of_load = judged.iter().filter(|f| f["because"][0]["text"].as_str().unwrap().contains("no load was put on"));
    assert!(of_load.count() >= 12 && judged.iter().all(|f| f["status"] == "not-observable"), "{judged:?}");
}

#[test]
fn what_was_not_understood_makes_it_partial() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.txt");
    let text = std::fs::read_to_string(sample("vmstat-plain.txt")).unwrap();
    std::fs::write(&cut, &text[..text.len() - 30]).unwrap();
    let file = folder.path().join("a.plimsoll");
    let (cut, file) = (cut.to_str().unwrap(), file.to_str().unwrap());
    let args = ["import", "vmstat", cut, "--every", "5s", "--started", "2026-11-21T10:00:00Z", "--record", file];
    let run = plimsoll(&args);
    run.assert_exit(0);
    assert!(
        run.stdout.contains("1 line was not understood, first line 8") && run.stdout.contains("every 5 s"),
        "{}",
        run.stdout
    );
    let report = plimsoll(&["report", file]);
    assert!(report.stdout.contains("partial") && report.stdout.contains("2026-11-21T10:00:00"), "{}", report.stdout);
    let again = plimsoll(&args);
    again.assert_exit(2);
    assert!(again.stderr.contains(file), "{}", again.stderr);
}

#[test]
fn stdin_is_read_and_nothing_is_kept_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&["import", "nmon", "-", "--no-record", "--json"]);
    command.env("XDG_STATE_HOME", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(sample("nmon-16.nmon")).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["import"]["host"], "app3");
    assert!(document["recording"].is_null() && !folder.path().join("plimsoll").exists());
}

#[test]
fn what_is_no_such_text_is_one_sentence_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("sa21");
    std::fs::write(&binary, b"\x96\xd5\x75\x21\0\0\0\0").unwrap();
    let (binary, folder) = (binary.to_str().unwrap(), folder.path().to_str().unwrap());
    for (args, words) in [
        (["import", "sar", binary], "sar -A -f FILE > FILE.txt"),
        (["import", "sar", &sample("vmstat-plain.txt")], "plimsoll import vmstat FILE"),
        (["import", "nmon", "/dev/null"], "none of its 0 lines"),
        (["import", "vmstat", "/no/such/file"], "No such file"),
        (["import", "vmstat", folder], "is a folder"),
        (["import", "iostat", binary], "iostat"),
    ] {
        let run = plimsoll(&args);
        run.assert_exit(2);
        assert!(run.stderr.contains(words) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
    plimsoll(&["import", "sar", binary, "--started", "yesterday"]).assert_exit(2);
}
