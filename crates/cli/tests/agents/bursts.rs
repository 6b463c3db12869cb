//! Bursts of several agents: released at one moment, whoever is slow, cut off or dies.

use super::common::*;
use super::lost::Way;
use super::*;
use std::time::Duration;

/// Twelve requests a burst, and time between two for what a test does to the agents.
fn begin(place: &Place, url: &str, agents: &str, rounds: &str, more: &[&str]) -> Guard {
    let bursts = ["--burst", "12", "--rounds", rounds, "--burst-pause", "400ms", "--tick", "200ms"];
    place.begin(url, agents, &[&bursts[..], more].concat())
}

#[test]
fn a_burst_of_several_agents_waits_for_all_of_them_and_has_one_moment() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let agents = place.agents(&["a", "b", "c"]);
    let load = begin(&place, &server.url, "3", "6", &[]);
    place.until_running("b");
    // The others cannot go on without it, and nobody has to be told.
    agents[1].signal(19);
    std::thread::sleep(Duration::from_secs(1));
    agents[1].signal(18);
    let run = place.ended(load);
    let document = assert_whole(&run, 3, 72);
    assert!(generators(&document).iter().all(|one| count(one, "/requests") == 24), "{:#}", document["generators"]);
    // One machine has one clock, and of two estimates neither is further off than its bound.
    assert!(count(&document, "/generators/release_bound_ns") > 0, "{:#}", document["generators"]);
    let text = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap()]);
    assert!(text.stdout.contains("every burst had one moment for all of them"), "{}", text.stdout);
    assert!(text.stdout.contains("99 % of requests left within"), "{}", text.stdout);
}

#[test]
fn bursts_go_on_without_an_agent_that_is_lost_and_under_another_controller() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let agents = place.agents(&["a", "b", "c"]);
    let load = begin(&place, &server.url, "3", "6", &["--lost-after", "1500ms"]);
    let run = place.run();
    place.until_running("b");
    load.signal(9);
    drop(load);
    agents[1].signal(9);
    let out = place.file("attached.plimsoll");
    let attached = finish(&mut place.command(&["attach", &run, "--json", "--record", out.to_str().unwrap()]));
    attached.assert_exit(4);
    let document = attached.json();
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name);
    for name in ["a", "c"] {
        let one = of(name).unwrap();
        assert_eq!((&one["end"], count(&one, "/requests")), (&"complete".into(), 24), "{one:#}");
    }
    let short = &document["generators"]["shortfalls"];
    assert_eq!((short.as_array().map(Vec::len), &short[0]["name"]), (Some(1), &"b".into()), "{short:#}");
}

#[test]
fn an_agent_that_was_taken_for_lost_releases_no_burst_of_its_own() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let way = Way::to(nats.address());
    let _near = place.agent("near", &["--cores", "1"]);
    let _far = place.agent_by("far", &way.url);
    // So many that they still go on when it is seen that it runs, on a busy machine, too.
    let load = begin(&place, &server.url, "2", "30", &["--lost-after", "1500ms"]);
    place.until_running("far");
    way.cut(true);
    place.until_said("agent 'far' is lost");
    // On a busy machine the other may not have come to its next burst yet: one that is heard again before that has missed nothing.
    std::thread::sleep(Duration::from_secs(2));
    way.cut(false);
    let run = place.ended(load);
    let document = run.json();
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name);
    assert_eq!(count(&of("near").unwrap(), "/requests"), 30 * 6, "{:#}", document["generators"]);
    let short = &document["generators"]["shortfalls"][0];
    let text = short["text"].as_str().unwrap();
    assert!(text.contains("without it, as they took it for lost") || text.contains("it was lost"), "{text}");
    let log = || std::fs::read_to_string(place.file("far.log")).unwrap();
    wait_until("it has ended its load", || log().contains("without it, as they took it for lost"));
}

/// Each try to lay a clock beside another takes seconds where nobody answers, in which the others' ticks go on coming.
#[test]
fn an_agent_that_is_cut_off_once_it_is_ready_is_lost_all_the_same() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let way = Way::to(nats.address());
    let near = place.agent("near", &["--cores", "1"]);
    let _far = place.agent_by("far", &way.url);
    let load = begin(&place, &server.url, "2", "16", &["--lost-after", "4s"]);
    place.until_running("far");
    near.signal(19);
    std::thread::sleep(Duration::from_millis(1200));
    // It is ready for the next burst, and has said so.
    way.cut(true);
    near.signal(18);
    let run = place.ended(load);
    let document = run.json();
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(count(&of("near"), "/requests"), 16 * 6, "{:#}", document["generators"]);
    assert_eq!(document["generators"]["shortfalls"][0]["name"], "far");
}
