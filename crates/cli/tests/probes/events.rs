//! Probes end to end: what the kernel saw of a reference server stands in the report, and why where it saw nothing.

use crate::common::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use testkit::process::Guard;
use testkit::wait_until;

fn can_run() -> bool {
    if testkit::is_root() && std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return true;
    }
    testkit::skip("probes need root and a kernel with BTF");
    false
}

#[test]
fn a_reply_in_two_writes_without_nodelay_shows_as_sends_held_back() {
    if !can_run() {
        return;
    }
    for (extra, is_held) in [(&["--defect", "nagle"][..], true), (&[][..], false)] {
        let server = serve_http(extra);
        let run = plimsoll(&[
            "load",
            &server.url,
            "-n",
            "200",
            "-c",
            "2",
            "--json",
            "--no-record",
            "-q",
            "--observe",
            "full",
        ]);
        let doc = run.json();
        assert_eq!(doc["totals"]["ok"], 200);
        let counts = &doc["observed"]["bpf"]["counts"];
        let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name} is not in {counts}"));
        assert_eq!(count("sockets.sends_held_back") > 0, is_held, "{counts}");
        assert_eq!(count("sockets.sends_nodelay") == 0, is_held, "{counts}");
        assert_eq!(count("sockets.established"), 2);
        assert_eq!(doc["observed"]["bpf"]["histograms"]["sockets.service_ns"]["count"], 200);
    }
}

#[test]
fn a_server_that_is_killed_is_in_the_recording_with_what_killed_it() {
    if !can_run() {
        return;
    }
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    let file = file.to_str().unwrap();
    let load = ["load", &server.url, "-d", "1h", "-c", "2", "--tick", "100ms", "-q", "--observe", "light"];
    let mut load = Guard::spawn(command(&[&load[..], &["--record", file]].concat()).stdout(Stdio::null())).unwrap();
    let report =
        || Some(plimsoll(&["report", file, "--json"])).filter(|run| run.status == Some(0)).map(|run| run.json());
    // Probes come while the run goes on.
    wait_until("the target is under load, and looked at", || {
        report().is_some_and(|doc| doc["observed"]["bpf"]["counts"].is_object())
    });
    server.process.signal(9);
    wait_until("its end is known", || {
        report().is_some_and(|doc| doc["events"].as_array().unwrap().iter().any(|event| event["kind"] == "target-gone"))
    });
    load.signal(2);
    assert_eq!(load.wait(testkit::HANG_GUARD).unwrap().code(), Some(130));
    let doc = report().unwrap();
    let events = doc["events"].as_array().unwrap_or_else(|| panic!("no events in {doc}"));
    let text = |kind: &str| {
        let event = events.iter().find(|event| event["kind"] == kind);
        event.unwrap_or_else(|| panic!("no {kind} in {events:?}"))["text"].as_str().unwrap_or_default().to_owned()
    };
    assert!(text("target-signal").contains(&format!("took SIGKILL from process {}", std::process::id())));
    assert!(text("target-exit").contains("was ended by SIGKILL"));
}

#[test]
fn windows_take_a_tenth_of_the_measured_time_at_the_most() {
    if can_run() {
        in_three(windows_take_a_tenth);
    }
}

fn windows_take_a_tenth() {
    let server = serve_http(&[]);
    // Too short for one, or over at any moment; of a tick's length; of two.
    for (length, windows, window_s_max) in
        [(["-n", "50"], 0, 0.0), (["-d", "300ms"], 0, 0.0), (["-d", "1s"], 1, 0.1), (["-d", "2s"], 1, 0.2)]
    {
        let load = ["load", &server.url, "-c", "2", "--warmup", "0s", "--json", "--no-record", "-q"];
        let doc = plimsoll(&[&load[..], &length, &["--observe", "windows"]].concat()).json();
        let bpf = &doc["observed"]["bpf"];
        let window_s = bpf["window_s"].as_f64().unwrap_or(0.0);
        // On a busy machine one ends a little late.
        assert!(bpf["windows"] == windows && window_s <= 1.5 * window_s_max, "{length:?}: {bpf}");
        if windows > 0 {
            assert!(window_s > 0.0 && bpf["window_replies"].as_u64() >= Some(1), "{bpf}");
            assert!(bpf["calls_per_reply"].as_f64() >= Some(2.0), "it receives and sends: {bpf}");
        }
    }
}

#[test]
fn a_run_that_is_over_at_once_does_not_wait_for_probes_and_says_so() {
    if !can_run() {
        return;
    }
    let server = serve_http(&[]);
    // On a machine that is busy elsewhere a run of one request can take so long that they are there.
    let docs = (0..20).map(|_| plimsoll(&["load", &server.url, "-n", "1", "--json", "--no-record", "-q"]).json());
    let doc = docs.into_iter().find(|doc| doc["observed"]["bpf"].is_null()).expect("a run without probes, of twenty");
    let samplers = doc["samplers"].as_array().unwrap();
    let probe = samplers.iter().find(|sampler| sampler["name"] == "bpf/sockets").unwrap();
    assert!(probe["reason"].as_str().unwrap().starts_with("not attached before the run ended"), "{probe}");
}

#[test]
fn without_probes_the_report_says_so_and_the_run_is_fine() {
    let server = serve_http(&[]);
    let load = ["load", &server.url, "-n", "50", "--json", "--no-record", "-q", "--observe", "none"];
    let doc = plimsoll(&load).json();
    assert_eq!(doc["totals"]["ok"], 50);
    assert!(doc["observed"]["bpf"].is_null());
    let samplers = doc["samplers"].as_array().unwrap();
    let probe = samplers.iter().find(|sampler| sampler["name"] == "bpf/sockets").unwrap();
    assert_eq!(probe["status"], "disabled");
    assert!(probe["reason"].as_str().unwrap().contains("--observe"), "{probe}");
}

#[test]
fn with_five_capabilities_a_user_sees_what_root_sees() {
    if !can_run() {
        return;
    }
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    // Where tests are built nobody else may come.
    let program = folder.path().join("plimsoll");
    testkit::process::copy_program(std::path::Path::new(BIN), &program).unwrap();
    let open = |path: &std::path::Path| std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(folder.path());
    open(&program);
    // Of a run that is long enough: probes are loaded one after another while it goes, slowly beside other work.
    let active = |run: &mut dyn FnMut(&[&str]) -> Run| -> Vec<String> {
        for length in ["1s", "4s", "16s"] {
            let document = run(&["load", &server.url, "-c", "2", "-d", length, "--json", "--no-record", "-q"]).json();
            let samplers = document["samplers"].as_array().unwrap();
            let came_late = |sampler: &serde_json::Value| {
                sampler["reason"].as_str().unwrap_or_default().starts_with("not attached")
            };
            if samplers.iter().any(came_late) {
                continue;
            }
            let active = samplers.iter().filter(|sampler| sampler["status"] == "active");
            return active.map(|sampler| sampler["name"].as_str().unwrap().to_owned()).collect();
        }
        panic!("16 s were too short to load the probes");
    };
    let of_root = active(&mut |load| plimsoll(load));
    let as_nobody = |rights: &str| {
        active(&mut |load| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set"]);
            command.args([&format!("-all{rights}"), "--inh-caps", &format!("-all{rights}")]);
            if !rights.is_empty() {
                command.args(["--ambient-caps", rights.trim_start_matches(',')]);
            }
            finish(command.arg(&program).args(load))
        })
    };
    let needed = ",+bpf,+perfmon,+sys_ptrace,+syslog,+dac_read_search";
    assert_eq!(as_nobody(needed), of_root);
    assert!(of_root.iter().any(|name| name == "bpf/lifecycle"), "{of_root:?}");
    let of_nobody = as_nobody("");
    assert!(!of_nobody.iter().any(|name| name.starts_with("bpf/")), "{of_nobody:?}");
}
