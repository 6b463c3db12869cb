//! A target observed from another machine, as a user does it: two network namespaces with a cable between, the target and
//! `watch --serve` at one end, the run at the other. Both ends have one kernel, so the true clock offset is nothing.

use crate::common::*;
use model::Snapshot;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::network::Pair;
use testkit::process::Guard;
use testkit::wait_until;

const TOKEN: &str = "a-token-for-tests-0123456789";

fn pair() -> Option<Pair> {
    if !testkit::is_root() || testkit::program("ip").is_none() {
        testkit::skip("two network namespaces with a cable between need root and ip(8)");
        return None;
    }
    match Pair::new() {
        Ok(pair) => Some(pair),
        Err(error) => {
            testkit::skip(&error.to_string());
            None
        }
    }
}

/// A process with what it has printed so far, and its first line.
struct Running {
    process: Guard,
    first: String,
    errors: Arc<Mutex<String>>,
}

fn running(command: &mut Command) -> Running {
    let mut process = Guard::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    let mut output = BufReader::new(process.child().stdout.take().unwrap());
    let errors = Arc::new(Mutex::new(String::new()));
    let (stderr, into) = (process.child().stderr.take().unwrap(), Arc::clone(&errors));
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            into.lock().unwrap().push_str(&(line + "\n"));
        }
    });
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    Running { process, first: first.trim().to_owned(), errors }
}

impl Running {
    fn has_said(&self, what: &str) -> bool {
        self.errors.lock().unwrap().contains(what)
    }
}

fn target(pair: &Pair) -> Running {
    let server = running(pair.right(&mut command(&["serve", "http", "--listen", "10.123.0.2:8080"])).unwrap());
    assert!(server.first.contains("http://10.123.0.2:8080"), "{}", server.first);
    server
}

fn observer(pair: &Pair, token: &str) -> Running {
    let mut serve = command(&["watch", "--serve", "10.123.0.2:4500"]);
    let server = running(pair.right(serve.env("PLIMSOLL_TOKEN", token)).unwrap());
    assert!(server.first.contains("at 10.123.0.2:4500"), "{} {}", server.first, server.errors.lock().unwrap());
    server
}

fn load(pair: &Pair, token: Option<&str>, extra: &[&str]) -> Command {
    let args = ["load", "http://10.123.0.2:8080/", "-c", "4", "--rate", "500/s", "--tick", "200ms", "--json", "-q"];
    let mut load = command(&[&args[..], &["--observe-at", "10.123.0.2:4500"], extra].concat());
    if let Some(token) = token {
        load.env("PLIMSOLL_TOKEN", token);
    }
    pair.left(&mut load).unwrap();
    load
}

/// The counters of both ends' networks, by what only one of them did: the generator's connected, and nobody to it; the
/// target's was connected to. And what the one sent over the cable the other received.
fn the_generators_network_is_its_own(file: &Path) {
    let recording = store::Reader::open(file).unwrap().load().unwrap();
    let grown = |of: &dyn Fn(&Snapshot) -> Option<u64>| {
        let readings: Vec<u64> = recording.snapshots.iter().filter_map(of).collect();
        assert!(readings.len() >= 2, "{} readings", readings.len());
        readings[readings.len() - 1] - readings[0]
    };
    let own = |name: &'static str| move |s: &Snapshot| s.generator_host.as_ref()?.network.of(name);
    assert!(grown(&own("tcp_active_opens")) >= 4 && grown(&own("tcp_passive_opens")) == 0);
    assert!(grown(&|s| s.network.of("tcp_passive_opens")) >= 4);
    let sent = grown(&|s| s.generator_host.as_ref()?.interfaces.values().find_map(|of| of.of("sent_bytes")));
    // A request a millisecond and a half, of some hundred bytes with its headers.
    assert!(sent > 10_000, "{sent} bytes");
}

#[test]
fn a_target_elsewhere_is_in_the_report_as_one_here_would_be() {
    let Some(pair) = pair() else { return };
    let (target, observer) = (target(&pair), observer(&pair, TOKEN));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    let run = finish(&mut load(&pair, Some(TOKEN), &["-d", "2s", "--record", file.to_str().unwrap()]));
    let document = run.json();
    assert_valid_or_disturbed(&document);
    let observed = &document["observed"];
    let seen = &observed["target"][0];
    assert_eq!(seen["pid"], target.process.pid(), "{observed}");
    assert!(seen["cpus"].as_f64().unwrap() > 0.0, "{seen}");
    assert!(seen["metrics"]["rss_anonymous_bytes"]["max"].as_u64().unwrap() > 0);
    assert_eq!(observed["metrics"]["listeners"][0]["address"], "10.123.0.2:8080");
    assert!(observed["metrics"]["network"]["tcp_passive_opens"]["delta"].as_i64().is_some());
    assert!(observed["host_busy"].as_f64().is_some() && observed["generator"][0]["pid"].as_u64().is_some());
    assert!(observed["generator"][0]["pid"] != observer.process.pid(), "the observer is not the generator");
    let remote = &observed["remote"];
    assert_eq!(remote["address"], "10.123.0.2:4500");
    let (offset, bound) = (remote["offset_ns"].as_i64().unwrap(), remote["bound_ns"].as_u64().unwrap());
    assert!(offset.unsigned_abs() <= bound, "one kernel, one clock: {offset} ± {bound}");
    assert!(remote["exchanges"].as_u64().unwrap() >= 8 && remote["host"]["memory_bytes"].as_u64().unwrap() > 0);
    assert!(remote["generator_host_busy"].as_f64().is_some() && remote["breaks"] == 0, "{remote}");
    let status = |name: &str| {
        let samplers = document["samplers"].as_array().unwrap();
        samplers.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("{name}: {samplers:?}"))["status"].clone()
    };
    for name in ["remote/link", "process/target", "network/listeners", "host/cpu", "generator:host/cpu"] {
        assert_eq!(status(name), "active", "{name}");
    }
    wait_until("the observer says that it is over", || observer.has_said("ended after"));
    the_generators_network_is_its_own(&file);
    let report = plimsoll(&["report", file.to_str().unwrap(), "--no-color"]);
    assert!(report.stdout.contains("Target's host") && report.stdout.contains("clock offset"), "{}", report.stdout);
    let shown = plimsoll(&["report", file.to_str().unwrap(), "--timeline=rss_bytes,memory_free_bytes"]);
    assert!(shown.stdout.lines().count() >= 4, "{}", shown.stdout);
    // Its token is in nothing that is kept.
    let kept = std::fs::read(&file).unwrap();
    assert!(!kept.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()));
}

#[test]
fn probes_run_where_the_target_is_and_their_events_have_the_runs_time() {
    in_three(probes_run_where_the_target_is);
}

fn probes_run_where_the_target_is() {
    let Some(pair) = pair() else { return };
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return testkit::skip("probes need a kernel with BTF");
    }
    let (target, observer) = (target(&pair), observer(&pair, TOKEN));
    let mut command = load(&pair, Some(TOKEN), &["-d", "8s", "--no-record", "--observe", "light"]);
    let running = std::thread::spawn(move || finish(&mut command));
    wait_until("it observes", || observer.has_said("observing for it"));
    // Probes come while the run goes on.
    std::thread::sleep(Duration::from_secs(5));
    target.process.signal(9);
    let run = running.join().unwrap();
    let document = run.json();
    let active = document["samplers"]
        .as_array()
        .unwrap()
        .iter()
        .any(|s| s["name"] == "bpf/lifecycle" && s["status"] == "active");
    if !active {
        return testkit::skip(&format!("no probe could be loaded: {}", document["samplers"]));
    }
    assert!(document["observed"]["bpf"]["counts"]["sockets.established"].as_u64().unwrap() >= 4);
    let events = document["events"].as_array().unwrap();
    for kind in ["target-exit", "target-gone"] {
        let event = events.iter().find(|event| event["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {events:?}"));
        assert!((0.0..16.0).contains(&event["t_s"].as_f64().unwrap()), "{event}");
    }
}

#[test]
fn a_slow_target_elsewhere_is_looked_at_closely_at_once() {
    in_three(a_slow_target_is_looked_at);
}

fn a_slow_target_is_looked_at() {
    let Some(pair) = pair() else { return };
    let (target, observer) = (target(&pair), observer(&pair, TOKEN));
    let mut command = load(&pair, Some(TOKEN), &["-d", "6s", "--no-record", "--observe", "windows"]);
    let running = std::thread::spawn(move || finish(&mut command));
    wait_until("it observes", || observer.has_said("observing for it"));
    // The first window is over by then, and the next due in seven seconds.
    std::thread::sleep(Duration::from_secs(3));
    target.process.signal(19);
    std::thread::sleep(Duration::from_millis(500));
    target.process.signal(18);
    let document = running.join().unwrap().json();
    let bpf = &document["observed"]["bpf"];
    if bpf.is_null() {
        return testkit::skip(&format!("no probe could be loaded: {}", document["samplers"]));
    }
    assert!(bpf["windows"].as_u64().unwrap() >= 2, "{bpf}");
}

#[test]
fn a_target_behind_a_unix_socket_is_no_target_elsewhere() {
    let args = ["load", "unix:/tmp/none.sock", "--observe-at", "127.0.0.1:4500", "-n", "1", "--no-record"];
    let run = finish(command(&args).env("PLIMSOLL_TOKEN", TOKEN));
    run.assert_exit(2);
    assert!(run.stderr.contains("--observe-at"), "{}", run.stderr);
}

#[test]
fn an_observer_that_comes_up_after_the_run_is_waited_for_as_long_as_was_said() {
    let target = serve_http(&[]);
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let load = |wait: &str| {
        let args = ["load", &target.url, "-n", "50", "--json", "-q", "--no-record", "--observe-at", &address];
        let mut load = command(&[&args[..], &["--observe-wait", wait]].concat());
        load.env("PLIMSOLL_TOKEN", TOKEN);
        load
    };
    for (wait, tries) in [("0s", None), ("4s", Some("(tried "))] {
        let run = finish(&mut load(wait));
        run.assert_exit(1);
        assert!(run.stderr.contains("connection refused") && run.stdout.is_empty(), "{}", run.stderr);
        assert_eq!(run.stderr.contains("(tried "), tries.is_some(), "{}", run.stderr);
    }
    let mut waiting = load("60s");
    let waiting = std::thread::spawn(move || finish(&mut waiting));
    // It was refused by then; if it was not, it is merely easier.
    std::thread::sleep(Duration::from_millis(500));
    let observer = running(command(&["watch", "--serve", &address]).env("PLIMSOLL_TOKEN", TOKEN));
    let run = waiting.join().unwrap();
    run.assert_measured();
    assert_eq!(run.json()["observed"]["remote"]["address"], address, "{}", run.stdout);
    // Ctrl-C is not made to wait.
    drop(observer);
    let mut waiting = Guard::spawn(load("1h").stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    wait_until("signals are its own", || testkit::process::catches(waiting.pid(), 2));
    waiting.signal(2);
    assert!(waiting.wait(testkit::HANG_GUARD).is_some_and(|status| !status.success()));
}

#[test]
fn without_the_token_nothing_is_observed_and_no_load_is_put_on() {
    let Some(pair) = pair() else { return };
    let (_target, mut observer) = (target(&pair), observer(&pair, TOKEN));
    let wrong = finish(&mut load(&pair, Some("another-token-0123456789"), &["-d", "20s"]));
    wrong.assert_exit(1);
    assert!(wrong.stderr.contains("the token is not the observer's") && wrong.stdout.is_empty(), "{}", wrong.stderr);
    wait_until("the observer says so too", || observer.has_said("refused: the token is not the observer's"));
    let none = finish(&mut load(&pair, None, &["-d", "20s"]));
    none.assert_exit(2);
    assert!(none.stderr.contains("PLIMSOLL_TOKEN") && none.stderr.contains("--token-file"), "{}", none.stderr);
    finish(&mut load(&pair, Some("short"), &["-d", "20s"])).assert_exit(2);
    // Ctrl-C ends it, cleanly.
    observer.process.signal(2);
    assert_eq!(observer.process.wait(testkit::HANG_GUARD).unwrap().code(), Some(0));
    let nobody = finish(&mut load(&pair, Some(TOKEN), &["-d", "20s"]));
    nobody.assert_exit(1);
    assert!(nobody.stderr.contains("watch --serve"), "{}", nobody.stderr);
}

#[test]
fn a_link_that_breaks_is_made_again_and_the_run_goes_on() {
    in_three(a_link_that_breaks_is_made_again);
}

fn a_link_that_breaks_is_made_again() {
    let Some(pair) = pair() else { return };
    let (_target, first) = (target(&pair), observer(&pair, TOKEN));
    let mut command = load(&pair, Some(TOKEN), &["-d", "7s", "--no-record"]);
    let running = std::thread::spawn(move || finish(&mut command));
    wait_until("it observes", || first.has_said("observing for it"));
    std::thread::sleep(Duration::from_millis(1500));
    first.process.signal(9);
    std::thread::sleep(Duration::from_millis(1500));
    drop(first);
    let second = observer(&pair, TOKEN);
    let run = running.join().unwrap();
    let document = run.json();
    assert_valid_or_disturbed(&document);
    assert!(document["totals"]["ok"].as_u64().unwrap() > 2000, "the load went on: {}", document["totals"]);
    let events = document["events"].as_array().unwrap();
    for kind in ["observer-lost", "observer-back"] {
        assert!(events.iter().any(|event| event["kind"] == kind), "{kind}: {events:?}");
    }
    let remote = &document["observed"]["remote"];
    assert_eq!(remote["breaks"], 1, "{remote}");
    assert!(remote["broken_s"].as_f64().unwrap() > 1.0, "{remote}");
    let link = document["samplers"].as_array().unwrap().iter().find(|s| s["name"] == "remote/link").unwrap();
    assert!(link["status"] == "active" && link["reason"].as_str().unwrap().contains("it broke once"), "{link}");
    assert!(second.has_said("observing for it"));
}

#[test]
fn an_observer_that_is_gone_for_good_is_said_and_fails_no_run() {
    in_three(an_observer_that_is_gone_is_said);
}

fn an_observer_that_is_gone_is_said() {
    let Some(pair) = pair() else { return };
    let (_target, observer) = (target(&pair), observer(&pair, TOKEN));
    let mut command = load(&pair, Some(TOKEN), &["-d", "4s", "--no-record"]);
    let running = std::thread::spawn(move || finish(&mut command));
    wait_until("it observes", || observer.has_said("observing for it"));
    std::thread::sleep(Duration::from_millis(1500));
    drop(observer);
    let run = running.join().unwrap();
    let document = run.json();
    assert!(document["totals"]["ok"].as_u64().unwrap() > 1000);
    let samplers = document["samplers"].as_array().unwrap();
    for name in ["remote/link", "process/target"] {
        let status = samplers.iter().find(|s| s["name"] == name).unwrap();
        assert!(status["status"] == "failed", "{status}");
        assert!(status["reason"].as_str().unwrap().contains("since second"), "{status}");
    }
}

#[test]
fn a_machine_is_watched_from_another_with_a_token_from_a_file() {
    let Some(pair) = pair() else { return };
    let target = target(&pair);
    let observer = running(pair.right(&mut command(&["watch", "--serve", "0.0.0.0:4500"])).unwrap());
    // It makes a token and a certificate, and says so once: the test's own copy of stdout has them.
    assert!(observer.first.contains("0.0.0.0:4500"));
    drop(observer);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let file = file.to_str().unwrap();
    let serve = ["watch", "--serve", "10.123.0.2:4501", "--port", "8080", "--token-file", file];
    let observer = running(pair.right(&mut command(&serve)).unwrap());
    let at = ["watch", "--at", "10.123.0.2:4501", "--token-file", file, "-d", "1s", "--tick", "200ms"];
    // What the observer was started with is what is seen, whatever is asked for.
    for extra in [&["--json"][..], &["--json", "--pid", "1"]] {
        let run = finish(pair.left(&mut command(&[&at[..], extra].concat())).unwrap());
        run.assert_exit(0);
        let document = run.json();
        assert_eq!(document["observed"]["target"][0]["pid"], target.process.pid(), "{}", run.stdout);
        assert_eq!(document["observed"]["generator"].as_array().unwrap().len(), 0);
        assert!(document["snapshots"].as_array().unwrap().len() >= 2);
    }
    let table = finish(pair.left(&mut command(&at)).unwrap());
    table.assert_exit(0);
    assert!(table.stdout.contains("target CPU") && table.stdout.contains("clock offset"), "{}", table.stdout);
    let fingerprint = "ab".repeat(32);
    let pinned = [&at[..], &["--observe-fingerprint", &fingerprint]].concat();
    let other = finish(pair.left(&mut command(&pinned)).unwrap());
    other.assert_exit(1);
    assert!(other.stderr.contains("fingerprint"), "{}", other.stderr);
    drop(observer);
}

#[test]
fn no_run_is_given_dearer_probes_than_the_observers_owner_allows() {
    let mut serve = command(&["watch", "--serve", "127.0.0.1:0", "--level-max", "none"]);
    let server = running(serve.env("PLIMSOLL_TOKEN", TOKEN));
    let address = server.first.rsplit(' ').next().unwrap().to_owned();
    let pid = std::process::id().to_string();
    for (asked, is_limited) in [("full", true), ("none", false)] {
        let mut watch =
            command(&["watch", "--at", &address, "--pid", &pid, "-d", "300ms", "--tick", "100ms", "--json"]);
        let seen = finish(watch.args(["--observe", asked]).env("PLIMSOLL_TOKEN", TOKEN)).json();
        let told = seen["events"].as_array().unwrap().iter().find(|event| event["kind"] == "probes-limited");
        assert_eq!(told.is_some(), is_limited, "{asked}: {seen}");
        if let Some(told) = told {
            let text = told["text"].as_str().unwrap();
            assert!(text.contains("'none' and not 'full'") && text.contains("--level-max"), "{text}");
        }
        let of_probes = |sampler: &&serde_json::Value| sampler["name"].as_str().unwrap().starts_with("bpf/");
        let samplers = seen["samplers"].as_array().unwrap();
        assert!(samplers.iter().filter(of_probes).all(|probe| probe["status"] != "active"), "{asked}: {samplers:?}");
    }
}
