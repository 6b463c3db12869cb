//! `plimsoll ab`, `compare` and `trend` on real servers: A against itself, a defect of known cost, recordings, what is refused.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod common;
use common::*;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use testkit::process::Guard;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn judgement<'a>(document: &'a Value, quantity: &str) -> &'a Value {
    document["judgements"].as_array().unwrap().iter().find(|j| j["quantity"] == quantity).unwrap()
}

fn sides(document: &Value) -> Vec<&str> {
    document["slices"].as_array().unwrap().iter().map(|slice| slice["side"].as_str().unwrap()).collect()
}

#[test]
fn a_server_is_not_said_to_differ_from_itself_and_every_slice_is_kept() {
    let server = serve_http(&["--workers", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let args =
        ["ab", "--a", &server.url, "--b", &server.url, "--repeats", "3", "--slice", "500ms", "--warmup", "100ms"];
    let more =
        ["-c", "2", "--rate", "500/s", "--seed", "7", "--confidence", "99.9%", "--record", text(&kept), "--json"];
    let run = plimsoll(&[&args[..], &more, &["-q"]].concat());
    // 4: all of it was disturbed by the tests beside this one.
    assert!(matches!(run.status, Some(0 | 4)), "{:?} {} {}", run.status, run.stdout, run.stderr);
    let document = run.json();
    assert_eq!((&document["schema"], &document["pairing"]), (&"plimsoll.comparison/1".into(), &"paired".into()));
    assert_eq!((&document["seed"], &document["end"]), (&7.into(), &"complete".into()));
    for judgement in document["judgements"].as_array().unwrap() {
        assert_ne!(judgement["state"], "different", "{judgement}");
    }
    assert_eq!(judgement(&document, "throughput")["state"], "not-declared", "the rate is given");
    let slices = document["slices"].as_array().unwrap();
    assert!(slices.len() >= 9, "{slices:?}");
    for side in ["a", "again-a", "b"] {
        assert!(sides(&document).iter().filter(|one| **one == side).count() >= 3, "{side}");
    }
    // The order is the seed's, and not the same in each repeat.
    for slice in slices {
        let recording = slice["recording"].as_str().unwrap();
        let report = plimsoll(&["report", recording, "--json"]);
        report.assert_exit(0);
        assert_eq!(report.json()["plan"]["seed"], 7, "{recording}");
    }
    let file = kept.join("comparison.json");
    let again = plimsoll(&["compare", text(&file), "--json"]);
    assert_eq!(again.json()["judgements"], document["judgements"], "what was kept is judged to the same");
    let command = document["command"].as_array().unwrap();
    assert!(command.iter().any(|word| word == "ab"), "{command:?}");
    // The same as a page, by either command.
    let pages = testkit::workspace().join("target/pages");
    std::fs::create_dir_all(&pages).unwrap();
    let page = pages.join("comparison-real.html");
    for command in ["report", "compare"] {
        // As the run itself where all of it was disturbed: 4.
        let status = plimsoll(&[command, text(&file), "--html", text(&page)]).status;
        assert!(status == Some(0) || status == run.status, "{command}: {status:?}, and the run {:?}", run.status);
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(
            html.contains("data-plot=\"slices-throughput\"") && html.contains("plimsoll.comparison/1"),
            "{command}"
        );
    }
    let refused_flag = plimsoll(&["report", text(&file), "--csv", "-"]);
    refused_flag.assert_exit(2);
    assert!(refused_flag.stderr.contains("--csv is of one run"), "{}", refused_flag.stderr);
    let refused = plimsoll(&[&args[..], &more].concat());
    refused.assert_exit(2);
    assert!(refused.stderr.contains("name another"), "{}", refused.stderr);
}

#[test]
fn more_cpu_a_request_is_found_with_servers_started_for_each_slice() {
    in_three(|| {
        let address = testkit::nginx::free_address().unwrap().to_string();
        let a = format!("{BIN} serve http --workers 1 --listen {address}");
        let b = format!("{a} --defect cpu-heavy=2ms");
        let url = format!("http://{address}/");
        let args = ["ab", "--a", &a, "--b", &b, &url, "--repeats", "4", "--slice", "600ms", "--warmup", "100ms"];
        let more = ["-c", "2", "--declare", "cpu", "--no-record", "--json", "-q"];
        let run = plimsoll(&[&args[..], &more].concat());
        let document = run.json();
        let cpu = judgement(&document, "cpu");
        assert_eq!(
            (run.status, &cpu["state"], &cpu["is_worse"]),
            (Some(3), &"different".into(), &true.into()),
            "{cpu}"
        );
        assert!(cpu["change"]["low"].as_f64().unwrap() > 1.0, "2 ms are many times what a request takes: {cpu}");
        assert!(document["sentence"].as_str().unwrap().starts_with("B is worse than A: CPU a request"), "{document}");
        assert_eq!(judgement(&document, "p99")["state"], "not-declared");
        assert!(std::net::TcpStream::connect(&*address).is_err(), "what was started is ended");
    });
}

#[test]
fn flags_of_one_side_are_of_that_side_alone() {
    let server = serve_http(&["--workers", "1"]);
    let args = ["ab", "--a", &server.url, "--b", &server.url, "--b-flags=--disable-keepalive -H 'X-One: two words'"];
    let more = ["--repeats", "2", "--slice", "500ms", "--warmup", "50ms", "-c", "2", "--rate", "100/s"];
    let run = plimsoll(&[&args[..], &more, &["--no-record", "--json", "-q"]].concat());
    let document = run.json();
    let differences = document["differences"].as_array().unwrap();
    let of = |name: &str| differences.iter().find(|d| d["name"].as_str().unwrap().ends_with(name));
    let kept = of("requests_per_connection").unwrap_or_else(|| panic!("{differences:?}"));
    assert_eq!((&kept["a"], &kept["b"]), (&"null".into(), &"1".into()));
    assert!(
        differences.iter().any(|d| d["b"] == "X-One" || d["b"].as_str().unwrap().contains("x-one")),
        "{differences:?}"
    );
}

#[test]
fn ctrl_c_gives_what_is_known_and_leaves_nobody_behind() {
    let address = testkit::nginx::free_address().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let command_line = format!("{BIN} serve http --workers 1 --listen {address}");
    let url = format!("http://{address}/");
    let args = ["ab", "--a", &command_line, "--b", &command_line, &url, "--repeats", "100", "--slice", "500ms"];
    let more = ["--warmup", "50ms", "-c", "2", "--rate", "100/s", "--record", text(&kept), "--json", "-q"];
    let mut run = Guard::spawn(
        command(&[&args[..], &more].concat()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
    )
    .unwrap();
    let file = kept.join("comparison.json");
    testkit::wait_until("a repeat is whole", || file.exists());
    run.signal(2);
    assert_eq!(run.wait(testkit::HANG_GUARD).unwrap().code(), Some(130));
    let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(document["end"], "interrupted");
    assert!(document["slices"].as_array().unwrap().len() >= 3);
    testkit::wait_until("the server is gone", || std::net::TcpStream::connect(&*address).is_err());
}

/// Records a short run.
fn record(url: &str, path: &Path, more: &[&str]) {
    let args = ["load", url, "-c", "2", "-d", "300ms", "-q", "--expect-errors", "any", "--record", text(path)];
    plimsoll(&[&args[..], more].concat()).assert_measured();
}

#[test]
fn of_two_recordings_what_differs_is_told_and_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve_http(&["--workers", "1"]);
    let slow = serve_http(&["--workers", "1", "--defect", "cpu-heavy=2ms"]);
    let paths: Vec<_> = (0..6).map(|n| folder.path().join(format!("{n}.plimsoll"))).collect();
    for (n, path) in paths.iter().enumerate() {
        let url = if n % 2 == 0 { &server.url } else { &slow.url };
        record(url, path, if n == 1 { &["-t", "2"] } else { &[] });
    }
    let path = |n: usize| text(&paths[n]);
    let run = plimsoll(&["compare", path(0), path(1)]);
    run.assert_exit(0);
    assert!(run.stdout.starts_with("One run each cannot tell chance from change"), "{}", run.stdout);
    assert!(run.stdout.contains("plan.origins.0.name") && !run.stdout.contains("worse"), "{}", run.stdout);
    let document = plimsoll(&["compare", path(0), path(1), "--json"]).json();
    assert_eq!(document["pairing"], "single");
    for judgement in document["judgements"].as_array().unwrap() {
        assert!(matches!(judgement["state"].as_str(), Some("undecided" | "not-declared")), "{judgement}");
        assert_eq!(judgement["change"]["low"], Value::Null, "{judgement}");
    }
    let several = ["compare", path(0), path(2), path(4), "--", path(1), path(3), path(5)];
    let document = plimsoll(&[&several[..1], &["--json", "--declare", "cpu"], &several[1..]].concat()).json();
    let cpu = judgement(&document, "cpu");
    let slices = document["slices"].as_array().unwrap();
    assert_eq!((&document["pairing"], slices.len()), (&"unpaired".into(), 6));
    // Those that the tests beside this one disturbed are in no verdict.
    let sound = |side: &str| slices.iter().filter(|s| s["side"] == side && s["disturbed"].is_null()).count() as u64;
    let repeats = |of: &Value| of["repeats"].as_u64().unwrap();
    assert_eq!(repeats(judgement(&document, "throughput")), sound("a").min(sound("b")), "{document:#}");
    // Of a run so short the target's CPU time is not always known.
    assert!(repeats(cpu) <= sound("a").min(sound("b")), "{document:#}");
    // What is refused, in a sentence.
    for (args, says) in [
        (vec!["compare", path(0)], "expected two runs, or the file of a comparison"),
        (vec!["compare", path(0), path(1), path(2)], "with -- between"),
        (vec!["compare", "--paired", path(0), path(2), "--", path(1)], "as many runs of B as of A"),
    ] {
        let run = plimsoll(&args);
        run.assert_exit(2);
        assert!(run.stderr.contains(says), "{}", run.stderr);
    }
}

#[test]
fn a_series_of_recordings_tells_where_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let address = testkit::nginx::free_address().unwrap().to_string();
    for n in 0..14 {
        let defect: &[&str] = if n < 8 { &[] } else { &["--defect", "cpu-heavy=2ms"] };
        let server = serve_http(&[&["--workers", "1", "--listen", &address], defect].concat());
        record(&server.url, &folder.path().join(format!("{n:02}.plimsoll")), &[]);
        drop(server);
        testkit::wait_until("the server is gone", || std::net::TcpStream::connect(&*address).is_err());
    }
    let run = plimsoll(&["trend", text(folder.path()), "--tolerance", "50%", "--json"]);
    run.assert_exit(0);
    let document = run.json();
    let left_out = document["left_out"].as_array().unwrap().len();
    if left_out > 2 {
        return testkit::skip("too many of the runs were disturbed by the tests beside this one");
    }
    let changes = document["series"][0]["changes"].as_array().unwrap();
    let throughput = changes.iter().find(|change| change["quantity"] == "throughput").unwrap();
    assert!(throughput["change"].as_f64().unwrap() < -0.5 && throughput["is_worse"] == true, "{throughput}");
    let first_after: u32 = throughput["first_after"].as_str().unwrap().parse().unwrap();
    // A run that was left out, and the median of three, may move it by one.
    assert!((7..=9).contains(&first_after), "{throughput}");
    let text = plimsoll(&["trend", text(folder.path()), "--tolerance", "50%"]).stdout;
    assert!(text.contains("throughput, run by run") && text.contains('|'), "{text}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let url = "http://127.0.0.1:9/";
    for (args, says) in [
        (vec!["ab", "--a", url], "--b"),
        (vec!["ab", "--a", url, "--b", url, "-d", "3s"], "say it by --slice"),
        (vec!["ab", "--a", url, "--b", url, "--expect", "p99 < 1 ms"], "--tolerance"),
        (vec!["ab", "--a", "./server", "--b", url], "--a: expected a URL, or with a command the URL"),
        (vec!["ab", "--a", url, "--b", url, url], "--a is a URL already"),
        (vec!["ab", "--a", url, "--b", url, "--a-flags=--nonsense"], "--a-flags"),
        (vec!["ab", "--a", url, "--b", url, "--a-flags=-H 'x"], "--a-flags: expected flags of 'plimsoll load'"),
        (vec!["ab", "--a", url, "--b", url, "--declare", "p42"], "--declare"),
        (vec!["ab", "--a", url, "--b", url, "--tolerance", "300%"], "--tolerance"),
        (vec!["ab", "--a", url, "--b", url, "--slice", "10ms"], "--slice"),
    ] {
        let run = plimsoll(&[&args[..], &["--no-record"][..if args[0] == "ab" { 1 } else { 0 }]].concat());
        run.assert_exit(2);
        assert!(run.stderr.contains(says) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
    // Nobody listens.
    let run = plimsoll(&["ab", "--a", url, "--b", url, "--no-record", "-q", "--slice", "500ms"]);
    run.assert_exit(1);
    assert!(run.stderr.contains("to answer a request"), "{}", run.stderr);
}
