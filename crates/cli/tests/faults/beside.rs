//! Faults whose work a process of their own does, in runs: packets held, clients beside the load, a backend that answers 503;
//! what the report says of them, and that nothing is left, also after kill -9. In network namespaces of their own.

use crate::common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::network::{of_its_own, of_process};
use testkit::process::Guard;
use testkit::wait_until;

/// A server in a network namespace of its own, where runs and faults are, too.
struct Apart {
    server: Guard,
    port: String,
    folder: tempfile::TempDir,
}

impl Apart {
    fn new(test: &str) -> Option<Self> {
        let has = ["iptables", "nft"].iter().all(|program| testkit::program(program).is_some());
        if !testkit::is_root() || !has {
            testkit::skip(&format!("{test}: a network namespace and its rules need root, iptables and nft"));
            return None;
        }
        let mut server = command(&["serve", "http", "--listen", "127.0.0.1:0"]);
        let (server, port) = listening(of_its_own(&mut server));
        Some(Apart { server, port, folder: tempfile::tempdir().unwrap() })
    }

    /// A command in the namespace, with its state in a folder of the test.
    fn within(&self, mut command: Command) -> Command {
        of_process(&mut command, self.server.pid()).unwrap();
        command.env("XDG_STATE_HOME", self.folder.path());
        command
    }

    fn plimsoll(&self, args: &[&str]) -> Command {
        self.within(command(args))
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Rules of ours, and processes of faults, that are there now.
    fn left(&self) -> (String, usize) {
        let mut nft = Command::new("nft");
        nft.args(["list", "ruleset"]);
        let output = self.within(nft).output().unwrap();
        let own = std::fs::read_link(format!("/proc/{}/ns/net", self.server.pid())).unwrap();
        let is_helper = |folder: &Path| {
            let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).nth(1) == Some(b"fault-helper")
                && std::fs::read_link(folder.join("ns/net")).is_ok_and(|network| network == own)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_helper(&entry.path())).count();
        (String::from_utf8_lossy(&output.stdout).into_owned(), all)
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.left(), (String::new(), 0));
        let list = finish(&mut self.plimsoll(&["fault", "list"])).stdout;
        assert!(list.contains("no change is open"), "{list}");
    }
}

/// A server that says where it listens; its port.
fn listening(command: &mut Command) -> (Guard, String) {
    let mut process = Guard::spawn(command.stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    BufReader::new(process.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: String = line.trim_end().rsplit(':').next().unwrap().chars().take_while(char::is_ascii_digit).collect();
    assert!(!port.is_empty(), "{line}");
    (process, port)
}

/// Intervals that lie within a fault, from when it was done to when its undoing could begin, whichever end their moment is; but
/// the first and the last of them, as ticks are not all of one length.
fn during<'a>(document: &'a Value, fault: &Value) -> Vec<&'a Value> {
    let of = |name: &str| fault[name].as_f64().unwrap();
    let (from, to) = (of("at_s") + of("took_ms") / 1e3, of("asked_at_s") + of("asked_for_s"));
    let rows = document["intervals"].as_array().unwrap();
    let ticks: Vec<f64> = rows.iter().map(|row| row["t_s"].as_f64().unwrap()).collect();
    let tick = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let rows: Vec<&Value> = rows
        .iter()
        .zip(ticks)
        .filter(|(_, t)| *t - tick >= from && *t + tick <= to)
        .map(|(row, _)| row)
        .skip(1)
        .collect();
    rows.split_last().map_or_else(Vec::new, |(_, rows)| rows.to_vec())
}

#[test]
fn packets_that_are_late_make_replies_as_late_and_the_report_says_so() {
    let Some(apart) = Apart::new("late packets") else { return };
    let fault = format!("port-delay {} 50ms@500ms:1s", apart.port);
    let url = apart.url();
    let args = ["load", &url, "-c", "2", "-d", "2500ms", "--tick", "100ms", "--json", "-q", "--fault", &fault];
    let document = finish(&mut apart.plimsoll(&args)).json();
    let fault = &document["faults"][0];
    assert_eq!((&fault["name"], &fault["state"]), (&"port-delay".into(), &"undone".into()), "{fault:#}");
    assert!(fault.to_string().contains("held"), "what it did is said: {fault}");
    // Sent after it began, answered before it ended: none came sooner than its packet was let go. Half of those that ended in
    // an interval were slower than this, so the fastest half was, too, but for those of before.
    let rows = during(&document, fault);
    let medians: Vec<f64> = rows.iter().filter_map(|row| row["response_p50_us"].as_f64()).collect();
    assert!(!medians.is_empty() && medians.iter().all(|median| *median >= 45_000.0), "{medians:?}\n{fault:#}");
    assert!(document["totals"]["failed"] == 0, "{}", document["totals"]);
    apart.assert_nothing_left();
    let shown = finish(&mut apart.plimsoll(&["report", "last"])).stdout;
    assert!(shown.contains("port-delay") && shown.contains("packets seen"), "{shown}");
}

#[test]
fn clients_beside_the_load_are_counted_and_gone_with_the_run() {
    let Some(apart) = Apart::new("rude clients") else { return };
    let to = format!("127.0.0.1:{}", apart.port);
    let faults = [
        format!("slow-writers {to} 5@300ms"),
        format!("slow-readers {to} 5 1KiB/s get /bytes?n=1000000@300ms:700ms"),
        format!("silent-connections {to} 5@300ms:700ms"),
        format!("connection-flood {to} 100/s@300ms:700ms"),
    ];
    let url = apart.url();
    let mut args = vec!["load", &url, "-c", "2", "-d", "1500ms", "--json", "-q"];
    faults.iter().for_each(|fault| args.extend(["--fault", fault]));
    let document = finish(&mut apart.plimsoll(&args)).json();
    for fault in document["faults"].as_array().unwrap() {
        assert_eq!(fault["state"], "undone", "{fault:#}");
        assert!(fault.to_string().contains("connections made"), "{fault:#}");
    }
    assert_eq!(document["totals"]["failed"], 0, "the load's own requests are none of theirs: {}", document["totals"]);
    apart.assert_nothing_left();
}

#[test]
fn a_backend_that_answers_503_is_seen_through_a_proxy_and_then_is_as_before() {
    let Some(apart) = Apart::new("a backend of no use") else { return };
    let upstream = apart.url();
    let (_proxy, port) = listening(&mut apart.plimsoll(&[
        "serve",
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--origin",
        upstream.trim_end_matches('/'),
    ]));
    let fault = format!("port-answer {} 503@500ms:500ms", apart.port);
    let url = format!("http://127.0.0.1:{port}/");
    let args = ["load", &url, "-c", "2", "-d", "2s", "--tick", "100ms", "--json", "-q", "--fault", &fault];
    let document = finish(&mut apart.plimsoll(&args)).json();
    let fault = &document["faults"][0];
    assert_eq!(fault["state"], "undone", "{fault:#}");
    let status = &document["totals"]["status"];
    assert!(status["503"].as_u64() > Some(0) && status["200"].as_u64() > Some(0), "{status}");
    let after = document["intervals"].as_array().unwrap().iter().rev().take(3);
    let ok: u64 = after.map(|row| row["requests"].as_u64().unwrap() - row["failed"].as_u64().unwrap()).sum();
    assert!(ok > 0, "the backend itself answers again: {document:#}");
    apart.assert_nothing_left();
}

#[test]
fn after_kill_9_of_a_run_what_its_faults_left_is_undone_by_undo() {
    let Some(apart) = Apart::new("kill -9") else { return };
    let port = &apart.port;
    let faults = [
        format!("port-delay {port} 5ms@100ms"),
        format!("port-corrupt {port} 1%@100ms"),
        format!("silent-connections 127.0.0.1:{port} 5@100ms"),
    ];
    let url = apart.url();
    let mut args = vec!["load", &url, "-c", "2", "-d", "60s", "-q", "--no-record"];
    faults.iter().for_each(|fault| args.extend(["--fault", fault]));
    let mut run = Guard::spawn(apart.plimsoll(&args).stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    wait_until("all three are done", || apart.left().1 == 3 && apart.left().0.matches("queue").count() >= 3);
    run.signal(9);
    run.wait(testkit::HANG_GUARD).unwrap();
    assert_eq!(apart.left().1, 3, "they go on: they are in the journal");
    let list = finish(&mut apart.plimsoll(&["fault", "list"])).stdout;
    assert!(list.contains("packets to port") && list.contains("5 silent connections to"), "{list}");
    finish(&mut apart.plimsoll(&["fault", "undo"])).assert_exit(0);
    apart.assert_nothing_left();
}

#[test]
fn what_it_would_do_is_said_and_not_done() {
    let Some(apart) = Apart::new("a dry run") else { return };
    let port = &apart.port;
    let to = format!("127.0.0.1:{port}");
    for (words, said) in [
        (vec!["port-delay", port, "50ms"], "50.0 ms late"),
        (vec!["port-answer", port, "503"], "a process that answers 503"),
        (vec!["slow-readers", &to, "7"], "7 slow readers to 127.0.0.1:"),
        (vec!["syn-flood", port, "10/s"], "10 SYNs a second to port"),
    ] {
        let run = finish(&mut apart.plimsoll(&[&["fault"], &words[..], &["--dry-run"]].concat()));
        run.assert_exit(0);
        assert!(run.stdout.contains(said) && run.stdout.contains("nothing was done"), "{}", run.stdout);
        apart.assert_nothing_left();
    }
    // What cannot be done says why, and what does it.
    let run = plimsoll(&["fault", "clock-step", "5s"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("time namespace") && run.stderr.lines().count() == 1, "{}", run.stderr);
}

#[test]
fn a_helper_without_a_job_says_so_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = finish(command(&["fault-helper"]).current_dir(folder.path()));
    run.assert_exit(1);
    assert!(run.stderr.contains("this is started by a fault alone"), "{}", run.stderr);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
