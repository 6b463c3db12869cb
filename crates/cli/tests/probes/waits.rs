//! Probes of waits end to end: a defect that makes threads or segments wait shows in the report as what it is, and a
//! server without it shows nothing of the kind.

use crate::common::*;

fn can_run() -> bool {
    if testkit::is_root() && std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return true;
    }
    testkit::skip("probes need root and a kernel with BTF");
    false
}

/// The report of a load with all probes on, as a document and as text.
fn loaded(server: &Server, more: &[&str]) -> (serde_json::Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.plimsoll");
    let file = file.to_str().expect("a path in UTF-8");
    let load = ["load", &server.url, "--json", "-q", "--observe", "full", "--record", file];
    let doc = plimsoll(&[&load[..], more].concat()).json();
    let text = plimsoll(&["report", file]).stdout;
    (doc["observed"]["bpf"].clone(), text)
}

#[test]
fn a_reply_held_by_nagle_shows_as_delayed_acknowledgement_pairs() {
    if !can_run() {
        return;
    }
    for (extra, is_held) in [(&["--defect", "nagle"][..], true), (&[][..], false)] {
        let server = serve_http(extra);
        let (bpf, text) = loaded(&server, &["-n", "100", "-c", "2"]);
        let count = |name: &str| bpf["counts"][name].as_u64().unwrap_or_else(|| panic!("{name} is not in {bpf}"));
        let (pairs, at_40ms) = (count("delayed_acks.pairs"), count("delayed_acks.pairs_at_40ms"));
        assert_eq!((pairs > 0, at_40ms > 0), (is_held, is_held), "{bpf}");
        assert_eq!(text.contains("delayed ACK"), is_held, "{text}");
        assert!(text.contains("NODELAY") || is_held, "{text}");
    }
}

#[test]
fn one_lock_around_every_request_is_one_hot_futex() {
    if !can_run() {
        return;
    }
    for (extra, is_contended) in
        [(&["--defect", "global-lock", "--workers", "4"][..], true), (&["--workers", "4"][..], false)]
    {
        let server = serve_http(extra);
        let (bpf, text) = loaded(&server, &["-n", "2000", "-c", "16"]);
        let waits = bpf["counts"]["futex.waits"].as_u64().expect("a count");
        let futexes = bpf["futexes"].as_array().expect("a list");
        let ns = |futex: &serde_json::Value| futex["ns"].as_u64().expect("a time");
        if !is_contended {
            assert!(waits < 200, "a server without a lock hardly waits: {bpf}");
            continue;
        }
        let hottest = futexes.first().unwrap_or_else(|| panic!("no futex in {bpf}"));
        let all: u64 = futexes.iter().map(ns).sum();
        assert!(ns(hottest) * 2 > all && hottest["waiters"].as_u64() > Some(1), "{futexes:?}");
        assert!(hottest["count"].as_u64() > Some(100), "{futexes:?}");
        assert!(text.contains("futex"), "{text}");
    }
}
