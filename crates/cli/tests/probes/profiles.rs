//! Profiles end to end: a server with a lock around all its work is recorded, reported and drawn; and why where not.

use crate::common::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn can_run() -> bool {
    if testkit::is_root() && std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return true;
    }
    testkit::skip("profiles need root and a kernel with BTF");
    false
}

#[test]
fn a_lock_around_all_work_is_where_a_server_waits_and_its_work_where_it_runs() {
    if !can_run() {
        return;
    }
    let server = serve_http(&["--workers", "2", "--defect", "global-lock"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    let file = file.to_str().unwrap();
    let load = ["load", &server.url, "-c", "16", "-d", "4s", "--json", "-q", "--observe", "full", "--record", file];
    let document = plimsoll(&load).json();
    let profile = &document["observed"]["profile"];
    let stacks =
        |kind: &str| profile[kind]["stacks"].as_array().unwrap_or_else(|| panic!("no {kind}: {profile}")).clone();
    assert!(stacks("on_cpu").len() <= 20 && stacks("on_cpu")[0]["share"].as_f64().unwrap() > 0.0);

    let folded = |kind: &str| {
        let run = plimsoll(&["report", file, "--flame", kind, "--folded"]);
        run.assert_exit(0);
        run.stdout
    };
    let (on_cpu, off_cpu) = (folded("on-cpu"), folded("off-cpu"));
    let in_lock = |line: &&str| line.contains("Mutex") && line.contains("::lock") && line.contains("futex_wait");
    let locked = off_cpu.lines().find(in_lock).unwrap_or_else(|| panic!("nobody waits for a lock: {off_cpu}"));
    assert!(locked.starts_with("plimsoll;"), "{locked}");
    assert!(on_cpu.contains("servers::clock::burn::compute"), "its work is not where it runs: {on_cpu}");
    let total = |folded: &str| -> u64 {
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(total(&on_cpu), profile["on_cpu"]["total"], "the recording holds what the run saw");
    assert_eq!(total(&off_cpu), profile["off_cpu"]["total"]);

    for kind in ["on-cpu", "off-cpu"] {
        let svg = folder.path().join(format!("{kind}.svg"));
        plimsoll(&["report", file, "--flame", kind, "-o", svg.to_str().unwrap()]).assert_exit(0);
        let text = std::fs::read_to_string(svg).unwrap();
        let port = server.url.trim_end_matches('/').rsplit(':').next().unwrap();
        assert!(text.contains("<svg") && text.contains(port) && text.contains("the "), "{kind}");
    }
    let text = plimsoll(&["report", file]);
    assert!(text.stdout.contains("where it ran:") && text.stdout.contains("where it waited"), "{}", text.stdout);
    // Whether a tick was slow is the machine's affair: either way it is a picture, or a sentence.
    let slow = plimsoll(&["report", file, "--flame", "on-cpu", "--slow"]);
    match slow.status {
        Some(0) => assert!(slow.stdout.contains("slow window"), "{}", slow.stdout),
        status => assert!(status == Some(1) && slow.stderr.contains("slow window"), "{}", slow.stderr),
    }
}

#[test]
fn a_recording_without_stacks_says_why() {
    let server = serve_http(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.plimsoll");
    let file = file.to_str().unwrap();
    plimsoll(&["load", &server.url, "-n", "50", "-q", "--observe", "none", "--record", file]);
    for extra in [&[][..], &["--folded"]] {
        let run = plimsoll(&[&["report", file, "--flame", "off-cpu"], extra].concat());
        run.assert_exit(1);
        assert!(
            run.stderr.contains("bpf/offcpu was disabled") && run.stderr.contains("--observe windows"),
            "{}",
            run.stderr
        );
        assert!(run.stdout.is_empty() && run.stderr.trim_end().lines().count() == 1, "{}", run.stderr);
    }
    plimsoll(&["report", file, "--flame", "sideways"]).assert_exit(2);
    plimsoll(&["report", file, "--slow"]).assert_exit(2);
    plimsoll(&["report", file, "--flame", "on-cpu", "--json"]).assert_exit(2);
}

#[test]
fn without_rights_the_samplers_say_what_they_want_and_the_run_goes_on() {
    if !can_run() {
        return;
    }
    let Some(setpriv) = testkit::program("setpriv") else { return testkit::skip("setpriv is not installed") };
    let server = serve_http(&[]);
    // Somebody else may not pass through our folders.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("plimsoll");
    testkit::process::copy_program(std::path::Path::new(BIN), &program).unwrap();
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(setpriv);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all"]).arg(&program);
    command.args(["load", &server.url, "-n", "50", "--json", "--no-record", "-q", "--observe", "windows"]);
    let run = finish(command.env("LANG", "C.UTF-8").current_dir("/"));
    let document = run.json();
    assert_eq!(document["totals"]["ok"], 50);
    assert!(document["observed"]["profile"].is_null());
    for name in ["bpf/oncpu", "bpf/offcpu"] {
        let samplers = document["samplers"].as_array().unwrap();
        let sampler = samplers.iter().find(|sampler| sampler["name"] == name).unwrap();
        let reason = sampler["reason"].as_str().unwrap();
        assert!(sampler["status"] == "disabled" && !reason.is_empty(), "{sampler}");
    }
}

#[test]
fn a_target_is_profiled_without_load_too() {
    if !can_run() {
        return;
    }
    let server = serve_http(&[]);
    let load = command(&["load", &server.url, "-c", "4", "-d", "30s", "-q", "--no-record"])
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut load = load.unwrap();
    let pid = server.process.pid().to_string();
    let watched = plimsoll(&["watch", "--pid", &pid, "-d", "3s", "--tick", "500ms", "--observe", "full", "--json"]);
    load.kill().unwrap();
    load.wait().unwrap();
    let document = watched.json();
    let profile = &document["observed"]["profile"];
    assert!(profile["on_cpu"]["total"].as_u64().unwrap() > 0 && profile["off_cpu"]["total"].as_u64().unwrap() > 0);
}
