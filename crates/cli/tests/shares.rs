//! Shares of a loss beside the truth: defects of known cost, run live.
//!
//! What a defect costs is known without looking at a single request: of a server that is stopped for D once every P, at a
//! rate R by the clock, R·D²÷2P seconds a second are waited (a request that comes within waits for what is left of D). Of a
//! loop of one of W workers that one request in N holds for T: R÷N times T, and T²÷2 for each that comes to that worker
//! meanwhile, R÷W a second. Two of them cost more together: a request that holds the loop holds all that the stop has lined up
//! behind it. So lines of such workers are simulated, with both defects and with each alone, and a defect's part is half of what
//! it costs alone and half of what it adds to the other (L. S. Shapley, "A Value for n-Person Games", 1953). `PLIMSOLL_SHARES=10` runs each
//! case so often and prints the table; a cause that is not named is a miss.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

mod common;

use common::{plimsoll, serve_http};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A stated share is right within so many points.
const POINTS: f64 = 0.05;
/// So many of all runs must be right.
const RIGHT_MIN: f64 = 0.9;
/// Fewer slow requests are no account.
const SLOW_MIN: f64 = 400.0;

/// All workers stop for a time, once in a period; seconds.
struct Stop {
    for_s: f64,
    every_s: f64,
}

/// One request of so many holds the loop of one of so many workers; seconds.
struct Block {
    for_s: f64,
    of: f64,
    workers: f64,
}

/// A run of which it is known what it costs.
struct Case {
    name: &'static str,
    serve: &'static [&'static str],
    rate: f64,
    stop: Option<Stop>,
    block: Option<Block>,
    /// The cause whose share is compared, and whether it is that of the stops.
    cause: &'static str,
    is_of_stops: bool,
}

const CASES: [Case; 4] = [
    Case {
        name: "stops alone",
        serve: &["--workers", "2", "--defect", "stop-the-world=60ms:sleep:every=500ms"],
        rate: 1000.0,
        stop: Some(Stop { for_s: 0.06, every_s: 0.5 }),
        block: None,
        cause: "stop-the-world",
        is_of_stops: true,
    },
    Case {
        name: "stops beside a blocked loop",
        serve: &[
            "--workers",
            "2",
            "--defect",
            "stop-the-world=80ms:sleep:every=1s",
            "--defect",
            "blocked-loop=8ms:sleep:of=50",
        ],
        rate: 1000.0,
        stop: Some(Stop { for_s: 0.08, every_s: 1.0 }),
        block: Some(Block { for_s: 0.008, of: 50.0, workers: 2.0 }),
        cause: "stop-the-world",
        is_of_stops: true,
    },
    Case {
        name: "stops beside a loop blocked more",
        serve: &[
            "--workers",
            "2",
            "--defect",
            "stop-the-world=40ms:sleep:every=500ms",
            "--defect",
            "blocked-loop=8ms:sleep:of=25",
        ],
        rate: 1000.0,
        stop: Some(Stop { for_s: 0.04, every_s: 0.5 }),
        block: Some(Block { for_s: 0.008, of: 25.0, workers: 2.0 }),
        cause: "stop-the-world",
        is_of_stops: true,
    },
    Case {
        name: "one of 100 holds the only loop",
        serve: &["--workers", "1", "--defect", "head-of-line=50ms:sleep:of=100"],
        rate: 300.0,
        stop: None,
        block: Some(Block { for_s: 0.05, of: 100.0, workers: 1.0 }),
        cause: "event-loop-blocked",
        is_of_stops: false,
    },
];

impl Case {
    /// Seconds a second that its stops and its blocked loop cost.
    fn costs(&self) -> [f64; 2] {
        let stops = self.stop.as_ref().map_or(0.0, |stop| self.rate * stop.for_s.powi(2) / (2.0 * stop.every_s));
        let blocks = self.block.as_ref().map_or(0.0, |block| {
            let behind = self.rate / block.workers * block.for_s.powi(2) / 2.0;
            self.rate / block.of * (block.for_s + behind)
        });
        [stops, blocks]
    }

    /// The part of what its defects cost that the one has which is looked for.
    fn truth(&self) -> f64 {
        let both = self.simulated([true, true]);
        let [alone, other] =
            [self.is_of_stops, !self.is_of_stops].map(|is_of_stops| self.simulated([is_of_stops, !is_of_stops]));
        (alone + (both - other)) / 2.0 / both
    }

    /// Seconds a second that requests wait for the stops, for what blocks, or for both: by the clock, each on any of the workers,
    /// answered in the order in which they come. A worker that is stopped does nothing.
    fn simulated(&self, [has_stops, has_blocks]: [bool; 2]) -> f64 {
        const REQUESTS: u32 = 1_000_000;
        let stop = self.stop.as_ref().filter(|_| has_stops);
        let block = self.block.as_ref().filter(|_| has_blocks);
        let workers = self.block.as_ref().map_or(1.0, |block| block.workers) as usize;
        let mut free_s = vec![0.0; workers];
        let mut waited_s = 0.0;
        let mut any = SmallRng::seed_from_u64(1);
        for n in 1..=REQUESTS {
            let came_s = f64::from(n) / self.rate;
            let worker = &mut free_s[any.random_range(0..workers)];
            let mut work_s = block.filter(|block| n % block.of as u32 == 0).map_or(0.0, |block| block.for_s);
            let mut now_s = came_s.max(*worker);
            if let Some(stop) = stop {
                loop {
                    let begin_s = (now_s / stop.every_s).floor() * stop.every_s;
                    now_s = now_s.max(begin_s + stop.for_s);
                    let next_s = begin_s + stop.every_s;
                    if now_s + work_s <= next_s {
                        break;
                    }
                    (work_s, now_s) = (work_s - (next_s - now_s), next_s);
                }
            }
            *worker = now_s + work_s;
            waited_s += *worker - came_s;
        }
        waited_s * self.rate / f64::from(REQUESTS)
    }

    /// What a run states: share, at least, at most; `None`: the cause is not named. With the slow requests there were.
    fn run(&self) -> (Option<[f64; 3]>, f64) {
        let server = serve_http(self.serve);
        let rate = self.rate.to_string();
        let load = ["load", &server.url, "-c", "128", "--rate", &rate, "-d", "10s", "--observe", "windows"];
        let report = plimsoll(&[&load[..], &["--no-record", "--json"]].concat()).json();
        let count = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
        let losses = report["losses"].as_array().unwrap();
        let slow = losses.iter().find(|loss| loss["kind"] == "slow").map_or(0.0, |loss| {
            let sampled = count(&report["single_requests"]["sampled"]).max(1.0);
            count(&loss["time"]["requests"]) * count(&report["totals"]["requests"]) / sampled
        });
        let findings = report["findings"].as_array().unwrap();
        let named = findings.iter().find(|finding| finding["id"] == self.cause && finding["explains"]["of"] == "slow");
        (named.map(|f| ["share", "low", "high"].map(|name| count(&f["explains"][name]))), slow)
    }
}

#[test]
fn what_defects_cost_is_what_is_stated() {
    let Some(runs) = std::env::var("PLIMSOLL_SHARES").ok().and_then(|runs| runs.parse::<usize>().ok()) else {
        return testkit::skip("live runs take 12 s each: make truth-shares, or PLIMSOLL_SHARES=10");
    };
    if !testkit::is_root() {
        return testkit::skip("probes of the kernel need root");
    }
    let only = std::env::var("PLIMSOLL_SHARES_CASE").unwrap_or_default();
    let (mut right, mut within, mut all) = (0, 0, 0);
    println!("| case | truth | stated | at least | at most | slow requests | |\n|---|---|---|---|---|---|---|");
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let truth = case.truth();
        for _ in 0..runs {
            let (stated, slow) = case.run();
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            let is_right = slow >= SLOW_MIN && stated.is_some_and(|[share, ..]| (share - truth).abs() <= POINTS);
            let is_within = stated.is_some_and(|[_, low, high]| low <= truth && truth <= high);
            (right, within, all) = (right + usize::from(is_right), within + usize::from(is_within), all + 1);
            let [share, low, high] =
                stated.map_or(["not named".to_owned(), String::new(), String::new()], |s| s.map(percent));
            let mark = if is_right { "right" } else { "WRONG" };
            println!("| {} | {} | {share} | {low} | {high} | {slow:.0} | {mark} |", case.name, percent(truth));
        }
    }
    println!("{right} of {all} within {} points; the truth lies within the interval in {within}", 100.0 * POINTS);
    assert!(right as f64 >= RIGHT_MIN * all as f64, "{right} of {all}");
}

#[test]
fn costs_are_those_of_a_worked_example() {
    // 1,000 a second stopped for 80 ms a second: 80 of them wait 40 ms. 20 a second block for 8 ms, and 4 come meanwhile.
    let [stops, blocks] = CASES[1].costs();
    assert!((stops - 3.2).abs() < 1e-9 && (blocks - 20.0 * (0.008 + 4.0 * 0.004)).abs() < 1e-9, "{stops} {blocks}");
    // What is simulated is about that: requests come one by one, two blocks may meet, and what comes after a stop stands behind
    // those that it held.
    for case in &CASES {
        let [stops, blocks] = case.costs();
        for (cost, which) in [(stops, [true, false]), (blocks, [false, true])] {
            let simulated = case.simulated(which);
            assert!((0.9 * cost..=1.25 * cost + 1e-9).contains(&simulated), "{}: {cost} {simulated}", case.name);
        }
        let truth = case.truth();
        let alone = stops.min(blocks) == 0.0;
        assert!(if alone { truth > 0.999 } else { (0.5..0.95).contains(&truth) }, "{}: {truth}", case.name);
        println!("{}: {truth}", case.name);
    }
}
