//! A load that agents put on, from outside: real agents, a real nats-server, and what becomes of a run when one of them dies.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
use common::*;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use testkit::nats::{Cluster, Nats};
use testkit::process::Guard;
use testkit::wait_until;

/// Where a test's agents and controllers have their files, and how they reach NATS.
struct Place {
    folder: TempDir,
    url: String,
}

impl Place {
    fn new(url: &str) -> Self {
        Place { folder: tempfile::tempdir().unwrap(), url: url.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.args(["--nats", &self.url]).env("XDG_STATE_HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Starts an agent, and waits until it is listed.
    fn agent(&self, name: &str, more: &[&str]) -> Guard {
        let args = [&["agent", "--name", name, "--allow-target", "127.0.0.0/8"], more].concat();
        self.agent_as(name, self.command(&args))
    }

    fn agent_as(&self, name: &str, mut command: Command) -> Guard {
        let log = File::create(self.file(&format!("{name}.log"))).unwrap();
        let agent = Guard::spawn(command.stdout(Stdio::null()).stderr(log)).unwrap();
        wait_until("the agent is listed", || self.listed().iter().any(|one| one["name"] == name));
        agent
    }

    fn agents(&self, names: &[&str]) -> Vec<Guard> {
        names.iter().map(|name| self.agent(name, &["--cores", "1"])).collect()
    }

    fn listed(&self) -> Vec<Value> {
        let run = finish(&mut self.command(&["agents", "--json"]));
        run.assert_exit(0);
        run.json()["agents"].as_array().unwrap().clone()
    }

    /// A load of agents that keeps its recording there.
    fn load(&self, url: &str, agents: &str, more: &[&str]) -> Command {
        let out = self.file("all.plimsoll");
        let args = ["load", url, "--agents", agents, "--json", "--record", out.to_str().unwrap()];
        self.command(&[&args, more].concat())
    }

    /// The same, begun.
    fn begin(&self, url: &str, agents: &str, more: &[&str]) -> Guard {
        let (out, said) = (File::create(self.file("out")).unwrap(), File::create(self.file("said")).unwrap());
        Guard::spawn(self.load(url, agents, more).stdout(out).stderr(said)).unwrap()
    }

    /// What a begun load came to.
    fn ended(&self, mut load: Guard) -> Run {
        let status = load.wait(testkit::HANG_GUARD).expect("the load ends");
        let read = |name: &str| std::fs::read_to_string(self.file(name)).unwrap();
        Run { status: status.code(), stdout: read("out"), stderr: read("said") }
    }

    /// The run of a begun load, as it says it.
    fn run(&self) -> String {
        let said = |text: &str| Some(text.split_once("`plimsoll attach ")?.1.split_once('`')?.0.to_owned());
        testkit::wait_for("the run has a name", || said(&std::fs::read_to_string(self.file("said")).ok()?))
    }

    /// Waits until an agent puts load on.
    fn until_running(&self, name: &str) {
        wait_until("the agent puts load on", || {
            self.listed().iter().any(|one| one["name"] == name && one["state"] == "running")
        });
    }
}

fn nats() -> Option<Nats> {
    if testkit::program("nats-server").is_none() {
        testkit::skip("nats-server is not installed (scripts/packages.sh test)");
        return None;
    }
    Some(Nats::start("").unwrap())
}

fn count(document: &Value, at: &str) -> u64 {
    document.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("{at} is missing: {document:#}"))
}

fn generators(document: &Value) -> Vec<Value> {
    document["generators"]["generators"].as_array().unwrap_or_else(|| panic!("{document:#}")).clone()
}

/// It was measured, validly or disturbed by the tests beside it, and nothing is missing.
fn assert_whole(run: &Run, agents: usize, requests: u64) -> Value {
    run.assert_measured();
    let document = run.json();
    assert_eq!(count(&document, "/totals/started"), requests, "{}", run.stderr);
    assert_eq!(count(&document, "/totals/ok"), requests);
    let generators = generators(&document);
    assert_eq!(generators.len(), agents);
    assert!(generators.iter().all(|one| one["end"] == "complete"), "{generators:#?}");
    assert!(document["generators"].get("shortfalls").is_none(), "{:#}", document["generators"]);
    document
}

#[test]
fn agents_of_unequal_capacity_put_on_what_one_process_would_have() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _small = place.agent("small", &["--cores", "1", "--label", "zone=a"]);
    let _large = place.agent("large", &["--cores", "3", "--label", "zone=a,big"]);
    let _other = place.agent("other", &["--cores", "8", "--label", "zone=b"]);
    let listed = place.listed();
    assert_eq!(listed.len(), 3);
    for one in &listed {
        assert_eq!((&one["state"], &one["version"]), (&"idle".into(), &env!("CARGO_PKG_VERSION").into()));
        // One machine has one clock: the bound holds.
        let (offset, bound) = (one["clock"]["offset_ns"].as_i64().unwrap(), count(one, "/clock/bound_ns"));
        assert!(offset.unsigned_abs() <= bound, "{one:#}");
    }
    let load = ["--rate", "800", "-n", "1601", "-c", "8", "--tick", "200ms", "--agent-label", "zone=a"];
    let run = finish(&mut place.load(&server.url, "2", &load));
    let document = assert_whole(&run, 2, 1601);
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name).unwrap();
    // One of four workers, three of four, the first among them.
    assert_eq!((count(&of("small"), "/requests"), count(&of("large"), "/requests")), (400, 1201));
    assert_eq!((count(&of("small"), "/connections"), count(&of("large"), "/connections")), (2, 6));
    assert_eq!(document["requested"]["connections"], 8);
    assert!((document["requested"]["rate_per_s"].as_f64().unwrap() - 800.0).abs() < 1e-6);
    assert!(run.stderr.contains("plimsoll attach"), "{}", run.stderr);
    // The recording reads as it was reported, and NATS keeps nothing of the run.
    let read = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap(), "--json"]);
    assert_eq!(read.json()["totals"], document["totals"]);
    let open = finish(&mut place.command(&["attach"]));
    open.assert_exit(0);
    assert_eq!(open.stdout, "");
    wait_until("all are idle again", || place.listed().iter().all(|one| one["state"] == "idle"));
    assert!(files_of_agents(&place).is_empty(), "{:?}", files_of_agents(&place));
}

/// What agents have kept for themselves.
fn files_of_agents(place: &Place) -> Vec<PathBuf> {
    let folder = place.file("plimsoll/agents");
    let entries = std::fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()).collect());
    entries.unwrap_or_default()
}

#[test]
fn an_agent_that_is_killed_is_named_with_what_is_not_known_and_its_ticks_are_kept() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let agents = place.agents(&["a", "b", "c"]);
    let more = ["--rate", "300", "-d", "6s", "-c", "3", "--tick", "200ms", "--lost-after", "1500ms"];
    let load = place.begin(&server.url, "3", &more);
    place.until_running("b");
    std::thread::sleep(Duration::from_secs(1));
    agents[1].signal(9);
    let run = place.ended(load);
    run.assert_exit(4);
    let document = run.json();
    let short = &document["generators"]["shortfalls"];
    assert_eq!((short.as_array().map(Vec::len), &short[0]["name"]), (Some(1), &"b".into()), "{short:#}");
    assert!(short[0]["text"].as_str().unwrap().contains("nothing was heard of it"), "{short:#}");
    let share = short[0]["share"].as_f64().unwrap();
    assert!(share > 0.01 && share < 1.0 / 3.0, "{share}");
    let reasons = document["validity"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|one| one["id"] == "agent-lost"), "{reasons:#?}");
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name).unwrap();
    // What NATS had of it is in the sums.
    let (lost, a, c) = (of("b"), of("a"), of("c"));
    assert_eq!((&lost["end"], &a["end"], &c["end"]), (&"partial".into(), &"complete".into(), &"complete".into()));
    assert_eq!((count(&a, "/requests"), count(&c, "/requests")), (600, 600));
    assert!((1..600).contains(&count(&lost, "/requests")), "{lost:#}");
    assert_eq!(count(&document, "/totals/requests"), 1200 + count(&lost, "/requests"));
    let text = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap()]);
    assert!(text.stdout.contains("of its 33 % of the load nothing is known from"), "{}", text.stdout);
}

#[test]
fn a_run_whose_agent_is_lost_stops_where_that_was_wanted() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let agents = place.agents(&["a", "b"]);
    let more = ["--rate", "200", "-d", "60s", "-c", "2", "--lost-after", "1s", "--on-lost", "stop", "--tick", "200ms"];
    let load = place.begin(&server.url, "2", &more);
    place.until_running("a");
    std::thread::sleep(Duration::from_secs(1));
    agents[0].signal(9);
    let run = place.ended(load);
    assert!(matches!(run.status, Some(4 | 130)), "{}{}", run.stdout, run.stderr);
    let document = run.json();
    assert!(count(&document, "/totals/started") < 6000, "it ended before its time");
    assert_eq!(document["generators"]["shortfalls"][0]["name"], "a");
}

#[test]
fn a_controller_that_is_killed_is_followed_by_another_and_nothing_is_lost() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "4s", "-c", "4", "--tick", "200ms"]);
    let run = place.run();
    place.until_running("a");
    load.signal(9);
    drop(load);
    let open = finish(&mut place.command(&["attach"]));
    assert!(open.stdout.starts_with(&format!("{run}: 2 agents, ")), "{}", open.stdout);
    let out = place.file("attached.plimsoll");
    let attach = ["attach", &run, "--json", "--record", out.to_str().unwrap()];
    let attached = finish(&mut place.command(&attach));
    assert_whole(&attached, 2, 1200);
    // It is over: who comes later is told so.
    let late = finish(&mut place.command(&attach));
    late.assert_exit(1);
    assert!(late.stderr.contains("expected a run that goes on"), "{}", late.stderr);
}

#[test]
fn a_node_of_three_that_is_killed_costs_nothing() {
    if nats().is_none() {
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    let place = Place::new(&cluster.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "5s", "-c", "4", "--tick", "200ms"]);
    place.until_running("a");
    cluster.nodes[0].kill();
    let run = place.ended(load);
    assert_whole(&run, 2, 1500);
}

#[test]
fn nats_that_does_not_answer_for_a_while_delays_and_loses_nothing() {
    let Some(mut nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "4s", "-c", "4", "--tick", "200ms"]);
    place.until_running("a");
    nats.kill();
    std::thread::sleep(Duration::from_secs(1));
    nats.start_again().unwrap();
    let run = place.ended(load);
    assert_whole(&run, 2, 1200);
}

/// A way to NATS that can be cut: nothing comes through then, and nobody is told.
struct Way {
    url: String,
    is_cut: Arc<AtomicBool>,
}

impl Way {
    fn to(address: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(address).unwrap();
                for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                    let (mut from, mut to, cut) = (from.unwrap(), to.unwrap(), Arc::clone(&cut));
                    std::thread::spawn(move || {
                        let mut bytes = [0; 65536];
                        while let Ok(n @ 1..) = from.read(&mut bytes) {
                            while cut.load(Ordering::Relaxed) {
                                std::thread::sleep(Duration::from_millis(5));
                            }
                            if to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        Way { url, is_cut }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

#[test]
fn an_agent_that_is_cut_off_for_a_while_loses_nothing_and_for_ever_is_named() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let way = Way::to(nats.address());
    let _near = place.agent("near", &["--cores", "1"]);
    let mut far =
        command(&["agent", "--name", "far", "--cores", "1", "--allow-target", "127.0.0.1", "--nats", &way.url]);
    far.env("XDG_STATE_HOME", place.folder.path()).stdin(Stdio::null());
    let _far = place.agent_as("far", far);
    let more = ["--rate", "300", "-d", "4s", "-c", "2", "--tick", "200ms"];
    let load = place.begin(&server.url, "2", &[&more[..], &["--lost-after", "30s"]].concat());
    place.until_running("far");
    way.cut(true);
    std::thread::sleep(Duration::from_secs(2));
    way.cut(false);
    assert_whole(&place.ended(load), 2, 1200);
    std::fs::remove_file(place.file("all.plimsoll")).unwrap();
    wait_until("both are idle", || place.listed().iter().all(|one| one["state"] == "idle"));
    let load = place.begin(&server.url, "2", &[&more[..], &["--lost-after", "1500ms"]].concat());
    place.until_running("far");
    way.cut(true);
    let run = place.ended(load);
    run.assert_exit(4);
    let short = &run.json()["generators"]["shortfalls"];
    assert_eq!((short.as_array().map(Vec::len), &short[0]["name"]), (Some(1), &"far".into()), "{short:#}");
    // Its own recording is where the report says, and `runs merge` takes it.
    let kept = files_of_agents(&place);
    assert!(
        kept.iter().any(|file| short[0]["text"].as_str().unwrap().contains(file.to_str().unwrap())),
        "{short:#} {kept:?}"
    );
}

#[test]
fn another_version_is_refused_on_both_sides() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    // An agent of another version, which says no more than who it is.
    let mut stream = TcpStream::connect(nats.address()).unwrap();
    let card = r#"{"name":"old","instance":"x","version":"0.0.9","protocol":1,"cpu":"","workers":1,"labels":[],"targets":["*"],"doing":"idle","run":null}"#;
    stream.write_all(b"CONNECT {\"verbose\":false}\r\nSUB plimsoll.agents.who 1\r\nPING\r\n").unwrap();
    let mut answering = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let reader = BufReader::new(answering.try_clone().unwrap());
        for line in reader.lines().map_while(Result::ok) {
            let reply = line.strip_prefix("MSG plimsoll.agents.who 1 ").and_then(|rest| rest.split(' ').next());
            if let Some(reply) = reply {
                let said = format!("PUB {reply} {}\r\n{card}\r\n", card.len());
                answering.write_all(said.as_bytes()).unwrap();
            }
        }
    });
    wait_until("it is listed", || place.listed().iter().any(|one| one["name"] == "old"));
    let text = finish(&mut place.command(&["agents"]));
    assert!(text.stdout.contains("version 0.0.9 (another than this"), "{}", text.stdout);
    let run = finish(&mut place.load(&server.url, "1", &["-d", "1s", "--agents-wait", "0s"]));
    run.assert_exit(1);
    assert!(run.stderr.contains("'old': it is version 0.0.9, and this is"), "{}", run.stderr);
    // A controller of another version.
    let _agent = place.agent("new", &[]);
    let asked = r#"{"run":"r1","version":"0.0.9","protocol":1}"#;
    let mut asking = TcpStream::connect(nats.address()).unwrap();
    let said = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB here 1\r\nPUB plimsoll.agent.new.take here {}\r\n{asked}\r\nPING\r\n",
        asked.len()
    );
    asking.write_all(said.as_bytes()).unwrap();
    let answer = BufReader::new(asking).lines().map_while(Result::ok).find(|line| line.contains("\"answer\""));
    let answer = answer.unwrap();
    assert!(answer.contains("refused") && answer.contains("the run is of 0.0.9"), "{answer}");
}

#[test]
fn two_controllers_of_one_run_and_two_runs_at_once_do_not_mix() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "3s", "-c", "4", "--tick", "200ms"]);
    let run = place.run();
    place.until_running("a");
    // Both agents are taken: another run gets neither.
    let args = ["load", &server.url, "--agents", "1", "-d", "1s", "--agents-wait", "0s", "--no-record"];
    let other = finish(&mut place.command(&args));
    other.assert_exit(1);
    assert!(other.stderr.contains("it is busy"), "{}", other.stderr);
    let out = place.file("second.plimsoll");
    let second = finish(&mut place.command(&["attach", &run, "--json", "--record", out.to_str().unwrap()]));
    let first = place.ended(load);
    // Who is done first has the result and takes the run away; the other has the same, or is told so.
    let results: Vec<&Run> = [&first, &second].into_iter().filter(|run| !run.stdout.is_empty()).collect();
    assert!(!results.is_empty(), "{}{}", first.stderr, second.stderr);
    for run in results {
        assert_whole(run, 2, 900);
    }
}

#[test]
fn nats_without_room_or_jetstream_is_said_before_any_load() {
    if nats().is_none() {
        return;
    }
    let server = serve_http(&[]);
    let small = Nats::start("max_file_store: 1MB").unwrap();
    let place = Place::new(&small.url());
    let run = finish(&mut place.load(&server.url, "1", &["-d", "1s"]));
    run.assert_exit(1);
    assert!(run.stderr.contains("expected a stream for the run in NATS JetStream, but"), "{}", run.stderr);
    assert!(run.stderr.contains("make room"), "{}", run.stderr);
}

#[test]
fn rows_that_are_unique_stay_so_and_secrets_are_sealed() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let nginx = testkit::nginx::Nginx::start("access_log logs/all.log combined; location / { return 200; }").unwrap();
    let url = format!("http://{}/{{{{id}}}}", nginx.address());
    let rows: String = (1..=300).map(|id| format!("row{id}\n")).collect();
    let (data, token) = (place.file("ids.csv"), place.file("token"));
    std::fs::write(&data, format!("id\n{rows}")).unwrap();
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let token = token.to_str().unwrap();
    let _agents: Vec<Guard> =
        ["a", "b", "c"].iter().map(|name| place.agent(name, &["--cores", "1", "--token-file", token])).collect();
    let more = [
        "--data",
        data.to_str().unwrap(),
        "--data-order",
        "unique",
        "--rate",
        "300",
        "-c",
        "3",
        "-H",
        "X-Key: sesame-17",
    ];
    let without = finish(&mut place.load(&url, "3", &more));
    without.assert_exit(2);
    assert!(without.stderr.contains("only sealed"), "{}", without.stderr);
    let run = finish(&mut place.load(&url, "3", &[&more[..], &["-d", "20s", "--token-file", token]].concat()));
    run.assert_measured();
    assert_eq!(count(&run.json(), "/totals/ok"), 300, "{}", run.stderr);
    let log = std::fs::read_to_string(nginx.folder().join("logs/all.log")).unwrap();
    let mut asked: Vec<&str> = log.lines().filter_map(|line| line.split("GET /").nth(1)?.split(' ').next()).collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!((asked.len(), log.lines().count()), (300, 300), "each row once");
    // Nothing that NATS has written has the secret in it.
    assert!(!holds(nats.folder(), b"sesame-17"));
}

/// Whether a file of a folder has these bytes in it.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, bytes),
            false => std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes),
        }
    })
}

#[test]
fn what_is_not_allowed_or_not_there_yet_is_refused_in_a_sentence() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let refused = |more: &[&str], status: i32, expected: &str| {
        let base = ["-d", "1s", "--agents-wait", "0s"];
        let run = finish(&mut place.load(&server.url, "1", &[&base, more].concat()));
        run.assert_exit(status);
        assert!(run.stderr.contains(expected), "'{expected}' of {more:?}: {}", run.stderr);
        assert!(!place.file("all.plimsoll").exists());
    };
    refused(&[], 1, "expected 1 agents that can be had, got 0");
    let elsewhere = ["agent", "--name", "e", "--allow-target", "10.1.0.0/16:80"];
    let of_elsewhere = place.agent_as("e", place.command(&elsewhere));
    refused(&[], 1, "'e': its owner allows 10.1.0.0/16:80 (--allow-target), and not 127.0.0.1");
    drop(of_elsewhere);
    let limited = place.agent("l", &["--rate-max", "100", "--connections-max", "1"]);
    refused(&[], 1, "'l': its owner allows 100 requests a second (--rate-max), and this load has no rate");
    refused(&["--rate", "90", "-c", "2"], 1, "its owner allows 1 connections (--connections-max), and its share has 2");
    refused(&["--rate", "200", "-c", "1"], 1, "and its share has 200");
    drop(limited);
    refused(&["--on-lost", "redistribute"], 2, "not there yet");
    refused(&["-H", "Authorization: x"], 2, "only sealed");
    refused(&["--burst", "2"], 2, "bursts cannot be put on by several agents yet");
    refused(&["--canary", &server.url], 2, "--agents");
    let none = plimsoll(&["load", &server.url, "--agents", "1"]);
    none.assert_exit(2);
    assert!(none.stderr.contains("give --nats"), "{}", none.stderr);
    let nowhere = plimsoll(&["agents", "--nats", "nats://u:sesame@127.0.0.1:1"]);
    nowhere.assert_exit(1);
    assert!(nowhere.stderr.contains("expected a NATS server at nats://***@127.0.0.1:1"), "{}", nowhere.stderr);
    let no_target = plimsoll(&["agent", "--nats", &place.url]);
    no_target.assert_exit(2);
    let _twin = place.agent("t", &[]);
    let twin = finish(&mut place.command(&["agent", "--name", "t", "--allow-target", "127.0.0.1"]));
    twin.assert_exit(2);
    assert!(twin.stderr.contains("a name that no other agent has"), "{}", twin.stderr);
}

#[test]
fn a_clock_that_is_two_seconds_off_changes_nothing() {
    if !testkit::is_root() || testkit::program("unshare").is_none() {
        testkit::skip("a clock of its own needs root and unshare(1)");
        return;
    }
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _right = place.agent("right", &["--cores", "1"]);
    let mut off = Command::new("unshare");
    off.args(["--time", "--monotonic", "2", "--", BIN, "agent", "--name", "off", "--cores", "1"]);
    off.args(["--allow-target", "127.0.0.1", "--nats", &place.url]).env("XDG_STATE_HOME", place.folder.path());
    let _off = place.agent_as("off", off);
    let listed = place.listed();
    let clock = |name: &str| listed.iter().find(|one| one["name"] == name).unwrap()["clock"].clone();
    let ahead_ns = clock("off")["offset_ns"].as_i64().unwrap() - 2_000_000_000;
    assert!(ahead_ns.unsigned_abs() <= count(&clock("off"), "/bound_ns"), "{:#}", clock("off"));
    let run = finish(&mut place.load(&server.url, "2", &["--rate", "300", "-d", "2s", "-c", "2", "--tick", "200ms"]));
    let document = assert_whole(&run, 2, 600);
    // Both measured at once: were the clock believed, there would be 2 s between them.
    assert!(count(&document, "/generators/together_ns") > 1_500_000_000, "{:#}", document["generators"]);
    assert!(generators(&document).iter().all(|one| count(one, "/offset_ns") < 500_000_000));
}
