//! Series of loads that agents put on: a search for the load line, two sides compared, repeats; and what becomes of them when an agent dies.

use super::common::*;
use super::*;
use std::time::Duration;
use testkit::port::Reserved;

/// Four threads that sleep 20 ms for each request: at most 200 a second, whoever asks.
const LIMIT_PER_S: f64 = 200.0;
const POOL: [&str; 2] = ["--defect", "pool-exhausted=20ms:slots=4"];

fn search(place: &Place, url: &str, agents: &str, more: &[&str]) -> Command {
    let file = place.file("search.json");
    let args = ["capacity", url, "-c", "40", "--slo", "p90 < 100 ms", "--agents", agents];
    place.command(&[&args, &["--json", "--record", file.to_str().unwrap()][..], more].concat())
}

fn steps(document: &Value) -> Vec<Value> {
    document["steps"].as_array().unwrap().clone()
}

/// The recording of a step, as it reads.
fn recording_of(step: &Value) -> Value {
    plimsoll(&["report", step["recording"].as_str().unwrap(), "--json"]).json()
}

#[test]
fn a_search_by_agents_finds_the_line_of_the_server_and_each_step_is_of_all_of_them() {
    in_three(|| {
        let Some(nats) = nats() else { return };
        let place = Place::new(&nats.url());
        let server = serve_http(&POOL);
        let _agents = place.agents(&["a", "b"]);
        let run = finish(&mut search(&place, &server.url, "2", &["--time", "30s", "--precision", "8%"]));
        run.assert_exit(0);
        let document = run.json();
        let found = &document["capacity"];
        let held = found["held"].as_f64().unwrap_or_else(|| panic!("{document:#}"));
        let missed = found["missed"].as_f64().unwrap_or_else(|| panic!("{document:#}"));
        assert!((0.6 * LIMIT_PER_S..=1.03 * LIMIT_PER_S).contains(&held) && missed > held, "{found:#}");
        assert!(document["pace"].as_str().unwrap().ends_with("over 40 connections, by 2 agents"), "{document:#}");
        for step in steps(&document) {
            let of = recording_of(&step);
            let names: Vec<Value> = generators(&of).into_iter().map(|one| one["name"].clone()).collect();
            assert_eq!(names.len(), 2, "{:#}", of["generators"]);
            assert!(of["generators"].get("shortfalls").is_none(), "{:#}", of["generators"]);
            // A step that was decided early ended as if it had been planned so.
            assert!(generators(&of).iter().all(|one| one["end"] == "complete"), "{:#}", of["generators"]);
            // What the search counted while it went is what the recording has: no block is of one agent alone.
            let blocks = step["blocks"].as_array().unwrap();
            let counted: u64 = blocks.iter().map(|block| block["requests"].as_u64().unwrap()).sum();
            let kept = count(&of, "/totals/requests") + count(&of, "/totals/dropped");
            assert!(counted.abs_diff(kept) <= count(&of, "/totals/in_flight_at_end") + 2, "{counted} {kept}: {step:#}");
        }
        // NATS keeps nothing of it, and both agents can be had.
        assert_eq!(finish(&mut place.command(&["attach"])).stdout, "");
        wait_until("both are idle", || place.listed().iter().all(|one| one["state"] == "idle"));
    });
}

#[test]
fn an_agent_that_is_killed_in_a_search_costs_a_step_and_another_takes_its_place() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&POOL);
    let agents = place.agents(&["a", "b"]);
    let _spare = place.agent("spare", &["--cores", "1"]);
    let more = ["--time", "25s", "--lost-after", "1500ms"];
    let said = File::create(place.file("said")).unwrap();
    let out = File::create(place.file("out")).unwrap();
    let searching = Guard::spawn(search(&place, &server.url, "2", &more).stdout(out).stderr(said)).unwrap();
    wait_until("a step is kept", || place.file("search.json").exists());
    place.until_running("b");
    agents[1].signal(9);
    let run = place.ended(searching);
    assert!(matches!(run.status, Some(0 | 4)), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("agent 'b' did not come back: 'spare' in its place"), "{}", run.stderr);
    let document = run.json();
    assert!(steps(&document).len() >= 2, "{}", run.stderr);
    for step in steps(&document) {
        // No step that counts is one of which part was not put on.
        let of = recording_of(&step);
        assert!(of["generators"].get("shortfalls").is_none(), "{:#}", of["generators"]);
    }
}

#[test]
fn a_search_by_agents_that_is_interrupted_says_what_is_known_and_is_gone_on_with() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&POOL);
    let _agents = place.agents(&["a", "b"]);
    let (out, said) = (File::create(place.file("out")).unwrap(), File::create(place.file("said")).unwrap());
    let mut begun = search(&place, &server.url, "2", &["--time", "40s"]);
    let searching = Guard::spawn(begun.stdout(out).stderr(said)).unwrap();
    wait_until("a step is kept", || place.file("search.json").exists());
    place.until_running("a");
    searching.signal(2);
    let run = place.ended(searching);
    run.assert_exit(130);
    let known = steps(&run.json()).len();
    assert!(known >= 1);
    wait_until("both are idle", || place.listed().iter().all(|one| one["state"] == "idle"));
    assert_eq!(finish(&mut place.command(&["attach"])).stdout, "", "NATS keeps nothing of the step");
    // By one process, as by agents: the line is the server's.
    let file = place.file("search.json");
    let args = ["capacity", &server.url, "-c", "40", "--slo", "p90 < 100 ms", "--time", "8s", "-q", "--json"];
    let on = finish(&mut command(&[&args[..], &["--no-record", "--continue", file.to_str().unwrap()]].concat()));
    assert!(matches!(on.status, Some(0 | 4)), "{}{}", on.stdout, on.stderr);
    assert!(steps(&on.json()).len() >= known);
}

#[test]
fn two_sides_are_compared_by_agents_and_repeats_are_put_on_by_them() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let (fast, slow) = (serve_http(&[]), serve_http(&POOL));
    let _agents = place.agents(&["a", "b"]);
    let folder = place.file("compared");
    let args = ["ab", "--a", &fast.url, "--b", &slow.url, "--slice", "1s", "--repeats", "2", "--agents", "2"];
    let more = ["-c", "8", "--rate", "100", "--json", "--record", folder.to_str().unwrap()];
    let run = finish(&mut place.command(&[&args[..], &more[..]].concat()));
    assert!(matches!(run.status, Some(0 | 3 | 4)), "{}{}", run.stdout, run.stderr);
    let slices = run.json()["slices"].as_array().unwrap().clone();
    assert!(slices.len() >= 6, "{slices:#?}");
    for slice in &slices {
        assert_eq!(generators(&recording_of(slice)).len(), 2);
    }
    // A side that is started here, for agents elsewhere: at the address that is given.
    let port = Reserved::new().unwrap();
    let (address, url) = (port.address(), format!("http://{}/", port.address()));
    let [a, b] = ["", " --workers 2"].map(|more| format!("{BIN} serve http --listen {address}{more}"));
    drop(port);
    let args = ["ab", "--a", &a, "--b", &b, &url, "--slice", "1s", "--repeats", "2", "--agents", "2"];
    let run = finish(&mut place.command(&[&args[..], &["-c", "8", "--rate", "100", "--json"]].concat()));
    assert!(matches!(run.status, Some(0 | 3 | 4)), "{}{}", run.stdout, run.stderr);
    assert!(run.json()["slices"].as_array().unwrap().len() >= 6, "{}", run.stdout);
    assert!(TcpStream::connect(address).is_err(), "the last server is ended");

    let file = place.file("three.toml");
    let text =
        format!("repeats = 2\n[load]\nurl = \"{}\"\nrate = \"100\"\nduration = \"1s\"\nconnections = 4\n", fast.url);
    std::fs::write(&file, text).unwrap();
    let args = ["run", file.to_str().unwrap(), "--agents", "2", "--json"];
    let run = finish(&mut place.command(&args));
    assert!(matches!(run.status, Some(0 | 4)), "{}{}", run.stdout, run.stderr);
    let repeats = run.json();
    assert_eq!(repeats["made"], 2, "{repeats:#}");
    std::thread::sleep(Duration::from_millis(100));
}
