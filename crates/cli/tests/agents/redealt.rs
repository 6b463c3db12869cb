//! A lost agent's share that the others put on (`--on-lost redistribute`), held against what the server has counted.

use super::common::*;
use super::*;
use std::time::Duration;
use testkit::nginx::Nginx;

/// A server that keeps the second of each request.
fn counting_server() -> Nginx {
    Nginx::start("access_log logs/all.log combined; location / { return 200; }").unwrap()
}

/// Requests that it had in each second of the clock, from the one that the first came in: that one is not whole.
fn by_second(server: &Nginx) -> Vec<u64> {
    let log = std::fs::read_to_string(server.folder().join("logs/all.log")).unwrap();
    // [25/Nov/2026:22:13:20 +0000]
    let second_of = |line: &str| -> usize {
        let clock: Vec<usize> =
            line.split('[').nth(1).unwrap()[12..20].split(':').map(|part| part.parse().unwrap()).collect();
        (clock[0] * 60 + clock[1]) * 60 + clock[2]
    };
    let first = log.lines().map(second_of).next().unwrap();
    let mut seconds = Vec::new();
    for line in log.lines() {
        // Midnight may lie between.
        let second = (second_of(line) + 86_400 - first) % 86_400;
        seconds.resize(seconds.len().max(second + 1), 0);
        seconds[second] += 1;
    }
    seconds
}

/// No more had come by any second than was due by then, and in those of a span as many as were due in it: a second in which the machine
/// was kept from it is followed by one that has the rest.
#[track_caller]
fn assert_due(had: &[u64], per_s: u64, span: std::ops::Range<usize>, slack: u64) {
    let mut by_then = 0;
    for (due, n) in (1..).map(|seconds| seconds * per_s).zip(had) {
        by_then += n;
        assert!(by_then <= due + slack, "{by_then} of {due}: {had:?}");
    }
    // What was not put on before makes no room for what is put on twice.
    let is_too_much = |three: &[u64]| three.iter().sum::<u64>() > 3 * per_s + per_s / 2;
    assert!(!had.windows(3).any(is_too_much), "{had:?}");
    let (came, due): (u64, u64) = (had[span.clone()].iter().sum(), span.len() as u64 * per_s);
    assert!(span.len() >= 3 && came.abs_diff(due) <= per_s / 3, "{came} of {due} in {span:?}: {had:?}");
}

fn of(document: &Value, name: &str) -> Value {
    generators(document).into_iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{document:#}"))
}

/// From when on the share was dealt anew, seconds.
fn dealt_from_s(document: &Value) -> f64 {
    let events = document["events"].as_array().unwrap();
    let event = events.iter().find(|event| event["kind"] == "agent-redealt");
    event.unwrap_or_else(|| panic!("{events:#?}"))["t_s"].as_f64().unwrap()
}

#[test]
fn the_others_put_on_a_killed_agents_share_and_what_was_not_put_on_is_said() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = counting_server();
    let url = format!("http://{}/", server.address());
    let agents = place.agents(&["a", "b", "c"]);
    let more = ["--rate", "300", "-d", "14s", "-c", "9", "--tick", "200ms", "--lost-after", "2500ms"];
    let load = place.begin(&url, "3", &[&more[..], &["--on-lost", "redistribute"]].concat());
    place.until_running("b");
    std::thread::sleep(Duration::from_secs(1));
    agents[1].signal(9);
    let run = place.ended(load);
    // A part of it nobody put on, and that is more than a hundredth of the whole.
    run.assert_exit(4);
    let document = run.json();
    let from_s = dealt_from_s(&document);
    assert!((1.5..10.0).contains(&from_s), "{from_s}");
    // Each that is left put on a third until then, and half of the whole from there, to the request.
    for name in ["a", "c"] {
        let due = 100.0 * from_s + 150.0 * (14.0 - from_s);
        let asked = count(&of(&document, name), "/requests") as f64;
        assert!((asked - due).abs() <= 2.0, "{name}: {asked} and not {due}");
    }
    // What the server had: the whole at the end, two thirds between, and no more than what was asked for at any time.
    let had = by_second(&server);
    let whole = had.iter().sum::<u64>();
    assert!(whole >= count(&document, "/totals/ok") && whole <= 4200, "{whole}");
    let after = from_s.ceil() as usize + 1;
    assert_due(&had, 300, after..13, 30);
    let short = &document["generators"]["shortfalls"];
    assert_eq!((short.as_array().map(Vec::len), &short[0]["name"]), (Some(1), &"b".into()), "{short:#}");
    let text = short[0]["text"].as_str().unwrap();
    assert!(text.contains("when the others took it on"), "{text}");
    // What is said to be missing is what is missing of the whole.
    let share = short[0]["share"].as_f64().unwrap();
    let missing = (4200.0 - count(&document, "/totals/ok") as f64) / 4200.0;
    assert!((share - missing).abs() < 0.01, "{share} {missing}: {text}");
    let asked = document["requested"]["rate_per_s"].as_f64().unwrap();
    assert!((asked - 300.0).abs() < 1e-6, "{asked}");
    // The first line blames neither the server nor whoever generates. What else befell a generator is said with it.
    let gives = document["gives"]["text"].as_str().unwrap();
    assert!(gives.contains("; an agent was lost ") && gives.contains(" meanwhile, which may be why"), "{gives}");
    let report = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap()]);
    assert!(report.stdout.contains("took it on"), "{}", report.stdout);
}

#[test]
fn one_whose_owner_allows_no_more_takes_on_nothing_and_that_is_said() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = counting_server();
    let url = format!("http://{}/", server.address());
    let _free = place.agent("free", &["--cores", "1", "--rate-max", "120"]);
    let lost = place.agent("lost", &["--cores", "1"]);
    let more = ["--rate", "200", "-d", "10s", "-c", "4", "--tick", "200ms", "--lost-after", "2s"];
    let load = place.begin(&url, "2", &[&more[..], &["--on-lost", "redistribute"]].concat());
    place.until_running("lost");
    std::thread::sleep(Duration::from_secs(1));
    lost.signal(9);
    let run = place.ended(load);
    run.assert_exit(4);
    let document = run.json();
    let due = 100.0 * dealt_from_s(&document) + 120.0 * (10.0 - dealt_from_s(&document));
    let asked = count(&of(&document, "free"), "/requests") as f64;
    assert!((asked - due).abs() <= 2.0, "{asked} and not {due}");
    let events = document["events"].to_string();
    assert!(events.contains("40.0 % of the load nobody puts on"), "{events}");
    assert!(document["generators"]["shortfalls"][0]["share"].as_f64().unwrap() > 0.2, "{:#}", document["generators"]);
}

/// One that is cut off does not know that the others have begun with its share: it ends its own before they do.
#[test]
fn an_agent_that_is_cut_off_ends_its_load_before_the_others_begin_with_it() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = counting_server();
    let url = format!("http://{}/", server.address());
    let way = lost::Way::to(nats.address());
    let _near = place.agent("near", &["--cores", "1"]);
    let _far = place.agent_by("far", &way.url);
    let more = ["--rate", "200", "-d", "16s", "-c", "4", "--tick", "200ms", "--lost-after", "4s"];
    let load = place.begin(&url, "2", &[&more[..], &["--on-lost", "redistribute"]].concat());
    place.until_running("far");
    way.cut(true);
    std::thread::sleep(Duration::from_secs(9));
    way.cut(false);
    let run = place.ended(load);
    run.assert_exit(4);
    let document = run.json();
    // It came back and told what it had put on; nothing was put on twice for more than a moment.
    let had = by_second(&server);
    let short = &document["generators"]["shortfalls"];
    assert!(short[0]["text"].as_str().unwrap().contains("cut off from NATS"), "{short:#}");
    let from_s = dealt_from_s(&document);
    assert_due(&had, 200, from_s.ceil() as usize + 1..15, 60);
}

#[test]
fn what_cannot_be_dealt_anew_is_refused_before_anything_is_put_on() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let refused = |more: &[&str], expected: &str| {
        let base = ["--agents-wait", "0s", "--on-lost", "redistribute"];
        let run = finish(&mut place.load(&server.url, "1", &[&base, more].concat()));
        run.assert_exit(2);
        assert!(run.stderr.contains(expected), "'{expected}' of {more:?}: {}", run.stderr);
    };
    refused(&["-d", "1s"], "is for loads that have a rate");
    refused(&["--rate", "100", "-n", "100"], "with a count of requests (-n)");
    refused(&["--rate", "100", "-d", "1s", "--lost-after", "900ms"], "expected 1 s at the least");
}

/// Whoever can speak on NATS cannot have an agent put on more than its owner allows, nor what was not asked for.
#[test]
fn a_forged_deal_moves_nothing_beyond_what_was_agreed() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = counting_server();
    let url = format!("http://{}/", server.address());
    let _a = place.agent("a", &["--cores", "1"]);
    let forge = |on_lost: &str| {
        let more = ["--rate", "100", "-d", "4s", "-c", "2", "--tick", "200ms", "--on-lost", on_lost];
        let load = place.begin(&url, "1", &more);
        let run = place.run();
        place.until_running("a");
        let mut stream = TcpStream::connect(nats.address()).unwrap();
        let forged = [
            r#"{"lost":["x"],"from_ns":0,"factors":{"a":50.0},"left":0.0}"#,
            r#"{"lost":["x"],"from_ns":0,"factors":{"a":1e300},"left":0.0}"#,
            r#"{"lost":[],"from_ns":0,"factors":{"a":0.0},"left":-1}"#,
            "nonsense",
        ];
        stream.write_all(b"CONNECT {\"verbose\":false}\r\n").unwrap();
        for (number, body) in forged.iter().enumerate() {
            let said = format!("PUB plimsoll.run.{run}.redeal-{number} {}\r\n{body}\r\n", body.len());
            stream.write_all(said.as_bytes()).unwrap();
        }
        stream.write_all(b"PING\r\n").unwrap();
        let ended = place.ended(load);
        std::fs::remove_file(place.file("all.plimsoll")).unwrap();
        wait_until("it is idle again", || place.listed().iter().all(|one| one["state"] == "idle"));
        count(&ended.json(), "/totals/ok")
    };
    let as_asked = forge("continue");
    assert!(as_asked.abs_diff(400) <= 1, "{as_asked}");
    // Alone it has all of the load already.
    let dealt = forge("redistribute");
    assert!(dealt.abs_diff(400) <= 1, "{dealt}");
}
