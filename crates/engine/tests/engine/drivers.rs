//! The engine against services good and bad: every test on epoll, io_uring and the simulated network.

use crate::common::*;
use engine::driver::sim::{Action, Weather};
use model::plan::*;
use model::request::RequestEnd;
use model::{ErrorKind, LatencyKind, Phase};
use testkit::port::Reserved;

fn counted(workload: Workload, requests: u64) -> Plan {
    let mut plan = plan(workload);
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    plan
}

#[test]
fn a_count_of_requests_is_met_exactly() {
    on_all(&counted(echo(), 1001), answering(echo_back), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.started, c.ok, c.failed), (1001, 1001, 0), "{name}");
        assert_eq!(c.bytes_sent, c.bytes_received, "{name}");
        for kind in [LatencyKind::Response, LatencyKind::Service, LatencyKind::FirstByte, LatencyKind::Queue] {
            assert_eq!(sum.total.latency.of(kind).len(), 1001, "{name} {kind:?}");
        }
        sum.assert_connected(name, 4, sum.total.latency.of(LatencyKind::Connect).len());
    });
}

#[test]
fn http_is_spoken_with_and_without_pipelining() {
    for pipeline in [1, 2, 7] {
        let mut plan = counted(http(), 500);
        plan.pipeline = pipeline;
        on_all(&plan, answering(http_ok), |name, sum| {
            assert_eq!(sum.total.counts.ok, 500, "{name} × {pipeline}");
            assert_eq!(sum.total.outcomes.seen().collect::<Vec<_>>(), [(200, 500)], "{name}");
        });
    }
}

#[test]
fn time_ends_a_run_and_what_is_in_flight_is_waited_for() {
    fn slow(bytes: &[u8]) -> Vec<Action> {
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns: 30 * MS }]
    }
    on_all(&plan(echo()), answering(slow), |name, sum| {
        assert!(sum.total.counts.ok >= if name == "sim" { 8 } else { 1 }, "{name}: {:?}", sum.total.counts);
        assert_eq!((sum.total.counts.failed, sum.in_flight()), (0, 0), "{name}");
        assert_eq!(sum.finished[0].load_end_ns / MS, 200, "{name}");
    });
}

#[test]
fn whoever_waits_for_a_connection_when_the_load_ends_is_waited_for_too() {
    // A connection for each request: at any moment some are being made.
    fn last(_: &[u8]) -> Vec<Action> {
        vec![reply(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), Action::Close { after_ns: 0 }]
    }
    for think in [Think::None, Think::ExponentialNs(MS)] {
        let mut plan = plan(http());
        plan.connections = 16;
        plan.pace = Pace::Closed { think };
        on_all(&plan, answering(last), |name, sum| {
            assert!(sum.total.counts.ok > 0, "{name}");
            assert_eq!((sum.total.counts.failed, sum.in_flight()), (0, 0), "{name}: {:?}", sum.total.counts);
        });
    }
    // Half of them are refused: each failure is one of a request that was due.
    let weather = Weather { refuse: 0.5, delay_ns: (20 * MS, 30 * MS), ..Weather::default() };
    let sum = run(DriverKind::Sim, plan(http()), weather, answering(last)).unwrap();
    sum.assert_conserved("half refused");
    assert_eq!(sum.in_flight(), 0, "{:?}", sum.total.counts);
    // Connections that will never be there: what waits for them fails when they take too long, or has no end.
    for (drain_ns, failed, unfinished) in [(2 * S, 4, 0), (20 * MS, 0, 4)] {
        let mut plan = plan(http());
        (plan.timeouts.connect_ns, plan.drain_ns) = (S, drain_ns);
        let weather = Weather { blackhole: 1.0, ..Weather::default() };
        let sum = run(DriverKind::Sim, plan, weather, answering(last)).unwrap();
        sum.assert_conserved("no connection");
        assert_eq!((sum.of(ErrorKind::ConnectTimeout), sum.in_flight()), (failed, unfinished), "{drain_ns} ns");
    }
}

#[test]
fn single_requests_are_kept_as_they_were_and_a_wait_of_all_is_a_gap() {
    fn slow(bytes: &[u8]) -> Vec<Action> {
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns: 30 * MS }]
    }
    on_all(&counted(echo(), 12), answering(slow), |name, sum| {
        let requests = &sum.requests;
        assert_eq!(
            (requests.sampled().count(), requests.drawn_from(), requests.failed().count()),
            (12, 12, 0),
            "{name}"
        );
        for request in requests.sampled() {
            let what = format!("{name}: {request:?}");
            assert!(request.connect_ns <= request.intended_ns && request.intended_ns <= request.ready_ns, "{what}");
            assert!(
                request.ready_ns <= request.sent_ns && request.sent_ns + 30 * MS <= request.first_byte_ns,
                "{what}"
            );
            assert!(request.first_byte_ns <= request.ended_ns && request.end == RequestEnd::Ok, "{what}");
            assert_eq!(request.sent_bytes, request.received_bytes, "{what}");
            assert_eq!(request.before_ns.is_some(), request.ordinal > 1, "{what}");
            assert!(request.before_ns.is_none_or(|before_ns| before_ns >= 30 * MS), "{what}");
        }
        let slowest = requests.slowest().map(model::Request::response_ns).max().unwrap();
        let longest = sum.total.latency.of(LatencyKind::Response).max();
        assert!(slowest.abs_diff(longest) <= longest / 1000, "{name}: {slowest} {longest}");
        // All wait for the first replies, which take 30 ms.
        let gap = requests.gaps().max_by_key(|gap| gap.length_ns()).unwrap();
        let what = format!("{name}: {gap:?}");
        assert!((1..=4).contains(&gap.in_flight) && gap.connections == gap.in_flight, "{what}");
        assert!(gap.own_ns_max <= gap.length_ns() && gap.length_ns() <= gap.to_ns, "{what}");
        assert!(name != "sim" || gap.others_ns() >= 29 * MS, "{what}");
    });
}

#[test]
fn an_open_pace_starts_as_many_as_are_due() {
    let mut plan = plan(echo());
    plan.pace = open(1000.0);
    on_all(&plan, answering(echo_back), |name, sum| {
        let started = sum.total.counts.started;
        assert_eq!((sum.due(name), sum.total.counts.ok), (200, started), "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Lag).len(), started, "{name}");
    });
}

#[test]
fn without_a_free_connection_requests_queue_or_are_dropped_and_nothing_is_lost() {
    fn slow(bytes: &[u8]) -> Vec<Action> {
        vec![Action::Reply { bytes: bytes.to_vec(), after_ns: 20 * MS }]
    }
    let mut waits = plan(echo());
    waits.pace = open(1000.0);
    on_all(&waits, answering(slow), |name, sum| {
        assert_eq!((sum.due(name), sum.total.counts.dropped), (200, 0), "{name}");
        let queue = sum.total.latency.of(LatencyKind::Queue);
        assert!(queue.max() > 50 * MS, "{name}: {}", queue.max());
    });
    let mut drops = waits.clone();
    drops.on_full = OnFull::Drop;
    on_all(&drops, answering(slow), |name, sum| {
        assert_eq!(sum.due(name), 200, "{name}");
        assert!(sum.total.counts.dropped > if name == "sim" { 100 } else { 0 }, "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Queue).max(), 0, "{name}");
    });
    let mut bounded = waits;
    bounded.queue_capacity = 5;
    on_all(&bounded, answering(slow), |name, sum| {
        assert!(sum.total.counts.dropped > if name == "sim" { 50 } else { 0 }, "{name}");
        assert_eq!(sum.due(name), 200, "{name}");
    });
}

#[test]
fn requests_that_wait_too_long_for_a_connection_fail_as_such() {
    let mut plan = plan(echo());
    plan.pace = open(500.0);
    plan.connections = 1;
    plan.timeouts.reply_ns = 50 * MS;
    plan.stop.duration_ns = Some(300 * MS);
    on_all(&plan, answering(|_| vec![]), |name, sum| {
        assert_eq!(sum.total.counts.ok, 0, "{name}");
        let least = |of_sim: u64| if name == "sim" { of_sim } else { 1 };
        assert!(sum.of(ErrorKind::QueueTimeout) >= least(50), "{name}: {:?}", sum.total.errors);
        assert!(sum.of(ErrorKind::ReplyTimeout) >= least(3), "{name}: {:?}", sum.total.errors);
    });
}

/// What a service does with the bytes it receives.
type Answer = fn(&[u8]) -> Vec<Action>;

/// Each hostile service, and the kind of failure it must be counted as.
#[test]
fn hostile_servers_are_counted_by_kind() {
    const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";
    let cases: [(&str, Answer, ErrorKind); 9] = [
        ("silence", |_| vec![], ErrorKind::ReplyTimeout),
        ("half a reply, then silence", |_| vec![reply(HALF)], ErrorKind::ReplyTimeout),
        ("half a reply, then the end", |_| vec![reply(HALF), Action::Close { after_ns: 0 }], ErrorKind::ClosedEarly),
        ("the end at once", |_| vec![Action::Close { after_ns: 0 }], ErrorKind::ClosedEarly),
        ("reset at once", |_| vec![Action::Reset { after_ns: 0 }], ErrorKind::Reset),
        ("reset later", |_| vec![reply(HALF), Action::Reset { after_ns: 20 * MS }], ErrorKind::Reset),
        ("garbage", |_| vec![reply(&[0xff, 0, 0xfe, b'\r', b'\n', b'\r', b'\n'])], ErrorKind::BadFraming),
        (
            "a chunk of 2^63 bytes",
            |_| vec![reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\n")],
            ErrorKind::ReplyTimeout,
        ),
        (
            "an endless head",
            |_| vec![reply(&[b"HTTP/1.1 200 OK\r\nX: ", &[b'a'; 70_000][..]].concat())],
            ErrorKind::HeadTooLarge,
        ),
    ];
    for (what, service, kind) in cases {
        let mut plan = plan(http());
        // Where no silence is expected, a server that a busy machine holds up must not look silent.
        plan.timeouts.reply_ns = if kind == ErrorKind::ReplyTimeout { 80 * MS } else { 20 * S };
        on_all(&plan, answering(service), |name, sum| {
            assert_eq!(sum.total.counts.ok, 0, "{what} on {name}");
            assert!(sum.total.counts.failed > 0, "{what} on {name}");
            let others = sum.total.errors.seen().filter(|(k, _)| *k != kind).collect::<Vec<_>>();
            // A huge chunk may be refused outright instead of being waited for.
            let refused = what.contains("2^63") && others.iter().all(|(k, _)| *k == ErrorKind::BadFraming);
            assert!(others.is_empty() || refused, "{what} on {name}: {others:?}");
            assert!(sum.total.examples.iter().flatten().any(|e| e.kind == kind || refused), "{what} on {name}");
        });
    }
}

/// A user whose reply is no reply goes on: a count of requests is met by failures too.
#[test]
fn a_count_is_met_though_every_reply_is_garbage() {
    let mut plan = counted(http(), 30);
    plan.reconnect = Backoff { first_ns: MS, max_ns: MS };
    on_all(&plan, answering(|_| vec![reply(b"garbage\r\n\r\n")]), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.started, c.failed, sum.of(ErrorKind::BadFraming)), (30, 30, 30), "{name}");
        assert_eq!(c.closed_by_us, 30, "{name}: who closes a connection is counted");
    });
}

#[test]
fn a_reply_that_nobody_asked_for_ends_the_connection() {
    let twice = answering(|bytes| [http_ok(bytes), http_ok(bytes)].concat());
    let mut plan = plan(http());
    plan.connections = 1;
    plan.pace = Pace::Closed { think: Think::FixedNs(20 * MS) };
    on_all(&plan, twice, |name, sum| {
        assert!(sum.total.counts.ok > 0, "{name}");
        assert!(sum.total.connection_errors.of(ErrorKind::UnsolicitedReply) > 0, "{name}");
        // It was established, and nothing was asked: it did not happen "connecting".
        let example = sum.total.examples[ErrorKind::UnsolicitedReply.index()].unwrap();
        assert!(matches!(example.phase, Phase::Idle | Phase::Reply), "{name}: {example:?}");
    });
}

#[test]
fn replies_in_single_bytes_are_whole_replies() {
    let bytewise = answering(|bytes| http_ok(bytes).into_iter().flat_map(split).collect());
    fn split(action: Action) -> Vec<Action> {
        let Action::Reply { bytes, .. } = action else { return vec![action] };
        bytes.iter().map(|b| reply(&[*b])).collect()
    }
    on_all(&counted(http(), 50), bytewise, |name, sum| {
        assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (50, 0), "{name}");
    });
}

#[test]
fn connections_are_replaced_after_their_limit_and_after_a_close_by_the_peer() {
    let mut limited = counted(http(), 40);
    limited.requests_per_connection = Some(3);
    on_all(&limited, answering(http_ok), |name, sum| {
        assert_eq!(sum.total.counts.ok, 40, "{name}");
        assert!(sum.total.counts.connected >= 13, "{name}: {}", sum.total.counts.connected);
    });
    let closes = answering(|_| {
        vec![reply(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), Action::Close { after_ns: 0 }]
    });
    on_all(&counted(http(), 40), closes, |name, sum| {
        assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (40, 0), "{name}");
    });
    let until_close = answering(|_| vec![reply(b"HTTP/1.0 200 OK\r\n\r\nall of it"), Action::Close { after_ns: 0 }]);
    on_all(&counted(http(), 40), until_close, |name, sum| {
        assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (40, 0), "{name}");
    });
}

#[test]
fn a_dead_port_fails_every_request_and_does_not_spin() {
    for driver in DRIVERS {
        let mut plan = plan(echo());
        plan.stop.duration_ns = Some(300 * MS);
        let sum = if driver == DriverKind::Sim {
            let weather = Weather { refuse: 1.0, ..Weather::default() };
            run(driver, plan, weather, answering(echo_back)).unwrap()
        } else if driver != DriverKind::Epoll && engine::driver::uring::available().is_err() {
            continue;
        } else {
            let refusing = Reserved::new().unwrap();
            plan.driver = driver;
            plan.origins[0].addresses = vec![Address::Tcp(refusing.address())];
            run_real(&plan)
        };
        sum.assert_conserved(driver.name());
        assert_eq!(sum.total.counts.ok, 0);
        let refused = sum.of(ErrorKind::Refused);
        // 4 connections, backing off 5, 10, 20, 40, 50, 50 ms …
        assert!((4..=60).contains(&refused), "{}: {refused}", driver.name());
        assert_eq!(sum.total.connection_errors.total(), 0, "a refused connect is counted once, with its request");
        assert_eq!(sum.finished[0].first_request_ns, None);
    }
}

#[test]
fn a_server_that_closes_each_connection_is_asked_again_at_once() {
    fn close(_: &[u8]) -> Vec<Action> {
        vec![Action::Close { after_ns: 0 }]
    }
    // If it waited, it would wait for ever.
    let mut plan = counted(http(), 200);
    plan.reconnect = Backoff { first_ns: 3600 * S, max_ns: 3600 * S };
    on_all(&plan, answering(close), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.ok, c.failed), (0, 200), "{name}");
        assert_eq!(sum.of(ErrorKind::ClosedEarly) + sum.of(ErrorKind::Reset), c.failed, "{name}");
    });
}

#[test]
fn of_several_addresses_one_that_answers_is_enough() {
    for driver in [DriverKind::Epoll, DriverKind::Uring] {
        if driver == DriverKind::Uring && engine::driver::uring::available().is_err() {
            continue;
        }
        let server = Server::start(answering(echo_back)());
        let refusing = [Reserved::new().unwrap(), Reserved::new().unwrap()];
        let [first, last] = refusing.each_ref().map(|port| Address::Tcp(port.address()));
        let mut plan = counted(echo(), 100);
        plan.driver = driver;
        plan.origins[0].addresses = vec![first, Address::Tcp(server.address), last];
        let sum = run_real(&plan);
        sum.assert_conserved(driver.name());
        assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (100, 0), "{}", driver.name());
        assert!(sum.total.connection_errors.of(ErrorKind::Refused) > 0);
    }
}

#[test]
fn warm_up_is_kept_out_of_every_figure() {
    let mut plan = plan(echo());
    plan.warmup_ns = 100 * MS;
    plan.pace = open(1000.0);
    on_all(&plan, answering(echo_back), |name, sum| {
        let started = sum.total.counts.started;
        assert_eq!((sum.due(name), sum.total.counts.ok), (200, started), "{name}");
        assert_eq!(sum.total.counts.warmup, 100, "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Response).len(), started, "{name}");
    });
}

#[test]
fn think_time_spaces_the_requests_of_a_user() {
    let mut plan = plan(echo());
    plan.pace = Pace::Closed { think: Think::FixedNs(20 * MS) };
    on_all(&plan, answering(echo_back), |name, sum| {
        // 4 users for 200 ms, one request each 20 ms at the most.
        let least = if name == "sim" { 36 } else { 1 };
        assert!((least..=40).contains(&sum.total.counts.started), "{name}: {}", sum.total.counts.started);
    });
}

#[test]
fn large_echoes_pass_through_every_buffer() {
    let mut plan = counted(
        Workload::Echo(Echo {
            sizes: Sizes::List(vec![1, 65_535, 65_536, 65_537, 1 << 20]),
            content: Content::Incompressible,
        }),
        40,
    );
    plan.timeouts.reply_ns = 20 * S;
    on_all(&plan, answering(echo_back), |name, sum| {
        assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (40, 0), "{name}: {:?}", sum.total.errors);
    });
}

#[test]
fn several_workers_share_connections_and_requests() {
    for driver in [DriverKind::Epoll, DriverKind::Uring] {
        let mut plan = counted(http(), 1003);
        plan.threads = 3;
        plan.connections = 7;
        if let Some(sum) = run(driver, plan, Weather::default(), answering(http_ok)) {
            sum.assert_conserved(driver.name());
            assert_eq!((sum.total.counts.ok, sum.finished.len()), (1003, 3));
        }
    }
}
