//! `plimsoll diagnose URL --experiment` on real servers: what each is, and that healthy ones are left alone.
//!
//! No time is asserted. A machine whose CPUs others have may leave an experiment undecided: each is given three tries.

use crate::common::*;
use serde_json::Value;
use std::process::{Command, Stdio};
use testkit::process::Guard;

/// The result of some experiments on a server.
fn tried(url: &str, only: &str, more: &[&str]) -> Value {
    // Clients that wait for a slot each time take long; the others decide sooner.
    let length = if only == "clients" { "15s" } else { "8s" };
    let words = ["diagnose", url, "--experiment", "--for", length, "--json", "-q", "--no-record", "--only", only];
    let args = [&words, more].concat();
    let run = plimsoll(&args);
    run.assert_exit(0);
    run.json()
}

fn decision(document: &Value, experiment: &str) -> Value {
    let decisions = document["decisions"].as_array().unwrap();
    decisions
        .iter()
        .find(|d| d["experiment"] == experiment)
        .unwrap_or_else(|| panic!("no {experiment}: {document}"))
        .clone()
}

/// An experiment decides for a cause on a server that has it, with responses that rise.
#[track_caller]
fn finds(url: &str, experiment: &str, cause: &str) -> Value {
    let document = tried(url, experiment, &[]);
    let decision = decision(&document, experiment);
    assert_eq!(decision["status"], "supported", "{decision:#}");
    let is_it = decision["finding"] == cause || decision["points_to"].as_array().unwrap().iter().any(|id| id == cause);
    assert!(is_it, "{cause}: {decision:#}");
    decision
}

#[test]
fn delayed_acknowledgements_and_closes_are_told_by_reuse() {
    in_three(|| {
        let nagle = serve_http(&["--defect", "nagle"]);
        let decision = finds(&nagle.url, "reuse", "nagle-delayed-ack");
        let responses: Vec<f64> =
            decision["responses"].as_array().unwrap().iter().map(|r| r["value"]["value"].as_f64().unwrap()).collect();
        assert!(responses.is_sorted() && responses.len() == 3, "the response rises with the dose: {responses:?}");
        let closes = serve_http(&["--defect", "keepalive-off"]);
        assert_eq!(finds(&closes.url, "reuse", "keepalive-off")["finding"], "keepalive-off");
    });
}

#[test]
fn slots_are_counted_where_each_waits() {
    in_three(|| {
        let pool = serve_http(&["--defect", "pool-exhausted"]);
        let decision = finds(&pool.url, "clients", "pool-exhausted");
        assert!(decision["text"].as_str().unwrap().contains("serves 4 requests at a time"), "{decision:#}");
    });
    // Cores that others have busy are none that its slots compute on.
    let busy = || {
        let mut busy = Command::new("nice");
        Guard::spawn(busy.args(["-n", "19", "sh", "-c", "while :; do :; done"])).unwrap()
    };
    let _others = [busy(), busy()];
    in_three(|| {
        let pool = serve_http(&["--defect", "pool-exhausted=50ms:slots=2"]);
        let decision = finds(&pool.url, "clients", "pool-exhausted");
        assert_eq!(decision["finding"], "pool-exhausted", "{decision:#}");
    });
}

#[test]
fn silent_connections_and_bursts_find_their_limits() {
    in_three(|| {
        let starved = serve_http(&["--defect", "worker-starvation"]);
        finds(&starved.url, "idle", "worker-starvation");
        let limited = serve_http(&["--defect", "connection-limit"]);
        finds(&limited.url, "idle", "connection-limit");
        let slow = serve_http(&["--defect", "slow-accept"]);
        finds(&slow.url, "burst", "accept-queue-overflow");
    });
}

#[test]
fn a_path_that_is_slow_is_told_from_a_large_one() {
    in_three(|| {
        let server = serve_http(&[]);
        let document = tried(&server.url, "size", &["--path", "/", "--path", "/cpu?us=20000"]);
        let decision = decision(&document, "size");
        assert_eq!(
            (&decision["status"], &decision["finding"]),
            (&"supported".into(), &"slow-path".into()),
            "{decision:#}"
        );
        assert!(decision["text"].as_str().unwrap().contains("/cpu?us=20000"), "{decision:#}");
    });
}

#[test]
fn a_rate_that_is_too_high_is_told_from_one_that_is_not() {
    in_three(|| {
        let server = serve_http(&["--workers", "1"]);
        let url = format!("{}cpu?us=5000", server.url);
        let much = decision(&tried(&url, "rate", &["--rate", "400/s"]), "rate");
        assert_eq!(much["status"], "supported", "{much:#}");
        let little = decision(&tried(&url, "rate", &["--rate", "20/s"]), "rate");
        assert_ne!(little["status"], "supported", "{little:#}");
    });
}

/// No experiment names a cause of a healthy server.
fn is_left_alone(url: &str) {
    let run = plimsoll(&["diagnose", url, "--experiment", "--for", "15s", "--json", "-q", "--no-record"]);
    run.assert_exit(0);
    let document = run.json();
    for decision in document["decisions"].as_array().unwrap() {
        assert_eq!(decision["finding"], Value::Null, "{url}: {decision:#}");
        assert_ne!(decision["status"], "supported", "{url}: {decision:#}");
    }
    assert!(document["rounds"].as_u64().unwrap() >= 1 && document["took_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn healthy_servers_of_ours_are_left_alone() {
    in_three(|| {
        is_left_alone(&serve_http(&[]).url);
        is_left_alone(&serve(&["serve", "echo", "--listen", "127.0.0.1:0"]).url);
    });
}

#[test]
fn nginx_and_redis_are_left_alone() {
    if let Some(nginx) = nginx("") {
        in_three(|| is_left_alone(&format!("http://{}/", nginx.address())));
    }
    let port = testkit::nginx::free_address().unwrap().port();
    let mut redis = Command::new("redis-server");
    redis.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]).stdout(Stdio::null());
    match Guard::spawn(&mut redis) {
        Ok(_redis) => {
            testkit::wait_until("redis listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
            in_three(|| is_left_alone(&format!("resp://127.0.0.1:{port}/")));
        }
        Err(error) => testkit::skip(&format!("redis-server cannot be started: {error}")),
    }
}

/// One that nobody here wrote, with a backlog of five and a close after each reply (HTTP/1.0).
#[test]
fn pythons_server_is_told_by_its_closes_and_its_backlog() {
    let port = testkit::nginx::free_address().unwrap().port();
    let mut python = Command::new("python3");
    let folder = testkit::workspace().join("docs");
    python.args([
        "-m",
        "http.server",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--directory",
        folder.to_str().unwrap(),
    ]);
    let _python = match Guard::spawn(python.stdout(Stdio::null()).stderr(Stdio::null())) {
        Ok(python) => python,
        Err(error) => return testkit::skip(&format!("python3 cannot be started: {error}")),
    };
    testkit::wait_until("python listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    in_three(|| {
        finds(&format!("http://127.0.0.1:{port}/causes.md"), "reuse", "keepalive-off");
    });
}

#[test]
fn a_result_is_kept_and_shown_again_and_an_interrupt_keeps_what_is_known() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result");
    let file = file.to_str().unwrap();
    let args = ["diagnose", &server.url, "--experiment", "--for", "20s", "-q", "--record", file];
    let mut run = Guard::spawn(command(&args).stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    testkit::wait_until("a round is kept", || std::path::Path::new(file).exists());
    run.signal(2);
    let status = run.wait(testkit::HANG_GUARD).unwrap();
    assert_eq!(status.code(), Some(130));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut run.child().stdout.take().unwrap(), &mut text).unwrap();
    assert!(text.contains("interrupted") && text.contains("clients"), "{text}");
    let again = plimsoll(&["diagnose", file]);
    again.assert_exit(0);
    assert!(text.starts_with(&again.stdout), "{text}\n{}", again.stdout);
    let document = plimsoll(&["diagnose", file, "--json"]).json();
    assert_eq!((&document["schema"], &document["end"]), (&"plimsoll.experiment/1".into(), &"interrupted".into()));
    let markdown = plimsoll(&["diagnose", file, "--markdown"]);
    assert!(markdown.stdout.starts_with("## ") && markdown.stdout.contains("| clients |"), "{}", markdown.stdout);
    // Cut off, it is none any more.
    let whole = std::fs::read(file).unwrap();
    std::fs::write(file, &whole[..whole.len() / 2]).unwrap();
    let cut = plimsoll(&["diagnose", file]);
    cut.assert_exit(1);
    assert!(cut.stderr.lines().count() == 1 && cut.stderr.contains(file), "{}", cut.stderr);
}

#[test]
fn what_cannot_be_meant_is_one_sentence_and_status_2() {
    let nobody = testkit::port::Reserved::new().unwrap();
    let url = format!("http://{}/", nobody.address());
    for (args, status, words) in [
        (&["diagnose", &url][..], 2, "--experiment"),
        (&["diagnose", "last", "--experiment"], 2, "URL of a server"),
        (&["diagnose", &url, "--experiment", "--for", "1s"], 2, "5s at the least"),
        (&["diagnose", &url, "--experiment", "--only", "luck"], 2, "luck"),
        (&["diagnose", "hold://127.0.0.1:1", "--experiment", "--no-record"], 2, "of another kind"),
        (&["diagnose", &url, "--experiment", "--no-record", "--", "--nonsense"], 2, "--nonsense"),
        (&["diagnose", &url, "--experiment", "--no-record", "--for", "5s"], 1, "refused"),
        (&["diagnose", "last", "--only", "rate"], 2, "--experiment"),
    ] {
        let run = plimsoll(args);
        run.assert_exit(status);
        assert!(run.stderr.contains(words) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
}
