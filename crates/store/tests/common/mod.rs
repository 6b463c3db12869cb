//! A small plan, its capsule, and intervals with every figure set, for the tests of this crate.
#![allow(dead_code, reason = "every test binary uses another part of it")]

pub mod run;

use model::error_kind::ErrorExample;
use model::event::Details;
use model::finding::{
    About, Diagnosis, Evidence, ExpectationState, Finding, Judgement, Loss, LossKind, Reason, Severity, Standing,
    Validity, ValidityState, WhatGives,
};
use model::limits::{REQUESTS_FAILED_KEPT, REQUESTS_KEPT, REQUESTS_SLOWEST_KEPT};
use model::plan::*;
use model::recording::{Capsule, End, Tick, Totals};
use model::request::{Gap, Kept, Request, RequestEnd};
use model::snapshot::{CpuTimes, ProcessSample, Role, SamplerState, SamplerStatus, ThreadSample};
use model::split::{Passage, SplitRequest, TickSplit, Unsplit};
use model::{ErrorKind, Event, Interval, LatencyKind, Phase, Plan, Snapshot, Status};
use std::path::{Path, PathBuf};
use store::Writer;
pub use testkit::recordings::SECOND_NS;
use testkit::recordings::{self, failure, get, http1, origin, process, thread};

pub fn plan() -> Plan {
    let request = HttpRequest {
        weight: 0.1 + 0.2,
        headers: vec![("Host".to_owned(), model::hide::secret_field("Host", "localhost"))],
        expect: Expect { status: vec![(200, 299)], ..Expect::default() },
        ..get()
    };
    let mut origin = origin("http://localhost:8080", 8080);
    origin.addresses.push(Address::Unix(PathBuf::from("/run/x.sock")));
    Plan {
        pace: Pace::Open {
            profile: vec![Segment { from_per_s: 1.0 / 3.0, to_per_s: 5000.0, for_ns: SECOND_NS }],
            arrivals: Arrivals::Poisson,
        },
        connections: 50,
        threads: 2,
        pin: vec![0, 1],
        requests_per_connection: Some(7),
        seed: u64::MAX,
        ..recordings::plan(http1(request), vec![origin])
    }
}

pub fn capsule() -> Capsule {
    Capsule {
        version: "0.1.0".to_owned(),
        command: vec!["plimsoll".to_owned(), "load".to_owned()],
        started_at_unix_ns: 1_753_971_753_123_456_789,
        kernel: "6.18.0".to_owned(),
        cores: 2,
        ..Capsule::default()
    }
}

/// A worker's tick in which a few requests ended, one of them badly.
pub fn interval(worker: u16, sequence: u64) -> Interval<u32> {
    let mut i = Interval::new(worker);
    i.sequence = sequence;
    i.start_ns = sequence * SECOND_NS;
    i.end_ns = i.start_ns + SECOND_NS;
    i.counts.started = 11;
    i.counts.ok = 9;
    i.counts.failed = 1;
    i.counts.bytes_sent = 1000;
    i.counts.cpu_user_ns = 250_000_000 * (u64::from(worker) + 1);
    i.gauges.connections = 25;
    i.gauges.in_flight = 1;
    for n in 0..9 {
        i.latency.record(LatencyKind::Response, 50_000 + 1000 * (sequence + n));
        i.latency.record(LatencyKind::Service, 40_000 + n);
        i.outcomes.add(200, 1);
    }
    i.latency.record(LatencyKind::Failed, 3 * SECOND_NS);
    let reset = failure(ErrorKind::Reset, Phase::Reply, i.start_ns + 5);
    i.record_error(ErrorExample { errno: 104, detail: 3, unsent_bytes: 7, ..reset });
    i.connection_errors.record(ErrorKind::Refused);
    for n in 0..10 {
        i.requests.sampled.offer(REQUESTS_KEPT, kept(worker, sequence, n));
    }
    i.requests.slowest.offer(REQUESTS_SLOWEST_KEPT, kept(worker, sequence, 3));
    i.requests.failed.offer(REQUESTS_FAILED_KEPT, kept(worker, sequence, 9));
    let from_ns = i.start_ns + 7;
    let to_ns = from_ns + 50_000_000 + u64::from(worker);
    i.requests.offer_gap(Gap { from_ns, to_ns, in_flight: 9, connections: 8, open: 25, worker, own_ns_max: 3 });
    i
}

/// One of a worker's requests of a tick, with every figure set.
fn kept(worker: u16, sequence: u64, n: u64) -> Kept {
    let intended_ns = sequence * SECOND_NS + n * 1000;
    let end = match n {
        9 => RequestEnd::Failed(ErrorKind::Reset),
        8 => RequestEnd::Unfinished,
        _ => RequestEnd::Ok,
    };
    let request = Request {
        intended_ns,
        ready_ns: intended_ns + 10,
        sent_ns: if n == 8 { 0 } else { intended_ns + 20 },
        first_byte_ns: if n >= 8 { 0 } else { intended_ns + 40_000 },
        ended_ns: intended_ns + 50_000,
        connect_ns: n,
        before_ns: (n > 0).then_some(n),
        worker,
        connection: 17,
        life: 2,
        ordinal: n as u32 + 1,
        origin: 0,
        address: 1,
        entry: 3,
        sent_bytes: 100,
        received_bytes: u32::MAX,
        outcome: 200,
        end,
        local: None,
    };
    Kept::new(u64::MAX - n, request)
}

pub fn snapshot(sequence: u64) -> Snapshot {
    let worker = ThreadSample { core: Some(1), run_ns: Some(7), ..thread(1, "w-0 \"é\n") };
    Snapshot {
        at_ns: (sequence * SECOND_NS) as i64 - 1,
        wall_offset_ns: Some(1_753_971_753_123_456_789),
        cpu: Some(CpuTimes { user_ns: 5, ..CpuTimes::default() }),
        cores: vec![CpuTimes::default(); 2],
        processes: vec![ProcessSample {
            start_ticks: 2,
            rss_bytes: Some(1_000_000 + sequence),
            user_ns: Some(1),
            system_ns: Some(2),
            ..process(Role::Generator, 1, "plimsoll", vec![worker])
        }],
        ..Snapshot::default()
    }
}

pub fn event(at_ns: i64) -> Event {
    let details = Details { pid: Some(7), process: Some("plimsoll".to_owned()), ..Details::default() };
    Event::new(at_ns, "driver-fallback", "io_uring is forbidden here").with(details)
}

pub fn samplers() -> Vec<SamplerStatus> {
    vec![SamplerStatus {
        name: "process/threads".to_owned(),
        status: SamplerState::Failed,
        reason: "permission denied".to_owned(),
    }]
}

pub fn diagnosis() -> Diagnosis {
    Diagnosis {
        validity: Validity::of(
            ValidityState::NotValid,
            vec![Reason { id: "generator-lag".to_owned(), text: "late".to_owned() }],
        ),
        summary: Vec::new(),
        expectations: vec![Judgement {
            expected: "p99 < 50.0 ms".to_owned(),
            is_stated: true,
            state: ExpectationState::NotMet,
            got: "63.1 ms".to_owned(),
            value: Some(63.1e6),
        }],
        findings: vec![Finding {
            id: "single-thread-bound".to_owned(),
            about: About::Target,
            status: Status::NotObservable,
            severity: Severity::Info,
            title: "t".to_owned(),
            because: vec![Evidence {
                text: "x".to_owned(),
                metric: "m".to_owned(),
                value: Some(1.0 / 3.0),
                unit: "ratio".to_owned(),
                window_s: [0.1, 9.7],
                source: Some(model::finding::Source::Client),
                is_against: true,
                threshold: Some(0.25),
            }],
            remedy: String::new(),
            check_yourself: "top".to_owned(),
            confidence: 0.7,
            causes: vec!["accept-queue-overflow".to_owned()],
            because_of: Vec::new(),
            explains: Some(model::finding::Explains { share: 0.5, low: 0.25, high: 0.75, of: LossKind::Slow }),
        }],
        gives: Some(WhatGives { standing: Standing::Gives, text: "t".to_owned(), finding: None, behind: None }),
        losses: vec![Loss {
            kind: LossKind::Slow,
            share: 0.5,
            text: "x".to_owned(),
            unexplained: 0.5,
            time: None,
            concentrated: Vec::new(),
        }],
        held: None,
        segments: Vec::new(),
        recoveries: Vec::new(),
    }
}

/// The totals of `ticks` ticks of two workers.
pub fn totals(ticks: u64) -> Totals {
    let mut totals = Totals::default();
    for sequence in 0..ticks {
        for worker in 0..2 {
            totals.sum.add(&interval(worker, sequence));
        }
    }
    totals.in_time = totals.sum.counts;
    totals.sum.gauges.connections = 50;
    totals.in_flight_at_end = totals.sum.counts.started - totals.sum.counts.requests();
    totals.measured_ns = ticks * SECOND_NS;
    totals.first_request_ns = Some(15_000_000);
    totals.connections_max = 50;
    totals
}

/// Writes a run of some ticks without ending it.
pub fn written(path: &Path, ticks: u64) -> Writer {
    let mut writer = Writer::create(path, &capsule(), &plan()).unwrap();
    for sequence in 0..ticks {
        let workers = [interval(0, sequence), interval(1, sequence)];
        writer.append(Some(&Tick::of(&workers)), Some(&snapshot(sequence)), &[event(sequence as i64)]).unwrap();
        writer.append_split(&split(sequence)).unwrap();
    }
    writer
}

/// What the target saw of a tick's requests.
pub fn split(sequence: u64) -> TickSplit {
    let one = |n: u64, passage| {
        let Kept { key, request, .. } = kept(0, sequence, n);
        let local = Some(([127, 0, 0, 1], 40_000 + n as u16).into());
        SplitRequest { key, below: (n < 3).then_some(u64::MAX - n), request: Request { local, ..request }, passage }
    };
    let at_ns = sequence * SECOND_NS;
    let passage = Passage { arrived_ns: at_ns + 30, read_ns: at_ns + 40, written_ns: at_ns + 45_000 };
    TickSplit {
        sampled: vec![one(1, Ok(passage)), one(2, Err(Unsplit::Lost))],
        slowest: vec![one(3, Ok(passage))],
        cut: 1,
    }
}

/// Writes a whole run.
pub fn finished(path: &Path, ticks: u64) {
    written(path, ticks).finish(&totals(ticks), &samplers(), End::Complete, Some(&diagnosis())).unwrap();
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
