//! Kills at random moments: an agent, the controller, a node of NATS, so many rounds each.
//!
//! One round each by default; `PLIMSOLL_KILLS=100` makes a hundred (`make kills`), and `PLIMSOLL_KILLS_SEED=n` those of a seed again.
//! Of each round the sums are held against what the server counted, and against what each agent was to do: what NATS acknowledged
//! is neither lost nor there twice, who is missing is named, and nobody is left waiting.

use super::common::*;
use super::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};
use testkit::nats::Cluster;

/// Requests of an agent in a round, at this rate.
const EACH: u64 = 300;
const RATE: &str = "300";
/// A round's load lasts so long.
const LOAD: &str = "2s";
/// A kill comes at any moment up to so long after the load was asked for: while agents are found and shares are dealt, before the
/// first request, among them, while recordings are handed over, after the end.
const WITHIN: Duration = Duration::from_millis(4500);

/// A cluster loses nodes so often, and another takes its place: after some eighty, nodes of nats-server 2.9 that had come back said for
/// ever that they were not well, whatever was asked of them.
const ROUNDS_OF_A_CLUSTER: usize = 25;

fn rounds() -> u64 {
    std::env::var("PLIMSOLL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The moments of one kind of kill.
fn moments(kind: u64) -> (u64, SmallRng) {
    let asked = std::env::var("PLIMSOLL_KILLS_SEED").ok().and_then(|text| text.parse().ok());
    let seed = asked.unwrap_or_else(|| rand::rng().random());
    println!("PLIMSOLL_KILLS_SEED={seed}");
    (seed, SmallRng::seed_from_u64(seed ^ kind))
}

/// A server that counts.
struct Counting {
    server: Server,
    control: PathBuf,
}

impl Counting {
    fn start(place: &Place) -> Self {
        let control = place.file("server.sock");
        Counting { server: serve_http(&["--control", control.to_str().unwrap()]), control }
    }

    fn requests(&self) -> u64 {
        count(&plimsoll(&["serve", "--counters", self.control.to_str().unwrap()]).json(), "/counters/requests")
    }
}

/// A load of two agents under way, and how many requests the server had seen before it.
fn begun(place: &Place, counting: &Counting) -> (Guard, u64) {
    let before = counting.requests();
    let more = ["--rate", RATE, "-d", LOAD, "-c", "4", "--tick", "100ms", "--lost-after", "1s", "--no-record"];
    let args = [&["load", &counting.server.url, "--agents", "2", "--json"], &more[..]].concat();
    let (out, said) = (File::create(place.file("out")).unwrap(), File::create(place.file("said")).unwrap());
    (Guard::spawn(place.command(&args).stdout(out).stderr(said)).unwrap(), before)
}

/// How a round ended.
#[derive(Debug, Default)]
struct Ends {
    /// Nothing was put on, and that was said.
    none: u64,
    /// All was put on and measured.
    whole: u64,
    /// Less was, and who is missing was named.
    short: u64,
}

impl Ends {
    /// Counts a load that has ended: what it says against what the server saw, `lost` being the agent that was killed, if one was.
    fn take(&mut self, run: &Run, seen: u64, lost: Option<&str>, round: &str) {
        if run.stdout.is_empty() {
            run.assert_exit(1);
            assert!(run.stderr.contains("expected"), "{round}: {}", run.stderr);
            println!("{round}: nothing was put on: {}", run.stderr);
            self.none += 1;
            return;
        }
        let document = run.json();
        let (started, ok) = (count(&document, "/totals/started"), count(&document, "/totals/ok"));
        let parts = generators(&document);
        let sum: u64 = parts.iter().map(|one| count(one, "/requests")).sum();
        assert!(ok <= started && started <= 2 * EACH, "{round}: {started}");
        assert!(started <= seen, "{round}: {started} are said to be sent, and the server saw {seen}");
        assert_eq!(sum, count(&document, "/totals/requests"), "{round}: of {parts:#?}");
        let named: Vec<&str> = match document["generators"].get("shortfalls").and_then(Value::as_array) {
            Some(short) => short.iter().map(|one| one["name"].as_str().unwrap()).collect(),
            None => Vec::new(),
        };
        // Whoever lived did all of its own.
        for one in parts.iter().filter(|one| lost.is_none_or(|lost| one["name"] != lost)) {
            assert_eq!((count(one, "/requests"), &one["end"]), (EACH, &"complete".into()), "{round}: {one:#}");
        }
        match named[..] {
            [] => {
                run.assert_measured();
                assert_eq!((started, seen), (2 * EACH, 2 * EACH), "{round}: nobody is named");
                self.whole += 1;
            }
            [name] => {
                assert_eq!(Some(name), lost, "{round}");
                run.assert_exit(4);
                assert_eq!(document["validity"]["state"], "not-valid", "{round}: {:#}", document["validity"]);
                self.short += 1;
            }
            _ => panic!("{round}: {named:?} are named"),
        }
    }
}

/// All agents are free again, and what NATS had of runs is gone.
fn is_clean(place: &Place) {
    wait_until("the agents are idle again", || place.listed().iter().all(|one| one["state"] == "idle"));
    let open = finish(&mut place.command(&["attach"]));
    open.assert_exit(0);
    assert_eq!(open.stdout, "", "a run is left behind");
}

#[test]
fn an_agent_killed_at_any_moment_is_named_and_the_others_part_is_whole() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let counting = Counting::start(&place);
    let _stays = place.agent("stays", &["--cores", "1"]);
    let (seed, mut random) = moments(1);
    let mut ends = Ends::default();
    for round in 0..rounds() {
        let mut dies = place.agent("dies", &["--cores", "1"]);
        let moment = random.random_range(Duration::ZERO..WITHIN);
        let (load, before) = begun(&place, &counting);
        std::thread::sleep(moment);
        dies.signal(libc::SIGKILL);
        dies.wait(testkit::HANG_GUARD);
        let run = place.ended(load);
        let seen = counting.requests() - before;
        ends.take(&run, seen, Some("dies"), &format!("seed {seed}, round {round}, killed after {moment:?}"));
        // Nothing answers for it any more: a name that is free may be taken again.
        wait_until("the dead one is not listed", || place.listed().iter().all(|one| one["name"] != "dies"));
        is_clean(&place);
    }
    println!("agents killed: {ends:?}");
}

#[test]
fn a_controller_killed_at_any_moment_is_followed_and_nothing_is_lost_or_doubled() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let counting = Counting::start(&place);
    let _agents = place.agents(&["a", "b"]);
    let (seed, mut random) = moments(2);
    let mut ends = Ends::default();
    for round in 0..rounds() {
        let moment = random.random_range(Duration::ZERO..WITHIN);
        let (mut load, before) = begun(&place, &counting);
        std::thread::sleep(moment);
        load.signal(libc::SIGKILL);
        load.wait(testkit::HANG_GUARD);
        let round = format!("seed {seed}, round {round}, killed after {moment:?}");
        let open = finish(&mut place.command(&["attach"]));
        open.assert_exit(0);
        let read = |name: &str| std::fs::read_to_string(place.file(name)).unwrap();
        match open.stdout.split_once(':') {
            // It had not come so far as to ask for anything, or had its result and was done.
            None => {
                let was_done = !read("out").is_empty();
                let seen = counting.requests() - before;
                assert_eq!(seen, if was_done { 2 * EACH } else { 0 }, "{round}");
                if was_done { ends.whole += 1 } else { ends.none += 1 }
            }
            Some((run, _)) => {
                let attached = finish(&mut place.command(&["attach", run, "--json", "--no-record"]));
                ends.take(&attached, counting.requests() - before, None, &round);
            }
        }
        is_clean(&place);
    }
    println!("controllers killed: {ends:?}");
}

/// Its result is there and nobody has it yet, as whoever reads it takes his time: what NATS has stays until it is printed.
#[test]
fn a_controller_killed_while_it_prints_has_lost_nothing() {
    let Some(nats) = nats() else { return };
    let place = Place::new(&nats.url());
    let counting = Counting::start(&place);
    let _agents = place.agents(&["a", "b"]);
    let (_unread, mut full) = std::io::pipe().unwrap();
    // As much as a pipe holds (pipe(7)), so that not a byte of the result gets into it.
    full.write_all(&[b' '; 1 << 16]).unwrap();
    let load = ["load", &counting.server.url, "--agents", "2", "--rate", RATE, "-d", LOAD, "--json", "--no-record"];
    let mut load = Guard::spawn(place.command(&load).stdout(full).stderr(Stdio::null())).unwrap();
    let waits_in = format!("/proc/{}/wchan", load.pid());
    wait_until("it prints", || std::fs::read_to_string(&waits_in).unwrap().contains("pipe_write"));
    load.signal(libc::SIGKILL);
    load.wait(testkit::HANG_GUARD);
    let open = finish(&mut place.command(&["attach"]));
    let (run, _) = open.stdout.split_once(':').expect("its run is still there");
    let attached = finish(&mut place.command(&["attach", run, "--json", "--no-record"]));
    attached.assert_measured();
    assert_eq!((count(&attached.json(), "/totals/ok"), counting.requests()), (2 * EACH, 2 * EACH));
    is_clean(&place);
}

#[test]
fn a_node_of_three_killed_at_any_moment_costs_nothing() {
    if nats().is_none() {
        return;
    }
    let (seed, mut random) = moments(3);
    let mut ends = Ends::default();
    let all: Vec<u64> = (0..rounds()).collect();
    for rounds in all.chunks(ROUNDS_OF_A_CLUSTER) {
        nodes_killed(rounds, seed, &mut random, &mut ends);
    }
    println!("nodes killed: {ends:?}");
}

fn nodes_killed(rounds: &[u64], seed: u64, random: &mut SmallRng, ends: &mut Ends) {
    let mut cluster = Cluster::start().unwrap();
    let place = Place::new(&cluster.url());
    let counting = Counting::start(&place);
    let _agents = place.agents(&["a", "b"]);
    for round in rounds {
        let (moment, at) = (random.random_range(Duration::ZERO..WITHIN), random.random_range(0..3));
        let (load, before) = begun(&place, &counting);
        std::thread::sleep(moment);
        cluster.nodes[at].kill();
        let run = place.ended(load);
        let seen = counting.requests() - before;
        let round = format!("seed {seed}, round {round}, node {at} killed after {moment:?}");
        ends.take(&run, seen, None, &round);
        let began = Instant::now();
        cluster.nodes[at].join_again().unwrap();
        is_clean(&place);
        println!("{round}: all is as before {:?} later", began.elapsed());
    }
}
