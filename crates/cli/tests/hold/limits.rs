//! Held connections where something runs out or dies: what gave is named, and the rest is measured.

use crate::common::*;
use std::process::{Command, Stdio};
use testkit::wait_until;

fn echo_server(extra: &[&str]) -> Server {
    let mut args = vec!["serve", "echo", "--listen", "127.0.0.1:0", "--idle-timeout", "never"];
    args.extend(extra);
    serve(&args)
}

fn findings(json: &serde_json::Value) -> Vec<&str> {
    let all = json["findings"].as_array().unwrap();
    all.iter().map(|f| f["id"].as_str().unwrap()).collect()
}

#[test]
fn descriptors_that_run_out_half_way_are_named_and_the_rest_is_measured() {
    let server = echo_server(&[]);
    let url = server.url.replace("echo://", "hold://");
    for driver in ["epoll", "uring"] {
        let load = format!("{BIN} load {url} -c 300 -t 1 --every 100ms -d 1s --json --no-record -q --driver {driver}");
        let run = finish(Command::new("sh").arg("-c").arg(format!("ulimit -n 200; exec {load}")));
        run.assert_exit(4);
        let json = run.json();
        let held = &json["held"];
        let established = held["established_at_end"].as_u64().unwrap();
        assert!((100..200).contains(&established), "{driver}: {held}");
        assert_eq!(held["connects_failed"].as_u64(), Some(300 - established), "{driver}");
        assert!(findings(&json).contains(&"generator-fds"), "{driver}: {:?}", findings(&json));
        let ok = json["totals"]["ok"].as_u64().unwrap();
        assert!(ok > established && json["totals"]["failed"] == 0, "{driver}: {}", json["totals"]);
    }
}

#[test]
fn a_ramp_until_failure_says_how_many_stood_and_which_limit_gave() {
    let server = echo_server(&[]);
    let url = server.url.replace("echo://", "hold://");
    let run = |more: &str| {
        let load = format!("{BIN} load {url} -c 100k -t 1 --every 100ms -d 1s --ramp-until-failure --driver epoll");
        finish(Command::new("sh").arg("-c").arg(format!("ulimit -n 300; exec {load} --no-record -q {more}")))
    };
    let json = run("--json").json();
    let held = &json["held"];
    assert_eq!(held["first_to_give"], "too-many-files", "{held}");
    assert!((200..300).contains(&held["held_when_it_gave"].as_u64().unwrap()), "{held}");
    assert_eq!(held["limit_that_gave"], "nofile, 300 descriptors", "{held}");
    assert!(held["fits_in_memory"].is_null(), "a broken ramp is not drawn out: {held}");
    assert!(!findings(&json).contains(&"connections-not-reached"), "{:?}", findings(&json));
    let text = run("").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("connections until something gives, 2"), "{text}");
    assert!(text.contains("connections held: the limit is nofile, 300 descriptors"), "{text}");
}

#[test]
fn ports_that_run_out_half_way_are_named_and_the_rest_is_measured() {
    if !testkit::is_root() {
        return testkit::skip("a network namespace of one's own needs root");
    }
    for driver in ["rings", "epoll"] {
        // Two hundred local ports, in a namespace of its own; the server is in it, too.
        let script = format!(
            "echo 40000 40199 > /proc/sys/net/ipv4/ip_local_port_range\n\
             {BIN} serve echo --listen 127.0.0.1:7000 --idle-timeout never >/dev/null & server=$!\n\
             until {BIN} load echo://127.0.0.1:7000 -c 1 -n 1 --no-record -q >/dev/null 2>&1; do sleep 0.05; done\n\
             {BIN} load hold://127.0.0.1:7000 -c 300 -t 1 --source 127.0.0.1 --every 100ms -d 1s --driver {driver} --json --no-record\n\
             status=$?; kill $server; exit $status"
        );
        let mut command = Command::new("sh");
        let run = finish(testkit::network::of_its_own(command.arg("-c").arg(script)));
        run.assert_exit(4);
        let json = run.json();
        let held = &json["held"];
        let established = held["established_at_end"].as_u64().unwrap();
        // One port may still be in TIME_WAIT from the look whether the server is there.
        assert!((190..=200).contains(&established), "{driver}: {held}");
        assert!(findings(&json).contains(&"generator-ports"), "{driver}: {:?}", findings(&json));
        let ok = json["totals"]["ok"].as_u64().unwrap();
        assert!(ok > established && json["totals"]["failed"] == 0, "{driver}: {}", json["totals"]);
        // It was said beforehand, too.
        assert!(run.stderr.contains("200"), "{}", run.stderr);
    }
}

#[test]
fn a_server_that_stands_still_is_found_by_the_probe_while_it_still_accepts() {
    // The kernel goes on completing handshakes for a stopped process: only the probe can tell.
    let mut server = echo_server(&[]);
    let url = server.url.replace("echo://", "hold://");
    let args = ["load", &url, "-c", "100k", "--every", "never", "-d", "500ms", "--connect-rate", "200/s"];
    let more = ["--ramp-until-failure", "--timeout", "2s", "--json", "--no-record", "-q"];
    let child = command(&args).args(more).stdout(Stdio::piped()).spawn().unwrap();
    // Two seconds' worth, of which the probe had its part.
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    wait_until("some are connected", || established(port) >= 800);
    server.process.signal(signal_hook::consts::SIGSTOP);
    let output = child.wait_with_output().unwrap();
    server.process.signal(signal_hook::consts::SIGCONT);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let held = &json["held"];
    assert_eq!(held["first_to_give"], "reply-timeout", "{held}");
    assert!(held["connects_failed"] == 0 && held["established_max"].as_u64().unwrap() > 100, "{held}");
    assert!(json["totals"]["ok"].as_u64().unwrap() >= 3, "the probe was answered before: {}", json["totals"]);
    server.process.child().kill().unwrap();
}

/// Killed with thousands open, and so is the generator: nothing is left but TIME_WAIT.
#[test]
fn thousands_that_are_killed_with_either_end_leave_nothing() {
    if let Err(why) = engine::driver::uring::available() {
        return testkit::skip(&format!("no io_uring for the server: {why}"));
    }
    for whose in ["server", "generator"] {
        let mut server = echo_server(&["--design", "uring", "-c", "20k"]);
        let url = server.url.replace("echo://", "hold://");
        let port = url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
        let args = ["load", &url, "-c", "15k", "--every", "2s", "-d", "12s", "--connect-rate", "15k/s"];
        let more = ["--sweep", "500ms", "--driver", "rings", "--json", "--no-record", "-q"];
        let mut child = command(&args).args(more).stdout(Stdio::piped()).spawn().unwrap();
        wait_until("all are connected", || established(&port) >= 30_000);
        if whose == "server" {
            server.process.child().kill().unwrap();
            let output = child.wait_with_output().unwrap();
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let held = &json["held"];
            assert_eq!(json["totals"]["connections"]["connected"], 15_000, "{held}");
            assert_eq!(held["established_at_end"], 0, "{held}");
            let closed = held["closed_by_peer"].as_u64().unwrap() + held["closed_by_us"].as_u64().unwrap();
            assert_eq!(closed, 15_000, "{held}");
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        wait_until("no connection is left", || established(&port) == 0);
    }
}
