//! How many instructions the hot loop and each parser of replies take: counted under valgrind's callgrind, so that the
//! figures are the same on a busy machine. Cases of parsers and of histograms do their work a thousand times.
//!
//! A case is a function and the sum that it returns, which the compiler cannot leave out. What stands in `setup` is not
//! counted. Not here: what the kernel does (bench/runner measures that), and no judgement of what is too much.

use engine::driver::sim::{Action, Service, Sim, Weather};
use engine::{Fleet, Message, SimSession};
use gungraun::{library_benchmark, library_benchmark_group, main};
use model::on_error::OnError;
use model::plan::*;
use model::resp::{KeyDistribution, Resp, RespCommand, RespExpect};
use model::{Histogram, Interval, LatencyKind};
use std::hint::black_box;
use std::time::Duration;
use wire::echo::EchoProtocol;
use wire::http1::Http1Protocol;
use wire::resp::RespProtocol;
use wire::{Progress, Protocol};

/// How often a case of a parser or of a histogram does its work.
const TIMES: u64 = 1000;
/// Requests of a run of the hot loop.
const REQUESTS: u64 = 10_000;

const NGINX: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 12\r\nLast-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\n\
    Connection: keep-alive\r\nETag: \"655e1c00-c\"\r\nAccept-Ranges: bytes\r\n\r\nhello world\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n\
    5\r\nhello\r\n7\r\n world\n\r\n0\r\n\r\n";

fn http_plan() -> Http1 {
    let request = HttpRequest {
        origin: 0,
        weight: 1.0,
        method: "GET".into(),
        target: "/".into(),
        headers: vec![("Host".into(), "localhost".into())],
        body: Body::default(),
        expect: Expect::default(),
        ..HttpRequest::default()
    };
    Http1 { requests: vec![request], keep_alive: true, head_bytes_max: 65_536, ..Http1::default() }
}

fn http() -> Http1Protocol {
    Http1Protocol::new(&http_plan()).expect("a plan of this bench")
}

fn resp() -> RespProtocol {
    let command =
        RespCommand { name: "GET".into(), weight: 1.0, words: vec!["GET".into(), "{key}".into()], expect: RespExpect::Value };
    let plan = Resp {
        commands: vec![command],
        keys: 1000,
        key_prefix: "key:".into(),
        key_distribution: KeyDistribution::Uniform,
        values: Sizes::Fixed(64),
        content: Content::Text,
        value_seed: 3,
        validate: false,
        verify_writes: false,
        logins: vec![],
    };
    RespProtocol::new(&plan, 0, 1).expect("a plan of this bench")
}

fn echo_plan() -> Echo {
    Echo { sizes: Sizes::Fixed(64), content: Content::Text }
}

/// Requests drawn, each with its reply fed in pieces of `piece` bytes; how many were answered.
fn replies<P: Protocol>(protocol: &mut P, piece: usize, reply: impl Fn(P::Request) -> Vec<u8>) -> u64 {
    let mut connection = protocol.connection();
    let request = protocol.next_request(0, 1);
    let bytes = reply(request);
    let mut answered = 0;
    for _ in 0..TIMES {
        for part in black_box(&bytes).chunks(piece) {
            let fed = protocol.feed(&mut connection, request, part);
            answered += u64::from(matches!(fed.progress, Progress::Reply(_)));
        }
    }
    assert_eq!(answered, TIMES, "a reply was not understood");
    answered
}

#[library_benchmark]
#[bench::whole(http(), usize::MAX, NGINX)]
#[bench::in_two(http(), 200, NGINX)]
#[bench::byte_by_byte(http(), 1, NGINX)]
#[bench::chunked(http(), usize::MAX, CHUNKED)]
fn http_reply(mut protocol: Http1Protocol, piece: usize, reply: &[u8]) -> u64 {
    replies(&mut protocol, piece, |_| reply.to_vec())
}

#[library_benchmark]
#[bench::nothing(resp(), b"$-1\r\n")]
#[bench::value(resp(), b"$5\r\nhello\r\n")]
#[bench::error(resp(), b"-ERR unknown command\r\n")]
fn resp_reply(mut protocol: RespProtocol, reply: &[u8]) -> u64 {
    replies(&mut protocol, usize::MAX, |_| reply.to_vec())
}

#[library_benchmark]
#[bench::of_64_bytes(EchoProtocol::new(&echo_plan(), 1).expect("a plan of this bench"))]
fn echo_reply(mut protocol: EchoProtocol) -> u64 {
    let blobs = protocol.blobs();
    replies(&mut protocol, usize::MAX, |request| {
        blobs[request.blob as usize][request.start as usize..][..request.length as usize].to_vec()
    })
}

#[library_benchmark]
#[bench::http(http())]
fn next_request(mut protocol: Http1Protocol) -> u64 {
    (0..TIMES).map(|random| u64::from(protocol.next_request(0, black_box(random)).request)).sum()
}

#[library_benchmark]
#[bench::warm(histogram())]
fn histogram_record(mut histogram: Histogram<u32>) -> u64 {
    for ns in 0..TIMES {
        histogram.record(black_box(20_000 + ns * 37));
    }
    histogram.len()
}

/// One whose memory was touched already.
fn histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new();
    (0..TIMES).for_each(|ns| histogram.record(20_000 + ns * 37));
    histogram
}

#[library_benchmark]
#[bench::of_one_worker(interval(), Interval::<u64>::new(0))]
fn interval_merged(interval: Interval, mut total: Interval<u64>) -> u64 {
    total.add(black_box(&interval));
    total.latency.count(LatencyKind::Service)
}

fn interval() -> Interval {
    let mut interval = Interval::new(0);
    for kind in [LatencyKind::Response, LatencyKind::Service, LatencyKind::FirstByte] {
        (0..TIMES).for_each(|ns| interval.latency.record(kind, 20_000 + ns * 37));
    }
    interval
}

#[derive(Clone)]
struct Answer(&'static [u8]);

impl Service for Answer {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        vec![]
    }
    fn received(&mut self, _: u64, bytes: &[u8]) -> Vec<Action> {
        let bytes = if self.0.is_empty() { bytes } else { self.0 };
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns: 0 }]
    }
}

fn run_plan(workload: Workload, pace: Pace) -> Plan {
    const MS: u64 = 1_000_000;
    Plan {
        workload,
        origins: vec![Origin {
            name: "http://localhost".into(),
            addresses: vec![Address::Tcp(([127, 0, 0, 1], 9).into())],
            weight: 1.0,
        }],
        sources: vec![],
        pace,
        connections: 64,
        threads: 1,
        pin: vec![],
        isolation: None,
        stop: Stop { duration_ns: None, requests: Some(REQUESTS) },
        warmup_ns: 0,
        drain_ns: 500 * MS,
        timeouts: Timeouts { connect_ns: 1000 * MS, reply_ns: 1000 * MS },
        reconnect: Backoff { first_ns: 5 * MS, max_ns: 50 * MS },
        give_up_ns: None,
        after_ns: 0,
        expectations: vec![],
        finding_expectations: vec![],
        faults: vec![],
        abort_when: vec![],
        phases: vec![],
        on_error: OnError::FailFast,
        requests_per_connection: None,
        pipeline: 1,
        on_full: OnFull::Wait,
        queue_capacity: 10_000,
        driver: DriverKind::Sim,
        batch: None,
        receive_stamps: false,
        tick_ns: 100 * MS,
        seed: 7,
        tls: None,
    }
}

fn open() -> Pace {
    let profile = vec![Segment { from_per_s: 50_000.0, to_per_s: 50_000.0, for_ns: 1_000_000_000 }];
    Pace::Open { profile, arrivals: Arrivals::Constant }
}

const CLOSED: Pace = Pace::Closed { think: Think::None };

#[library_benchmark]
#[bench::http_closed(run_plan(Workload::Http1(http_plan()), CLOSED), NGINX)]
#[bench::http_open(run_plan(Workload::Http1(http_plan()), open()), NGINX)]
#[bench::echo_closed(run_plan(Workload::Echo(echo_plan()), CLOSED), b"")]
fn hot_loop(plan: Plan, reply: &'static [u8]) -> u64 {
    let weather = Weather { delay_ns: (10_000, 10_000), ..Weather::default() };
    let network = |setup: &_, _: &_| Sim::new(setup, Box::new(Answer(reply)), weather, plan.seed);
    let mut fleet = Fleet::simulated(&plan, SimSession::default(), network).expect("a plan of this bench");
    let mut ok = 0;
    loop {
        match fleet.receive(Duration::from_secs(5)) {
            Some(Message::Interval(interval)) => {
                ok += interval.counts.ok;
                fleet.give_back(interval);
            }
            Some(Message::Note { .. }) => {}
            Some(Message::Finished(_)) => break,
            None => panic!("the worker hangs"),
        }
    }
    assert_eq!(ok, REQUESTS);
    ok
}

library_benchmark_group!(
    name = counts,
    benchmarks = [
        hot_loop,
        http_reply,
        resp_reply,
        echo_reply,
        next_request,
        histogram_record,
        interval_merged
    ]
);

main!(library_benchmark_groups = counts);
