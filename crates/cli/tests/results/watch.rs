//! `plimsoll watch` and `report --timeline` as a user runs them.

use crate::common::*;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use testkit::process::Guard;

#[test]
fn a_process_is_watched_by_its_id_and_by_its_port() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = std::process::id();
    for whom in [["--pid", &own.to_string()], ["--port", &port.to_string()]] {
        let run = plimsoll(&["watch", whom[0], whom[1], "-d", "500ms", "--tick", "100ms", "--json"]);
        run.assert_exit(0);
        let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(document["schema"], "plimsoll.watch/1");
        let target = &document["observed"]["target"][0];
        assert_eq!(target["pid"], own, "{}", run.stdout);
        assert!(target["metrics"]["rss_anonymous_bytes"]["max"].as_u64().unwrap() > 0);
        assert!(document["observed"]["metrics"]["network"]["listen_overflows"]["delta"].is_i64());
        assert!(document["snapshots"].as_array().unwrap().len() >= 2);
        let listeners = document["observed"]["metrics"]["listeners"].as_array().unwrap();
        let address = format!("127.0.0.1:{port}");
        assert!(listeners.iter().any(|listener| listener["address"] == *address), "{listeners:?}");
    }
}

#[test]
fn rows_come_by_time_and_a_target_that_ends_ends_it() {
    let mut target = Guard::spawn(Command::new("sleep").arg("600").stdout(Stdio::null())).unwrap();
    let args = ["watch", "--pid", &target.pid().to_string(), "--tick", "100ms"];
    let mut watch = Guard::spawn(command(&args).stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    let mut lines = BufReader::new(watch.child().stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    assert!(first.contains("target CPU") && first.contains("PSI cpu"), "{first}");
    assert_eq!(lines.by_ref().take(3).count(), 3, "rows come while it is there");
    target.child().kill().unwrap();
    target.child().wait().unwrap();
    assert!(lines.any(|line| line.contains("target-gone")));
    assert_eq!(watch.wait(testkit::HANG_GUARD).unwrap().code(), Some(0));
}

#[test]
fn chosen_metrics_are_columns_and_unknown_ones_a_wrong_usage() {
    let own = std::process::id().to_string();
    let args = ["watch", "--pid", &own, "-d", "300ms", "--tick", "100ms", "--metrics"];
    let run = plimsoll(&[&args[..], &["tcp_in_segments,memory_free_bytes"]].concat());
    run.assert_exit(0);
    assert!(run.stdout.lines().next().unwrap().contains("tcp_in_segments/s"), "{}", run.stdout);
    for wrong in ["nonsense", "threads[].run_ns", "read_bytes"] {
        let run = plimsoll(&[&args[..], &[wrong]].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains("docs/metrics.md"), "{}", run.stderr);
    }
}

#[test]
fn whom_to_watch_must_be_said_and_be_there() {
    plimsoll(&["watch"]).assert_exit(2);
    plimsoll(&["watch", "--pid", "1", "--port", "1"]).assert_exit(2);
    plimsoll(&["watch", "--pid", "0"]).assert_exit(2);
    plimsoll(&["watch", "--pid", "1", "--tick", "1ms"]).assert_exit(2);
    let gone = plimsoll(&["watch", "--pid", "4194304", "-d", "1s"]);
    gone.assert_exit(1);
    assert!(gone.stderr.contains("no process 4194304"), "{}", gone.stderr);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = plimsoll(&["watch", "--port", &free.to_string(), "-d", "1s"]);
    nobody.assert_exit(1);
    assert!(nobody.stderr.contains("no process of this host listens"), "{}", nobody.stderr);
}

#[test]
fn a_recording_shows_its_readings_by_time() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.plimsoll");
    let file = file.to_str().unwrap();
    let load =
        plimsoll(&["load", &server.url, "-c", "2", "-d", "1s", "--tick", "200ms", "--record", file, "--json", "-q"]);
    let document = load.json();
    assert!(document["observed"]["metrics"]["network"]["tcp_passive_opens"]["delta"].as_i64().unwrap() >= 2);
    assert!(document["observed"]["metrics"]["listeners"][0]["backlog"].as_u64().unwrap() > 0);
    let shown = plimsoll(&["report", file, "--timeline"]);
    shown.assert_exit(0);
    assert!(shown.stdout.lines().count() >= 4 && shown.stdout.contains("to accept"), "{}", shown.stdout);
    let chosen = plimsoll(&["report", file, "--timeline=tcp_out_segments,rss_bytes"]);
    chosen.assert_exit(0);
    assert!(chosen.stdout.contains("tcp_out_segments/s") && chosen.stdout.contains("MiB"), "{}", chosen.stdout);
    plimsoll(&["report", file, "--timeline=nonsense"]).assert_exit(2);
}
