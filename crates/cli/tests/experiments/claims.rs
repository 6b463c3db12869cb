//! What must be so of each experiment, whatever the machine and at a small scale.

use serde_json::Value;

/// Little's law: no more requests are under way than there are clients.
pub fn name_service(document: &Value) {
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

pub fn state_is_lost(document: &Value) {
    assert!(crashed(document) > 0, "{}", document["totals"]["errors"]);
    let lost = |finding: &Value| finding["id"] == "state-lost" && finding["severity"] != "info";
    assert!(document["findings"].as_array().unwrap().iter().any(lost), "{:#}", document["findings"]);
}

pub fn state_is_kept(document: &Value) {
    assert_eq!(crashed(document), 0, "{}", document["totals"]["errors"]);
}

/// At most a tenth of the requests, whatever happens.
pub fn retries_are_bounded(document: &Value) {
    state_is_lost(document);
    let of = |name: &str| document["totals"][name].as_f64().unwrap();
    assert!(of("retries") <= 0.1 * of("started"), "{}", document["totals"]);
    assert_eq!(of("attempts"), of("started") + of("retries"));
}

pub fn held(document: &Value) {
    assert_eq!(document["achieved"]["connections"].as_u64(), Some(20), "{}", document["achieved"]);
    assert!(document["totals"]["ok"].as_u64() > Some(20), "{}", document["totals"]);
}

pub fn spike(document: &Value) {
    let phases = document["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hold", "spike", "after"]);
    let mean = |at: usize| phases[at]["response"]["mean_us"].as_f64().unwrap();
    // A queue of some hundred milliseconds, beside a reply that takes about two.
    assert!(mean(1) > 5.0 * mean(0), "{phases:?}");
    let ended: u64 = phases.iter().map(|phase| phase["requests"].as_u64().unwrap()).sum();
    assert_eq!(Some(ended), document["totals"]["requests"].as_u64(), "each request is of one phase");
}

pub fn nginx(document: &Value) {
    assert_eq!(document["totals"]["failed"].as_u64(), Some(0), "{}", document["totals"]);
    assert!(document["totals"]["ok"].as_u64() > Some(500), "{}", document["totals"]);
}

pub fn mix(document: &Value) {
    let of = |name: &str| document["totals"][name].as_f64().unwrap();
    let share = of("failed") / of("requests");
    assert!((0.08..0.12).contains(&share), "{share}");
}

pub fn two_loads(document: &Value) {
    assert_eq!(document["load"], "users");
    let batch = &document["loads"][0];
    assert_eq!(batch["name"], "batch");
    assert!(batch["report"]["totals"]["ok"].as_u64() > Some(100), "{}", batch["report"]["totals"]);
    // A user finds requests of the batch job before its own: alone it would wait for little more than its own 2 ms.
    let mean_us = document["latency"]["response"]["mean_us"].as_f64();
    assert!(mean_us > Some(6000.0), "{mean_us:?}");
    assert!(document["loads"][1]["canary"]["answered"].as_u64() > Some(0), "{}", document["loads"][1]["canary"]);
}

pub fn slow_clients(document: &Value) {
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

pub fn canary(document: &Value) {
    let events = document["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "target-restarted"), "{events:?}");
    let canary = &document["loads"][0]["canary"];
    assert!(canary["answered"].as_u64() > Some(1), "{canary}");
    // It was there again: a load that goes on for three times as long as the server lives has replies from more than one.
    assert!(document["totals"]["ok"].as_u64() > Some(0), "{}", document["totals"]);
}

pub fn data(document: &Value) {
    assert_eq!(document["totals"]["failed"].as_u64(), Some(0), "{}", document["totals"]);
    let entries = document["totals"]["entries"].as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["login", "look", "buy"]);
    assert!(entries.iter().all(|entry| entry["ok"].as_u64() > Some(0)), "{entries:?}");
}

fn found(document: &Value, id: &str) -> bool {
    document["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == id)
}

pub fn waits_for_acknowledgements(document: &Value) {
    assert_eq!(document["gives"]["finding"], "nagle-delayed-ack", "{:#}", document["gives"]);
    let p50_us = document["latency"]["response"]["p50_us"].as_f64();
    assert!(p50_us > Some(36_000.0), "{p50_us:?}");
}

pub fn died_of_sigpipe(document: &Value) {
    assert!(found(document, "sigpipe-death"), "{:#}", document["findings"]);
    let gives = &document["gives"];
    assert_eq!(gives["finding"], "sigpipe-death", "it is the first line: {gives}");
    assert!(gives["text"].as_str().unwrap().contains("died of SIGPIPE"), "{gives}");
    let events = document["events"].as_array().unwrap();
    let end = events.iter().find(|event| event["kind"] == "target-exit").unwrap();
    // The thread that wrote, and not the one that ended last.
    assert!(end["text"].as_str().unwrap().contains("ended by SIGPIPE, in the system call write"), "{end}");
}

/// Each variant of a document, by the name of what the first axis is in it.
fn variants(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    assert_eq!(document["schema"], "plimsoll.variants/1");
    document["variants"].as_array().unwrap().iter().map(|one| (one["values"][0]["value"].as_str().unwrap(), one))
}

fn value<'a>(variant: &'a Value, axis: &str) -> &'a str {
    let values = variant["values"].as_array().unwrap();
    values.iter().find(|one| one["axis"] == axis).unwrap()["value"].as_str().unwrap()
}

/// The only run of a variant's first load.
fn run_of(variant: &Value) -> &Value {
    &variant["repeats"]["loads"][0]["runs"][0]
}

pub fn each_wrong_reply_is_another_finding(document: &Value) {
    let expected = [
        ("sound", &[][..]),
        ("one receive for each", &["truncated-reply"]),
        ("at most 4096 bytes", &["padded-reply", "truncated-reply"]),
        ("up to a NUL", &["truncated-reply"]),
        ("changed", &["corrupted-reply"]),
        ("padded", &["padded-reply"]),
        ("whole buffers", &["missing-reply"]),
    ];
    let all: Vec<_> = variants(document).collect();
    assert_eq!(all.iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected.map(|(name, _)| name));
    for ((name, variant), (_, ids)) in all.iter().zip(expected) {
        let found = variant["repeats"]["loads"][0]["findings"].as_array().unwrap();
        let wrong: Vec<&str> =
            found.iter().map(|one| one["id"].as_str().unwrap()).filter(|id| id.ends_with("-reply")).collect();
        assert!(ids.iter().all(|id| wrong.contains(id)) && wrong.is_empty() == ids.is_empty(), "{name}: {wrong:?}");
    }
}

pub fn as_many_silent_clients_as_threads_stop_a_pool(document: &Value) {
    for (design, variant) in variants(document) {
        let timeouts = run_of(variant)["errors"]["reply-timeout"].as_u64().unwrap_or(0);
        let is_stopped = design == "pool of 64" && value(variant, "idle") == "64";
        assert_eq!(timeouts > 0, is_stopped, "{design}: {:#}", run_of(variant));
    }
}

pub fn every_design_answers(document: &Value) {
    assert_eq!(variants(document).count(), 9);
    for (design, variant) in variants(document) {
        assert!(run_of(variant)["figures"]["throughput"].as_f64() > Some(0.0), "{design}: {variant:#}");
    }
}

pub fn a_handshake_costs_more_than_a_request(document: &Value) {
    let cpu_us = |server: &str, connections: &str| {
        let is_it = |variant: &Value| value(variant, "connections") == connections;
        let (_, variant) = variants(document).find(|(name, variant)| *name == server && is_it(variant)).unwrap();
        run_of(variant)["figures"]["cpu"].as_f64().unwrap()
    };
    // A signature of RSA-4096 is milliseconds, the rest of a request some ten microseconds.
    assert!(cpu_us("rsa-4096", "new each") > 3.0 * cpu_us("rsa-4096", "kept"));
    assert!(cpu_us("rsa-4096", "new each") > 2.0 * cpu_us("p-256", "new each"));
    assert!(cpu_us("p-256", "new each") > cpu_us("http", "new each"));
}

pub fn the_stressor_came_and_went(document: &Value) {
    let fault = &document["faults"][0];
    assert_eq!((&fault["name"], &fault["state"]), (&"stress".into(), &"undone".into()), "{fault:#}");
    assert_eq!(document["phases"].as_array().unwrap().len(), 3);
    assert!(document["loads"][0]["canary"]["answered"].as_u64() > Some(1), "{}", document["loads"][0]["canary"]);
    let trouble = document["judged"].as_array().unwrap().iter().find(|one| one["id"] == "kernel-trouble");
    assert!(trouble.is_none_or(|one| one["status"] != "supported"), "{trouble:?}");
}

pub fn all_are_held_in_little_memory(document: &Value) {
    assert_eq!(document["held"]["established_at_end"], 2000, "{:#}", document["held"]);
    let limit = &document["observed"]["target"][0]["metrics"]["cgroup_memory_limit_bytes"]["last"];
    assert_eq!(limit.as_u64(), Some(1 << 30), "the server is in its group");
    assert_eq!(document["plan"]["origins"][0]["addresses"].as_array().unwrap().len(), 5);
}

pub fn a_server_that_waits_hides_its_crash(document: &Value) {
    for (client, variant) in variants(document) {
        let errors = &run_of(variant)["errors"];
        let answered_with_errors = errors["error-reply"].as_u64().unwrap_or(0);
        match value(variant, "server") {
            "fail-fast" => assert!(answered_with_errors > 0, "{client}: {errors}"),
            _ => assert_eq!(answered_with_errors, 0, "{client}: {errors}"),
        }
        // What was acknowledged is gone, whoever waits.
        assert!(errors["lost-write"].as_u64() > Some(0), "{client}: {errors}");
    }
}

/// 8 clients of a file of 4 MiB: 32 MiB where the buffers hold it.
pub fn buffers_are_what_a_proxy_takes(document: &Value) {
    let memory = |buffers: &str| {
        let (_, variant) = variants(document).find(|(_, variant)| value(variant, "buffers") == buffers).unwrap();
        let run = run_of(variant);
        assert!(run["errors"].as_object().unwrap().is_empty(), "{run:#}");
        (run["target_memory_bytes_max"].as_u64().unwrap(), run["target_files_bytes_max"].as_u64().unwrap_or(0))
    };
    let ((large, _), (few, files), (off, no_files)) = (memory("1024 of 256k"), memory("16 of 32k"), memory("off"));
    // A busy machine reads few of these moments, and not all clients wait at one: no more than the order is claimed.
    assert!(large > few + (4 << 20) && large > off + (8 << 20), "{large} {few} {off}");
    assert!(files > (4 << 20) && no_files < (1 << 20), "what does not fit is in files: {files} {no_files}");
}

pub fn what_did_not_fit_was_swapped(document: &Value) {
    let host = &document["observed"]["metrics"]["host"];
    assert!(host["swap_out_pages"]["delta"].as_u64() > Some(0), "{:#}", host["swap_out_pages"]);
    assert!(document["loads"][0]["canary"]["answered"].as_u64() > Some(1), "{}", document["loads"][0]["canary"]);
    assert!(!std::fs::read_to_string("/proc/swaps").unwrap().contains("plimsoll-proxy"), "its swap is gone with it");
}

pub fn result_is_of_both(document: &Value) {
    let generators = document["generators"]["generators"].as_array().unwrap();
    assert_eq!((generators.len(), &document["achieved"]["connections"]), (2, &200.into()), "{generators:?}");
    let ok = document["totals"]["ok"].as_u64().unwrap();
    // Nothing is lost of a histogram: each success is in it once.
    assert!(ok > 100 && document["latency"]["response"]["count"].as_u64() == Some(ok), "{}", document["totals"]);
}
