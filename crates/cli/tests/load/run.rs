//! Scenario files as a user runs them: what they say is what is put on, and what is wrong in them is said with its place.

use crate::common::*;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::process::Guard;

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
    // Its schemes are the plan's to say.
    let run = plimsoll(&["run", File::new("[load]\nurl = 'ftp://h/'\n").path()]);
    run.assert_exit(2);
    assert!(run.stderr.contains("scenario.toml:2:1: URL 'ftp://h/': scheme 'ftp' is not spoken"), "{}", run.stderr);
    // What only the plan shows.
    check(
        "[load]\nurl = 'http://127.0.0.1:1/'\nconnections = 0\n",
        "3:1: connections: expected 1 to 4000000 connections, got '0'",
    );
    let missing = plimsoll(&["run", "/nowhere/at/all.toml"]);
    missing.assert_exit(2);
    assert!(missing.stderr.contains("/nowhere/at/all.toml"), "{}", missing.stderr);
    plimsoll(&["run"]).assert_exit(2);
}

#[test]
fn a_file_that_is_not_there_is_bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("none.toml"), folder.path().to_owned()] {
        let run = plimsoll(&["run", path.to_str().unwrap()]);
        run.assert_exit(2);
        assert!(
            run.stderr.contains("expected a scenario file") && run.stderr.contains("check its path"),
            "{}",
            run.stderr
        );
    }
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

/// A port of the loopback that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// A run of a file whose target is one of our servers on a port, with `more` keys of the target.
struct Started {
    file: File,
    port: u16,
}

impl Started {
    fn new(before: &str, more: &str, load: &str) -> Self {
        let port = free_port();
        let text = format!(
            "no-record = true\nquiet = true\n[target]\ncommand = \"{before}{BIN} serve http --workers 1 --listen 127.0.0.1:{port}\"\n{more}\n\
             [load]\nurl = \"http://127.0.0.1:{port}/\"\nconnections = 1\n{load}\n"
        );
        Started { file: File::new(&text), port }
    }

    fn output(&self) -> PathBuf {
        self.file.path.with_file_name("target.log")
    }

    /// Like [`Started::new`], its output kept beside the file.
    fn with_output(before: &str, more: &str, load: &str) -> Self {
        let started = Started::new(before, more, load);
        let text = std::fs::read_to_string(&started.file.path).unwrap();
        let output = started.output();
        let text = text.replace("[target]\n", &format!("[target]\noutput = \"{}\"\n", output.display()));
        std::fs::write(&started.file.path, text).unwrap();
        started
    }

    fn command(&self, more: &[&str]) -> std::process::Command {
        let mut command = command(&[&["run", self.file.path()], more].concat());
        command.env("XDG_STATE_HOME", self.file._folder.path());
        command
    }
}

#[test]
fn a_target_is_started_waited_for_and_ended() {
    for ready in ["", "ready-line = \"http://\""] {
        let started = Started::with_output("", ready, "requests = 100");
        let run = finish(&mut started.command(&["--json"]));
        assert_eq!(requests(&run), 100);
        assert!(!listens(started.port), "it is ended");
        let printed = std::fs::read_to_string(started.output()).unwrap();
        assert!(printed.contains(&format!("127.0.0.1:{}", started.port)), "{printed}");
    }
    // Without a file named, its output is in one of its own.
    let started = Started::new("", "", "requests = 1");
    finish(&mut started.command(&[])).assert_measured();
    let kept = started.file._folder.path().join("plimsoll/targets");
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 1);
}

#[test]
fn a_target_that_does_not_come_up_is_said_and_nothing_of_it_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, port) = (folder.path().join("pid"), free_port());
    let file = File::new(&format!(
        "[target]\ncommand = \"sh -c 'echo $$ > {}; echo no luck; sleep 60 & wait'\"\nready-within = \"300ms\"\n[load]\nurl = \"http://127.0.0.1:{port}/\"\n",
        pid.display()
    ));
    let run = finish(command(&["run", file.path()]).env("XDG_STATE_HOME", folder.path()));
    run.assert_exit(1);
    for said in [&*format!("listen at 127.0.0.1:{port} within 300 ms"), "nobody listens there", "'no luck'"] {
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
    let pid: u32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty(), "{stat}");
    // One that ends at once.
    let started = Started::new("false ", "", "");
    let run = finish(&mut started.command(&[]));
    run.assert_exit(1);
    assert!(run.stderr.contains("it ended after") && run.stderr.contains("exit status: 1"), "{}", run.stderr);
    // Another server in its place is never measured.
    let other = TcpListener::bind(("127.0.0.1", started.port)).unwrap();
    let run = finish(&mut started.command(&[]));
    run.assert_exit(1);
    assert!(run.stderr.contains("somebody else listens there already"), "{}", run.stderr);
    drop(other);
}

#[test]
fn a_target_that_dies_in_the_run_is_the_first_thing_said() {
    let started = Started::with_output("timeout 1 ", "", "duration = '2500ms'\nrate = '100/s'");
    let run = finish(&mut started.command(&[]));
    let first: Vec<&str> = run.stdout.lines().take(2).collect();
    let said = "The target's command is gone: it ended after";
    assert!(first.iter().any(|line| line.starts_with(said)), "{}\n{}", run.stdout, run.stderr);
    let run = finish(&mut started.command(&["--json"]));
    let gives = run.json()["gives"]["text"].as_str().unwrap().to_owned();
    assert!(gives.contains("exit status: 124") && gives.contains("target.log"), "{gives}");
}

#[test]
fn an_interrupted_run_ends_its_target() {
    let started = Started::new("", "", "duration = '60s'");
    let mut run = Guard::spawn(started.command(&[]).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let began = Instant::now();
    while !listens(started.port) {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came up");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(run.child().id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = run.child().wait().unwrap();
    assert!(matches!(status.code(), Some(130)), "{status}");
    assert!(!listens(started.port), "its target is ended");
}

#[test]
fn limits_are_a_control_group_that_is_gone_afterwards() {
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"].map(PathBuf::from);
    let probe = groups[if groups[0].join("cgroup.controllers").exists() { 0 } else { 1 }].join("plimsoll-test-probe");
    if let Err(error) = std::fs::create_dir(&probe) {
        testkit::skip(&format!("control groups cannot be made here: {error}"));
        return;
    }
    std::fs::remove_dir(&probe).unwrap();
    let started =
        Started::with_output("cat /proc/self/cgroup & exec ", "cpus = 0.5\nmemory = '512MiB'", "requests = 10");
    let text = std::fs::read_to_string(&started.file.path).unwrap();
    // A shell of its own, which says in which groups it is.
    let text = text
        .replace("command = \"cat", "command = \"sh -c 'cat")
        .replace(&format!("{}\"\n", started.port), &format!("{}'\"\n", started.port));
    std::fs::write(&started.file.path, text).unwrap();
    finish(&mut started.command(&[])).assert_measured();
    let printed = std::fs::read_to_string(started.output()).unwrap();
    let group = printed.split("plimsoll-").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    assert!(!group.is_empty(), "{printed}");
    for root in groups {
        assert!(!root.join(format!("plimsoll-{group}")).exists(), "{}", root.display());
    }
    let open = finish(command(&["fault", "list"]).env("XDG_STATE_HOME", started.file._folder.path()));
    assert!(!open.stdout.contains("cgroup"), "{}", open.stdout);
}

/// A file of two phases against a server.
fn phased(url: &str, expect: &str) -> File {
    File::new(&format!(
        "quiet = true\n[load]\nurl = \"{url}\"\nconnections = 2\nexpect = '''{expect}'''\n\
         [[load.phase]]\nname = \"low\"\nrate = \"50/s\"\nfor = \"1s\"\nexpect = \"p50 < 20 s\"\n\
         [[load.phase]]\nname = \"high\"\nramp = \"100/s..300/s\"\nfor = \"1s\"\n"
    ))
}

#[test]
fn phases_have_figures_and_expectations_of_their_own() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("phases.plimsoll");
    let record = record.to_str().unwrap();
    let file = phased(&server.url, "rate < 100/s in phase \"high\", errors < 1 %");
    let run = plimsoll(&["run", file.path(), "--json", "--record", record]);
    // What is expected of the second phase cannot be met: it asks for 200 a second in the mean.
    assert!(matches!(run.status, Some(3 | 4)), "{:?}\n{}", run.status, run.stderr);
    let document = run.json();
    let phases = document["phases"].as_array().unwrap();
    let ended = |at: usize| phases[at]["requests"].as_u64().unwrap();
    assert!((45..=55).contains(&ended(0)) && (185..=215).contains(&ended(1)), "{phases:?}");
    assert_eq!((&phases[0]["to_s"], &phases[1]["from_s"]), (&serde_json::json!(1.0), &serde_json::json!(1.0)));
    let expectations = document["expectations"].as_array().unwrap();
    let state = |expected: &str| {
        let found = expectations.iter().find(|one| one["expected"] == expected);
        found.unwrap_or_else(|| panic!("{expected}: {expectations:?}"))["state"].as_str().unwrap().to_owned()
    };
    assert_ne!(state("rate < 100/s in phase \"high\""), "met");
    assert_eq!(state("errors < 1 %"), "met");
    assert_ne!(state("p50 < 20.0 s in phase \"low\""), "not-met");
    let begins: Vec<&str> = document["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "phase")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(begins, ["phase \"low\" begins", "phase \"high\" begins"]);
    // The recording says the same, in the same lines.
    let again = plimsoll(&["report", record, "--json"]).json();
    assert_eq!((&again["phases"], &again["expectations"]), (&document["phases"], &document["expectations"]));
    let text = plimsoll(&["report", record]);
    assert!(text.stdout.contains("\nPhases\n") && text.stdout.contains("  high"), "{}", text.stdout);
}

#[test]
fn a_phase_that_was_not_reached_meets_nothing_and_typed_rates_take_their_place() {
    let server = serve_http(&[]);
    let file = phased(&server.url, "rate > 1/s in phase 'high'");
    let run = plimsoll(&["run", file.path(), "--json", "--no-record", "-d", "1s"]);
    run.assert_unmet();
    let phases = &run.json()["phases"];
    assert_eq!((&phases[0]["is_reached"], &phases[1]["is_reached"]), (&true.into(), &false.into()), "{phases}");
    let run = plimsoll(&[
        "run",
        file.path(),
        "--json",
        "--no-record",
        "--rate",
        "10/s",
        "--expect",
        "errors < 5 %",
        "-d",
        "1s",
    ]);
    run.assert_measured();
    assert!(run.json().get("phases").is_none());
}

#[test]
fn an_expectation_of_a_finding_is_judged_and_one_of_none_is_refused() {
    let server = serve_http(&[]);
    let load =
        |expect: &str| plimsoll(&["load", &server.url, "-n", "50", "--json", "-q", "--no-record", "--expect", expect]);
    let refused = load("findings excludes 'swap-trash'");
    refused.assert_exit(2);
    assert!(refused.stderr.contains("did you mean 'swap-thrash'?"), "{}", refused.stderr);
    let included = load("findings includes 'swap-thrash'");
    let state = &included.json()["expectations"][0];
    assert!(matches!(state["state"].as_str(), Some("not-met" | "undetermined")), "{state}");
    assert!(matches!(included.status, Some(3 | 4)), "{:?}", included.status);
}
