//! Every file of `experiments/` runs at a small scale, and what it says of its server is so.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::*;
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;

/// A file of the folder: its name, the flags and texts that make it small, and what must be so.
struct Experiment {
    name: &'static str,
    flags: &'static [&'static str],
    texts: &'static [(&'static str, &'static str)],
    claim: fn(&Value),
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "held",
        flags: &["-c", "20", "-d", "2s"],
        texts: &[("connections >= 200", "connections >= 20")],
        claim: held,
    },
    Experiment {
        name: "spike",
        flags: &[],
        texts: &[("\"10s\"", "\"2s\""), ("\"3s\"", "\"1s\""), ("\"20s\"", "\"4s\"")],
        claim: spike,
    },
    Experiment { name: "nginx", flags: &["-d", "2s"], texts: &[], claim: nginx },
    Experiment { name: "mix", flags: &["-n", "4000"], texts: &[], claim: mix },
    Experiment { name: "two-loads", flags: &["-d", "2s"], texts: &[], claim: two_loads },
    Experiment {
        name: "slow-clients",
        flags: &["-d", "2s"],
        texts: &[
            ("connections = 200", "connections = 20"),
            ("at = \"3s\"", "at = \"500ms\""),
            ("for = \"4s\"", "for = \"1s\""),
        ],
        claim: slow_clients,
    },
    Experiment {
        name: "canary",
        flags: &["-d", "3s"],
        texts: &[("\"timeout 3 plimsoll", "\"timeout 1 plimsoll")],
        claim: canary,
    },
    Experiment { name: "data", flags: &["-d", "2s"], texts: &[], claim: data },
    Experiment { name: "name-service", flags: &["-d", "2s"], texts: &[], claim: name_service },
    Experiment { name: "name-service-crash-fail-fast", flags: &["-d", "3s"], texts: SOON, claim: state_is_lost },
    Experiment { name: "name-service-crash-wait", flags: &["-d", "3s"], texts: SOON, claim: state_is_lost },
    Experiment { name: "name-service-crash-retry", flags: &["-d", "3s"], texts: SOON, claim: retries_are_bounded },
    Experiment {
        name: "name-service-crash-durable",
        flags: &["-d", "3s"],
        texts: &[SOON[0], ("/tmp/plimsoll-names.journal", "names.journal")],
        claim: state_is_kept,
    },
];

/// The crash, so early that a short run has something to read after it.
const SOON: &[(&str, &str)] = &[("at = \"10s\"", "at = \"1s\"")];

/// Little's law: no more requests are under way than there are clients.
fn name_service(document: &Value) {
    let mean_us = document["latency"]["response"]["mean_us"].as_f64().unwrap();
    let under_way = document["achieved"]["rate_per_s"].as_f64().unwrap() * mean_us / 1e6;
    assert!(under_way > 0.0 && under_way <= 200.0 * 1.05, "{under_way}");
    let audit = document["judged"].as_array().unwrap().iter().find(|finding| finding["id"] == "figure-audit").unwrap();
    assert_eq!(audit["status"], "refuted", "{audit:#}");
}

fn crashed(document: &Value) -> u64 {
    assert_eq!(document["faults"][0]["state"], "done", "{:#}", document["faults"]);
    document["totals"]["errors"]["lost-write"].as_u64().unwrap_or(0)
}

fn state_is_lost(document: &Value) {
    assert!(crashed(document) > 0, "{}", document["totals"]["errors"]);
    let lost = |finding: &Value| finding["id"] == "state-lost" && finding["severity"] != "info";
    assert!(document["findings"].as_array().unwrap().iter().any(lost), "{:#}", document["findings"]);
}

fn state_is_kept(document: &Value) {
    assert_eq!(crashed(document), 0, "{}", document["totals"]["errors"]);
}

/// At most a tenth of the requests, whatever happens.
fn retries_are_bounded(document: &Value) {
    state_is_lost(document);
    let of = |name: &str| document["totals"][name].as_f64().unwrap();
    assert!(of("retries") <= 0.1 * of("started"), "{}", document["totals"]);
    assert_eq!(of("attempts"), of("started") + of("retries"));
}

fn held(document: &Value) {
    assert_eq!(document["achieved"]["connections"].as_u64(), Some(20), "{}", document["achieved"]);
    assert!(document["totals"]["ok"].as_u64() > Some(20), "{}", document["totals"]);
}

fn spike(document: &Value) {
    let phases = document["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hold", "spike", "after"]);
    let mean = |at: usize| phases[at]["response"]["mean_us"].as_f64().unwrap();
    // A queue of some hundred milliseconds, beside a reply that takes about two.
    assert!(mean(1) > 5.0 * mean(0), "{phases:?}");
    let ended: u64 = phases.iter().map(|phase| phase["requests"].as_u64().unwrap()).sum();
    assert_eq!(Some(ended), document["totals"]["requests"].as_u64(), "each request is of one phase");
}

fn nginx(document: &Value) {
    assert_eq!(document["totals"]["failed"].as_u64(), Some(0), "{}", document["totals"]);
    assert!(document["totals"]["ok"].as_u64() > Some(500), "{}", document["totals"]);
}

fn mix(document: &Value) {
    let of = |name: &str| document["totals"][name].as_f64().unwrap();
    let share = of("failed") / of("requests");
    assert!((0.08..0.12).contains(&share), "{share}");
}

fn two_loads(document: &Value) {
    assert_eq!(document["load"], "users");
    let batch = &document["loads"][0];
    assert_eq!(batch["name"], "batch");
    assert!(batch["report"]["totals"]["ok"].as_u64() > Some(100), "{}", batch["report"]["totals"]);
    // A user finds requests of the batch job before its own: alone it would wait for little more than its own 2 ms.
    let mean_us = document["latency"]["response"]["mean_us"].as_f64();
    assert!(mean_us > Some(6000.0), "{mean_us:?}");
    assert!(document["loads"][1]["canary"]["answered"].as_u64() > Some(0), "{}", document["loads"][1]["canary"]);
}

fn slow_clients(document: &Value) {
    for fault in document["faults"].as_array().unwrap() {
        assert_eq!(fault["state"], "undone", "{fault}");
        assert!(fault.to_string().contains("100 connections made"), "{fault}");
    }
    let slow = &document["loads"][0]["report"];
    assert_eq!((&document["load"], &document["achieved"]["connections"]), (&"fast".into(), &4.into()));
    assert_eq!(slow["achieved"]["connections"], 20, "{}", slow["achieved"]);
    assert!(
        slow["totals"]["ok"].as_u64() > Some(0) && document["totals"]["ok"].as_u64() > Some(20),
        "{}",
        slow["totals"]
    );
}

fn canary(document: &Value) {
    let events = document["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "target-restarted"), "{events:?}");
    let canary = &document["loads"][0]["canary"];
    assert!(canary["answered"].as_u64() > Some(1), "{canary}");
    // It was there again: a load that goes on for three times as long as the server lives has replies from more than one.
    assert!(document["totals"]["ok"].as_u64() > Some(0), "{}", document["totals"]);
}

fn data(document: &Value) {
    assert_eq!(document["totals"]["failed"].as_u64(), Some(0), "{}", document["totals"]);
    let entries = document["totals"]["entries"].as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["login", "look", "buy"]);
    assert!(entries.iter().all(|entry| entry["ok"].as_u64() > Some(0)), "{entries:?}");
}

/// The file with other ports, so that tests do not meet; programs are those of this build.
fn small(experiment: &Experiment, root: &Path, folder: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(root.join("experiments").join(name)).unwrap();
    let (mut text, mut conf) = (read(&format!("{}.toml", experiment.name)), read("nginx.conf"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let written = (7790..7800).map(|port: u16| port.to_string()).find(|port| text.contains(port)).unwrap();
    text = text.replace(&written, &port);
    conf = conf.replace(&written, &port);
    for (from, to) in experiment.texts {
        assert!(text.contains(from), "{}: '{from}'", experiment.name);
        text = text.replace(from, to);
    }
    let files = folder.join("experiments");
    std::fs::create_dir(&files).unwrap();
    for name in ["shop.py", "shop-requests.toml", "users.csv"] {
        std::fs::write(files.join(name), read(name)).unwrap();
    }
    std::fs::write(files.join("nginx.conf"), conf).unwrap();
    text.replace("\"plimsoll serve", &format!("\"{BIN} serve")).replace("1 plimsoll serve", &format!("1 {BIN} serve"))
}

#[test]
fn every_experiment_runs_and_its_claim_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files: Vec<String> = std::fs::read_dir(root.join("experiments"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-requests.toml"))
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    files.sort();
    let mut known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    known.sort_unstable();
    assert_eq!(files, known, "each file has its claim here");
    for experiment in EXPERIMENTS {
        let needs = [("nginx", "nginx", "-v"), ("data", "python3", "--version")];
        let missing = needs.iter().find(|(name, program, flag)| {
            *name == experiment.name && std::process::Command::new(program).arg(flag).output().is_err()
        });
        if let Some((_, program, _)) = missing {
            testkit::skip(&format!("{program} is not installed"));
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("experiment.toml");
        std::fs::write(&file, small(experiment, root, folder.path())).unwrap();
        let words = [&["run", file.to_str().unwrap()], experiment.flags, &["--json", "-q", "--no-record"]].concat();
        let run = finish(command(&words).current_dir(folder.path()).env("XDG_STATE_HOME", folder.path()));
        // What the tests beside it took of the CPU may make a bound missed, or the result not valid: the claim is looked at.
        assert!(matches!(run.status, Some(0 | 3 | 4)), "{}: {:?}\n{}", experiment.name, run.status, run.stderr);
        (experiment.claim)(&run.json());
    }
}
