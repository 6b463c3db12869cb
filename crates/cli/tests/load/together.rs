//! Several loads of a file put on together, a canary, a run that ends early, and one that is repeated: as a user runs them.

use crate::common::*;
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// A file in a folder of its own, where recordings go, too.
struct File {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scenario.toml");
        std::fs::write(&path, text).unwrap();
        File { folder, path }
    }

    fn run(&self, more: &[&str]) -> Run {
        let words = [&["run", self.path.to_str().unwrap()], more].concat();
        finish(command(&words).env("XDG_STATE_HOME", self.folder.path()))
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("run.plimsoll")
    }
}

/// Two loads on two protocols: an open one, and a closed one that is the main load.
fn two(more: &str) -> (Server, Server, File) {
    let (http, echo) = (serve_http(&[]), serve(&["serve", "echo", "--listen", "127.0.0.1:0"]));
    let text = format!(
        "quiet = true\n{more}\n[[load]]\nname = \"steady\"\nurl = \"{}\"\nrate = \"200/s\"\nconnections = 3\nduration = \"1s\"\n\
         expect = \"rate > 1/s\"\n\
         [[load]]\nname = \"counted\"\nmain = true\nurl = \"{}\"\nrequests = 300\nconnections = 2\nexpect = \"rate > 1/s\"\n",
        http.url, echo.url
    );
    (http, echo, File::new(&text))
}

fn of<'d>(document: &'d Value, name: &str) -> &'d Value {
    let loads = document["loads"].as_array().unwrap();
    loads.iter().find(|load| load["name"] == name).unwrap_or_else(|| panic!("{name}: {loads:?}"))
}

#[test]
fn two_loads_of_two_protocols_have_one_report_and_a_recording_each() {
    let (_http, _echo, file) = two("");
    let record = file.record();
    let run = file.run(&["--json", "--record", record.to_str().unwrap()]);
    run.assert_measured();
    let document = run.json();
    // The main one is at the top, with its own figures.
    assert_eq!((&document["load"], &document["totals"]["requests"]), (&"counted".into(), &300.into()));
    let steady = &of(&document, "steady")["report"];
    assert_eq!(due(&steady["totals"]), 200, "{}", steady["totals"]);
    assert_eq!(steady["requested"]["connections"], 3);
    for report in [&document, steady] {
        assert_eq!(report["expectations"][0]["expected"], "rate > 1/s");
        // Both have the machine's readings, on one clock.
        assert!(report["samplers"].as_array().is_some_and(|samplers| samplers.len() > 3), "{}", report["samplers"]);
    }
    let beside = file.folder.path().join("run-steady.plimsoll");
    assert!(beside.is_file() && steady["recording"].as_str().is_some_and(|path| Path::new(path) == beside));
    // The recordings say the same: all loads by the main one's, each by its own.
    let again = plimsoll(&["report", record.to_str().unwrap(), "--json"]).json();
    assert_eq!(of(&again, "steady")["report"]["totals"], steady["totals"]);
    assert_eq!(again["totals"], document["totals"]);
    let alone = plimsoll(&["report", beside.to_str().unwrap(), "--json"]).json();
    assert_eq!((&alone["totals"], &alone["load"]), (&steady["totals"], &"steady".into()));
    let text = plimsoll(&["report", record.to_str().unwrap()]);
    for line in ["2 loads, put on together; the main one is 'counted'", "Load 'counted'", "Load 'steady'"] {
        assert!(text.stdout.lines().any(|shown| shown == line), "{line}\n{}", text.stdout);
    }
    // One that is gone is said, and the rest is shown.
    std::fs::remove_file(&beside).unwrap();
    let rest = plimsoll(&["report", record.to_str().unwrap()]);
    rest.assert_exit(0);
    assert!(rest.stderr.contains("the load 'steady' is left out"), "{}", rest.stderr);
}

#[test]
fn one_load_that_misses_what_was_expected_fails_the_run() {
    let (_http, _echo, file) = two("no-record = true");
    let text = std::fs::read_to_string(&file.path).unwrap();
    // Of the load beside the main one.
    std::fs::write(&file.path, text.replacen("rate > 1/s", "rate > 1m/s", 1)).unwrap();
    let run = file.run(&[]);
    assert!(matches!(run.status, Some(3 | 4)), "{:?} {}", run.status, run.stderr);
    let said = run.stdout.lines().any(|line| line.starts_with("steady: ") && line.contains("rate > 1"));
    assert!(said, "{}", run.stdout);
}

#[test]
fn what_is_wrong_among_loads_is_said_with_its_place() {
    let check = |text: &str, said: &str| {
        let file = File::new(text);
        let run = file.run(&[]);
        run.assert_exit(2);
        assert_eq!(run.stderr, format!("plimsoll: {}:{said}\n", file.path.display()), "{text}");
    };
    let load = |more: &str| format!("[[load]]\nurl = 'http://127.0.0.1:1/'\n{more}\n");
    check(&(load("name = 'a'") + &load("name = 'a'")), "4:1: name: expected one that no other load has, got 'a'");
    check(
        &(load("main = true") + &load("main = true")),
        "4:1: main: expected one main load, got another: leave it out here",
    );
    check(&(load("") + &load("connections = 0")), "6:1: connections: expected 1 to 4000000 connections, got '0'");
    check(
        &load("abort-when = 'errors > 10 %'"),
        "3:1: abort-when: expected a figure, a bound and for how long, such as 'errors > 10 % for 5s', got 'errors > 10 %'",
    );
    check(&("repeats = 0\n".to_owned() + &load("")), "1:11: repeats: expected a number from 1 to 200, got '0'");
    let canary = |more: &str| load("") + "[canary]\n" + more;
    check(
        &canary("every = '1s'\n"),
        "4:2: url: expected the URL that the canary asks, got none: name it below [canary]",
    );
    check(
        &canary("url = 'http://h/'\nrate = '1/s'\n"),
        "6:1: 'rate' is not a canary's, which asks once each 'every' as long as a load runs: leave it out",
    );
    check(
        &canary("url = 'http://h/'\nevery = 'often'\n"),
        "6:9: every: expected a time longer than 0, such as 1s, got 'often'",
    );
    check(&canary("url = 'http://h/'\nevry = '1s'\n"), "6:1: the key 'evry' is not known: did you mean 'every'?");
}

#[test]
fn a_plan_of_several_loads_is_explained_whole() {
    let text = "repeats = 3\n[target]\ncommand = \"true\"\nrestart = \"on-exit\"\n\
        [[load]]\nname = \"a\"\nurl = \"http://127.0.0.1:1/\"\nabort-when = \"errors > 10 % for 5s\"\n\
        [[load]]\nname = \"b\"\nurl = \"echo://127.0.0.1:2\"\nrate = \"7/s\"\n\
        [canary]\nurl = \"http://127.0.0.1:1/health\"\nevery = \"2s\"\nheader = \"X-Canary: yes\"\n";
    let file = File::new(text);
    let shown = file.run(&["--explain"]);
    shown.assert_exit(0);
    for part in [
        "3, each with its recording",
        "is started again",
        "Load 'a' (the main one)",
        "when errors > 10.0 % for 5.00 s",
        "Load 'b' (beside it)",
        "Load 'canary' (ends with the last load)",
    ] {
        assert!(shown.stdout.contains(part), "{part}\n{}", shown.stdout);
    }
    let document = file.run(&["--explain", "--json"]).json();
    assert_eq!((&document["repeats"], &document["load"]), (&3.into(), &"a".into()));
    let canary = &document["loads"][1];
    assert_eq!((&canary["load"], &canary["plan"]["connections"]), (&"canary".into(), &1.into()));
    assert_eq!(canary["plan"]["pace"]["profile"][0]["from_per_s"], 0.5);
    assert_eq!(document["target"]["command"], "true");
}

#[test]
fn a_canary_says_since_when_nothing_answers_and_fails_nothing_by_itself() {
    let server = serve_http(&[]);
    // Its own address takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    let words = ["load", &server.url, "-c", "2", "--rate", "50/s", "-d", "1s", "--json", "-q", "--no-record"];
    let run = plimsoll(&[&words[..], &["--canary", &silent, "--canary-every", "100ms"]].concat());
    run.assert_measured();
    let document = run.json();
    let canary = &of(&document, "canary")["canary"];
    assert_eq!((&canary["answered"], &canary["every_s"]), (&0.into(), &0.1.into()), "{canary}");
    assert!(canary["asked"].as_u64() > Some(2), "{canary}");
    assert_eq!(canary["unanswered_since_s"], 0.0, "{canary}");
    // One that is answered ends with the load, though nothing else ends it.
    let run = plimsoll(&[&words[..], &["--canary", &server.url, "--canary-every", "100ms"]].concat());
    run.assert_measured();
    let document = run.json();
    let canary = &of(&document, "canary")["canary"];
    assert!(canary["answered"].as_u64() > Some(2) && canary["slowest_ms"].as_f64() > Some(0.0), "{canary}");
    assert_eq!(due(&document["totals"]), 50, "the load's own requests are apart");
    let text = plimsoll(&[&words[..6], &["-d", "1s", "-q", "--no-record", "--canary", &silent]].concat());
    assert!(text.stdout.contains("no answer since second 0.0"), "{}", text.stdout);
    plimsoll(&[&words[..], &["--canary-every", "1s"]].concat()).assert_exit(2);
    plimsoll(&[&words[..], &["--canary", "hold://127.0.0.1:1"]].concat()).assert_exit(2);
}

#[test]
fn a_run_ends_early_and_its_first_lines_say_why() {
    let server = serve_http(&[]);
    let url = format!("{}missing", server.url);
    let words = ["load", &url, "-c", "1", "--rate", "100/s", "-d", "60s", "-q", "--no-record", "--tick", "100ms"];
    let condition = ["--abort-when", "errors > 10 % for 300ms"];
    let run = plimsoll(&[&words[..], &condition, &["--json"]].concat());
    run.assert_unmet();
    let document = run.json();
    let events = document["events"].as_array().unwrap();
    let aborted = events.iter().find(|event| event["kind"] == "aborted").unwrap();
    assert!(aborted["text"].as_str().unwrap().contains("errors came to 100.0 %"), "{aborted}");
    assert_eq!(document["gives"]["text"], aborted["text"]);
    let expectations = document["expectations"].as_array().unwrap();
    let judged = expectations.iter().find(|one| one["expected"] == "never errors > 10.0 % for 300 ms").unwrap();
    assert_eq!(judged["state"], "not-met", "{judged}");
    assert!(document["totals"]["requests"].as_u64() < Some(3000), "{}", document["totals"]);
    let text = plimsoll(&[&words[..], &condition].concat());
    let second = text.stdout.lines().nth(1).unwrap();
    assert!(second.starts_with("The run was ended early, after "), "{}", text.stdout);
    // What never was is met.
    let words = ["load", &server.url, "-n", "50", "-q", "--no-record", "--json"];
    let run = plimsoll(&[&words[..], &condition].concat());
    run.assert_measured();
    assert_eq!(run.json()["expectations"][0]["state"], "met");
}

#[test]
fn a_run_is_repeated_with_a_recording_each_and_one_answer() {
    let server = serve_http(&[]);
    let text = format!(
        "repeats = 5\n[load]\nurl = \"{}\"\nrequests = 100\nconnections = 1\nexpect = \"errors < 1 %, rate > 1m/s\"\n",
        server.url
    );
    let file = File::new(&text);
    let record = file.record();
    let run = file.run(&["--json", "--record", record.to_str().unwrap()]);
    assert!(matches!(run.status, Some(3 | 4)), "{:?} {}", run.status, run.stderr);
    assert_eq!(run.stderr.lines().filter(|line| line.starts_with("run ")).count(), 5, "{}", run.stderr);
    let document = run.json();
    assert_eq!((&document["schema"], &document["made"]), (&"plimsoll.repeats/1".into(), &5.into()));
    let load = &document["loads"][0];
    let state = |at: usize| &load["expectations"][at];
    assert_eq!((&state(0)["met"], &state(1)["met"]), (&5.into(), &0.into()), "{load:#}");
    let runs = load["runs"].as_array().unwrap();
    for (at, run) in runs.iter().enumerate() {
        let path = file.folder.path().join(format!("run-{}.plimsoll", at + 1));
        assert!(path.is_file() && Path::new(run["recording"].as_str().unwrap()) == path);
    }
    let used = load["used"].as_u64().unwrap();
    let throughput = load["figures"].as_array().unwrap().iter().find(|figure| figure["quantity"] == "throughput");
    if used == 5 {
        let throughput = throughput.unwrap();
        let figure = |name: &str| throughput[name].as_f64().unwrap();
        assert!(figure("low") <= figure("median") && figure("median") <= figure("high"), "{throughput}");
        assert_eq!(figure("confidence"), 0.9);
    }
    let text = file.run(&["--no-record", "-q"]);
    assert!(text.stdout.contains("errors < 1 %: met in 5 of 5 runs"), "{}", text.stdout);
}

#[test]
fn of_a_series_that_cannot_go_on_what_is_known_is_said() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let been = folder.path().join("been");
    let text = format!(
        "repeats = 3\n[target]\ncommand = \"sh -c 'test -e {been} && exit 7; touch {been}; exec {BIN} serve http --listen 127.0.0.1:{port}'\"\n\
         [load]\nurl = \"http://127.0.0.1:{port}/\"\nrequests = 100\nconnections = 1\n",
        been = been.display()
    );
    let run = File::new(&text).run(&["--json", "--no-record"]);
    run.assert_exit(1);
    assert!(run.stderr.contains("exit status: 7"), "{}", run.stderr);
    let document = run.json();
    assert_eq!((&document["asked"], &document["made"]), (&3.into(), &1.into()), "{document:#}");
    assert_eq!(document["end"], "partial");
    assert_eq!(document["loads"][0]["runs"].as_array().map(Vec::len), Some(1), "{document:#}");
    // Of the first there is nothing to say.
    let run = File::new(&text).run(&["--json", "--no-record"]);
    run.assert_exit(1);
    assert_eq!(run.stdout, "");
    // To a reader, and of variants.
    std::fs::remove_file(&been).unwrap();
    let run = File::new(&text).run(&["--no-record", "-q"]);
    run.assert_exit(1);
    assert!(run.stdout.starts_with("1 run of 3 asked for, cut off: "), "{}", run.stdout);
    std::fs::remove_file(&been).unwrap();
    let varied = text.replace("requests = 100", "requests = \"{count}\"");
    let run = File::new(&format!("vary.count = [100, 200]\n{varied}")).run(&["--json", "--no-record"]);
    run.assert_exit(1);
    let document = run.json();
    assert_eq!(document["end"], "partial", "{document:#}");
    let only = &document["variants"][0]["repeats"];
    assert_eq!((&only["made"], &only["end"]), (&1.into(), &"partial".into()), "{document:#}");
}
