//! Held WebSocket connections on every driver: pinged and answered, spoken to unasked, and each end told for what it was.

use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use model::ErrorKind;
use model::plan::*;
use model::workload::hold_websocket::{Came, HoldWebSocket};
use model::workload::websocket::Opening;
use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use testkit::websocket::{Frame, frame, read};

const CONNECTIONS: u64 = 20;

/// What a server does beside answering pings.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Nothing,
    /// Sends each byte by itself.
    Bytes,
    /// Answers no ping.
    Silent,
    /// Answers with another payload.
    Spoils,
    /// Closes with this code instead of answering.
    Closes(u16),
    /// Ends the connection instead of answering.
    Drops,
    /// Says a text, a ping, half a message, a pong and the other half behind the handshake's answer.
    Speaks,
    /// Answers the handshake with this.
    Refuses(&'static str),
    /// Does not answer the handshake.
    Sleeps,
    /// Sends what is no frame behind the handshake's answer.
    Babbles,
    /// Closes with 1013 behind the answer to every handshake from this connection on.
    Full(u64),
}

#[derive(Default)]
struct Heard {
    pings: Vec<Vec<u8>>,
    pongs: Vec<Vec<u8>>,
    closes: Vec<Vec<u8>>,
    keys: BTreeSet<String>,
}

#[derive(Clone)]
struct Peer {
    does: Does,
    heard: Arc<Mutex<Heard>>,
    /// Of each connection that has switched, and of others: bytes that are not whole.
    open: HashMap<u64, Vec<u8>>,
    opening: HashMap<u64, Vec<u8>>,
}

fn bytes(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|frame| frame.bytes(false, 0)).collect()
}

fn close(code: u16) -> Vec<u8> {
    frame(0x88, &code.to_be_bytes()).bytes(false, 0)
}

impl Peer {
    fn new(does: Does) -> Self {
        Peer { does, heard: Arc::default(), open: HashMap::new(), opening: HashMap::new() }
    }

    fn switch(&mut self, connection: u64, head: &str) -> Vec<u8> {
        assert!(head.starts_with("GET /chat?a=b HTTP/1.1\r\nHost: local\r\n"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        self.heard.lock().unwrap().keys.insert(key.to_owned());
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        let fields = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
        let mut said = format!("{fields}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes();
        match self.does {
            Does::Refuses(with) => return with.as_bytes().to_vec(),
            Does::Sleeps => return Vec::new(),
            Does::Speaks => {
                let unasked = [(0x81, &b"news"[..]), (0x89, b"there?"), (0x02, b"ha"), (0x8a, b"alive"), (0x80, b"lf")];
                said.extend(bytes(&unasked.map(|(first, payload)| frame(first, payload))));
            }
            Does::Babbles => said.extend(bytes(&[frame(0x83, b"?")])),
            Does::Full(from) if connection >= from => said.extend(close(1013)),
            _ => {}
        }
        said
    }

    /// What is said to a frame; `None`: the connection ends.
    fn answer(&mut self, (first, is_masked, payload): (u8, bool, Vec<u8>)) -> Option<Vec<u8>> {
        assert!(is_masked);
        let mut heard = self.heard.lock().unwrap();
        match first {
            0x89 => heard.pings.push(payload.clone()),
            0x8a => heard.pongs.push(payload),
            0x88 => heard.closes.push(payload),
            other => panic!("a frame that begins with {other:#x}"),
        }
        if first != 0x89 {
            return Some(Vec::new());
        }
        let payload = heard.pings.last()?;
        Some(match self.does {
            Does::Silent => Vec::new(),
            Does::Spoils => bytes(&[frame(0x8a, &payload[1..])]),
            Does::Closes(code) => close(code),
            Does::Drops => return None,
            _ => bytes(&[frame(0x8a, payload)]),
        })
    }
}

impl Service for Peer {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let mut said = Vec::new();
        if !self.open.contains_key(&connection) {
            let mut head = self.opening.remove(&connection).unwrap_or_default();
            head.extend_from_slice(bytes);
            let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
                self.opening.insert(connection, head);
                return Vec::new();
            };
            let behind = head.split_off(end + 4);
            assert!(behind.is_empty(), "a ping before the handshake is answered");
            said = self.switch(connection, std::str::from_utf8(&head).unwrap());
            self.open.insert(connection, behind);
        } else {
            let mut rest = self.open.remove(&connection).unwrap();
            rest.extend_from_slice(bytes);
            while let Some((seen, behind)) = read(&rest) {
                let behind = behind.to_vec();
                let Some(more) = self.answer(seen) else { return vec![Action::Close { after_ns: 0 }] };
                said.extend(more);
                rest = behind;
            }
            self.open.insert(connection, rest);
        }
        if said.is_empty() {
            return Vec::new();
        }
        let pieces: Vec<&[u8]> = if self.does == Does::Bytes { said.chunks(1).collect() } else { vec![&said] };
        // In the simulation pieces sent at one moment may come as one.
        let after_ns = u64::from(pieces.len() > 1);
        pieces.into_iter().map(|piece| Action::Reply { bytes: piece.to_vec(), after_ns }).collect()
    }
}

fn held(every_ms: u64) -> Plan {
    let headers = vec![("Host".into(), "local".into())];
    let handshakes = vec![Opening { target: "/chat?a=b".into(), headers }];
    let mut plan = plan(Workload::HoldWebSocket(HoldWebSocket {
        handshakes,
        subprotocols: vec![],
        compress: false,
        until_failure: false,
    }));
    plan.connections = CONNECTIONS as u32;
    plan.pace = Pace::Held { every_ns: Some(every_ms * MS).filter(|ns| *ns > 0), connects_per_s: 1000.0 };
    plan.stop.duration_ns = Some(500 * MS);
    // What is under way is waited for, however busy the machine is.
    plan.drain_ns = 10 * S;
    plan
}

/// Runs on every driver, and checks once the server has read enough of what was sent last.
fn on_all_peers(plan: &Plan, does: Does, enough: fn(&Heard) -> bool, check: impl Fn(&str, &Sum, &Heard)) {
    for driver in DRIVERS {
        let peer = Peer::new(does);
        let heard = peer.heard.clone();
        if let Some(sum) = run(driver, plan.clone(), Weather::default(), || peer.clone()) {
            sum.assert_conserved(driver.name());
            testkit::wait_until("the server has read it", || enough(&heard.lock().unwrap()));
            check(driver.name(), &sum, &heard.lock().unwrap());
        }
    }
}

/// Connections lost for that reason, with a ping that counts or one of the ramp.
fn lost(sum: &Sum, kind: ErrorKind) -> u64 {
    sum.of(kind) + sum.total.connection_errors.of(kind)
}

fn came(sum: &Sum, what: Came) -> u64 {
    sum.total.outcomes.seen().find(|(number, _)| *number == what.number()).map_or(0, |(_, n)| n)
}

/// The first failure of a kind, in words.
fn told(sum: &Sum, kind: ErrorKind) -> String {
    let example = sum.total.examples[kind.index()].unwrap_or_else(|| panic!("no {kind:?}"));
    wire::words(&held(0).workload, example.detail).unwrap_or_default().into_owned()
}

#[test]
fn each_ping_comes_back_as_a_pong_with_its_payload() {
    for (does, threads) in [(Does::Nothing, 1), (Does::Nothing, 4), (Does::Bytes, 1)] {
        let mut plan = held(100);
        plan.threads = threads;
        on_all_peers(
            &plan,
            does,
            |_| true,
            |driver, sum, heard| {
                let (c, name) = (&sum.total.counts, format!("{driver} × {threads}"));
                assert_eq!((c.connected, c.connect_failed, c.failed), (CONNECTIONS, 0, 0), "{name}: {c:?}");
                assert_eq!((c.closed_by_peer, c.closed_by_us), (0, 0), "{name}");
                let at_end: u64 = sum.finished.iter().map(|worker| worker.held_at_end.unwrap()).sum();
                assert_eq!(at_end, CONNECTIONS, "{name}");
                assert!(c.ok > 0 && c.bytes_received >= 18 * c.ok, "{name}: {c:?}");
                assert!(heard.pings.len() as u64 >= c.ok + c.warmup, "{name}: {} {c:?}", heard.pings.len());
                let distinct: BTreeSet<_> = heard.pings.iter().collect();
                assert_eq!(distinct.len(), heard.pings.len(), "{name}: a payload for each");
                assert_eq!(heard.keys.len() as u64, CONNECTIONS, "{name}: a key for each");
                assert_eq!(sum.total.outcomes.seen().count(), 0, "{name}");
                if driver == DriverKind::Sim.name() {
                    assert!((95..=105).contains(&c.ok), "{name}: {c:?}");
                    assert_eq!(c.ok + c.warmup, heard.pings.len() as u64, "{name}");
                }
            },
        );
    }
}

#[test]
fn no_ping_is_sent_where_none_is_asked_for_and_the_servers_are_answered() {
    on_all_peers(
        &held(0),
        Does::Speaks,
        |heard| heard.pongs.len() as u64 >= CONNECTIONS,
        |driver, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.connected, c.started, c.closed_by_us), (CONNECTIONS, 0, 0), "{driver}: {c:?}");
            assert_eq!((heard.pings.len(), heard.pongs.len() as u64), (0, CONNECTIONS), "{driver}");
            assert!(heard.pongs.iter().all(|pong| pong == b"there?"), "{driver}: {:?}", heard.pongs);
            for what in [Came::Text, Came::Binary, Came::Ping, Came::Pong] {
                assert_eq!(came(sum, what), CONNECTIONS, "{driver}: {what:?}");
            }
        },
    );
}

#[test]
fn silence_and_a_wrong_pong_are_told_apart() {
    let mut plan = held(200);
    // Long enough for a pong of a machine that is busy.
    plan.timeouts.reply_ns = S;
    for (does, kind, words) in [
        (Does::Silent, ErrorKind::ReplyTimeout, "no pong came"),
        (Does::Spoils, ErrorKind::CorruptedReply, "no pong with the ping's payload came, but one with another payload"),
    ] {
        on_all_peers(
            &plan,
            does,
            |_| true,
            |driver, sum, _| {
                let c = &sum.total.counts;
                assert_eq!((c.ok, c.closed_by_us, c.closed_by_peer), (0, CONNECTIONS, 0), "{driver}: {c:?}");
                assert_eq!((lost(sum, kind), told(sum, kind)), (CONNECTIONS, words.to_owned()), "{driver}");
            },
        );
    }
}

#[test]
fn who_closes_is_told_with_its_code() {
    for code in [1001, 1011, 4000] {
        on_all_peers(
            &held(200),
            Does::Closes(code),
            |heard| !heard.closes.is_empty(),
            |driver, sum, heard| {
                let c = &sum.total.counts;
                assert_eq!((c.ok, c.closed_by_peer, c.closed_by_us), (0, CONNECTIONS, 0), "{driver}: {c:?}");
                assert_eq!(lost(sum, ErrorKind::ClosedEarly), CONNECTIONS, "{driver}");
                assert_eq!(came(sum, Came::Close(code)), CONNECTIONS, "{driver}");
                assert!(told(sum, ErrorKind::ClosedEarly).contains(&format!("with code {code}")), "{driver}");
                assert!(!heard.closes.is_empty() && heard.closes.iter().all(|said| said == &code.to_be_bytes()));
            },
        );
    }
    on_all_peers(
        &held(200),
        Does::Drops,
        |_| true,
        |driver, sum, _| {
            assert_eq!(sum.total.counts.closed_by_peer, CONNECTIONS, "{driver}");
            assert_eq!(came(sum, Came::End), CONNECTIONS, "{driver}");
            let words = "the server ended the connection without a close frame";
            assert_eq!(told(sum, ErrorKind::ClosedEarly), words, "{driver}");
        },
    );
}

#[test]
fn what_is_no_websocket_ends_the_connection_with_a_word() {
    on_all_peers(
        &held(0),
        Does::Babbles,
        |heard| !heard.closes.is_empty(),
        |driver, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.connected, c.closed_by_us), (CONNECTIONS, CONNECTIONS), "{driver}: {c:?}");
            assert_eq!(lost(sum, ErrorKind::BadFraming), CONNECTIONS, "{driver}");
            assert!(!heard.closes.is_empty() && heard.closes.iter().all(|said| said == &[3, 234]), "{driver}");
        },
    );
}

#[test]
fn a_handshake_that_fails_is_a_connection_that_could_not_be_made() {
    let refused = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    on_all_peers(
        &held(100),
        Does::Refuses(refused),
        |_| true,
        |driver, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.connected, c.connect_failed, c.started), (0, CONNECTIONS, 0), "{driver}: {c:?}");
            assert_eq!(sum.total.connection_errors.of(ErrorKind::UnexpectedStatus), CONNECTIONS, "{driver}");
            let words = "the server did not switch to WebSocket: expected status 101, got 503";
            assert_eq!(told(sum, ErrorKind::UnexpectedStatus), words, "{driver}");
            assert!(heard.pings.is_empty(), "{driver}");
        },
    );
    let mut plan = held(100);
    plan.timeouts.connect_ns = 100 * MS;
    on_all_peers(
        &plan,
        Does::Sleeps,
        |_| true,
        |driver, sum, _| {
            let c = &sum.total.counts;
            assert_eq!((c.connected, c.connect_failed), (0, CONNECTIONS), "{driver}: {c:?}");
            assert_eq!(sum.total.connection_errors.of(ErrorKind::ConnectTimeout), CONNECTIONS, "{driver}");
        },
    );
}

#[test]
fn connections_are_added_until_the_server_closes_one() {
    let mut plan = held(0);
    plan.connections = 1000;
    let Workload::HoldWebSocket(hold) = &mut plan.workload else { unreachable!("held") };
    hold.until_failure = true;
    on_all_peers(
        &plan,
        Does::Full(40),
        |_| true,
        |driver, sum, _| {
            let (c, closed) = (&sum.total.counts, came(sum, Came::Close(1013)));
            assert!(c.connected < 1000 && closed >= 1, "{driver}: {c:?}");
            // The probe on the first connection is a ping, too.
            assert_eq!((c.failed, c.closed_by_peer), (0, closed), "{driver}: {c:?}");
            let at_end: u64 = sum.finished.iter().map(|worker| worker.held_at_end.unwrap()).sum();
            // While a last pong is waited for, connections under way may still be made.
            assert!(at_end + closed <= c.connected, "{driver}: {at_end} {c:?}");
            assert!(driver != DriverKind::Sim.name() || at_end + closed == c.connected, "{at_end} {c:?}");
        },
    );
}

/// A server that pings without end and reads nothing of what it is answered: it is hung up on before much waits for it.
#[test]
fn a_peer_that_makes_us_talk_and_does_not_listen_is_hung_up_on() {
    for driver in [DriverKind::Epoll, DriverKind::Uring, DriverKind::Rings] {
        if driver != DriverKind::Epoll
            && let Err(why) = engine::driver::uring::available()
        {
            testkit::skip(&format!("no io_uring: {why}"));
            continue;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut plan = held(0);
        (plan.driver, plan.connections) = (driver, 1);
        plan.stop.duration_ns = Some(testkit::HANG_GUARD.as_nanos() as u64);
        plan.origins[0].addresses = vec![Address::Tcp(listener.local_addr().unwrap())];
        let pinging = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let mut said = Peer::new(Does::Nothing).switch(0, std::str::from_utf8(&head).unwrap());
            let pings: Vec<Frame> = (0..100).map(|_| frame(0x89, &[7; 125])).collect();
            while stream.write_all(&said).is_ok() {
                said = bytes(&pings);
            }
        });
        let mut fleet = engine::Fleet::start(&plan).unwrap();
        let mut hung_up = 0;
        while hung_up == 0 {
            match fleet.receive(std::time::Duration::from_secs(1)) {
                Some(engine::Message::Interval(interval)) => {
                    hung_up += interval.connection_errors.of(ErrorKind::UnsolicitedReply);
                    fleet.give_back(interval);
                }
                Some(engine::Message::Finished(finished)) => panic!("{}: {finished:?}", driver.name()),
                _ => {}
            }
        }
        fleet.control().stop();
        follow(fleet);
        pinging.join().unwrap();
    }
}
