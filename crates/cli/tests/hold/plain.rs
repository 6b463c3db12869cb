//! `plimsoll load hold://` and `--burst` on real servers: held, lost, refused, killed; every connection accounted for.

use crate::common::*;
use std::process::Stdio;

fn echo_server(extra: &[&str]) -> Server {
    let mut args = vec!["serve", "echo", "--listen", "127.0.0.1:0", "--idle-timeout", "never"];
    args.extend(extra);
    serve(&args)
}

fn hold_url(server: &Server) -> String {
    server.url.replace("echo://", "hold://")
}

#[test]
fn connections_are_held_and_each_message_comes_back() {
    in_three(each_message_comes_back);
}

fn each_message_comes_back() {
    let server = echo_server(&[]);
    for driver in ["rings", "uring", "epoll"] {
        let url = hold_url(&server);
        let args = ["load", &url, "-c", "500", "--every", "1s", "-d", "2s", "--connect-rate", "1k/s"];
        let run = finish(command(&args).args(["--driver", driver, "--json", "--no-record", "-q"]));
        assert!(matches!(run.status, Some(0 | 4)), "{}", run.stderr);
        let json = run.json();
        assert_valid_or_disturbed(&json);
        let held = &json["held"];
        assert_eq!((held["established_max"].as_u64(), held["established_at_end"].as_u64()), (Some(500), Some(500)));
        assert_eq!((held["connects_failed"].as_u64(), held["closed_by_peer"].as_u64()), (Some(0), Some(0)), "{driver}");
        let totals = &json["totals"];
        let started = totals["started"].as_u64().unwrap();
        // What is sent in the half second of making is warm-up, and not in the rate.
        assert!((900..=1100).contains(&due(totals)), "{driver}: {totals}");
        let (measured_s, made_in_s) =
            (json["achieved"]["measured_s"].as_f64().unwrap(), held["made_in_s"].as_f64().unwrap());
        assert!(measured_s < 2.4 && made_in_s >= 0.49, "{driver}: {totals} {held}");
        assert_eq!(totals["ok"].as_u64(), Some(started), "{driver}: {totals}");
        assert_eq!(totals["bytes_received"].as_u64(), Some(128 * started), "{driver}");
        assert_eq!(json["latency"]["connect"]["count"], 500, "{driver}");
    }
}

/// More than the descriptor limit of most machines, on both ends: through the rings' tables, and through a table for each
/// epoll worker.
#[test]
fn fifty_thousand_are_held_by_either_driver() {
    if let Err(why) = engine::driver::uring::available() {
        return testkit::skip(&format!("no io_uring for the server: {why}"));
    }
    let range = format!("{}:9000-9003", own_address(0));
    let args = ["serve", "echo", "--design", "uring", "-c", "60k", "--listen", &range, "--idle-timeout", "never"];
    let _server = serve(&args);
    for driver in ["rings", "epoll"] {
        let url = format!("hold://{range}");
        let args = ["load", &url, "-c", "50k", "--every", "10s", "-d", "5s", "--connect-rate", "5k/s"];
        let run = finish(command(&args).args(["--driver", driver, "--json", "--no-record", "-q"]));
        assert!(matches!(run.status, Some(0 | 4)), "{driver}: {}", run.stderr);
        let json = run.json();
        assert_valid_or_disturbed(&json);
        let (held, totals) = (&json["held"], &json["totals"]);
        assert_eq!(held["established_at_end"], 50_000, "{driver}: {held} {totals}");
        assert_eq!((&totals["failed"], &held["closed_by_peer"]), (&0.into(), &0.into()), "{driver}: {held} {totals}");
        // A tenth of them each second; what a busy machine kept the generator from is none of it.
        assert!(due(totals) >= 20_000 && totals["ok"].as_u64() > Some(1000), "{driver}: {totals}");
    }
}

#[test]
fn a_server_that_is_killed_is_seen_to_close_them_all() {
    let mut server = echo_server(&[]);
    let url = hold_url(&server);
    let args =
        ["load", &url, "-c", "300", "--every", "never", "-d", "6s", "--connect-rate", "3k/s", "--sweep", "500ms"];
    let child = command(&args).args(["--json", "--no-record", "-q"]).stdout(Stdio::piped()).spawn().unwrap();
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    testkit::wait_until("all are connected", || established(port) == 600);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    server.process.child().kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let held = &json["held"];
    assert_eq!(held["established_max"], 300);
    assert_eq!(held["closed_by_peer"], 300, "{held}");
    assert_eq!(held["established_at_end"], 0, "{held}");
    // When they closed is on the timeline, to the sweep's resolution.
    let rows = json["intervals"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["connections"] == 300) && rows.iter().any(|row| row["connections"] == 0));
}

#[test]
fn adding_until_something_gives_says_what_did() {
    // Nobody accepts: a queue of established connections fills, and what comes after it gets no answer.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("hold://127.0.0.1:{port}");
    let args = ["load", &url, "-c", "100k", "--every", "never", "-d", "1s", "--connect-rate", "2k/s"];
    let more = ["--connect-timeout", "500ms", "--sent-only", "--ramp-until-failure", "--json", "--no-record", "-q"];
    let json = finish(command(&args).args(more)).json();
    let held = &json["held"];
    let established = held["established_max"].as_u64().unwrap();
    assert!((100..=20_000).contains(&established), "{held}");
    assert_eq!(held["first_to_give"], "connect-timeout", "{held}");
    assert!(held["gave_at_s"].as_f64().unwrap() > 0.0);
    drop(listener);
}

#[test]
fn bursts_are_released_together_and_their_skew_is_told() {
    let server = echo_server(&[]);
    for at in ["send", "connect"] {
        let args = ["load", &server.url, "--burst", "200", "--rounds", "5", "--burst-at", at];
        let run = finish(command(&args).args(["--json", "--no-record", "-q"]));
        assert!(matches!(run.status, Some(0 | 4)), "{}", run.stderr);
        let json = run.json();
        assert_valid_or_disturbed(&json);
        let totals = &json["totals"];
        assert_eq!((totals["ok"].as_u64(), totals["failed"].as_u64()), (Some(1000), Some(0)), "{at}");
        assert_eq!(json["latency"]["lag"]["count"], 1000, "{at}: the release's skew");
        let connects = if at == "connect" { 1000 } else { 200 };
        assert_eq!(json["latency"]["connect"]["count"], connects, "{at}");
    }
}

#[test]
fn flags_that_make_no_sense_here_are_refused_in_one_sentence() {
    for (args, says) in [
        (vec!["hold://127.0.0.1:1", "--rate", "5/s"], "--rate"),
        (vec!["http://127.0.0.1:1/", "--every", "5s"], "--every"),
        (vec!["echo://127.0.0.1:1", "--burst", "5", "-d", "5s"], "-d"),
        (vec!["hold://127.0.0.1:1", "--burst", "5"], "--burst"),
        (vec!["hold://127.0.0.1:9-8"], "9-8"),
        (vec!["hold://127.0.0.1:1", "--source", "10.0.0.0/4"], "--source"),
    ] {
        let run = plimsoll(&[&["load"], &args[..], &["--no-record"]].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(says) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
}
