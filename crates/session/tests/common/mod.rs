//! The simulation's own list of what passed, and single requests held against it. And what runs of tests have in common.
#![allow(dead_code, reason = "each test file uses its part of this")]

use engine::driver::sim::Passed;
use model::recording::Recording;
use model::request::RequestEnd;
use model::{Gap, LatencyKind, Request};
use session::{Options, RecordTo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub const MS: u64 = 1_000_000;
/// A histogram of three digits is within so much of what was recorded.
pub const RESOLUTION: f64 = 0.001;
/// Every request and every reply is so long.
pub const BYTES: u32 = 16;

/// A run that nothing is read beside.
pub fn options(record: RecordTo) -> Options {
    Options {
        record,
        command: vec![],
        version: "test".to_owned(),
        driver_reason: String::new(),
        record_secrets: false,
        observe: false,
        probes: model::bpf::Level::default(),
        observe_at: None,
        behind: Vec::new(),
        interrupted: Arc::new(AtomicBool::new(false)),
    }
}

/// A request by the simulation's list: on which connection, to which address, when sent, when its last byte came.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    pub worker: usize,
    pub address: usize,
    pub sent_ns: u64,
    pub done_ns: Option<u64>,
}

/// The exchanges of a list, each connection's in order.
pub fn exchanges(logs: &[Vec<Passed>]) -> Vec<Exchange> {
    let mut all = Vec::new();
    for (worker, log) in logs.iter().enumerate() {
        let mut by_connection: BTreeMap<u64, Vec<Passed>> = BTreeMap::new();
        for passed in log {
            by_connection.entry(passed.connection).or_default().push(*passed);
        }
        for passed in by_connection.values() {
            let (mut of_connection, mut received, mut done) = (Vec::new(), 0, 0);
            for one in passed {
                if one.is_sent {
                    for _ in 0..one.bytes / BYTES as usize {
                        of_connection.push(Exchange {
                            worker,
                            address: one.address,
                            sent_ns: one.at_ns,
                            done_ns: None,
                        });
                    }
                } else {
                    received += one.bytes;
                    while done < received / BYTES as usize {
                        of_connection[done].done_ns = Some(one.at_ns);
                        done += 1;
                    }
                }
            }
            all.extend(of_connection);
        }
    }
    all
}

/// What holds of the single requests of every run.
pub fn check_requests(recording: &Recording, says: &dyn Fn(&str) -> String) {
    let (requests, sum) = (&recording.requests, &recording.totals.sum);
    let ended = sum.counts.requests();
    assert_eq!(requests.drawn_from(), ended, "{}", says("the sample is drawn from all that ended"));
    assert!(requests.sampled().count() as u64 <= ended, "{}", says("more were kept than there were"));
    assert!(ended == 0 || requests.sampled().count() > 0, "{}", says("some are kept"));
    let without = sum.counts.failed + recording.totals.in_flight_at_end;
    assert_eq!(requests.failed().count() > 0, without > 0, "{}", says("failures are kept where there were some"));
    for request in requests.failed() {
        let is_known = match request.end {
            RequestEnd::Failed(kind) => sum.errors.of(kind) > 0,
            RequestEnd::Unfinished => recording.totals.in_flight_at_end > 0,
            RequestEnd::Ok => false,
        };
        assert!(is_known, "{}", says(&format!("{request:?} is no failure of the run")));
    }
    let slowest = requests.slowest().map(Request::response_ns).max();
    let response = sum.latency.of(LatencyKind::Response);
    let longest = (!response.is_empty()).then(|| response.value_at_quantile(1.0));
    let is_alike = match (slowest, longest) {
        (Some(kept), Some(recorded)) => kept.abs_diff(recorded) as f64 <= RESOLUTION * recorded as f64 + 2.0,
        (kept, recorded) => kept == recorded,
    };
    assert!(is_alike, "{}", says(&format!("the slowest: kept {slowest:?}, recorded {longest:?}")));
}

/// Single requests and gaps are those of the simulation's list.
pub fn check_requests_by_list(recording: &Recording, list: &[Exchange], says: &dyn Fn(&str) -> String) {
    let known: BTreeSet<(usize, u64, u64)> =
        list.iter().filter_map(|e| Some((e.worker, e.sent_ns, e.done_ns?))).collect();
    for request in recording.requests.sampled().chain(recording.requests.slowest()) {
        let (worker, sent_ns, ended_ns) = (usize::from(request.worker), request.sent_ns, request.ended_ns);
        assert!(known.contains(&(worker, sent_ns, ended_ns)), "{}", says(&format!("{request:?} is not in the list")));
        assert_eq!((request.sent_bytes, request.received_bytes), (BYTES, BYTES), "{}", says("bytes of a request"));
    }
    let mut longest = 0;
    for worker in 0..recording.plan.threads {
        let of_worker = |e: &&Exchange| e.worker == usize::from(worker);
        let gaps: Vec<&Gap> = recording.requests.gaps().filter(|gap| gap.worker == worker).collect();
        for gap in &gaps {
            let ends_inside = |e: &Exchange| e.done_ns.is_some_and(|at_ns| at_ns > gap.from_ns && at_ns < gap.to_ns);
            let under_way = |until_ns: u64| {
                let is = |e: &&Exchange| e.sent_ns < until_ns && e.done_ns.is_none_or(|at_ns| at_ns >= gap.to_ns);
                list.iter().filter(of_worker).filter(is).count() as u64
            };
            // What was sent in the turn that ended the gap, just before the reply was looked at, is under way, too.
            let (under_way, with_turn) = (under_way(gap.to_ns), under_way(gap.to_ns + MS));
            let what = format!("{gap:?}, {under_way} under way by the list");
            assert!(!list.iter().filter(of_worker).any(ends_inside), "{}", says(&what));
            assert!((under_way..=with_turn).contains(&gap.in_flight), "{}", says(&what));
            assert!((1..=gap.in_flight).contains(&gap.connections), "{}", says(&what));
        }
        // The longest pause of the list while something was under way.
        let mut ends: Vec<u64> = list.iter().filter(of_worker).filter_map(|e| e.done_ns).collect();
        ends.sort_unstable();
        let long = ends.windows(2).filter(|pair| pair[1] - pair[0] >= model::limits::GAP_NS_MIN);
        let pauses = long.filter(|pair| {
            list.iter()
                .filter(of_worker)
                .any(|e| e.sent_ns <= pair[0] && e.done_ns.is_none_or(|at_ns| at_ns >= pair[1]))
        });
        longest = longest.max(pauses.map(|pair| pair[1] - pair[0]).max().unwrap_or(0));
    }
    let kept = recording.requests.gaps().map(Gap::length_ns).max().unwrap_or(0);
    let what = format!("the longest pause was {longest} ns, the longest gap {kept} ns");
    assert!(kept >= longest || longest < model::limits::GAP_NS_MIN, "{}", says(&what));
}
