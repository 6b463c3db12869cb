//! What becomes of a run when an agent, the controller or NATS dies, is cut off, is full, or has another clock.

use super::common::*;
use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::nats::Cluster;

#[test]
fn an_agent_that_is_killed_is_named_with_what_is_not_known_and_its_ticks_are_kept() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let agents = place.agents(&["a", "b", "c"]);
    let more = ["--rate", "300", "-d", "6s", "-c", "3", "--tick", "200ms", "--lost-after", "1500ms"];
    let load = place.begin(&server.url, "3", &more);
    place.until_running("b");
    std::thread::sleep(Duration::from_secs(1));
    agents[1].signal(9);
    let run = place.ended(load);
    run.assert_exit(4);
    let document = run.json();
    let short = &document["generators"]["shortfalls"];
    assert_eq!((short.as_array().map(Vec::len), &short[0]["name"]), (Some(1), &"b".into()), "{short:#}");
    assert!(short[0]["text"].as_str().unwrap().contains("nothing was heard of it"), "{short:#}");
    let share = short[0]["share"].as_f64().unwrap();
    assert!(share > 0.01 && share < 1.0 / 3.0, "{share}");
    let reasons = document["validity"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|one| one["id"] == "agent-lost"), "{reasons:#?}");
    let of = |name: &str| generators(&document).into_iter().find(|one| one["name"] == name).unwrap();
    // What NATS had of it is in the sums.
    let (lost, a, c) = (of("b"), of("a"), of("c"));
    assert_eq!((&lost["end"], &a["end"], &c["end"]), (&"partial".into(), &"complete".into(), &"complete".into()));
    assert_eq!((count(&a, "/requests"), count(&c, "/requests")), (600, 600));
    assert!((1..600).contains(&count(&lost, "/requests")), "{lost:#}");
    assert_eq!(count(&document, "/totals/requests"), 1200 + count(&lost, "/requests"));
    let text = plimsoll(&["report", place.file("all.plimsoll").to_str().unwrap()]);
    assert!(text.stdout.contains("of its 33 % of the load nothing is known from"), "{}", text.stdout);
}

#[test]
fn a_run_whose_agent_is_lost_stops_where_that_was_wanted() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let agents = place.agents(&["a", "b"]);
    let more = ["--rate", "200", "-d", "60s", "-c", "2", "--lost-after", "1s", "--on-lost", "stop", "--tick", "200ms"];
    let load = place.begin(&server.url, "2", &more);
    place.until_running("a");
    std::thread::sleep(Duration::from_secs(1));
    agents[0].signal(9);
    let run = place.ended(load);
    assert!(matches!(run.status, Some(4 | 130)), "{}{}", run.stdout, run.stderr);
    let document = run.json();
    assert!(count(&document, "/totals/started") < 6000, "it ended before its time");
    assert_eq!(document["generators"]["shortfalls"][0]["name"], "a");
}

#[test]
fn a_controller_that_is_killed_is_followed_by_another_and_nothing_is_lost() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "4s", "-c", "4", "--tick", "200ms"]);
    let run = place.run();
    place.until_running("a");
    load.signal(9);
    drop(load);
    let open = finish(&mut place.command(&["attach"]));
    assert!(open.stdout.starts_with(&format!("{run}: 2 agents, ")), "{}", open.stdout);
    let out = place.file("attached.plimsoll");
    let attach = ["attach", &run, "--json", "--record", out.to_str().unwrap()];
    let attached = finish(&mut place.command(&attach));
    assert_whole(&attached, 2, 1200);
    // It is over: who comes later is told so.
    let late = finish(&mut place.command(&attach));
    late.assert_exit(1);
    assert!(late.stderr.contains("expected a run that goes on"), "{}", late.stderr);
}

#[test]
fn a_node_of_three_that_is_killed_costs_nothing() {
    if nats().is_none() {
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    let place = Place::new(&cluster.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "5s", "-c", "4", "--tick", "200ms"]);
    place.until_running("a");
    cluster.nodes[0].kill();
    let run = place.ended(load);
    assert_whole(&run, 2, 1500);
}

#[test]
fn nats_that_does_not_answer_for_a_while_delays_and_loses_nothing() {
    let Some(mut nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "4s", "-c", "4", "--tick", "200ms"]);
    place.until_running("a");
    nats.kill();
    std::thread::sleep(Duration::from_secs(1));
    nats.start_again().unwrap();
    let run = place.ended(load);
    assert_whole(&run, 2, 1200);
}

#[test]
fn an_agent_whose_nats_is_gone_still_ends_when_it_is_told_to() {
    let Some(mut nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let mut agent = place.agent("a", &[]);
    nats.kill();
    agent.signal(15);
    assert_eq!(agent.wait(testkit::HANG_GUARD).and_then(|status| status.code()), Some(0));
}

/// A way to NATS that can be cut: nothing comes through then, and nobody is told.
pub struct Way {
    pub url: String,
    is_cut: Arc<AtomicBool>,
}

impl Way {
    pub fn to(address: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(address).unwrap();
                for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                    let (mut from, mut to, cut) = (from.unwrap(), to.unwrap(), Arc::clone(&cut));
                    std::thread::spawn(move || {
                        let mut bytes = [0; 65536];
                        while let Ok(n @ 1..) = from.read(&mut bytes) {
                            while cut.load(Ordering::Relaxed) {
                                std::thread::sleep(Duration::from_millis(5));
                            }
                            if to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        Way { url, is_cut }
    }

    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

#[test]
fn an_agent_that_is_cut_off_for_a_while_loses_nothing_and_for_ever_is_named() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let way = Way::to(nats.address());
    let _near = place.agent("near", &["--cores", "1"]);
    let _far = place.agent_by("far", &way.url);
    let more = ["--rate", "300", "-d", "4s", "-c", "2", "--tick", "200ms"];
    let load = place.begin(&server.url, "2", &[&more[..], &["--lost-after", "30s"]].concat());
    place.until_running("far");
    way.cut(true);
    std::thread::sleep(Duration::from_secs(2));
    way.cut(false);
    assert_whole(&place.ended(load), 2, 1200);
    std::fs::remove_file(place.file("all.plimsoll")).unwrap();
    wait_until("both are idle", || place.listed().iter().all(|one| one["state"] == "idle"));
    let load = place.begin(&server.url, "2", &[&more[..], &["--lost-after", "1500ms"]].concat());
    place.until_running("far");
    way.cut(true);
    let run = place.ended(load);
    run.assert_exit(4);
    let short = &run.json()["generators"]["shortfalls"];
    assert_eq!((short.as_array().map(Vec::len), &short[0]["name"]), (Some(1), &"far".into()), "{short:#}");
    // Its own recording is where the report says, and `runs merge` takes it.
    let kept = files_of_agents(&place);
    assert!(
        kept.iter().any(|file| short[0]["text"].as_str().unwrap().contains(file.to_str().unwrap())),
        "{short:#} {kept:?}"
    );
}

#[test]
fn two_controllers_of_one_run_and_two_runs_at_once_do_not_mix() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let load = place.begin(&server.url, "2", &["--rate", "300", "-d", "3s", "-c", "4", "--tick", "200ms"]);
    let run = place.run();
    place.until_running("a");
    // Both agents are taken: another run gets neither.
    let args = ["load", &server.url, "--agents", "1", "-d", "1s", "--agents-wait", "0s", "--no-record"];
    let other = finish(&mut place.command(&args));
    other.assert_exit(1);
    assert!(other.stderr.contains("it is busy"), "{}", other.stderr);
    let out = place.file("second.plimsoll");
    let second = finish(&mut place.command(&["attach", &run, "--json", "--record", out.to_str().unwrap()]));
    let first = place.ended(load);
    // Who is done first has the result and takes the run away; the other has the same, or says that it is had, and has not failed.
    let (results, told): (Vec<&Run>, Vec<&Run>) = [&first, &second].into_iter().partition(|run| !run.stdout.is_empty());
    assert!(!results.is_empty(), "{}{}", first.stderr, second.stderr);
    for run in told {
        run.assert_exit(0);
        assert!(run.stderr.contains("another command that follows it has its result"), "{}", run.stderr);
    }
    for run in results {
        assert_whole(run, 2, 900);
    }
}

#[test]
fn a_stream_that_fills_up_loses_nothing_that_was_acknowledged() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let more = ["--rate", "300", "-d", "3s", "-c", "2", "--tick", "200ms", "--stream-max", "40KiB"];
    let load = place.begin(&server.url, "2", &more);
    let run = place.ended(load);
    run.assert_exit(4);
    let document = run.json();
    let short = document["generators"]["shortfalls"].as_array().unwrap().clone();
    assert_eq!(short.len(), 2, "{short:#?}");
    let kept = files_of_agents(&place);
    for one in &short {
        let text = one["text"].as_str().unwrap();
        assert!(text.contains("maximum bytes exceeded"), "{text}");
        assert!(kept.iter().any(|file| text.contains(file.to_str().unwrap())), "{text} {kept:?}");
    }
    assert!(count(&document, "/totals/ok") < 900);
    // All of it is there, and is made one by hand.
    let files: Vec<&str> = kept.iter().filter(|file| file.is_file()).map(|file| file.to_str().unwrap()).collect();
    let by_hand = place.file("by-hand.plimsoll");
    let merged = plimsoll(&[&["runs", "merge", by_hand.to_str().unwrap(), "--json"], &files[..]].concat());
    merged.assert_exit(0);
    assert_eq!(count(&merged.json(), "/totals/ok"), 900);
}

#[test]
fn a_clock_that_is_two_seconds_off_changes_nothing() {
    if !testkit::is_root() || testkit::program("unshare").is_none() {
        testkit::skip("a clock of its own needs root and unshare(1)");
        return;
    }
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _right = place.agent("right", &["--cores", "1"]);
    let mut off = Command::new("unshare");
    off.args(["--time", "--monotonic", "2", "--", BIN, "agent", "--name", "off", "--cores", "1"]);
    off.args(["--allow-target", "127.0.0.1", "--nats", &place.url]).env("XDG_STATE_HOME", place.folder.path());
    let _off = place.agent_as("off", off);
    let listed = place.listed();
    let clock = |name: &str| listed.iter().find(|one| one["name"] == name).unwrap()["clock"].clone();
    let ahead_ns = clock("off")["offset_ns"].as_i64().unwrap() - 2_000_000_000;
    assert!(ahead_ns.unsigned_abs() <= count(&clock("off"), "/bound_ns"), "{:#}", clock("off"));
    let run = finish(&mut place.load(&server.url, "2", &["--rate", "300", "-d", "2s", "-c", "2", "--tick", "200ms"]));
    let document = assert_whole(&run, 2, 600);
    // Both measured at once: were the clock believed, there would be 2 s between them.
    assert!(count(&document, "/generators/together_ns") > 1_500_000_000, "{:#}", document["generators"]);
    assert!(generators(&document).iter().all(|one| count(one, "/offset_ns") < 500_000_000));
}

/// A rate is that of all of them, as is a share of failures.
#[test]
fn what_is_not_to_be_gone_on_with_is_judged_of_all_agents_and_ends_all_of_them() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let server = serve_http(&[]);
    let _agents = place.agents(&["a", "b"]);
    let missing = format!("{}is-not-there", server.url);
    let more = ["--rate", "300", "-c", "4", "--tick", "200ms", "-d", "4s", "--abort-when"];
    // Between two agents a rate is half of this each.
    let whole = finish(&mut place.load(&server.url, "2", &[&more[..], &["rate < 200/s for 1s"]].concat()));
    assert!(!whole.stderr.contains("--abort-when"), "{}", whole.stderr);
    std::fs::remove_file(place.file("all.plimsoll")).unwrap();
    wait_until("both are idle", || place.listed().iter().all(|one| one["state"] == "idle"));
    let run = finish(&mut place.load(&missing, "2", &[&more[..], &["errors > 50 % for 1s"]].concat()));
    assert!(matches!(run.status, Some(3 | 4)), "{}{}", run.stdout, run.stderr);
    let document = run.json();
    assert!(count(&document, "/totals/started") < 1100, "it ended before its time");
    let aborted = |event: &&Value| event["kind"] == "aborted";
    assert_eq!(document["events"].as_array().unwrap().iter().filter(aborted).count(), 1, "{:#}", document["events"]);
    assert!(generators(&document).iter().all(|one| one["end"] == "complete"), "{:#}", document["generators"]);
}
