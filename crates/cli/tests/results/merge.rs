//! `plimsoll runs merge` from outside: two generators' recordings as one that every command reads, and what is refused.

use crate::common::*;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use testkit::process::Guard;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn begin(url: &str, path: &Path, more: &[&str]) -> Guard {
    let args = [&["load", url, "-q", "--tick", "200ms", "--record", text(path)], more].concat();
    Guard::spawn(command(&args).stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
}

fn report(path: &Path) -> Value {
    let run = plimsoll(&["report", text(path), "--json"]);
    run.assert_exit(0);
    run.json()
}

fn count(document: &Value, at: &str) -> u64 {
    document.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("{at} is missing: {document:#}"))
}

#[test]
fn two_generators_at_once_are_one_recording_that_every_command_reads() {
    let server = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().unwrap();
    let [a, b, out, cut] = ["a", "b", "out", "cut"].map(|name| folder.path().join(format!("{name}.plimsoll")));
    let load = ["--rate", "400", "-d", "2s", "-c", "4", "--warmup", "200ms"];
    let mut first = begin(&server.url, &a, &load);
    testkit::wait_until("the first recording has begun", || a.exists());
    let mut second = begin(&server.url, &b, &load);
    testkit::wait_until("the second has begun", || b.exists());
    for guard in [&mut first, &mut second] {
        guard.wait(Duration::from_secs(60)).unwrap();
    }
    let merged = plimsoll(&["runs", "merge", text(&out), text(&b), text(&a), "--json"]);
    merged.assert_exit(0);
    let (one, other, both) = (report(&a), report(&b), report(&out));
    assert_eq!(merged.json()["totals"], both["totals"]);
    for at in ["/totals/started", "/totals/requests", "/totals/ok", "/latency/response/count", "/latency/service/count"]
    {
        assert_eq!(count(&both, at), count(&one, at) + count(&other, at), "{at}");
    }
    // The slowest of all is the slower of both; the median lies between theirs.
    let us = |document: &Value, at: &str| document.pointer(at).and_then(Value::as_f64).unwrap();
    let slowest = us(&one, "/latency/response/max_us").max(us(&other, "/latency/response/max_us"));
    assert_eq!(us(&both, "/latency/response/max_us"), slowest);
    let medians = [&one, &other].map(|document| us(document, "/latency/response/p50_us"));
    let median = us(&both, "/latency/response/p50_us");
    assert!((medians[0].min(medians[1])..=medians[0].max(medians[1])).contains(&median), "{medians:?} {median}");
    assert_eq!(count(&both, "/requested/connections"), 8);
    // One clock timed both: the offset is exact.
    let generators = both["generators"]["generators"].as_array().unwrap();
    let mut names: Vec<&str> = generators.iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((count(&generators[0], "/offset_ns"), count(&generators[1], "/offset_bound_ns")), (0, 0));
    assert!(count(&generators[1], "/offset_ns") > 0);
    let shown = plimsoll(&["report", text(&out), "--no-color"]).stdout;
    assert!(shown.contains("2 generators, merged") && shown.contains("b: "), "{shown}");
    for args in [
        vec!["diagnose", text(&out)],
        vec!["runs", "--folder", text(folder.path())],
        vec!["compare", text(&out), text(&a)],
        vec!["report", text(&out), "--csv", "-"],
        vec!["report", text(&out), "--requests", "-"],
    ] {
        plimsoll(&args).assert_exit(0);
    }

    // One that was cut off makes the result partial, and is named.
    let long = ["--rate", "400", "-d", "60s", "-c", "4", "--warmup", "200ms"];
    let mut third = begin(&server.url, &cut, &long);
    let mut fourth = begin(&server.url, &folder.path().join("d.plimsoll"), &long);
    testkit::wait_until("both have measured", || {
        [&cut, &folder.path().join("d.plimsoll")].iter().all(|path| {
            let run = plimsoll(&["report", text(path), "--json"]);
            run.status == Some(0) && count(&run.json(), "/totals/ok") > 0
        })
    });
    third.signal(9);
    third.wait(Duration::from_secs(60)).unwrap();
    fourth.signal(2);
    fourth.wait(Duration::from_secs(60)).unwrap();
    let of_cut = folder.path().join("of-cut.plimsoll");
    let merged = plimsoll(&["runs", "merge", text(&of_cut), text(&cut), text(&folder.path().join("d.plimsoll"))]);
    merged.assert_exit(0);
    assert!(merged.stderr.contains("marked partial: the recording of generator 'cut' stops"), "{}", merged.stderr);
    assert!(merged.stdout.contains("cut: ") && merged.stdout.contains("partial"), "{}", merged.stdout);
}

#[test]
fn generators_on_one_machine_are_no_strangers_to_each_other() {
    let server = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a", "b", "out"].map(|name| folder.path().join(format!("{name}.plimsoll")));
    // As fast as they can: each is the process that uses most beside the target.
    let mut both = [&a, &b].map(|path| begin(&server.url, path, &["-d", "3s", "-c", "8", "-t", "1"]));
    let pids = both.each_ref().map(Guard::pid);
    both.iter_mut().for_each(|guard| assert!(guard.wait(Duration::from_secs(60)).is_some()));
    plimsoll(&["runs", "merge", text(&out), text(&a), text(&b), "--json"]).assert_exit(0);
    let read = |path: &Path| store::Reader::open(path).unwrap().load().unwrap();
    let said = |path: &Path| {
        let recording = read(path);
        let all = recording.snapshots.iter().flat_map(|snapshot| &snapshot.neighbours).collect::<Vec<_>>();
        let of = |is_generator| all.iter().filter(move |one| one.is_generator == is_generator).map(|one| one.pid);
        (of(true).collect::<Vec<u32>>(), of(false).collect::<Vec<u32>>())
    };
    // By itself, neither can know who the other is.
    let (known, others) = said(&a);
    assert!(known.is_empty() && others.contains(&pids[1]), "{pids:?} {known:?} {others:?}");
    let (known, others) = said(&out);
    assert!(known.iter().all(|pid| pids.contains(pid)) && !known.is_empty(), "{pids:?} {known:?}");
    assert!(!others.iter().any(|pid| pids.contains(pid)), "{pids:?} {others:?}");
}

#[test]
fn a_generator_that_was_stopped_is_named_and_the_whole_is_not_valid() {
    let server = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().unwrap();
    let [a, b, out] = ["a", "b", "out"].map(|name| folder.path().join(format!("{name}.plimsoll")));
    let load = ["--rate", "200", "-d", "2500ms", "-c", "4"];
    let mut first = begin(&server.url, &a, &load);
    let mut second = begin(&server.url, &b, &load);
    testkit::wait_until("the second has measured", || {
        let run = plimsoll(&["report", text(&b), "--json"]);
        run.status == Some(0) && count(&run.json(), "/totals/ok") > 0
    });
    second.signal(19);
    std::thread::sleep(Duration::from_millis(1200));
    second.signal(18);
    for guard in [&mut first, &mut second] {
        guard.wait(Duration::from_secs(60)).unwrap();
    }
    let merged = plimsoll(&["runs", "merge", text(&out), text(&a), text(&b), "--json"]);
    merged.assert_exit(0);
    let document = merged.json();
    let of_b = &document["generators"]["generators"];
    let of_b = of_b.as_array().unwrap().iter().find(|one| one["name"] == "b").unwrap();
    assert_ne!(of_b["validity"], "valid", "{of_b:#}");
    assert_eq!(document["validity"]["valid"], false, "{:#}", document["validity"]);
    let reasons = document["validity"]["reasons"].to_string();
    assert!(reasons.contains("generator 'b': "), "{reasons}");
}

#[test]
fn what_does_not_belong_together_is_refused_in_a_sentence() {
    let server = serve(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().unwrap();
    let [a, b, other, out] = ["a", "b", "other", "out"].map(|name| folder.path().join(format!("{name}.plimsoll")));
    for (path, more) in [(&a, &["-d", "400ms"][..]), (&b, &["-d", "400ms"]), (&other, &["-d", "400ms", "--size", "99"])]
    {
        begin(&server.url, path, more).wait(Duration::from_secs(60)).unwrap();
    }
    for (runs, expected) in [
        (vec![&a, &a], "got '"),
        (vec![&a], "expected from 2 to 1024 recordings, got 1"),
        (vec![&a, &other], "what is asked of 'a' and of 'other' differ"),
        (vec![&a, &b], "after 'a' had ended"),
    ] {
        let runs: Vec<&str> = runs.into_iter().map(|run| text(run)).collect();
        let run = plimsoll(&[&["runs", "merge", text(&out)], &runs[..]].concat());
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{}", run.stderr);
        assert!(!out.exists());
    }
    let run = plimsoll(&["runs", "merge", text(&other), text(&a), text(&b)]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("expected a file that is not there yet"), "{}", run.stderr);
    let nothing = folder.path().join("nothing.plimsoll");
    std::fs::write(&nothing, b"no recording").unwrap();
    plimsoll(&["runs", "merge", text(&out), text(&a), text(&nothing)]).assert_exit(2);
}
