//! `plimsoll capacity` on servers of our own whose limit is known, and what it says to what cannot be meant.
//!
//! No time is asserted. A machine whose CPUs others have may disturb a search: each is given three tries.

use crate::common::*;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use testkit::process::Guard;

/// Four threads that sleep 20 ms for each request: 200 a second, less what each is late by, which is measured.
const LIMIT_PER_S: f64 = 200.0;
const POOL: [&str; 2] = ["--defect", "pool-exhausted=20ms:slots=4"];

fn search(url: &str, more: &[&str]) -> Run {
    let state = tempfile::tempdir().unwrap();
    let connections: &[&str] = if more.contains(&"-c") { &[] } else { &["-c", "100"] };
    let args = [&["capacity", url, "-q", "--json"], connections, more].concat();
    finish(command(&args).env("XDG_STATE_HOME", state.path()))
}

#[track_caller]
fn figure(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("a figure is missing: {of}"))
}

#[test]
fn the_limit_of_a_pool_is_found() {
    in_three(|| {
        let server = serve_http(&POOL);
        let kept_busy = || {
            let run =
                plimsoll(&["load", &server.url, "-c", "16", "-d", "2s", "-q", "--json", "--no-record", "--no-observe"]);
            figure(&run.json()["achieved"]["rate_per_s"])
        };
        let before = kept_busy();
        let run = search(&server.url, &["--slo", "p95 < 100 ms", "--time", "45s", "--precision", "4%"]);
        let after = kept_busy();
        let (least, most) = (before.min(after), before.max(after));
        run.assert_exit(0);
        let document = run.json();
        let found = &document["capacity"];
        let (low, line, high) = (figure(&found["low"]), figure(&found["load_line"]), figure(&found["high"]));
        assert!(low <= line && line <= high, "{found:#}");
        // What it does when it is kept busy is its limit, which the tests beside this one may lower for a while: then, and not in the
        // search, or the other way round.
        assert!(most <= LIMIT_PER_S, "{most}");
        assert!(low <= 1.02 * LIMIT_PER_S && high >= 0.95 * least, "{least} to {most}: {found:#}");
        assert!(line >= 0.92 * least && line <= 1.03 * LIMIT_PER_S, "{least} to {most}: {found:#}");
        assert_eq!((&found["unit"], &found["slo"]), (&"requests/s".into(), &"p95 < 100 ms".into()));
        let steps = document["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| Path::new(step["recording"].as_str().unwrap()).extension().is_some()));
        assert!(steps.iter().any(|step| step["purpose"] == "hold"), "{found:#}");
    });
}

#[test]
fn a_line_in_bytes_or_in_users_is_that_of_the_same_server() {
    in_three(|| {
        let server = serve_http(&POOL);
        let common = ["--slo", "p90 < 150 ms", "--time", "12s", "--no-record"];
        let run = search(&server.url, &[&common[..], &["--of", "bytes"]].concat());
        run.assert_exit(0);
        let document = run.json();
        // What a request moved, both ways, by a run of its own: the same bytes at no more than the limit.
        let one =
            plimsoll(&["load", &server.url, "-n", "20", "-c", "1", "-q", "--json", "--no-record", "--no-observe"]);
        let totals = &one.json()["totals"];
        let each = (figure(&totals["bytes_sent"]) + figure(&totals["bytes_received"])) / 20.0;
        let held = figure(&document["capacity"]["held"]) / each;
        assert!((0.5 * LIMIT_PER_S..=1.03 * LIMIT_PER_S).contains(&held), "{held}/s of {each} bytes: {document:#}");
        assert_eq!(document["capacity"]["unit"], "bytes/s");

        // Each asks once in what it thinks and waits: so many are no more than the limit a second (Little's law).
        let thinking = [&common[..], &["--of", "users", "--think", "300ms"]].concat();
        let run = search(&server.url, &thinking[..]);
        run.assert_exit(0);
        let found = &run.json()["capacity"];
        let held = figure(&found["held"]);
        assert!((0.5 * LIMIT_PER_S * 0.32..=LIMIT_PER_S * 0.45).contains(&held), "{found:#}");
        assert_eq!(found["unit"], "users");
    });
}

#[test]
fn clients_are_counted_in_a_closed_loop() {
    in_three(|| {
        // 20 ms for each of four at a time: 100 ms are enough for five rounds of four.
        let server = serve_http(&POOL);
        let run = search(
            &server.url,
            &["--of", "connections", "-c", "8", "--slo", "p95 < 110 ms", "--time", "30s", "--no-record"],
        );
        run.assert_exit(0);
        let found = &run.json()["capacity"];
        let (held, missed) = (figure(&found["held"]), figure(&found["missed"]));
        assert!((16.0..=21.0).contains(&held) && (held..=26.0).contains(&missed), "{found:#}");
        assert_eq!(found["unit"], "connections");
    });
}

#[test]
fn what_is_known_is_printed_when_it_is_interrupted_and_gone_on_with() {
    let server = serve_http(&POOL);
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("search.json");
    let path = file.to_str().unwrap();
    let args = ["capacity", &server.url, "-q", "-c", "100", "--slo", "p95 < 100 ms", "--time", "40s", "--record", path];
    let mut search = Guard::spawn(command(&args).env("XDG_STATE_HOME", state.path()).stdout(Stdio::null())).unwrap();
    testkit::wait_until("a step is kept", || file.exists());
    search.signal(2);
    let status = search.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(status.code(), Some(130));
    let before: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&before["schema"], &before["end"]), (&"plimsoll.capacity/1".into(), &"interrupted".into()));
    let known = before["steps"].as_array().unwrap().len();
    assert!(known > 0);

    let go_on = |slo: &str| {
        let args =
            ["capacity", &server.url, "-q", "-c", "100", "--slo", slo, "--time", "8s", "--continue", path, "--json"];
        finish(command(&args).env("XDG_STATE_HOME", state.path()))
    };
    let other = go_on("p95 < 90 ms");
    other.assert_exit(2);
    assert!(other.stderr.contains("--continue: expected a search's file"), "{}", other.stderr);
    let after = go_on("p95 < 100 ms").json();
    // What was kept is shown again: as it was printed, and as a page; of a file of an older version, too.
    let mut older = after.clone();
    let fields = older.as_object_mut().unwrap();
    assert!(fields.remove("objectives").is_some() && fields.remove("command").is_some());
    std::fs::write(&file, serde_json::to_vec(&older).unwrap()).unwrap();
    let again = plimsoll(&["report", path, "--json"]);
    again.assert_exit(0);
    assert_eq!((&again.json()["capacity"], &again.json()["objectives"]), (&after["capacity"], &after["objectives"]));
    assert!(plimsoll(&["report", path]).stdout.starts_with("Load line"));
    let pages = testkit::workspace().join("target/pages");
    std::fs::create_dir_all(&pages).unwrap();
    let page = pages.join("capacity-real.html");
    plimsoll(&["report", path, "--html", page.to_str().unwrap()]).assert_exit(0);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("data-plot=\"line\"")
            && html.contains(after["sentence"].as_str().unwrap().split(" < ").next().unwrap())
    );
    let none = state.path().join("none.json");
    let none = plimsoll(&["report", none.to_str().unwrap()]);
    none.assert_exit(1);
    assert!(none.stderr.contains("expected a search's or a comparison's file"), "{}", none.stderr);
    let steps = after["steps"].as_array().unwrap();
    assert!(steps.len() > known, "{known} steps, then {}", steps.len());
    assert_eq!(
        &steps[..known].iter().map(|s| &s["asked"]).collect::<Vec<_>>(),
        &before["steps"].as_array().unwrap().iter().map(|s| &s["asked"]).collect::<Vec<_>>()
    );
}

#[test]
fn a_surface_is_gone_on_with_and_is_the_limit_at_each_place() {
    in_three(|| {
        // Four at a time, 20 ms each: two connections get half of what sixteen do.
        let server = serve_http(&POOL);
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("surface.json");
        let path = file.to_str().unwrap();
        let args = ["capacity", &server.url, "-q", "--json", "--over", "connections=2,16", "--time", "16s", "--slo"];
        let first = [&args[..], &["p90 < 100 ms", "--record", path]].concat();
        let mut search =
            Guard::spawn(command(&first).env("XDG_STATE_HOME", state.path()).stdout(Stdio::null())).unwrap();
        let ends = || -> Vec<Value> {
            let Ok(text) = std::fs::read(&file) else { return Vec::new() };
            let document: Value = serde_json::from_slice(&text).unwrap();
            let of =
                |cell: &Value| if cell["why"].is_null() { cell["search"]["end"].clone() } else { "disturbed".into() };
            document["cells"].as_array().unwrap().iter().map(of).collect()
        };
        testkit::wait_until("one place was searched", || {
            ends().iter().any(|end| end == "complete" || end == "disturbed")
        });
        search.signal(2);
        let status = search.wait(Duration::from_secs(60)).unwrap();
        let before: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((status.code(), &before["end"]), (Some(130), &"interrupted".into()));
        let known: Vec<bool> = ends().iter().map(|end| end == "complete").collect();

        let go_on = |slo: &str| {
            let args = [&args[..], &[slo, "--continue", path]].concat();
            finish(command(&args).env("XDG_STATE_HOME", state.path()))
        };
        let other = go_on("p90 < 90 ms");
        assert_eq!(other.status, Some(2), "{}", other.stderr);
        assert!(other.stderr.contains("--continue: expected a surface's file"), "{}", other.stderr);
        let run = go_on("p90 < 100 ms");
        run.assert_exit(0);
        let after = run.json();
        assert_eq!((&after["schema"], &after["end"]), (&"plimsoll.surface/1".into(), &"complete".into()));
        for (at, (is_known, limit)) in known.iter().zip([LIMIT_PER_S / 2.0, LIMIT_PER_S]).enumerate() {
            let cell = &after["cells"][at];
            assert!(!is_known || cell["search"] == before["cells"][at]["search"], "it is not searched again");
            let held = figure(&cell["search"]["capacity"]["held"]);
            assert!((0.5 * limit..=1.03 * limit).contains(&held), "{limit}: {held}");
        }
        let sentence = after["sentence"].as_str().unwrap();
        assert!(sentence.contains("(connections 2)") && sentence.contains("(connections 16)"), "{sentence}");
        // The file is shown again, as text, as the same document, and as a page.
        let shown = plimsoll(&["report", path]);
        shown.assert_exit(0);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&shown.stdout).contains(&words(sentence)), "{}", shown.stdout);
        assert_eq!(plimsoll(&["report", path, "--json"]).json(), after);
        let page = state.path().join("surface.html");
        plimsoll(&["report", path, "--html", page.to_str().unwrap()]).assert_exit(0);
        assert!(std::fs::read_to_string(page).unwrap().contains("plimsoll.surface/1"));
    });
}

/// A reply that takes 30 ms by itself is waited for on one connection each: twenty carry 667 a second, whatever the server could.
#[test]
fn a_line_of_the_loads_own_connections_is_said_to_be_that() {
    in_three(|| {
        let server = serve_http(&[]);
        let url = format!("{}sleep?ms=30", server.url);
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("search.json");
        let path = file.to_str().unwrap();
        let search = |more: &[&str]| {
            let args = [&["capacity", &url, "-q", "--slo", "p95 < 100 ms", "--json", "--record", path], more].concat();
            let run = finish(command(&args).env("XDG_STATE_HOME", state.path()));
            assert!(run.status == Some(0) || run.status == Some(4), "{} {}", run.stdout, run.stderr);
            run.json()
        };
        let of_twenty = search(&["-c", "20", "--time", "16s"]);
        let sentence = of_twenty["sentence"].as_str().unwrap();
        assert!(sentence.contains("own 20 connections are all taken"), "{sentence}");
        let own = &of_twenty["own_connections"];
        assert_eq!(own["connections"], 20);
        assert!((500.0..=667.0).contains(&figure(&own["at_most_per_s"])), "{own}");
        assert_eq!(of_twenty["gives"], Value::Null);
        let shown = plimsoll(&["report", path]).stdout;
        let each = shown.split("Gives first the load's own 20 connections: each request takes ").nth(1);
        // What the reply sleeps, and what waking it takes on a machine that others use.
        let each_ms: Option<f64> = each.and_then(|rest| rest.split(" ms").next()?.parse().ok());
        assert!(each_ms.is_some_and(|ms| (30.0..40.0).contains(&ms)), "{shown}");
    });
}

/// A hundred and fifty that sleep 200 ms each are 750 a second: fifty connections carry a third of that, and two hundred all.
#[test]
fn more_connections_are_taken_where_nobody_said_how_many() {
    in_three(|| {
        let server = serve_http(&["--defect", "pool-exhausted=200ms:slots=150"]);
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("search.json");
        let path = file.to_str().unwrap();
        let search = |more: &[&str]| {
            let args =
                [&["capacity", &server.url, "-q", "--slo", "p95 < 1s", "--json", "--record", path], more].concat();
            let run = finish(command(&args).env("XDG_STATE_HOME", state.path()));
            assert!(run.status == Some(0) || run.status == Some(4), "{} {}", run.stdout, run.stderr);
            run.json()
        };
        let of_more = search(&["--time", "16s"]);
        let connections = figure(&of_more["connections"]);
        assert!(connections >= 100.0, "{connections}");
        let pace = of_more["pace"].as_str().unwrap();
        assert!(pace.ends_with(&format!("over {connections} connections")), "{pace}");
        assert!(figure(&of_more["capacity"]["held"]) > 260.0, "{of_more:#}");
        // It goes on over as many.
        let again = search(&["--time", "8s", "--continue", path]);
        assert_eq!(again["pace"], of_more["pace"]);
        assert!(again["steps"].as_array().unwrap().len() >= of_more["steps"].as_array().unwrap().len());
    });
}

#[test]
fn where_no_load_holds_as_each_reply_is_late_by_itself_that_is_said() {
    in_three(|| {
        let server = serve_http(&[]);
        let run = search(&format!("{}sleep?ms=60", server.url), &["--slo", "p95 < 50 ms", "--time", "20s"]);
        run.assert_exit(3);
        let document = run.json();
        let sentence = document["sentence"].as_str().unwrap();
        let says =
            sentence.starts_with("none within p95 < 50.0 ms: at ") && sentence.contains("fewer make it no better");
        assert!(says, "{sentence}");
        assert_eq!(document["capacity"]["held"], Value::Null);
    });
}

#[test]
fn an_objective_that_cannot_be_decided_in_the_time_is_said_beforehand() {
    let server = serve_http(&POOL);
    let run = search(&server.url, &["--slo", "errors < 0.01 %", "--time", "20s", "--no-record"]);
    run.assert_exit(2);
    assert!(run.stderr.contains("expected a time in which 'errors < 0.01 %' can be decided"), "{}", run.stderr);
    assert!(run.stderr.contains("give --time "), "{}", run.stderr);
}

#[test]
fn what_cannot_be_meant_is_refused_in_a_sentence() {
    for (args, status, expected) in [
        (&["http://127.0.0.1:1/", "--slo", "mean < 5 ms"][..], 2, "write a quantile such as p50"),
        (&["http://127.0.0.1:1/", "--slo", "fast"], 2, "--slo: expected"),
        (&["http://127.0.0.1:1/", "--rate", "5k/s"], 2, "--rate is not for a search"),
        (&["http://127.0.0.1:1/", "-d", "5s"], 2, "give --time for the whole search"),
        (&["http://127.0.0.1:1/", "--time", "1s"], 2, "--time: expected 8 s at the least"),
        (&["http://127.0.0.1:1/", "--precision", "90%"], 2, "expected a share from 0.1% to 50%"),
        (&["http://127.0.0.1:1/", "--continue", "/nowhere"], 2, "--continue: expected a search's file"),
        (&["hold://127.0.0.1:1"], 2, "only single requests have a load line"),
        (&["http://127.0.0.1:1/", "--of", "handshakes"], 2, "expected a URL of https, wss or echo+tls"),
        (&["http://127.0.0.1:1/", "--of", "users"], 2, "give --think"),
        (
            &["http://127.0.0.1:1/", "--of", "users", "--think", "exp:1s", "--poisson"],
            2,
            "--poisson says nothing to users",
        ),
        (&["http://127.0.0.1:1/", "--think", "1s"], 2, "--think says nothing to requests/s"),
        (&["http://127.0.0.1:1/", "--over", "speed=1..2"], 2, "expected NAME=FROM..TO"),
        (&["http://127.0.0.1:1/", "--over", "size=1..2"], 2, "write {size} into an http URL"),
        (&["http://127.0.0.1:1/", "--over", "connections=9"], 2, "expected from 2 to 6 values"),
        (&["http://127.0.0.1:1/", "--of", "connections", "--over", "connections=1..9"], 2, "what is searched for"),
        (&["http://127.0.0.1:1/", "--over", "think=1s,2s"], 2, "expected --of users"),
        (
            &["http://127.0.0.1:1/", "--over", "connections=1..9", "--over", "connections=1..9"],
            2,
            "one parameter or two different ones",
        ),
        (
            &["http://127.0.0.1:1/", "--over", "connections=1..9", "--time", "20s"],
            2,
            "40 s at the least for 5 searches",
        ),
        (&["http://127.0.0.1:1/", "--no-record"], 1, "to answer a request, got"),
    ] {
        let run = plimsoll(&[&["capacity", "-q"], args].concat());
        assert_eq!(run.status, Some(status), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
}
