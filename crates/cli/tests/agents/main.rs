//! A load that agents put on, from outside: real agents, a real nats-server, and what becomes of a run when one of them dies.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests: to stop is to fail")]

mod bursts;
#[path = "../common/mod.rs"]
mod common;
mod credentials;
mod faults;
mod full;
mod kills;
mod live;
mod lost;
mod observing;
mod redealt;
mod series;
mod slow;
mod together;
use common::*;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use testkit::certificates::{Authority, write};
use testkit::nats::Nats;
use testkit::process::Guard;
use testkit::wait_until;

/// Where a test's agents and controllers have their files, and how they reach NATS.
struct Place {
    folder: TempDir,
    url: String,
    /// What else NATS wants.
    more: Vec<String>,
}

impl Place {
    fn new(url: &str) -> Self {
        Place { folder: tempfile::tempdir().unwrap(), url: url.to_owned(), more: Vec::new() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command
            .args(["--nats", &self.url])
            .args(&self.more)
            .env("XDG_STATE_HOME", self.folder.path())
            .stdin(Stdio::null());
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

    /// Starts an agent that has another way to NATS.
    fn agent_by(&self, name: &str, url: &str) -> Guard {
        let mut command =
            command(&["agent", "--name", name, "--cores", "1", "--allow-target", "127.0.0.1", "--nats", url]);
        command.env("XDG_STATE_HOME", self.folder.path()).stdin(Stdio::null());
        self.agent_as(name, command)
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

    /// Waits until a begun load has said something.
    fn until_said(&self, words: &str) {
        let said = || std::fs::read_to_string(self.file("said")).unwrap();
        testkit::wait_for_or_show(|| format!("'{words}', in: {}", said()), || said().contains(words).then_some(()));
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

/// As any other load: each has its part of the connections, and the whole is there at once.
#[test]
fn connections_are_held_by_agents() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let _agents = place.agents(&["a", "b"]);
    let hold = ["-c", "300", "--every", "500ms", "-d", "2s", "--tick", "200ms"];
    let run = finish(&mut place.load(&server.url.replace("echo://", "hold://"), "2", &hold));
    assert!(matches!(run.status, Some(0 | 4)), "{}{}", run.stdout, run.stderr);
    let document = run.json();
    let held = &document["held"];
    assert_eq!((count(held, "/established_max"), count(held, "/established_at_end")), (300, 300), "{held:#}");
    let connections: Vec<u64> = generators(&document).iter().map(|one| count(one, "/connections")).collect();
    assert_eq!(connections, [150, 150]);
    assert_eq!(count(&document, "/totals/failed"), 0);
}

/// An agent lives on from run to run: what one took is not the next one's.
#[test]
fn what_an_agent_took_for_one_run_is_not_the_next_ones() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agent = place.agent("a", &["--cores", "1"]);
    let took = |more: &[&str]| {
        let run = finish(&mut place.load(&server.url, "1", more));
        run.assert_measured();
        std::fs::remove_file(place.file("all.plimsoll")).unwrap();
        wait_until("it is idle again", || place.listed().iter().all(|one| one["state"] == "idle"));
        run.json()["generator"]["cpu_seconds"].as_f64().unwrap()
    };
    let much = took(&["-n", "60000", "-c", "8"]);
    let little = took(&["--rate", "20", "-n", "10", "-c", "1"]);
    assert!(little < much, "{little} {much}");
}

/// What agents have kept for themselves.
fn files_of_agents(place: &Place) -> Vec<PathBuf> {
    let folder = place.file("plimsoll/agents");
    let entries = std::fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()).collect());
    entries.unwrap_or_default()
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

/// On a disk with little room NATS sets aside less than a run may take, which is enough for most.
#[test]
fn a_run_takes_what_room_nats_has() {
    if nats().is_none() {
        return;
    }
    let server = serve_http(&[]);
    let small = Nats::start("max_file_store: 100MB").unwrap();
    let place = Place::new(&small.url());
    let _agents = place.agents(&["a"]);
    let run = finish(&mut place.load(&server.url, "1", &["--rate", "100", "-d", "1s", "-c", "2"]));
    run.assert_measured();
    assert!(run.stderr.contains("no room for 1024 MiB (--stream-max)"), "{}", run.stderr);
    assert!(run.stderr.contains("may take 64 MiB there"), "{}", run.stderr);
    std::fs::remove_file(place.file("all.plimsoll")).unwrap();
    let enough =
        finish(&mut place.load(&server.url, "1", &["--rate", "100", "-d", "1s", "-c", "2", "--stream-max", "64MiB"]));
    enough.assert_measured();
    assert!(!enough.stderr.contains("--stream-max"), "{}", enough.stderr);
}

/// There is no agent here: who looks only at the end would wait for one first, and then lose what was measured.
#[test]
fn a_recording_that_is_there_is_refused_before_any_load() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    std::fs::write(place.file("all.plimsoll"), "somebody's").unwrap();
    let run = finish(&mut place.load(&server.url, "1", &["-d", "1s", "--agents-wait", "1s"]));
    run.assert_exit(2);
    assert!(run.stderr.contains("all.plimsoll': name another"), "{}", run.stderr);
    assert!(!run.stderr.contains("attach"), "{}", run.stderr);
    assert_eq!(std::fs::read(place.file("all.plimsoll")).unwrap(), b"somebody's");
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

/// Its key goes to agents sealed, and not at all without a token.
#[test]
fn a_client_certificate_is_shown_by_agents_that_have_the_token() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let authority = Authority::new().unwrap();
    let sign = |name: &str, usage| {
        let (certificate, key) = authority.sign(&[name], |params| params.extended_key_usages = vec![usage]).unwrap();
        write(place.folder.path(), name, &certificate, &key).unwrap()
    };
    let (pem, key) = sign("127.0.0.1", rcgen::ExtendedKeyUsagePurpose::ServerAuth);
    let [ca, token] = ["ca.pem", "token"].map(|name| place.file(name));
    std::fs::write(&ca, authority.certificate().pem()).unwrap();
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let port = testkit::port::Reserved::new().unwrap();
    let server = format!(
        "listen {} ssl; ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; ssl_verify_client on;",
        port.address(),
        pem.display(),
        key.display(),
        ca.display()
    );
    let Ok(_nginx) = testkit::nginx::Nginx::start(&server) else {
        testkit::skip("nginx is not installed (scripts/packages.sh test)");
        return;
    };
    let (pem, key) = sign("someone", rcgen::ExtendedKeyUsagePurpose::ClientAuth);
    let (url, token) = (format!("https://{}/", port.address()), token.to_str().unwrap());
    let files = ["--ca", ca.to_str().unwrap(), "--cert", pem.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let more = [&files[..], &["--rate", "100", "-n", "40", "-c", "4", "--tick", "200ms"]].concat();
    let without = finish(&mut place.load(&url, "2", &more));
    without.assert_exit(2);
    assert!(without.stderr.contains("only sealed"), "{}", without.stderr);
    let _agents = ["a", "b"].map(|name| place.agent(name, &["--cores", "1", "--token-file", token]));
    let run = finish(&mut place.load(&url, "2", &[&more[..], &["--token-file", token]].concat()));
    let document = assert_whole(&run, 2, 40);
    assert_eq!(document["totals"]["status"]["200"], 40, "{:#}", document["totals"]);
    let secret = std::fs::read_to_string(&key).unwrap();
    assert!(!holds(nats.folder(), secret.lines().nth(1).unwrap().as_bytes()));
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
        let base = ["--agents-wait", "0s"];
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
    refused(&["--burst", "2"], 1, "its owner allows 100 requests a second (--rate-max), and this load has no rate");
    refused(&["--rate", "90", "-c", "2"], 1, "its owner allows 1 connections (--connections-max), and its share has 2");
    refused(&["--rate", "200", "-c", "1"], 1, "and its share has 200");
    drop(limited);
    let range = plimsoll(&["load", &server.url, "--agents", "1..3", "--nats", &place.url]);
    range.assert_exit(2);
    assert!(range.stderr.contains("only a search"), "{}", range.stderr);
    refused(&["-H", "Authorization: x"], 2, "only sealed");
    for number in ["0", "1025", "65535", "3..2"] {
        let run = plimsoll(&["load", &server.url, "--agents", number, "--nats", &place.url]);
        run.assert_exit(2);
        assert!(run.stderr.contains("expected from 1 to 1024 agents"), "{number}: {}", run.stderr);
    }
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
