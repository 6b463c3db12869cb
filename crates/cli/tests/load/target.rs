//! A target that is started for a run: started again where it ends, and in a network namespace of its own.

use crate::common::*;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Runs a file with its state in a folder.
fn run(folder: &Path, text: &str, more: &[&str]) -> Run {
    let path = folder.join("scenario.toml");
    std::fs::write(&path, text).unwrap();
    let words = [&["run", path.to_str().unwrap(), "--no-record", "-q"], more].concat();
    finish(command(&words).env("XDG_STATE_HOME", folder))
}

#[test]
fn a_target_that_ends_is_started_again_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = folder.path().join("target.log");
    let text = format!(
        "[target]\ncommand = \"timeout 1 {BIN} serve http --workers 1 --listen 127.0.0.1:{port}\"\nrestart = \"on-exit\"\n\
         output = \"{}\"\n[load]\nurl = \"http://127.0.0.1:{port}/\"\nrate = \"50/s\"\nconnections = 2\nduration = \"4s\"\ntick = \"100ms\"\n\
         expect-errors = \"any\"\n",
        output.display()
    );
    let run = run(folder.path(), &text, &["--json"]);
    let document = run.json();
    let events = document["events"].as_array().unwrap();
    let restarts: Vec<&str> = events
        .iter()
        .filter(|event| event["kind"] == "target-restarted")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert!(restarts.len() >= 2, "{events:?}");
    assert!(restarts[0].contains("was started again: it ended after") && restarts[0].contains("124"), "{restarts:?}");
    assert!(events.iter().all(|event| event["kind"] != "target-ended"), "{events:?}");
    // What each of them printed is in the one file.
    let printed = std::fs::read_to_string(output).unwrap();
    assert!(printed.matches("listening on").count() >= 2, "{printed}");
    // Nothing is left of the last one.
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_target_has_a_network_namespace_of_its_own_which_is_removed() {
    if !rustix::process::geteuid().is_root() {
        return testkit::skip("a network namespace needs root");
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return testkit::skip("ip (iproute2) is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    let address = format!("198.18.{}.{}", 1 + pid % 250, 4 * (pid / 250 % 63) + 2);
    let text = format!(
        "[target]\ncommand = \"{BIN} serve http --workers 1 --listen {address}:8080\"\nnamespace = \"{address}\"\n\
         [load]\nurl = \"http://{address}:8080/\"\nrequests = 100\nconnections = 2\n"
    );
    let names = || String::from_utf8(Command::new("ip").args(["netns", "list"]).output().unwrap().stdout).unwrap();
    let before = names().lines().filter(|name| name.starts_with("plimsoll-")).count();
    let run = run(folder.path(), &text, &["--json"]);
    run.assert_measured();
    let document = run.json();
    assert_eq!(document["totals"]["ok"], 100, "{}", document["totals"]);
    // Its counters are seen where it is.
    assert!(
        document["observed"]["target"].as_array().is_some_and(|target| !target.is_empty()),
        "{}",
        document["observed"]
    );
    assert!(names().lines().filter(|name| name.starts_with("plimsoll-")).count() <= before, "{}", names());
    let open = finish(command(&["fault", "list"]).env("XDG_STATE_HOME", folder.path()));
    assert!(open.stdout.contains("no change is open"), "{}{}", open.stdout, open.stderr);
}

#[test]
fn what_is_wrong_of_a_target_is_said_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (key, said) in [
        ("restart = 'always'", "3:11: restart: expected 'on-exit' or 'never', got 'always'"),
        (
            "namespace = '10.0.0.1'",
            "3:13: namespace: expected true, or an IPv4 address that is the second of four, such as 10.77.0.2, got '10.0.0.1'",
        ),
    ] {
        let text = format!("[target]\ncommand = 'true'\n{key}\n[load]\nurl = 'http://127.0.0.1:1/'\n");
        let run = run(folder.path(), &text, &[]);
        run.assert_exit(2);
        assert!(run.stderr.ends_with(&format!("scenario.toml:{said}\n")), "{}", run.stderr);
    }
}
