//! The parts of which tests make plans and recordings: each is whole and says nothing by itself, so that a test writes down
//! only what it is about, with `..` for the rest where it makes many.

use model::error_kind::ErrorExample;
use model::hide::secret_target;
use model::metrics::Metrics;
use model::plan::*;
use model::snapshot::{ProcessSample, Role, ThreadSample};
use model::{ErrorKind, Phase};
use std::net::SocketAddr;

/// A second, nanoseconds.
pub const SECOND_NS: u64 = 1_000_000_000;

/// `GET /` of the first origin.
pub fn get() -> HttpRequest {
    HttpRequest {
        origin: 0,
        weight: 1.0,
        method: "GET".to_owned(),
        target: secret_target("/"),
        headers: Vec::new(),
        body: Body::default(),
        expect: Expect::default(),
        ..HttpRequest::default()
    }
}

/// One request, again and again on kept connections.
pub fn http1(request: HttpRequest) -> Workload {
    Workload::Http1(Http1 { requests: vec![request], keep_alive: true, head_bytes_max: 65_536, ..Http1::default() })
}

/// A message of so many bytes that must come back as it went, again and again.
pub fn echo(bytes: u32) -> Workload {
    Workload::Echo(Echo { sizes: Sizes::Fixed(bytes), content: Content::Text })
}

/// An origin at a port of the loopback.
pub fn origin(name: &str, port: u16) -> Origin {
    let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port)));
    Origin { name: name.to_owned(), addresses: vec![address], weight: 1.0 }
}

/// A plan for ten seconds of one worker and one connection that always has a request under way.
pub fn plan(workload: Workload, origins: Vec<Origin>) -> Plan {
    Plan {
        workload,
        origins,
        sources: Vec::new(),
        pace: Pace::Closed { think: Think::None },
        connections: 1,
        threads: 1,
        pin: Vec::new(),
        isolation: None,
        stop: Stop { duration_ns: Some(10 * SECOND_NS), requests: None },
        warmup_ns: 0,
        drain_ns: SECOND_NS,
        timeouts: Timeouts { connect_ns: SECOND_NS, reply_ns: 30 * SECOND_NS },
        reconnect: Backoff { first_ns: 1, max_ns: 2 },
        give_up_ns: None,
        after_ns: 0,
        expectations: Vec::new(),
        finding_expectations: Vec::new(),
        faults: Vec::new(),
        abort_when: Vec::new(),
        phases: Vec::new(),
        requests_per_connection: None,
        pipeline: 1,
        on_full: OnFull::Wait,
        on_error: OnError::FailFast,
        queue_capacity: 1000,
        driver: DriverKind::Epoll,
        batch: None,
        receive_stamps: false,
        tick_ns: SECOND_NS,
        seed: 1,
        tls: None,
    }
}

/// A plan of which a test needs no more than that there is one.
pub fn any_plan() -> Plan {
    plan(echo(64), vec![origin("echo://localhost:7", 7)])
}

/// An open pace of one rate for ten seconds.
pub fn steady(per_s: f64, arrivals: Arrivals) -> Pace {
    Pace::Open { profile: vec![Segment { from_per_s: per_s, to_per_s: per_s, for_ns: 10 * SECOND_NS }], arrivals }
}

/// A failure at the first origin.
pub fn failure(kind: ErrorKind, phase: Phase, at_ns: u64) -> ErrorExample {
    ErrorExample { kind, phase, errno: 0, detail: 0, unsent_bytes: 0, at_ns, origin: 0 }
}

/// A thread of which nothing was read but its name.
pub fn thread(tid: u32, name: &str) -> ThreadSample {
    ThreadSample {
        tid,
        name: name.to_owned(),
        state: 'R',
        core: None,
        run_ns: None,
        wait_ns: None,
        user_ns: None,
        system_ns: None,
        switches: None,
        stands: None,
    }
}

/// A process with all its threads, of which nothing else was read.
pub fn process(role: Role, pid: u32, name: &str, threads: Vec<ThreadSample>) -> ProcessSample {
    ProcessSample {
        role,
        pid,
        start_ticks: 1,
        name: name.to_owned(),
        rss_bytes: None,
        descriptors: None,
        user_ns: None,
        system_ns: None,
        threads_total: u32::try_from(threads.len()).unwrap_or(u32::MAX),
        threads,
        runtime: None,
        metrics: Metrics::default(),
    }
}
