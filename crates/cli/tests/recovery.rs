//! A target that is killed and started again under load: what the report says of it, what each policy of the clients makes of
//! it, and what a crash loses; and the audit of figures by hand.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::{command, established, finish, plimsoll};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;
use testkit::process::Guard;
use testkit::wait_until;

/// A name service on a port, which can be had again.
fn names(port: u16, more: &[&str]) -> Guard {
    let listen = format!("127.0.0.1:{port}");
    let mut arguments = vec!["serve", "names", "--listen", &listen];
    arguments.extend(more);
    let mut process = Guard::spawn(command(&arguments).stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    BufReader::new(process.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on"), "{line}");
    process
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ask(port: u16, what: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(testkit::HANG_GUARD)).unwrap();
    stream.write_all(format!("{what}\r\n").as_bytes()).unwrap();
    let mut said = vec![0; 1 << 16];
    let length = stream.read(&mut said).unwrap();
    String::from_utf8_lossy(&said[..length]).into_owned()
}

/// A load on it that goes on until it is told to end, while the server is disrupted as `disrupt` does; the report.
fn under(port: u16, flags: &[&str], disrupt: impl FnOnce()) -> Value {
    let url = format!("resp://127.0.0.1:{port}");
    let mut arguments =
        vec!["load", &url, "-c", "4", "-t", "1", "-d", "3s", "--tick", "100ms", "--no-record", "--json"];
    arguments.extend(flags);
    let mut load = command(&arguments);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| finish(&mut load));
        wait_until("the load is put on", || established(&port.to_string()) >= 8);
        // Intervals to compare with.
        std::thread::sleep(Duration::from_millis(800));
        disrupt();
        running.join().unwrap().json()
    })
}

fn kill_and_start(port: u16, first: Guard) -> impl FnOnce() -> Guard {
    move || {
        let mut first = first;
        first.signal(9);
        first.wait(testkit::HANG_GUARD).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        names(port, &[])
    }
}

/// Under a policy, the server killed and started again.
fn killed(flags: &[&str]) -> Value {
    let port = free_port();
    let first = names(port, &[]);
    let mut second = None;
    let document = under(port, flags, || second = Some(kill_and_start(port, first)()));
    drop(second);
    document
}

fn count(document: &Value, name: &str) -> u64 {
    document["totals"][name].as_u64().unwrap()
}

#[test]
fn a_target_that_is_killed_and_comes_back_is_told_with_its_moments() {
    let document = killed(&[]);
    let faults = document["disruptions"].as_array().unwrap();
    let [fault] = &faults[..] else { panic!("{faults:#?}") };
    assert_ne!(fault["name"], "outage", "the observer saw it go: {fault:#}");
    let s = |name: &str| fault[name].as_f64().unwrap_or_else(|| panic!("{name}: {fault:#}"));
    // Three tenths of a second lay between the end and the start.
    assert!(s("outage_s") >= 0.3, "{fault:#}");
    assert!(s("last_success_s") <= s("first_failure_s") && s("first_failure_s") <= s("first_success_s"), "{fault:#}");
    let failed = fault["failed_requests"].as_u64().unwrap();
    assert!(failed > 0 && failed <= count(&document, "failed"), "{fault:#}");
    assert!(
        fault["refused_requests"].as_u64() > Some(0) && fault["aborted_connections"].as_u64() >= Some(4),
        "{fault:#}"
    );
    let summary = document["summary"].as_array().unwrap();
    assert!(summary.iter().any(|remark| remark["id"] == "disrupted"), "{summary:?}");
    let (attempts, started) = (count(&document, "attempts"), count(&document, "started"));
    assert_eq!((attempts, count(&document, "retries")), (started, 0), "without a policy each is tried once");
}

#[test]
fn under_each_policy_a_request_is_one_request() {
    let waiting = killed(&["--on-error", "wait"]);
    assert_eq!(count(&waiting, "failed"), 0, "{}", waiting["totals"]);
    assert!(count(&waiting, "retries") >= 1, "{}", waiting["totals"]);
    // Whoever waited did so from the moment it was due.
    let outage_us = waiting["disruptions"][0]["outage_s"].as_f64().unwrap() * 1e6;
    assert!(waiting["latency"]["response"]["max_us"].as_f64().unwrap() >= 0.9 * outage_us, "{}", waiting["latency"]);

    let retrying = killed(&["--on-error", "retry:30:20ms:50%", "--rate", "200"]);
    assert!(count(&retrying, "retries") > 0, "{}", retrying["totals"]);
    assert_eq!(count(&retrying, "attempts"), count(&retrying, "started") + count(&retrying, "retries"));

    let denied = killed(&["--on-error", "retry:30:1ms", "--retry-budget", "0.1%", "--rate", "200"]);
    let (retries, started) = (count(&denied, "retries"), count(&denied, "started"));
    assert!(retries as f64 <= 0.001 * started as f64, "{}", denied["totals"]);
    assert!(count(&denied, "retries_denied") > 0 && count(&denied, "failed") > 0, "{}", denied["totals"]);
    for document in [waiting, retrying, denied] {
        let all = ["ok", "failed", "in_flight_at_end"].map(|name| count(&document, name)).iter().sum::<u64>();
        assert_eq!(count(&document, "started"), all, "{}", document["totals"]);
    }
}

/// The store crashes as it is asked to: without a journal what it had acknowledged is gone, with one nothing is.
#[test]
fn acknowledged_writes_are_lost_without_a_journal_and_not_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal").to_str().unwrap().to_owned();
    for (more, is_durable) in [(&[][..], false), (&["--durable", "--journal", &journal][..], true)] {
        let port = free_port();
        let server = names(port, more);
        let flags = ["--verify-writes", "--mix", "GET=50,SET=50", "--keys", "100"];
        let document = under(port, &flags, || assert!(ask(port, "OOPS").starts_with("-ERR OOPS")));
        drop(server);
        let lost = document["totals"]["errors"]["lost-write"].as_u64().unwrap_or(0);
        assert_eq!(lost > 0, !is_durable, "{}", document["totals"]["errors"]);
        let findings = [&document["findings"], &document["judged"]].map(|all| all.as_array().unwrap().clone()).concat();
        let finding = findings.iter().find(|finding| finding["id"] == "state-lost").unwrap();
        match is_durable {
            true => assert_eq!(finding["status"], "refuted", "{finding:#}"),
            // Where the crash was too short to be seen from outside, only one source knows of it.
            false => assert_ne!(finding["status"], "refuted", "{finding:#}"),
        }
    }
}

#[test]
fn figures_that_cannot_be_are_said_with_the_arithmetic() {
    let sound = plimsoll(&["audit", "--throughput", "228.12/s", "--latency", "43.72ms", "--concurrency", "10"]);
    sound.assert_exit(0);
    assert!(sound.stdout.contains("Nothing in these figures contradicts the rest."), "{}", sound.stdout);
    let cannot = plimsoll(&["audit", "--rate", "3000/s", "--size", "26MB", "--link", "10Gbit", "--json"]);
    cannot.assert_exit(3);
    let document = cannot.json();
    assert_eq!((&document["schema"], &document["contradicts"]), (&"plimsoll.audit/1".into(), &true.into()));
    assert_eq!(document["checks"][0]["outcome"], "cannot-be");
    for (wrong, said) in [
        (&["audit"][..], "expected figures that can be held against each other"),
        (&["audit", "--link", "fast"][..], "expected a link's rate such as 10Gbit"),
        (
            &["load", "http://127.0.0.1:1", "--on-error", "retry:0:1s"][..],
            "expected fail-fast, wait or retry:N:BACKOFF",
        ),
        (&["load", "http://127.0.0.1:1", "--retry-budget", "10%"][..], "--on-error"),
        (&["load", "resp://127.0.0.1:1", "--verify-writes", "--mix", "GET=1,DEL=1"][..], "--verify-writes"),
    ] {
        let run = plimsoll(wrong);
        run.assert_exit(2);
        assert!(run.stderr.contains(said), "{wrong:?}: {}", run.stderr);
    }
}
