//! `plimsoll confirm` on real servers: a remedy that helps, one that does not, and what is left behind by whoever ends it.

use crate::common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::process::Guard;
use testkit::wait_until;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder for a journal, and a recording in which a server was short of descriptors.
struct Case {
    folder: tempfile::TempDir,
    server: Server,
    recording: PathBuf,
}

const LIMIT: u64 = 40;

/// nginx-like trouble with a server of ours: more connections than it may have descriptors.
fn without_descriptors() -> Option<Case> {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&["--workers", "1"]);
    let set = Command::new("prlimit")
        .args(["--pid", &server.process.pid().to_string(), &format!("--nofile={LIMIT}:4096")])
        .status();
    if !set.is_ok_and(|status| status.success()) {
        testkit::skip("prlimit(1) is not there, or may not change a process");
        return None;
    }
    let recording = folder.path().join("short.plimsoll");
    let args = [
        "load",
        &server.url,
        "-c",
        "100",
        // By the clock: what is lost is then a share of as many requests in each run.
        "--rate",
        "400/s",
        "-d",
        "3s",
        "--timeout",
        "1s",
        "--connect-timeout",
        "1s",
        "-q",
        "--expect-errors",
        "any",
    ];
    finish(&mut command(&[&args[..], &["--record", text(&recording)]].concat()));
    Some(Case { folder, server, recording })
}

fn limit_of(pid: u32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
}

fn open_changes(journal: &Path) -> String {
    plimsoll(&["fault", "list", "--journal", text(journal)]).stdout
}

#[test]
fn more_descriptors_are_confirmed_and_taken_back() {
    let Some(case) = without_descriptors() else { return };
    let found = plimsoll(&["diagnose", text(&case.recording), "--json"]).json();
    assert!(found["findings"].as_array().unwrap().iter().any(|f| f["id"] == "fd-exhaustion"), "{}", found["gives"]);
    let journal = case.folder.path().join("journal");
    let args =
        ["confirm", text(&case.recording), "fd-exhaustion", "--against", &case.server.url, "--journal", text(&journal)];
    let run = plimsoll(&[&args[..], &["-d", "1s", "--repeats", "5", "--json", "-q"]].concat());
    let answer = run.json();
    assert_eq!((run.status, &answer["state"]), (Some(0), &"confirmed".into()), "{answer:#}");
    assert_eq!((&answer["schema"], &answer["finding"]), (&"plimsoll.confirmation/1".into(), &"fd-exhaustion".into()));
    let pairs = answer["pairs"].as_array().unwrap();
    let order: Vec<bool> = pairs.iter().map(|pair| pair["with_first"].as_bool().unwrap()).collect();
    assert_eq!(order, [false, true, false, true, false], "the order alternates");
    assert_eq!(limit_of(case.server.process.pid()), LIMIT, "it is as before");
    assert!(open_changes(&journal).starts_with("no change is open"), "{}", open_changes(&journal));
    // A toggle that changes nothing of it is not confirmed: the niceness.
    let run = plimsoll(&[&args[..], &["--nice", "1", "-d", "1s", "--repeats", "3", "-q"]].concat());
    assert!(matches!(run.status, Some(3 | 4)), "{:?} {} {}", run.status, run.stdout, run.stderr);
    assert!(run.stdout.starts_with("Not confirmed") || run.stdout.starts_with("Undetermined"), "{}", run.stdout);
}

#[test]
fn told_to_end_or_killed_in_the_midst_nothing_stays_changed() {
    let Some(case) = without_descriptors() else { return };
    let journal = case.folder.path().join("journal");
    let pid = case.server.process.pid();
    let args =
        ["confirm", text(&case.recording), "fd-exhaustion", "--against", &case.server.url, "--journal", text(&journal)];
    let args = [&args[..], &["-d", "30s", "-q"]].concat();
    // The second run of the first pair is the one with the remedy.
    let short =
        |seconds: &'static str| args.iter().map(|arg| if *arg == "30s" { seconds } else { arg }).collect::<Vec<&str>>();
    let start = |args: &[&str]| {
        let run = Guard::spawn(command(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
        wait_until("the remedy is on", || limit_of(pid) != LIMIT);
        run
    };
    let mut told = start(&short("2s"));
    told.signal(2);
    assert_eq!(told.wait(testkit::HANG_GUARD).unwrap().code(), Some(130));
    assert_eq!(limit_of(pid), LIMIT, "Ctrl-C undoes it");
    assert!(open_changes(&journal).starts_with("no change is open"));
    let mut killed = start(&short("2s"));
    killed.signal(9);
    killed.wait(testkit::HANG_GUARD).unwrap();
    assert_ne!(limit_of(pid), LIMIT, "nobody was left to undo it");
    assert!(open_changes(&journal).contains(&format!("descriptors of process {pid}")), "{}", open_changes(&journal));
    let undone = plimsoll(&["fault", "undo", "--journal", text(&journal)]);
    undone.assert_exit(0);
    assert!(undone.stdout.contains("as before"), "{}", undone.stdout);
    assert_eq!(limit_of(pid), LIMIT);
    assert!(open_changes(&journal).starts_with("no change is open"));
}

#[test]
fn any_remedy_is_toggled_by_two_commands_and_a_server_started_for_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let address = testkit::nginx::free_address().unwrap();
    let listen = address.to_string();
    let recording = folder.path().join("nagle.plimsoll");
    {
        let slow = serve_http(&["--defect", "nagle", "--listen", &listen]);
        plimsoll(&["load", &slow.url, "-c", "2", "-d", "1s", "-q", "--record", text(&recording)]).assert_measured();
    }
    wait_until("the server is gone", || std::net::TcpStream::connect(address).is_err());
    // How it is started lies in a file, as a server's settings do.
    let settings = folder.path().join("settings");
    std::fs::write(&settings, "--defect nagle").unwrap();
    let script = folder.path().join("server.sh");
    std::fs::write(&script, format!("exec {BIN} serve http --listen {listen} $(cat {})\n", text(&settings))).unwrap();
    let journal = folder.path().join("journal");
    let server = format!("sh {}", text(&script));
    let (with, without) =
        (format!("echo --workers 1 > {}", text(&settings)), format!("echo --defect nagle > {}", text(&settings)));
    let args = ["confirm", text(&recording), "nagle-delayed-ack", "--against", &server, "--journal", text(&journal)];
    let toggle = ["--with", &with, "--without", &without, "-d", "1s", "--repeats", "3", "--json", "-q"];
    let run = plimsoll(&[&args[..], &toggle].concat());
    let answer = run.json();
    assert_eq!((run.status, &answer["state"]), (Some(0), &"confirmed".into()), "{answer:#}");
    assert_eq!(answer["claim"], "response-mean-us");
    assert!(answer["change"]["high"].as_f64().unwrap() < 0.5, "{}", answer["text"]);
    assert_eq!(std::fs::read_to_string(&settings).unwrap().trim(), "--defect nagle", "undone");
    assert!(std::net::TcpStream::connect(address).is_err(), "the server of each run is ended");
    // A command that never listens is said, and what was toggled for it is undone.
    let args = ["confirm", text(&recording), "nagle-delayed-ack", "--against", "true", "--journal", text(&journal)];
    let failed = plimsoll(&[&args[..], &toggle].concat());
    failed.assert_exit(1);
    assert!(failed.stderr.contains("it ended") && failed.stderr.lines().count() == 1, "{}", failed.stderr);
    assert!(open_changes(&journal).starts_with("no change is open"));
}

/// A server of Python's, once it listens; `None`: there is no Python.
fn python(args: &[&str], port: u16) -> Option<Guard> {
    let mut python = Command::new("python3");
    match Guard::spawn(python.args(args).stdout(Stdio::null()).stderr(Stdio::null())) {
        Ok(python) => {
            wait_until("python listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
            Some(python)
        }
        Err(error) => {
            testkit::skip(&format!("python3 cannot be started: {error}"));
            None
        }
    }
}

/// Python's own server, which asks for a queue of five.
#[test]
fn the_queue_of_a_server_that_runs_is_made_longer() {
    if !testkit::is_root() {
        return testkit::skip("a copy of another process's descriptor may need root (ptrace_scope)");
    }
    let folder = tempfile::tempdir().unwrap();
    let port = testkit::nginx::free_address().unwrap().port();
    let docs = testkit::workspace().join("docs");
    let args = ["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1", "--directory", text(&docs)];
    let Some(python) = python(&args, port) else { return };
    let recording = folder.path().join("queue.plimsoll");
    let url = format!("http://127.0.0.1:{port}/causes.md");
    // Each client comes anew, and thirty of them at once.
    let load =
        ["load", &url, "--burst", "30", "--burst-at", "connect", "--rounds", "4", "-q", "--record", text(&recording)];
    plimsoll(&load).assert_measured();
    let journal = folder.path().join("journal");
    let args = ["confirm", text(&recording), "accept-queue-overflow", "--against", &url, "--journal", text(&journal)];
    let run = plimsoll(&[&args[..], &["--repeats", "3", "--json", "-q"]].concat());
    let answer = run.json();
    assert_eq!((run.status, &answer["state"]), (Some(0), &"confirmed".into()), "{answer:#}");
    assert_eq!(answer["toggle"], format!("backlog tree:target 4096 (process {})", python.pid()));
    assert!(open_changes(&journal).starts_with("no change is open"));
}

/// Python's own server, which writes head and body of a reply apart and never sets `TCP_NODELAY`.
const HEAD_AND_BODY: &str = "
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Reply(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *args):
        pass
ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Reply).serve_forever()
";

#[test]
fn small_writes_of_a_server_that_runs_no_longer_wait_and_what_is_so_already_is_no_remedy() {
    if !testkit::is_root() {
        return testkit::skip("a copy of another process's descriptor may need root (ptrace_scope)");
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("nagle.plimsoll");
    let port = testkit::nginx::free_address().unwrap().port();
    let Some(python) = python(&["-c", HEAD_AND_BODY, &port.to_string()], port) else { return };
    let url = format!("http://127.0.0.1:{port}/");
    plimsoll(&["load", &url, "-c", "2", "-d", "1s", "-q", "--record", text(&recording)]).assert_measured();
    let journal = folder.path().join("journal");
    let args = ["confirm", text(&recording), "nagle-delayed-ack", "--against", &url, "--journal", text(&journal)];
    let run = plimsoll(&[&args[..], &["-d", "500ms", "--repeats", "3", "--json", "-q"]].concat());
    let answer = run.json();
    assert_eq!((run.status, &answer["state"]), (Some(0), &"confirmed".into()), "{answer:#}");
    assert_eq!(answer["toggle"], format!("nodelay tree:target on (process {})", python.pid()));
    assert!(open_changes(&journal).starts_with("no change is open"));
    // With it and without it would be the same: nothing is run for that.
    let now = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let same = format!("net.core.somaxconn={}", now.trim());
    let command = format!("{BIN} serve http --listen 127.0.0.1:{port}");
    drop(python);
    let args = ["confirm", text(&recording), "nagle-delayed-ack", "--against", &command, "--journal", text(&journal)];
    let nothing = plimsoll(&[&args[..], &["--sysctl", &same, "-d", "500ms", "--repeats", "3", "-q"]].concat());
    nothing.assert_exit(2);
    let said = format!("the remedy would change nothing: net.core.somaxconn is {} already", now.trim());
    assert!(nothing.stderr.contains(&said) && nothing.stderr.lines().count() == 1, "{}", nothing.stderr);
}

#[test]
fn a_neighbour_that_was_named_is_stopped_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&["--defect", "nagle"]);
    let recording = folder.path().join("any.plimsoll");
    plimsoll(&["load", &server.url, "-c", "2", "-d", "1s", "-q", "--record", text(&recording)]).assert_measured();
    let neighbour = Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap();
    let pid = neighbour.pid().to_string();
    let journal = folder.path().join("journal");
    let args =
        ["confirm", text(&recording), "nagle-delayed-ack", "--against", &server.url, "--journal", text(&journal)];
    let run = plimsoll(&[&args[..], &["--stop", &pid, "-d", "500ms", "--repeats", "3", "--json", "-q"]].concat());
    // It sleeps: to stop it helps nobody.
    assert!(matches!(run.status, Some(3 | 4)), "{:?} {}", run.status, run.stderr);
    assert_eq!(run.json()["toggle"], format!("stop {pid}"));
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(state.contains(") S "), "{state}");
}

#[test]
fn what_cannot_be_meant_is_one_sentence_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&["--defect", "nagle"]);
    let recording = folder.path().join("nagle.plimsoll");
    plimsoll(&["load", &server.url, "-c", "2", "-d", "1s", "-q", "--record", text(&recording)]).assert_measured();
    let run = text(&recording);
    let journal = folder.path().join("journal");
    let to_journal = ["--journal", text(&journal)];
    let against = ["--against", server.url.as_str()];
    for (args, words) in [
        (&[run, "oom-kill"][..], "which has"),
        (&[run, "luck"], "no cause that is known"),
        (&[run, "nagle-delayed-ack", "--with", "true"], "--without"),
        (&[run, "nagle-delayed-ack", "--nice", "1", "--stop", "4000000"], "--stop"),
        (&[run, "nagle-delayed-ack", "--sysctl", "kernel.panic=1"], "net.core.somaxconn"),
        (&[run, "nagle-delayed-ack", "--sysctl", "net.core.somaxconn=512"], "the command that starts"),
        (&[run, "nagle-delayed-ack", "--nice", "1", "--repeats", "2"], "--repeats"),
        (&[run, "nagle-delayed-ack", "--nice", "99"], "99"),
        (&[run, "nagle-delayed-ack", "--nice", "1", "-d", "1ms"], "200ms"),
        (&[run, "nagle-delayed-ack", "--stop", "1"], "--stop"),
    ] {
        let done = plimsoll(&[&["confirm"], args, &against, &to_journal].concat());
        done.assert_exit(2);
        assert!(done.stderr.contains(words) && done.stderr.lines().count() == 1, "{args:?}: {}", done.stderr);
    }
    let other = plimsoll(&["confirm", run, "nagle-delayed-ack", "--against", "resp://127.0.0.1:1/", "--nice", "1"]);
    other.assert_exit(2);
    assert!(other.stderr.contains("the run's protocol"), "{}", other.stderr);
    let missing = plimsoll(&["confirm", run, "nagle-delayed-ack"]);
    missing.assert_exit(2);
    // What was watched has no load to put on again.
    let port = server.url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let watched = folder.path().join("watched.plimsoll");
    plimsoll(&["watch", "--port", &port, "-d", "300ms", "--tick", "100ms", "--json", "--record", text(&watched)])
        .assert_exit(0);
    let none = plimsoll(&[&["confirm", text(&watched), "cpu-saturated"], &against[..]].concat());
    none.assert_exit(2);
    assert!(none.stderr.contains("which has"), "{}", none.stderr);
    let list: Value = Value::String(open_changes(&journal));
    assert!(list.as_str().unwrap().starts_with("no change is open"));
}
