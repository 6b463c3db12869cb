//! `plimsoll fault NAME …` and `--fault` of a run, on real servers: what is done, when it is said to be, and that it is undone.

use crate::common::*;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::process::Guard;
use testkit::{wait_for, wait_until};

fn sleeper() -> Guard {
    Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap()
}

/// From the state on: proc_pid_stat(5).
fn stat(pid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect()
}

fn is_stopped(pid: u32) -> bool {
    stat(pid)[0] == "T"
}

fn niceness(pid: u32) -> i32 {
    stat(pid)[16].parse().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A load with its state in this folder, where the journal is too.
fn load(folder: &Path, args: &[&str]) -> Command {
    let mut command = command(&[&["load"], args].concat());
    command.env("XDG_STATE_HOME", folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn left_in(folder: &Path) -> String {
    finish(command(&["fault", "list"]).env("XDG_STATE_HOME", folder)).stdout
}

/// The events of faults: kind, number, moment.
fn events(document: &Value) -> Vec<(String, u64, f64)> {
    let all = document["events"].as_array().unwrap().iter();
    let of_faults = all.filter(|event| event["kind"].as_str().unwrap().starts_with("fault-"));
    of_faults
        .map(|event| {
            let kind = event["kind"].as_str().unwrap().to_owned();
            (kind, event["details"]["fault"].as_u64().unwrap(), event["t_s"].as_f64().unwrap())
        })
        .collect()
}

#[test]
fn the_list_has_every_fault_with_what_it_needs() {
    let run = plimsoll(&["fault", "--list"]);
    run.assert_exit(0);
    for kind in ::fault::FAULTS {
        for words in [kind.name, kind.does, kind.needs, kind.undone.words()] {
            assert!(run.stdout.contains(words), "{}: {words}", kind.name);
        }
    }
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = sleeper();
    let (pid, journal) = (target.pid().to_string(), folder.path().join("journal"));
    let before = niceness(target.pid());
    for (fault, said) in [(["nice", &pid, "19"], "19"), (["stop", &format!("tree:{pid}"), ""], "stopped")] {
        let words: Vec<&str> = fault.into_iter().filter(|word| !word.is_empty()).collect();
        let run =
            plimsoll(&[&["fault"], &words[..], &["--dry-run", "--for", "5s", "--journal", text(&journal)]].concat());
        assert!(run.stdout.contains(&pid) && run.stdout.contains(said), "{}", run.stdout);
        assert!(
            run.stdout.contains("nothing was done") && run.stdout.contains("after 5.00 s or by Ctrl-C"),
            "{}",
            run.stdout
        );
    }
    assert_eq!((niceness(target.pid()), is_stopped(target.pid()), journal.exists()), (before, false, false));
    // What is missing is said, and is status 1.
    let run = finish(command(&["fault", "stress", "cpu 1", "--dry-run"]).env("PATH", "/nowhere"));
    run.assert_exit(1);
    assert!(run.stderr.contains("stress-ng"), "{}", run.stderr);
}

#[test]
fn what_is_none_is_refused_before_anything_is_done() {
    let own = std::process::id().to_string();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["fault"], 2, "NAME"),
        (&["fault", "sotp", "12"], 2, "did you mean 'stop'?"),
        (&["fault", "nice", "12", "77"], 2, "a niceness from -20 to 19, got '77'"),
        (&["fault", "kill", &own, "--for", "1s"], 2, "cannot be undone"),
        (&["fault", "stop", "1"], 1, "process 1, which no fault touches"),
        (&["fault", "stop", "4000000000"], 1, "no such process"),
        (&["fault", "stop", "target"], 1, "no run here"),
        (&["load", "http://127.0.0.1:1/", "--fault", "stop target"], 2, "NAME[ ARGUMENTS]@TIME"),
        (&["load", "http://127.0.0.1:1/", "-d", "2s", "--fault", "stop target@2s"], 2, "before the load's end"),
    ];
    for (args, status, said) in cases {
        let run = plimsoll(args);
        run.assert_exit(status);
        assert!(run.stderr.contains(said) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
}

#[test]
fn by_hand_it_is_undone_after_its_time_by_an_interrupt_and_by_undo() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let target = sleeper();
    let pid = target.pid().to_string();
    let stop = ["fault", "stop", &pid, "--journal", text(&journal)];
    let run = plimsoll(&[&stop[..], &["--for", "50ms"]].concat());
    run.assert_exit(0);
    assert!(run.stdout.contains("running → stopped") && run.stdout.contains("running again"), "{}", run.stdout);
    wait_until("it goes on", || !is_stopped(target.pid()));
    let mut command = command(&[&stop[..], &["--for", "600s"]].concat());
    let mut held = Guard::spawn(command.stdout(Stdio::null())).unwrap();
    wait_until("it is stopped", || is_stopped(target.pid()));
    held.signal(2);
    assert_eq!(held.wait(testkit::HANG_GUARD).unwrap().code(), Some(130));
    wait_until("it goes on", || !is_stopped(target.pid()));
    let run = plimsoll(&stop);
    run.assert_exit(0);
    assert!(run.stdout.contains("until `plimsoll fault undo`"), "{}", run.stdout);
    wait_until("it is stopped", || is_stopped(target.pid()));
    plimsoll(&["fault", "undo", "--journal", text(&journal)]).assert_exit(0);
    wait_until("it goes on", || !is_stopped(target.pid()));
    assert!(plimsoll(&["fault", "list", "--journal", text(&journal)]).stdout.contains("no change is open"));
}

#[test]
fn a_run_has_its_faults_at_their_moments_and_all_are_undone() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&[]);
    let before = niceness(server.process.pid());
    let port = server.url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let nice = format!("nice port:{port} 5@300ms");
    let mut faults = vec!["--fault", "stop target@1s:500ms"];
    // Without the right to put a raised niceness back, it is refused before any load.
    let with_nice = testkit::is_root();
    if with_nice {
        faults.extend(["--fault", &nice]);
    }
    let args = [&server.url, "-c", "4", "-d", "2500ms", "--timeout", "10s", "--json", "-q"];
    let run = finish(&mut load(folder.path(), &[&args[..], &faults].concat()));
    let document = run.json();
    assert_eq!((is_stopped(server.process.pid()), niceness(server.process.pid())), (false, before));
    assert!(left_in(folder.path()).contains("no change is open"));
    let faults = document["faults"].as_array().unwrap();
    let stop = &faults[0];
    assert_eq!(
        (&stop["name"], &stop["fault"], &stop["state"]),
        (&"stop".into(), &"stop target".into(), &"undone".into())
    );
    let (at, undone) = (stop["at_s"].as_f64().unwrap(), stop["undone_at_s"].as_f64().unwrap());
    assert!(at >= 1.0 && undone >= 1.5, "never before their moments: {stop}");
    let events = events(&document);
    if with_nice {
        assert_eq!(faults[1]["state"], "undone", "{}", faults[1]);
        let kinds: Vec<(&str, u64)> = events.iter().map(|(kind, number, _)| (&**kind, *number)).collect();
        // By their moments; the niceness to the end of the load.
        assert_eq!(kinds, [("fault-began", 2), ("fault-began", 1), ("fault-undone", 1), ("fault-undone", 2)]);
        assert!(events.is_sorted_by(|a, b| a.2 <= b.2), "{events:?}");
    }
    // While it was stopped nothing was answered: some request took as long, from when it was done to when its undoing was due. (When
    // either was written down may be later.)
    let longest_us = document["latency"]["response"]["max_us"].as_f64().unwrap();
    let stopped_s = 1.5 - (at + stop["took_ms"].as_f64().unwrap() / 1e3);
    assert!(longest_us >= stopped_s * 1e6 * 0.9, "{longest_us} µs, stopped for {stopped_s} s: {stop}");
    // The report in words has them, and so has the plan.
    assert_eq!(document["plan"]["faults"][0]["fault"], "stop target");
    let shown = finish(command(&["report", "last"]).env("XDG_STATE_HOME", folder.path())).stdout;
    assert!(shown.contains("stop target: process") && shown.contains("undone at"), "{shown}");
}

#[test]
fn after_kill_9_of_a_run_its_fault_is_undone_by_undo() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&[]);
    let args = [&server.url, "-c", "2", "-d", "60s", "-q", "--no-record", "--fault", "stop target@100ms"];
    let mut run = Guard::spawn(&mut load(folder.path(), &args)).unwrap();
    wait_until("the server is stopped", || is_stopped(server.process.pid()));
    run.signal(9);
    run.wait(testkit::HANG_GUARD).unwrap();
    assert!(is_stopped(server.process.pid()));
    finish(command(&["fault", "undo"]).env("XDG_STATE_HOME", folder.path())).assert_exit(0);
    wait_until("it goes on", || !is_stopped(server.process.pid()));
}

#[test]
fn an_interrupted_run_undoes_its_faults() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&[]);
    let args =
        [&server.url, "-c", "2", "-d", "60s", "-q", "--no-record", "--drain", "0s", "--fault", "stop target@100ms"];
    let mut run = Guard::spawn(&mut load(folder.path(), &args)).unwrap();
    wait_until("the server is stopped", || is_stopped(server.process.pid()));
    run.signal(2);
    assert!(run.wait(testkit::HANG_GUARD).is_some());
    wait_until("it goes on", || !is_stopped(server.process.pid()));
    assert!(left_in(folder.path()).contains("no change is open"));
}

#[test]
fn a_target_of_a_scenario_is_restarted_by_its_own_command() {
    let folder = tempfile::tempdir().unwrap();
    let reserved = testkit::port::Reserved::new().unwrap();
    let port = reserved.address().port();
    let file = folder.path().join("restart.toml");
    let written = format!(
        "json = true\n\n[target]\ncommand = \"{BIN} serve http --listen 127.0.0.1:{port}\"\n\n\
         [[fault]]\nfault = \"restart target kill\"\nat = \"500ms\"\nfor = \"300ms\"\n\n\
         [load]\nurl = \"http://127.0.0.1:{port}/\"\nconnections = 2\nduration = \"3s\"\nexpect-errors = \"any\"\n"
    );
    std::fs::write(&file, written).unwrap();
    let run = finish(command(&["run", text(&file), "-q"]).env("XDG_STATE_HOME", folder.path()));
    let document = run.json();
    let fault = &document["faults"][0];
    assert_eq!((&fault["name"], &fault["state"]), (&"restart".into(), &"undone".into()), "{document:#}");
    let kinds: Vec<_> = document["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert!(!kinds.contains(&"target-ended".into()), "a restart is no end: {kinds:?}");
    // It served before and after: replies came in intervals behind its return.
    let back = fault["undone_at_s"].as_f64().unwrap();
    let after: u64 = document["intervals"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["t_s"].as_f64().unwrap() > back + 0.1)
        .map(|row| row["requests"].as_u64().unwrap() - row["failed"].as_u64().unwrap())
        .sum();
    assert!(after > 0, "{document:#}");
    // It is gone with the run.
    wait_for("nobody listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()));
}

#[test]
fn a_command_line_with_faults_is_a_file_with_faults() {
    let line = "load http://127.0.0.1:1/ -d 9s --fault 'stop target@1s:2s' --fault 'kill port:80@3s'";
    let written = plimsoll(&["run", "--from", line]);
    written.assert_exit(0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.toml");
    std::fs::write(&file, &written.stdout).unwrap();
    let explained = plimsoll(&["run", text(&file), "--explain"]);
    explained.assert_exit(0);
    assert!(explained.stdout.contains("stop target at 1.00 s for 2.00 s"), "{}", explained.stdout);
    assert!(explained.stdout.contains("kill port:80 at 3.00 s"), "{}", explained.stdout);
    // A fault that is none is said with its place.
    std::fs::write(&file, "[[fault]]\nfault = \"sotp target\"\nat = \"1s\"\n[load]\nurl = \"http://127.0.0.1:1/\"\n")
        .unwrap();
    let run = plimsoll(&["run", text(&file)]);
    run.assert_exit(2);
    assert!(run.stderr.contains("file.toml:1:") && run.stderr.contains("did you mean 'stop'?"), "{}", run.stderr);
}
