//! Held connections on every driver: made at a rate, each on its own phase, and who closed them counted.

use crate::common::*;
use engine::driver::rings::Rings;
use engine::driver::sim::{Action, Weather};
use engine::driver::{Driver, Event, Idle, Setup, Wake};
use model::plan::*;
use model::{ErrorKind, LatencyKind};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use wire::Payload;

fn held(every_ms: u64, is_echoed: bool) -> Plan {
    let message = Echo { sizes: Sizes::Fixed(128), content: Content::Text };
    let mut plan = plan(Workload::Hold(Hold { message, is_echoed, sweep_ns: Some(50 * MS), until_failure: false }));
    plan.connections = 50;
    plan.pace = Pace::Held { every_ns: Some(every_ms * MS).filter(|ns| *ns > 0), connects_per_s: 1000.0 };
    plan.stop.duration_ns = Some(500 * MS);
    plan
}

#[test]
fn each_connection_sends_on_its_own_phase_and_is_answered() {
    on_all(&held(100, true), answering(echo_back), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.connected, c.connect_failed, c.failed), (50, 0, 0), "{name}");
        // 50 connections × 10 a second, over 0.5 s of holding; what was sent in the 50 ms of making is warm-up. One whose
        // answer a busy machine holds up sends no second message meanwhile.
        assert!((240..=260).contains(&sum.due(name)), "{name}: {c:?}");
        assert!(c.ok == c.started && c.ok > 0 && (name != "sim" || c.dropped == 0), "{name}: {c:?}");
        assert!(c.warmup > 0, "{name}: {c:?}");
        assert!(sum.finished[0].measured_from_ns >= 49 * MS, "{name}: {:?}", sum.finished);
        assert_eq!(c.bytes_received, c.ok * 128, "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Connect).len(), 50, "{name}");
        assert_eq!(sum.total.latency.of(LatencyKind::Lag).len(), c.started, "{name}");
        assert_eq!((c.closed_by_peer, c.closed_by_us), (0, 0), "{name}");
    });
}

#[test]
fn nothing_is_sent_where_nothing_is_asked() {
    on_all(&held(0, true), answering(echo_back), |name, sum| {
        assert_eq!((sum.total.counts.connected, sum.total.counts.started), (50, 0), "{name}");
        assert!(sum.finished[0].load_end_ns >= 500 * MS, "{name}");
    });
}

#[test]
fn a_message_that_is_only_sent_is_done_when_it_has_left() {
    on_all(&held(100, false), answering(|_| vec![]), |name, sum| {
        let c = &sum.total.counts;
        assert!(sum.due(name) >= 245 && c.ok == c.started && c.bytes_received == 0, "{name}: {c:?}");
        assert!(c.ok > 0 && (name != "sim" || c.dropped == 0), "{name}: {c:?}");
    });
}

#[test]
fn a_close_while_it_rests_is_found_by_the_sweep() {
    fn close_soon(_: &[u8]) -> Vec<Action> {
        vec![Action::Close { after_ns: 20 * MS }]
    }
    // Each sends once and is closed without an answer, later: by the sweep or by its watch.
    let mut plan = held(400, false);
    plan.connections = 20;
    on_all(&plan, answering(close_soon), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.connected, c.closed_by_peer), (20, 20), "{name}: {c:?}");
        assert_eq!(sum.total.connection_errors.of(ErrorKind::ClosedEarly), 20, "{name}");
    });
}

/// Connections lost for that reason, with a message that counts or one of the ramp.
fn lost(sum: &Sum, kind: ErrorKind) -> u64 {
    sum.of(kind) + sum.total.connection_errors.of(kind)
}

#[test]
fn silence_resets_and_wrong_bytes_are_told_apart() {
    let mut plan = held(200, true);
    plan.timeouts.reply_ns = 100 * MS;
    on_all(&plan, answering(|_| vec![]), |name, sum| {
        let c = &sum.total.counts;
        assert_eq!((c.ok, c.failed + c.warmup, c.closed_by_us), (0, 50, 50), "{name}: {c:?}");
        assert_eq!(lost(sum, ErrorKind::ReplyTimeout), 50, "{name}");
        // A timeout enters at its timeout.
        assert!(sum.total.latency.of(LatencyKind::Failed).min() >= 99 * MS, "{name}");
    });
    on_all(&held(200, true), answering(|_| vec![Action::Reset { after_ns: 0 }]), |name, sum| {
        assert_eq!(
            lost(sum, ErrorKind::Reset) + lost(sum, ErrorKind::MissingReply),
            50,
            "{name}: {:?}",
            sum.total.counts
        );
        assert_eq!(sum.total.counts.closed_by_peer, 50, "{name}");
    });
    fn wrong(bytes: &[u8]) -> Vec<Action> {
        vec![Action::Reply { bytes: vec![bytes[0] ^ 1; bytes.len()], after_ns: 0 }]
    }
    on_all(&held(200, true), answering(wrong), |name, sum| {
        assert_eq!(lost(sum, ErrorKind::CorruptedReply), 50, "{name}");
    });
}

#[test]
fn a_refusal_ends_the_ramp_where_that_is_asked() {
    let weather = Weather { refuse: 0.05, ..Weather::default() };
    let mut plan = held(0, true);
    plan.connections = 1000;
    let Workload::Hold(hold) = &mut plan.workload else { unreachable!("held") };
    hold.until_failure = true;
    let sum = run(DriverKind::Sim, plan, weather, answering(echo_back)).unwrap();
    let c = &sum.total.counts;
    assert!(c.connect_failed >= 1 && c.connected < 500, "{c:?}");
    assert_eq!(sum.total.connection_errors.of(ErrorKind::Refused), c.connect_failed);
}

/// More connections than a table has files, each way of making sockets: all echo, all are closed in the end.
#[test]
fn connections_spread_over_many_tables() {
    if let Err(why) = engine::driver::uring::available() {
        return testkit::skip(&format!("no io_uring: {why}"));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echoing = std::thread::spawn(move || {
        let mut ends = Vec::new();
        for stream in listener.incoming().take(200) {
            let mut stream = stream.unwrap();
            ends.push(std::thread::spawn(move || {
                let mut bytes = [0; 64];
                let mut echoed = 0;
                while let Ok(n @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..n]).unwrap();
                    echoed += n;
                }
                echoed
            }));
        }
        ends.into_iter().map(|end| end.join().unwrap()).sum::<usize>()
    });
    let setup = Setup {
        slots: 100,
        addresses: vec![Address::Tcp(address)],
        blobs: vec![Arc::from(&b"0123456789"[..])],
        pipeline: 1,
        receive_stamps: false,
        sources: vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()],
        is_burst: false,
        idle: Idle::Swept(10 * MS),
    };
    for mut driver in [Rings::with_table(&setup, 7).unwrap(), Rings::by_system_calls(&setup).unwrap()] {
        driver.begin(engine::driver::clock::monotonic_ns());
        for slot in 0..100 {
            driver.connect(slot, 0);
        }
        let (mut connected, mut answered) = (0, 0);
        while answered < 100 {
            let until_ns = driver.now_ns() + 60 * S;
            driver.wait(until_ns, Wake::First).unwrap();
            assert!(driver.now_ns() < until_ns, "{connected} connected, {answered} answered");
            while let Some(event) = driver.next() {
                match event {
                    Event::Connected { slot } => {
                        connected += 1;
                        driver.send(slot, Payload { blob: 0, start: 2, length: 5 });
                    }
                    Event::Received { slot, .. } => {
                        assert_eq!(driver.bytes(), b"23456");
                        answered += 1;
                        driver.rest(slot);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(connected, 100);
        for slot in 0..50 {
            driver.close(slot);
        }
        // The others close with the driver.
    }
    assert_eq!(echoing.join().unwrap(), 2 * 100 * 5);
}
