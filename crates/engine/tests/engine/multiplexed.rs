//! Requests answered in any order, and frames that are no replies: a small protocol with both (`common/mux.rs`) on every
//! driver, with exact counts, and exact latencies on the simulated network.

use crate::common::mux::*;
use crate::common::*;
use engine::driver::sim::{Action, Weather};
use model::plan::*;
use model::{ErrorKind, LatencyKind, Phase};
use proptest::prelude::*;
use std::collections::HashSet;
use wire::{Progress, Protocol};

const MUX: Mux = Mux { depth: 8, greets: true };

/// A plan of so many requests, eight at once on each of four connections.
fn counted(requests: u64) -> Plan {
    // Of the workload nothing is looked at but which outcomes it counts: the worker is made with the protocol of these tests.
    let mut plan = plan(http());
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    plan.pipeline = MUX.depth as u16;
    plan
}

fn on_all(plan: &Plan, server: impl Fn() -> MuxServer, check: impl Fn(&str, &Sum, &Heard)) {
    for driver in DRIVERS {
        let server = server();
        let heard = server.heard.clone();
        if let Some(sum) = run_protocol(driver, plan.clone(), Weather::default(), MUX, server) {
            sum.assert_conserved(driver.name());
            check(driver.name(), &sum, &heard.lock().unwrap());
        }
    }
}

fn answers(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
    vec![reply(&replies(requests))]
}

#[test]
fn replies_in_another_order_find_their_requests() {
    on_all(
        &counted(2001),
        || MuxServer::new(answers),
        |name, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.started, c.ok, c.failed, c.connected), (2001, 2001, 0, 4), "{name}: {:?}", sum.total.errors);
            assert_eq!(sum.total.outcomes.seen().collect::<Vec<_>>(), [(200, 2001)], "{name}");
            for kind in [LatencyKind::Response, LatencyKind::Service, LatencyKind::FirstByte, LatencyKind::Queue] {
                assert_eq!(sum.total.latency.of(kind).len(), 2001, "{name} {kind:?}");
            }
            assert_eq!((heard.requests, heard.pongs), (2001, 0), "{name}");
            let frames = 2001 * HEAD as u64 + heard.content;
            assert_eq!(c.bytes_sent, frames + 4 * HELLO as u64, "{name}");
            assert_eq!(c.bytes_received, frames + 4 * WELCOME as u64, "{name}");
        },
    );
}

#[test]
fn each_latency_is_of_the_request_that_was_answered() {
    /// The first is answered when the fourth has come, and so is the third, whose reply begins at once; the second is
    /// answered at once.
    fn by_number(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        let [(number, content)] = requests else { panic!("one a millisecond") };
        match number {
            1 => vec![reply(&frame(b'R', 1, content))],
            2 => vec![reply(&frame(b'B', 2, b""))],
            3 => vec![reply(&[frame(b'E', 3, b""), frame(b'E', 2, b""), frame(b'E', 0, b"")].concat())],
            _ => Vec::new(),
        }
    }
    let mut plan = counted(4);
    plan.connections = 1;
    plan.pace = open(1000.0);
    let weather = Weather { delay_ns: (1000, 1000), ..Weather::default() };
    let sum = run_protocol(DriverKind::Sim, plan, weather, MUX, MuxServer::new(by_number)).unwrap();
    sum.assert_conserved("sim");
    assert_eq!((sum.total.counts.ok, sum.of(ErrorKind::ErrorReply)), (1, 3));
    let about = |kind, expected: &[u64]| {
        let got: Vec<u64> = sum.total.latency.of(kind).iter_recorded().map(|(ns, _)| ns).collect();
        let is_near = |(got, expected): (&u64, &u64)| got.abs_diff(*expected) <= expected / 50;
        assert!(got.len() == expected.len() && got.iter().zip(expected).all(is_near), "{kind:?}: {got:?}");
    };
    about(LatencyKind::Service, &[2000]);
    about(LatencyKind::Failed, &[2000, MS, 3 * MS]);
    let example = sum.total.examples[ErrorKind::ErrorReply.index()].unwrap();
    assert_eq!(example.phase, Phase::Reply);
}

#[test]
fn the_first_byte_is_of_the_reply_that_began() {
    /// The second reply begins at once and ends when the third request has come; the first is whole then.
    fn by_number(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        let [(number, content)] = requests else { panic!("one a millisecond") };
        match number {
            1 => vec![reply(&frame(b'B', 1, b""))],
            2 => vec![reply(&[frame(b'E', 1, b""), frame(b'R', 2, content)].concat())],
            _ => Vec::new(),
        }
    }
    let mut plan = counted(3);
    plan.connections = 1;
    plan.pace = open(1000.0);
    plan.timeouts.reply_ns = 10 * MS;
    let weather = Weather { delay_ns: (1000, 1000), ..Weather::default() };
    let sum = run_protocol(DriverKind::Sim, plan, weather, MUX, MuxServer::new(by_number)).unwrap();
    sum.assert_conserved("sim");
    // The first of all had no byte of its own, though others came meanwhile.
    let example = sum.total.examples[ErrorKind::ReplyTimeout.index()].unwrap();
    assert_eq!((example.phase, example.detail), (Phase::FirstByte, 1));
    assert_eq!(sum.total.latency.of(LatencyKind::FirstByte).max() / 100, 20, "of the one good reply: there and back");
}

#[test]
fn one_that_times_out_leaves_the_others_and_its_late_reply_is_swallowed() {
    fn all_but_the_third(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        let others: Vec<_> = requests.iter().filter(|(number, _)| *number != 2).cloned().collect();
        vec![Action::Reply { bytes: replies(&others), after_ns: 10 * MS }]
    }
    // Enough for the third one's time to come while others go on, and time enough for the others on a busy machine.
    let mut plan = counted(12_000);
    plan.timeouts.reply_ns = 2500 * MS;
    let server = || MuxServer {
        on_cancel: |number| vec![reply(&frame(b'R', number, b"late"))],
        ..MuxServer::new(all_but_the_third)
    };
    on_all(&plan, server, |name, sum, heard| {
        let c = &sum.total.counts;
        assert_eq!((c.started, c.ok, c.failed), (12_000, 11_996, 4), "{name}: {:?}", sum.total.errors);
        assert_eq!(sum.of(ErrorKind::ReplyTimeout), 4, "{name}");
        assert_eq!((c.connected, sum.total.connection_errors.total()), (4, 0), "{name}");
        assert_eq!(heard.cancels, 4, "{name}: the server is told");
        let example = sum.total.examples[ErrorKind::ReplyTimeout.index()].unwrap();
        assert_eq!(
            (example.phase, example.detail),
            (Phase::FirstByte, 3),
            "{name}: the third request of its connection"
        );
        assert!(sum.total.latency.of(LatencyKind::Failed).max() >= 2500 * MS, "{name}");
    });
}

#[test]
fn a_connection_that_brings_nothing_is_closed() {
    let mut plan = counted(64);
    plan.timeouts.reply_ns = 20 * MS;
    on_all(
        &plan,
        || MuxServer::new(|_, _| Vec::new()),
        |name, sum, _| {
            let c = &sum.total.counts;
            assert_eq!((c.ok, sum.of(ErrorKind::ReplyTimeout)), (0, 64), "{name}: {:?}", sum.total.errors);
            assert_eq!((c.connected, c.closed_by_us), (8, 8), "{name}: each of eight at once");
        },
    );
}

#[test]
fn a_close_in_the_middle_fails_what_was_not_answered() {
    fn two_and_the_end(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        let answered: Vec<_> = shuffled(requests).into_iter().take(2).cloned().collect();
        vec![reply(&replies(&answered)), Action::Close { after_ns: MS }]
    }
    on_all(
        &counted(200),
        || MuxServer::new(two_and_the_end),
        |name, sum, _| {
            let c = &sum.total.counts;
            let lost = sum.of(ErrorKind::ClosedEarly) + sum.of(ErrorKind::Reset);
            assert_eq!((c.started, c.ok + lost), (200, 200), "{name}: {:?}", sum.total.errors);
            assert!(c.ok >= 20 && lost >= 20, "{name}: {c:?}");
            assert!(c.connected >= 10, "{name}: {c:?}");
        },
    );
}

#[test]
fn replies_in_single_bytes_are_whole_replies() {
    fn bytewise(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        replies(requests).iter().map(|byte| reply(&[*byte])).collect()
    }
    on_all(
        &counted(200),
        || MuxServer::new(bytewise),
        |name, sum, _| {
            assert_eq!((sum.total.counts.ok, sum.total.counts.failed), (200, 0), "{name}");
        },
    );
}

#[test]
fn the_machine_reads_the_same_wherever_it_is_cut() {
    let mut protocol = MUX;
    let mut bytes = Vec::new();
    let asked: Vec<_> = (0..4u64).map(|n| protocol.next_request(0, n * 0x1234_5678_9abc)).collect();
    let whole = |cut: &[usize], bytes: &[u8]| {
        let (mut connection, mut written) = (protocol.connection(), Vec::new());
        (0..4).for_each(|n| protocol.write(&mut connection, n, asked[n as usize], &mut written));
        let (mut seen, mut said, mut from) = (Vec::new(), Vec::new(), 0);
        for to in cut.iter().copied().chain([bytes.len()]) {
            while from < to {
                let fed = protocol.feed(&mut connection, asked[0], &bytes[from..to]);
                from += fed.consumed;
                match fed.progress {
                    Progress::More => assert_eq!(from, to),
                    Progress::Say => protocol.say(&mut connection, &mut said),
                    progress => seen.push(progress),
                }
            }
        }
        (seen, said)
    };
    let mut content = Vec::new();
    (0..4).for_each(|n| protocol.write(&mut protocol.connection(), n, asked[n as usize], &mut content));
    let mut requests = Vec::new();
    while let Some(head) = content.get(..HEAD) {
        let end = HEAD + usize::from(u16::from_be_bytes([head[5], head[6]]));
        requests.push((requests.len() as u32, content[HEAD..end].to_vec()));
        content.drain(..end);
    }
    for (number, content) in [2, 0, 3, 1].map(|n: usize| &requests[n]) {
        bytes.extend(frame(b'P', 40 + number, b""));
        bytes.extend(frame(b'R', *number, content));
    }
    let expected = whole(&[], &bytes);
    assert_eq!(expected.1.len(), 4 * HEAD, "each ping has its answer");
    assert_eq!(expected.0.iter().filter(|p| matches!(p, Progress::ReplyTo(_, r) if r.failure.is_none())).count(), 4);
    for cut in 1..bytes.len() {
        assert_eq!(whole(&[cut], &bytes), expected, "cut at {cut}");
    }
    assert_eq!(whole(&(1..bytes.len()).collect::<Vec<_>>(), &bytes), expected, "byte by byte");
}

#[test]
fn a_reply_to_nothing_outstanding_is_unsolicited() {
    fn never_asked(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        vec![reply(&[replies(requests), frame(b'R', 1000, b"")].concat())]
    }
    fn twice(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        vec![reply(&replies(requests).repeat(2))]
    }
    for (what, answer) in [("never asked", never_asked as Answer), ("twice", twice)] {
        on_all(
            &counted(100),
            || MuxServer::new(answer),
            |name, sum, _| {
                let c = &sum.total.counts;
                assert_eq!(c.started, 100, "{what} on {name}");
                assert!(c.ok > 0 && c.closed_by_us > 0, "{what} on {name}: {c:?}");
                assert!(sum.total.connection_errors.of(ErrorKind::UnsolicitedReply) > 0, "{what} on {name}");
            },
        );
    }
}

#[test]
fn bytes_that_are_not_the_protocol_end_the_connection() {
    fn garbage(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        vec![reply(&[replies(&requests[..1]), b"HTTP/1.1 400 Bad Request".to_vec()].concat())]
    }
    on_all(
        &counted(60),
        || MuxServer::new(garbage),
        |name, sum, _| {
            assert!(sum.of(ErrorKind::BadFraming) > 0, "{name}: {:?}", sum.total.errors);
            assert_eq!(sum.total.counts.started, 60, "{name}");
        },
    );
}

#[test]
fn pings_are_answered_with_and_without_a_request_outstanding() {
    /// A ping in front of the replies and two behind them, where nothing is outstanding.
    fn with_pings(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        let ping = frame(b'P', 7, b"");
        vec![reply(&[&ping[..], &replies(requests), &ping, &ping].concat())]
    }
    let mut plan = counted(300);
    plan.pace = Pace::Closed { think: Think::FixedNs(2 * MS) };
    let server = || MuxServer { behind_welcome: frame(b'P', 0, b""), ..MuxServer::new(with_pings) };
    on_all(&plan, server, |name, sum, heard| {
        let c = &sum.total.counts;
        assert_eq!((c.ok, c.failed, c.connected), (300, 0, 4), "{name}: {:?}", sum.total.errors);
        assert_eq!(sum.total.connection_errors.total(), 0, "{name}");
        let said = c.bytes_sent - (4 * HELLO as u64 + 300 * HEAD as u64 + heard.content);
        assert!(said >= 4 * HEAD as u64 + 3 * HEAD as u64, "{name}: {said}");
        // On the simulated network the run is over before the last have arrived.
        let on_their_way = if name == "sim" { 12 } else { 0 };
        let pongs = said / HEAD as u64;
        assert!(
            said.is_multiple_of(HEAD as u64) && pongs.abs_diff(heard.pongs) <= on_their_way,
            "{name}: {pongs}, {heard:?}"
        );
        assert_eq!(heard.requests, 300, "{name}");
    });
}

#[test]
fn a_peer_that_only_talks_is_hung_up_on() {
    fn pings(_: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        // One action: nothing is read before all of it is written.
        vec![reply(&frame(b'P', 0, b"").repeat(6 << 20))]
    }
    let mut plan = counted(1);
    plan.connections = 1;
    plan.timeouts.reply_ns = 30 * S;
    for driver in [DriverKind::Epoll, DriverKind::Uring, DriverKind::Rings] {
        let Some(sum) = run_protocol(driver, plan.clone(), Weather::default(), MUX, MuxServer::new(pings)) else {
            continue;
        };
        sum.assert_conserved(driver.name());
        assert_eq!(sum.total.counts.failed, 1, "{}", driver.name());
        assert_eq!(sum.total.connection_errors.of(ErrorKind::UnsolicitedReply), 1, "{}", driver.name());
    }
}

#[test]
fn a_connection_that_takes_no_more_is_replaced_and_loses_nothing() {
    fn ends_after_twenty(requests: &[(u32, Vec<u8>)], before: u64) -> Vec<Action> {
        let goodbye = if before >= 20 { frame(b'G', 0, b"") } else { Vec::new() };
        vec![reply(&[goodbye, replies(requests)].concat())]
    }
    /// The last reply says it, and is not the last.
    fn last_first(requests: &[(u32, Vec<u8>)], before: u64) -> Vec<Action> {
        let mut bytes = replies(requests);
        if before >= 20 {
            bytes[0] = b'L';
        }
        vec![reply(&bytes)]
    }
    for answer in [ends_after_twenty as Answer, last_first] {
        on_all(
            &counted(500),
            || MuxServer::new(answer),
            |name, sum, heard| {
                let c = &sum.total.counts;
                assert_eq!((c.ok, c.failed, heard.requests), (500, 0, 500), "{name}: {:?}", sum.total.errors);
                assert!(c.connected > 10, "{name}: {c:?}");
                assert_eq!(sum.total.connection_errors.total(), 0, "{name}");
            },
        );
    }
}

#[test]
fn a_close_is_answered_with_a_close() {
    fn close(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        vec![reply(&[replies(requests), frame(b'C', 0, b"")].concat())]
    }
    on_all(
        &counted(200),
        || MuxServer::new(close),
        |name, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.ok, c.failed), (200, 0), "{name}: {:?}", sum.total.errors);
            // On the simulated network the run is over before the last has arrived.
            assert!(c.closed_by_us > 4 && heard.closes + 1 >= c.closed_by_us, "{name}: {} closes, {c:?}", heard.closes);
        },
    );
}

#[test]
fn each_connection_greets_with_a_key_of_its_own() {
    let mut plan = counted(120);
    plan.requests_per_connection = Some(3);
    plan.pipeline = 1;
    on_all(
        &plan,
        || MuxServer::new(answers),
        |name, sum, heard| {
            let (counts, keys) = (&sum.total.counts, heard.keys.len());
            // A connection may be made that is needed no more.
            assert!(
                counts.ok == 120 && counts.connected >= 40 && keys as u64 >= counts.connected,
                "{name}: {counts:?}, {keys}"
            );
            assert_eq!(heard.keys.iter().collect::<HashSet<_>>().len(), keys, "{name}: each its own");
        },
    );
}

#[test]
fn a_greeting_whose_proof_is_wrong_lets_no_request_through() {
    fn other(_: &[u8]) -> Vec<Action> {
        vec![reply(b"WELCOME12345678")]
    }
    let mut plan = plan(echo());
    plan.pipeline = 4;
    for driver in DRIVERS {
        let service = answering(other)();
        let Some(sum) = run_protocol(driver, plan.clone(), Weather::default(), MUX, service) else { continue };
        sum.assert_conserved(driver.name());
        let counts = &sum.total.counts;
        assert!(sum.of(ErrorKind::LoginRefused) > 0 && counts.connect_failed > 0, "{}: {counts:?}", driver.name());
        assert_eq!((counts.ok, counts.connected), (0, 0), "{}", driver.name());
    }
}

#[test]
fn frames_behind_the_greeting_that_end_it_are_a_failure_to_connect() {
    let mut plan = plan(echo());
    plan.pipeline = 4;
    for (frame, kind) in
        [(frame(b'R', 0, b"x"), ErrorKind::UnsolicitedReply), (frame(b'G', 0, b""), ErrorKind::ClosedEarly)]
    {
        let server = || MuxServer { behind_welcome: frame.clone(), ..MuxServer::new(answers) };
        on_all(&plan, server, |name, sum, heard| {
            assert!(sum.of(kind) > 0 && sum.total.counts.connect_failed > 0, "{name}: {:?}", sum.total.errors);
            assert_eq!((sum.total.counts.connected, heard.requests), (0, 0), "{name}");
        });
    }
}

#[test]
fn bursts_take_frames_too() {
    fn with_pings(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<Action> {
        let ping = frame(b'P', 0, b"");
        vec![reply(&[&ping[..], &replies(requests), &ping].concat())]
    }
    let mut plan = counted(12);
    plan.pipeline = 1;
    plan.pace = Pace::Burst { rounds: 3, at: BurstAt::Send, pause_ns: 5 * MS };
    for driver in DRIVERS {
        let server = MuxServer { greets: false, ..MuxServer::new(with_pings) };
        let (heard, protocol) = (server.heard.clone(), Mux { greets: false, ..MUX });
        let Some(sum) = run_protocol(driver, plan.clone(), Weather::default(), protocol, server) else { continue };
        sum.assert_conserved(driver.name());
        let counts = &sum.total.counts;
        assert_eq!((counts.ok, counts.connected), (12, 4), "{}: {:?}", driver.name(), sum.total.errors);
        // Those of the last round may still be on their way.
        assert!(heard.lock().unwrap().pongs >= 16, "{}", driver.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// started = ok + failed + in flight at the end, in any order and whatever the network does.
    #[test]
    fn every_request_is_accounted_for(
        seed in any::<u64>(),
        (refuse, blackhole, reset, cut) in (0.0..0.3f64, 0.0..0.2f64, 0.0..0.1f64, 0.0..0.9f64),
        connections in 1u32..20,
        pipeline in 1u16..8,
        paced in 0u8..3,
        limits in (prop::option::of(1u64..300), prop::option::of(1u32..30)),
        warmup_ns in prop_oneof![Just(0), Just(37 * MS)],
    ) {
        /// Some are never answered, some connections say that they take no more, all are pinged.
        fn moody(requests: &[(u32, Vec<u8>)], before: u64) -> Vec<Action> {
            let answered: Vec<_> = requests.iter().filter(|(n, c)| !(*n as usize + c.len()).is_multiple_of(11)).cloned().collect();
            let goodbye = if before % 17 == 16 { frame(b'G', 0, b"") } else { frame(b'P', 0, b"") };
            vec![reply(&replies(&answered)), reply(&goodbye)]
        }
        let mut plan = plan(echo());
        plan.seed = seed;
        (plan.connections, plan.pipeline, plan.warmup_ns) = (connections, pipeline, warmup_ns);
        plan.timeouts = Timeouts { connect_ns: 30 * MS, reply_ns: 40 * MS };
        (plan.stop.requests, plan.requests_per_connection) = limits;
        plan.drain_ns = 20 * MS;
        plan.queue_capacity = 50;
        plan.pace = match paced {
            0 => Pace::Closed { think: Think::None },
            1 => Pace::Closed { think: Think::ExponentialNs(5 * MS) },
            _ => open(2000.0),
        };
        let weather = Weather { delay_ns: (1000, 3 * MS), refuse, blackhole, reset, cut, ..Weather::default() };
        let go = || run_protocol(DriverKind::Sim, plan.clone(), weather, MUX, MuxServer::new(moody)).unwrap();
        let sum = go();
        sum.assert_conserved("weather");
        if let Some(n) = limits.0 {
            prop_assert!(sum.total.counts.started <= n);
        }
        let ok = sum.total.counts.ok;
        prop_assert_eq!(sum.total.latency.of(LatencyKind::Response).len(), ok);
        prop_assert_eq!(sum.total.latency.of(LatencyKind::FirstByte).len(), ok);
        prop_assert_eq!(sum.total.latency.of(LatencyKind::Failed).len(), sum.total.counts.failed);
        prop_assert!(sum.of(ErrorKind::CorruptedReply) == 0, "a reply was taken for another's");
        prop_assert_eq!((&sum.total, &sum.finished), (&go().total, &go().finished), "a function of its seed");
    }
}
