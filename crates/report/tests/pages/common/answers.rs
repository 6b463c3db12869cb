//! A comparison and searches for a load line, made by hand.

use super::single_thread;
use diagnose::comparison::{Comparison, Difference, Figures, FindingSeen, Pairing, Quantity, SCHEMA, Side, Slice};
use model::finding::ValidityState;
use model::recording::End;
use report::capacity::{self, Block, Capacity, Document, Gives, Objective, Point, Scaling, Step, Verdict, Without};

/// B takes 10 % more CPU and answers as fast; noise is a fixed pattern.
pub fn compared(repeats: u32) -> Comparison {
    let mut slices = Vec::new();
    for repeat in 1..=repeats {
        let sides = if repeat % 2 == 0 { [Side::A, Side::B, Side::AgainA] } else { [Side::B, Side::AgainA, Side::A] };
        for side in sides {
            let n = slices.len() as f64;
            let noise = 1.0 + 0.004 * (n * 2.1).sin();
            let more = if side == Side::B { 1.1 } else { 1.0 };
            let figures = [
                (Quantity::Throughput, 12_000.0 * noise),
                (Quantity::P50, 900.0 * noise),
                (Quantity::P99, 4000.0 * (1.0 + 0.3 * (n * 1.3).cos())),
                (Quantity::Cpu, 60.0 * more * noise),
                (Quantity::Failures, 0.0),
            ];
            slices.push(Slice {
                repeat,
                side,
                at_s: 5.0 * n,
                recording: Some(format!("{n:03}.plimsoll")),
                figures: Figures(figures.into()),
                own_margin: (repeat == 1).then_some(0.008),
                disturbed: None,
                gives: None,
            });
        }
    }
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        started_at_unix_ns: 1_753_971_753_000_000_000,
        a: "http://127.0.0.1:8080/".to_owned(),
        b: "http://127.0.0.1:8081/".to_owned(),
        end: End::Complete,
        pairing: Pairing::Paired,
        repeats,
        slice_s: Some(4.0),
        seed: Some(7),
        tolerance: 0.03,
        confidence: 0.98,
        declared: vec![Quantity::Throughput, Quantity::P99, Quantity::Cpu, Quantity::Failures],
        command: vec!["plimsoll".to_owned(), "ab".to_owned()],
        sentence: String::new(),
        judgements: Vec::new(),
        differences: vec![Difference { name: "plan.origins.0.name".to_owned(), a: "a".to_owned(), b: "b".to_owned() }],
        findings: vec![FindingSeen {
            id: "cpu-saturated".to_owned(),
            a: 1,
            of_a: 20,
            b: 10,
            of_b: 10,
            first_a: 0,
            first_b: 9,
        }],
        slices,
    };
    comparison.judge();
    comparison
}

/// Where the line of both searches is.
const LINE: f64 = 9000.0;

fn step(number: usize, asked: f64, load: f64, per_s: f64, over: f64) -> Step {
    let requests = (per_s / 4.0) as u64;
    // Half of what is allowed below the line, more and more beyond it; nothing far below.
    let late = if over < 0.02 { 0.0 } else { (0.01 * over).min(0.9) };
    let verdict = match over {
        over if over < 0.8 => Verdict::Held,
        over if over > 1.25 => Verdict::Missed,
        _ => Verdict::Undecided,
    };
    let bad = vec![(requests as f64 * late) as u64, 0];
    Step {
        purpose: ["find", "narrow", "hold", "replicate"][(number / 4).min(3)].to_owned(),
        asked,
        load,
        took_s: 2.25,
        verdict,
        is_growing: over > 4.0,
        response_p50_us: Some(400.0 * (1.0 + over.min(8.0))),
        response_p99_us: Some(2000.0 * (1.0 + 12.0 * over.min(12.0))),
        recording: Some(format!("/runs/{number:03}.plimsoll")),
        blocks: (0..8).map(|_| Block { seconds: 0.25, requests, bad: bad.clone(), backlog: over.min(3.0) }).collect(),
    }
}

fn document(unit: &str, pace: &str, steps: Vec<Step>) -> Document {
    let curve = |step: &Step| Point {
        load: step.load,
        verdict: step.verdict,
        steps: 1,
        bad_shares: (0..2).filter_map(|place| step.bad_share(place)).collect(),
        response_p99_us: step.response_p99_us,
    };
    let mut points: Vec<Point> = steps.iter().map(curve).collect();
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let slo = "p99 < 50.0 ms, errors < 0.1 %".to_owned();
    let one = |text: &str, allowed, late_us| Objective { text: text.to_owned(), allowed, late_us };
    let load_of = |verdict| steps.iter().filter(move |step| step.verdict == verdict).map(|step| step.load);
    Document {
        schema: capacity::SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        target: "http://127.0.0.1:8080/".to_owned(),
        started_at_unix_ns: 1_753_971_753_000_000_000,
        took_s: 52.0,
        end: capacity::End::Complete,
        why: None,
        pace: pace.to_owned(),
        precision: 0.02,
        command: ["plimsoll", "capacity", "http://127.0.0.1:8080/", "--slo", "p99<50ms, errors<0.1%"]
            .map(str::to_owned)
            .to_vec(),
        objectives: vec![one("p99 < 50.0 ms", 0.01, Some(50_000.0)), one("errors < 0.1 %", 0.001, None)],
        sentence: format!("9,000 {unit} (8,850–9,140, 95 %) within {slo}; then single-thread-bound gives first"),
        capacity: Capacity {
            load_line: Some(LINE),
            unit: unit.to_owned(),
            low: Some(8850.0),
            high: Some(9140.0),
            slo,
            first_to_give: Some("single-thread-bound".to_owned()),
            held: load_of(Verdict::Held).reduce(f64::max),
            missed: load_of(Verdict::Missed).reduce(f64::min),
            steepness: Some(30.0),
        },
        gives: Some(Gives {
            finding: single_thread(),
            is_new: true,
            at_load: None,
            without: Some(Without { at_most: 16_200.0, cores_used: 1.11, cores_all: 2.0 }),
        }),
        validity: ValidityState::Valid,
        busy: None,
        lag_p99_us: Some(41.0),
        held_in_spite_of: None,
        connections: None,
        own_connections: None,
        unexplained: None,
        curve: points,
        scaling: None,
        steps,
    }
}

/// A search over rates: loads that find the line, close in on it, and stay there.
pub fn search() -> Document {
    let loads = [
        500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0, 11_000.0, 9600.0, 8900.0, 9300.0, 9000.0, 8700.0, 9150.0,
        8800.0,
    ];
    let one = |(number, asked): (usize, f64)| {
        let load = if asked > 9800.0 { 9800.0 + 20.0 * number as f64 } else { asked };
        step(number, asked, load, load, (asked / LINE).powf(30.0).min(60.0))
    };
    document(
        "requests/s",
        "open loop, Poisson arrivals, over 100 connections",
        loads.into_iter().enumerate().map(one).collect(),
    )
}

/// A search over connections, whose throughput follows the Universal Scalability Law.
pub fn search_over_connections() -> Document {
    let law = |n: f64| 900.0 * n / (1.0 + 0.02 * (n - 1.0) + 0.0004 * n * (n - 1.0));
    let loads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 96.0, 80.0, 88.0, 84.0];
    let one = |(number, n): (usize, f64)| {
        let noise = 1.0 + 0.01 * (number as f64 * 2.1).sin();
        step(number, n, n, law(n) * noise, (n / 85.0).powf(6.0))
    };
    let pace = "closed loop, the next request after the reply";
    let mut document = document("connections", pace, loads.into_iter().enumerate().map(one).collect());
    let found = &mut document.capacity;
    (found.load_line, found.low, found.high, found.steepness) = (Some(85.0), Some(81.0), Some(90.0), None);
    document.scaling = Some(Scaling {
        single_per_s: [900.0, 880.0, 920.0],
        contention: [0.02, 0.018, 0.022],
        coherency: [0.0004, 0.00035, 0.00045],
        peak_at: Some(49.5),
        peak_per_s: Some(law(49.5)),
        peak_low: Some(46.0),
        peak_high: Some(53.0),
    });
    document
}
