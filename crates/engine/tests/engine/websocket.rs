//! WebSocket on every driver, against a server of another hand: exact counts, pieces cut anywhere, pings and closes among the
//! echoes, refused handshakes, wrong echoes.

use crate::common::*;
use engine::driver::sim::{Action, Service, Weather};
use model::plan::*;
use model::workload::websocket::{Opening, WebSocket};
use model::{ErrorKind, Phase, Secret};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use testkit::websocket::{Frame, frame, read};

/// What a server does beside echoing.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Nothing,
    /// Sends each byte by itself.
    Bytes,
    /// Sends what it has at once in two pieces, cut here.
    Cut(usize),
    /// Sends a ping behind the handshake's answer and before each echo.
    Pings,
    /// Closes with this code instead of each connection's fifth echo.
    Closes(u16),
    /// Closes with this code behind each connection's fifth echo, when nothing is outstanding.
    ClosesIdle(u16),
    /// Spoils the last byte of each seventh echo, over all connections.
    Spoils,
    /// Answers the handshake with this.
    Refuses(&'static str),
    /// Accepts no compression.
    Plain,
    /// Sends a message that nobody asked for behind the handshake's answer.
    Speaks,
}

/// What all connections have said.
#[derive(Default)]
struct Heard {
    messages: u64,
    /// Bytes of frames that were echoed.
    echoed: u64,
    pongs: u64,
    closes: Vec<Vec<u8>>,
    keys: Vec<String>,
}

#[derive(Clone)]
struct Peer {
    does: Does,
    heard: Arc<Mutex<Heard>>,
    /// Of each connection: bytes that are no whole frame, and messages that came.
    rest: HashMap<u64, Vec<u8>>,
    came: HashMap<u64, u64>,
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
/// An accepted key's line, and the empty one.
const ACCEPT_BYTES: usize = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n".len();

impl Peer {
    fn new(does: Does) -> Self {
        Peer { does, heard: Arc::default(), rest: HashMap::new(), came: HashMap::new() }
    }

    fn switch(&mut self, head: &str) -> Vec<u8> {
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let key = field("Sec-WebSocket-Key: ").unwrap();
        assert!(head.starts_with("GET /chat?a=b HTTP/1.1\r\nHost: local\r\n"), "{head}");
        assert_eq!(field("Authorization: "), Some("Basic x"), "{head}");
        self.heard.lock().unwrap().keys.push(key.to_owned());
        if let Does::Refuses(with) = self.does {
            return with.as_bytes().to_vec();
        }
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        let deflate =
            if field("Sec-WebSocket-Extensions: ").is_some() && self.does != Does::Plain { DEFLATE } else { "" };
        let mut said = format!("{SWITCH}{deflate}Sec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes();
        match self.does {
            Does::Pings => said.extend(frame(0x89, b"first").bytes(false, 0)),
            Does::Speaks => said.extend(frame(0x82, b"you did not ask").bytes(false, 0)),
            _ => {}
        }
        said
    }

    fn answer(&mut self, connection: u64, (first, is_masked, mut payload): (u8, bool, Vec<u8>)) -> Vec<u8> {
        assert!(is_masked);
        let mut heard = self.heard.lock().unwrap();
        let came = self.came.entry(connection).or_default();
        match first {
            0x8a => {
                heard.pongs += 1;
                assert!(payload == b"first" || payload == b"again", "{payload:?}");
                return Vec::new();
            }
            0x88 => {
                heard.closes.push(payload);
                return Vec::new();
            }
            0x81 | 0x82 | 0xc1 | 0xc2 => {}
            other => panic!("a frame that begins with {other:#x}"),
        }
        heard.messages += 1;
        *came += 1;
        if self.does == Does::Spoils && heard.messages.is_multiple_of(7) {
            *payload.last_mut().unwrap() ^= 1;
        }
        let close = |code: u16| [&code.to_be_bytes()[..], b"as told"].concat();
        let echo = frame(first, &payload);
        let frames: Vec<Frame> = match self.does {
            Does::Pings => vec![frame(0x89, b"again"), echo],
            Does::Closes(code) if *came == 5 => vec![frame(0x88, &close(code))],
            Does::Closes(_) if *came > 5 => vec![],
            Does::ClosesIdle(code) if *came == 5 => vec![echo, frame(0x88, &close(code))],
            _ => vec![echo],
        };
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes(false, 0)).collect();
        heard.echoed += bytes.len() as u64;
        bytes
    }
}

impl Service for Peer {
    fn connected(&mut self, _: u64) -> Vec<Action> {
        Vec::new()
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) -> Vec<Action> {
        let mut rest = self.rest.remove(&connection).unwrap_or_default();
        rest.extend_from_slice(bytes);
        let mut said = Vec::new();
        if !self.came.contains_key(&connection) {
            let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
                self.rest.insert(connection, rest);
                return Vec::new();
            };
            let behind = rest.split_off(end + 4);
            said = self.switch(std::str::from_utf8(&rest).unwrap());
            self.came.insert(connection, 0);
            rest = behind;
        }
        while let Some((seen, behind)) = read(&rest) {
            let behind = behind.to_vec();
            said.extend(self.answer(connection, seen));
            rest = behind;
        }
        self.rest.insert(connection, rest);
        let pieces: Vec<&[u8]> = match self.does {
            Does::Bytes => said.chunks(1).collect(),
            Does::Cut(at) if at < said.len() => vec![&said[..at], &said[at..]],
            _ => vec![&said],
        };
        // In the simulation pieces sent at one moment may come as one.
        let after_ns = if pieces.len() > 1 { 1 } else { 0 };
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        pieces.map(|piece| Action::Reply { bytes: piece.to_vec(), after_ns }).collect()
    }
}

fn messages(text: bool, compress: bool) -> WebSocket {
    let headers = [("Host", "local"), ("Authorization", "Basic x")];
    let headers = headers.map(|(name, value)| (name.to_owned(), Secret::from(value))).to_vec();
    WebSocket {
        handshakes: vec![Opening { target: "/chat?a=b".into(), headers }],
        subprotocols: vec![],
        text,
        sizes: Sizes::Range(4, 300),
        content: Content::Binary,
        compress,
    }
}

fn counted(websocket: WebSocket, requests: u64) -> Plan {
    let mut plan = plan(Workload::WebSocket(websocket));
    plan.stop = Stop { duration_ns: None, requests: Some(requests) };
    plan
}

fn on_all_peers(plan: &Plan, does: Does, check: impl Fn(&str, &Sum, &Heard)) {
    for driver in DRIVERS {
        let peer = Peer::new(does);
        let heard = peer.heard.clone();
        if let Some(sum) = run(driver, plan.clone(), Weather::default(), || peer.clone()) {
            sum.assert_conserved(driver.name());
            check(driver.name(), &sum, &heard.lock().unwrap());
        }
    }
}

/// The first failure of a kind, in words.
fn told(sum: &Sum, plan: &Plan, kind: ErrorKind) -> String {
    let example = sum.total.examples[kind.index()].unwrap_or_else(|| panic!("no {kind:?}: {:?}", sum.total.errors));
    wire::words(&plan.workload, example.detail).unwrap_or_default().into_owned()
}

#[test]
fn messages_come_back_and_each_byte_is_counted() {
    for (text, compress, pipeline) in
        [(false, false, 1), (true, false, 1), (false, false, 8), (true, true, 1), (false, true, 8)]
    {
        let mut plan = counted(messages(text, compress), 2001);
        plan.pipeline = pipeline;
        on_all_peers(&plan, Does::Nothing, |driver, sum, heard| {
            let c = &sum.total.counts;
            let name = format!("{driver} {text} {compress} × {pipeline}");
            assert_eq!((c.ok, c.failed, heard.messages), (2001, 0, 2001), "{name}: {:?}", sum.total.errors);
            sum.assert_connected(driver, 4, c.connected);
            // All may have come back before the last connection's answer was read.
            let asked = heard.keys.len() as u64;
            assert!((c.connected..=4).contains(&asked), "{name}: {asked}");
            let distinct: std::collections::BTreeSet<_> = heard.keys.iter().collect();
            assert_eq!(distinct.len(), heard.keys.len(), "{name}: a key for each connection");
            let answer = SWITCH.len() + ACCEPT_BYTES + if compress { DEFLATE.len() } else { 0 };
            let answers = (c.bytes_received - heard.echoed).div_ceil(answer as u64);
            assert!((c.connected..=asked).contains(&answers), "{name}: {answers}");
            if asked == c.connected {
                assert_eq!(c.bytes_received, heard.echoed + asked * answer as u64, "{name}");
            }
        });
    }
}

#[test]
fn an_open_pace_is_kept() {
    let mut plan = counted(messages(false, false), 400);
    plan.pace = open(2000.0);
    on_all_peers(&plan, Does::Nothing, |driver, sum, heard| {
        assert_eq!((sum.total.counts.ok, heard.messages), (400, 400), "{driver}: {:?}", sum.total.errors);
    });
}

#[test]
fn pieces_may_be_cut_anywhere() {
    on_all_peers(&counted(messages(true, false), 101), Does::Bytes, |driver, sum, _| {
        assert_eq!(sum.total.counts.ok, 101, "{driver}: {:?}", sum.total.errors);
    });
    for compress in [false, true] {
        let mut websocket = messages(false, compress);
        websocket.sizes = Sizes::Fixed(130);
        let mut plan = counted(websocket, 12);
        (plan.connections, plan.pipeline) = (1, 3);
        for at in 1..200 {
            let peer = Peer::new(Does::Cut(at));
            let sum = run(DriverKind::Sim, plan.clone(), Weather::default(), || peer.clone()).unwrap();
            sum.assert_conserved("sim");
            let c = &sum.total.counts;
            assert_eq!((c.ok, c.failed, c.connected), (12, 0, 1), "{compress}, cut at {at}: {:?}", sum.total.errors);
        }
    }
}

#[test]
fn pings_are_answered_under_load() {
    let mut plan = counted(messages(false, false), 1000);
    plan.pipeline = 4;
    on_all_peers(&plan, Does::Pings, |driver, sum, heard| {
        let c = &sum.total.counts;
        assert_eq!((c.ok, c.failed), (1000, 0), "{driver}: {:?}", sum.total.errors);
        // The last pongs may still be on their way when the load is over.
        let owed = 1000 + c.connected;
        assert!((owed - 16..=owed).contains(&heard.pongs), "{driver}: {} of {owed}", heard.pongs);
    });
}

#[test]
fn a_close_ends_what_is_outstanding_with_its_code() {
    let mut plan = counted(messages(false, false), 100);
    plan.pipeline = 2;
    on_all_peers(&plan, Does::Closes(1011), |driver, sum, heard| {
        let c = &sum.total.counts;
        assert_eq!((c.ok + c.failed, c.failed), (100, sum.of(ErrorKind::ClosedEarly)), "{driver}");
        assert!(c.ok > 0 && c.failed >= c.ok / 4, "{driver}: {c:?}");
        assert_eq!(
            told(sum, &plan, ErrorKind::ClosedEarly),
            "the server closed the WebSocket connection with code 1011 (internal error)",
            "{driver}"
        );
        assert!(!heard.closes.is_empty() && heard.closes.iter().all(|code| code == &[3, 243]), "{driver}");
    });
}

#[test]
fn a_close_between_two_messages_costs_none() {
    for (code, complains) in [(1000, false), (1001, false), (1013, true)] {
        on_all_peers(&counted(messages(false, false), 100), Does::ClosesIdle(code), |driver, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.ok, c.failed), (100, 0), "{driver} {code}: {:?}", sum.total.errors);
            assert!(c.connected >= 20, "{driver}: {c:?}");
            let complaints = sum.total.connection_errors.of(ErrorKind::ClosedEarly);
            assert_eq!(complaints > 0, complains, "{driver} {code}: {complaints}");
            assert!(heard.closes.iter().all(|said| said == &u16::to_be_bytes(code)), "{driver}: {:?}", heard.closes);
        });
    }
}

#[test]
fn a_refused_handshake_is_told() {
    for (with, kind, words) in [
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
            ErrorKind::UnexpectedStatus,
            "the server did not switch to WebSocket: expected status 101, got 404",
        ),
        ("SSH-2.0-x\r\n", ErrorKind::BadFraming, "the answer to the handshake is not HTTP/1.1"),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            ErrorKind::BadFraming,
            "Sec-WebSocket-Accept does not belong to the key that was sent: a cache or something else than a WebSocket server answered",
        ),
    ] {
        let plan = counted(messages(false, false), 8);
        on_all_peers(&plan, Does::Refuses(with), |driver, sum, heard| {
            let c = &sum.total.counts;
            assert_eq!((c.ok, c.failed, c.connected), (0, 8, 0), "{driver}: {:?}", sum.total.errors);
            assert_eq!((sum.of(kind), heard.messages), (8, 0), "{driver}: {:?}", sum.total.errors);
            assert_eq!(told(sum, &plan, kind), words, "{driver}");
            assert_eq!(sum.total.examples[kind.index()].unwrap().phase, Phase::Connect, "{driver}");
        });
    }
}

#[test]
fn a_server_without_compression_is_told() {
    let plan = counted(messages(false, true), 8);
    on_all_peers(&plan, Does::Plain, |driver, sum, _| {
        assert_eq!((sum.total.counts.failed, sum.of(ErrorKind::BadFraming)), (8, 8), "{driver}");
        let words = "the server did not accept permessage-deflate, which was asked for";
        assert_eq!(told(sum, &plan, ErrorKind::BadFraming), words, "{driver}");
    });
}

#[test]
fn a_message_that_nobody_asked_for_ends_the_connection() {
    let plan = counted(messages(false, false), 8);
    on_all_peers(&plan, Does::Speaks, |driver, sum, heard| {
        assert_eq!((sum.total.counts.ok, heard.messages), (0, 0), "{driver}");
        assert_eq!(sum.of(ErrorKind::UnsolicitedReply), 8, "{driver}: {:?}", sum.total.errors);
        let words = "a message came though none was outstanding";
        assert_eq!(told(sum, &plan, ErrorKind::UnsolicitedReply), words, "{driver}");
    });
}

#[test]
fn a_wrong_echo_is_found_and_costs_no_connection() {
    let mut plan = counted(messages(false, false), 700);
    plan.pipeline = 4;
    if let Workload::WebSocket(websocket) = &mut plan.workload {
        websocket.sizes = Sizes::Fixed(100);
    }
    on_all_peers(&plan, Does::Spoils, |driver, sum, _| {
        let c = &sum.total.counts;
        assert_eq!((c.ok, sum.of(ErrorKind::CorruptedReply)), (600, 100), "{driver}: {:?}", sum.total.errors);
        sum.assert_connected(driver, 4, c.connected);
        assert_eq!(told(sum, &plan, ErrorKind::CorruptedReply), "the first differing byte is at offset 99", "{driver}");
    });
}
