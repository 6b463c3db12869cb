//! `--isolate`: what can be set for a run is set, undone after it, also after `kill -9`, and what cannot be is said.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use testkit::process::Guard;
use testkit::wait_until;

fn cpus() -> usize {
    std::fs::read_to_string("/proc/cpuinfo").unwrap().matches("processor").count()
}

/// CPUs that a process may run on.
fn cpus_of(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

/// What became of each thing.
fn states(document: &Value) -> BTreeMap<String, (String, String)> {
    let all = document["isolation"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|one| (word(&one["what"]), (word(&one["state"]), word(&one["said"][0])))).collect()
}

fn load<'a>(folder: &Path, url: &'a str, more: &[&'a str]) -> Command {
    let mut command = command(&[&["load", url, "-c", "4", "--isolate", "-q"], more].concat());
    command.env("XDG_STATE_HOME", folder);
    command
}

#[test]
fn what_can_be_set_is_set_and_undone_and_what_cannot_is_said() {
    let server = serve_http(&["--workers", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let before = cpus_of(server.process.pid());
    let run = finish(&mut load(folder.path(), &server.url, &["-d", "1s", "--json"]));
    run.assert_measured();
    let document = run.json();
    let states = states(&document);
    let state = |what: &str| states[what].0.as_str();
    assert_eq!(states.len(), 6, "{states:?}");
    assert_eq!(state("generator"), "set");
    assert_eq!(state("addresses"), "not-set");
    assert!(states["addresses"].1.contains("have the run start it"), "{states:?}");
    if cpus() > 1 {
        assert_eq!(state("target"), "undone", "{states:?}");
    }
    // Nothing lasts, whatever this machine lets be set.
    assert!(["undone", "not-set", "was-so"].contains(&state("governor")), "{states:?}");
    assert!(["undone", "not-set", "was-so"].contains(&state("interrupts")), "{states:?}");
    assert_eq!(cpus_of(server.process.pid()), before);
    let left = finish(command(&["fault", "list"]).env("XDG_STATE_HOME", folder.path()));
    assert!(left.stdout.contains("no change is open"), "{}", left.stdout);

    let text = finish(&mut load(folder.path(), &server.url, &["-n", "1000"]));
    text.assert_measured();
    assert!(text.stdout.contains("Isolated     generator: its workers on CPU"), "{}", text.stdout);
    // A run that does not ask for it says nothing of it.
    let plain = plimsoll(&["load", &server.url, "-n", "1000", "--no-record", "-q", "--json"]);
    assert_eq!(plain.json()["isolation"], serde_json::json!([]));
}

#[test]
fn a_run_that_is_killed_is_undone_by_fault_undo() {
    if cpus() < 2 {
        return testkit::skip("on one CPU the target cannot have another than the generator");
    }
    let server = serve_http(&["--workers", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let pid = server.process.pid();
    let before = cpus_of(pid);
    let mut run = Guard::spawn(&mut load(folder.path(), &server.url, &["-d", "60s", "--no-record"])).unwrap();
    wait_until("the target is on CPUs of its own", || cpus_of(pid) != before);
    run.child().kill().unwrap();
    run.child().wait().unwrap();
    assert_ne!(cpus_of(pid), before);
    finish(command(&["fault", "undo"]).env("XDG_STATE_HOME", folder.path())).assert_exit(0);
    assert_eq!(cpus_of(pid), before);
}

#[test]
fn a_target_that_the_run_starts_has_the_same_addresses_each_time() {
    if testkit::program("setarch").is_none() {
        return testkit::skip("setarch (util-linux) is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let personality = folder.path().join("personality");
    let port = testkit::nginx::free_address().unwrap().port();
    let file = folder.path().join("scenario.toml");
    let run = |more: &str| {
        let text = format!(
            "[target]\ncommand = \"sh -c 'cat /proc/self/personality >{}; exec {BIN} serve http --listen 127.0.0.1:{port}'\"\n\
             [load]\nurl = \"http://127.0.0.1:{port}/\"\nrequests = 1000\n{more}",
            personality.display()
        );
        std::fs::write(&file, text).unwrap();
        let run = finish(
            command(&["run", file.to_str().unwrap(), "--no-record", "-q", "--json"])
                .env("XDG_STATE_HOME", folder.path()),
        );
        run.assert_measured();
        let has_fixed = std::fs::read_to_string(&personality).unwrap().trim().ends_with("40000");
        (run.json(), has_fixed)
    };
    let (document, has_fixed) = run("isolate = true\n");
    assert!(has_fixed);
    assert_eq!(states(&document)["addresses"].0, "set");
    let (document, has_fixed) = run("");
    assert!(!has_fixed);
    assert_eq!(document["isolation"], serde_json::json!([]));
}
