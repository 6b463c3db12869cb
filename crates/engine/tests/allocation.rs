//! After warm-up the worker's loop does not allocate: counted by an allocator that watches the worker's thread.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

mod common;

use common::mux::{Mux, MuxServer, frame, replies, run_protocol};
use common::*;
use engine::{Fleet, Message, driver};
use model::data::{Column, DataFile, Order, PackedRows, RowBuffer, RowSource};
use model::plan::*;
use model::replies::{ReplyCheck, Take};
use model::workload::websocket::{Opening, WebSocket};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Counting;

/// The thread that is watched; 0: none.
static WATCHED: AtomicU32 = AtomicU32::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let watched = WATCHED.load(Ordering::Relaxed);
        if watched != 0 && rustix::thread::gettid().as_raw_nonzero().get() as u32 == watched {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(mut plan: Plan, kind: DriverKind) -> Option<u64> {
    if kind == DriverKind::Uring
        && let Err(why) = driver::uring::available()
    {
        testkit::skip(&format!("no io_uring: {why}"));
        return None;
    }
    plan.driver = kind;
    let server = Server::start(answering(match plan.workload {
        Workload::Http1(ref http) if http.sequence => http_json,
        Workload::Http1(_) => http_ok,
        Workload::Resp(_) => resp_ok,
        Workload::WebSocket(_) | Workload::HoldWebSocket(_) => messages_back,
        Workload::Echo(_) | Workload::Hold(_) => echo_back,
    })());
    plan.origins[0].addresses = vec![Address::Tcp(server.address)];
    plan.stop = Stop { duration_ns: Some(60 * S), requests: None };
    // Some users wait for a reply that never comes.
    plan.drain_ns = S / 2;
    let mut fleet = Fleet::start(&plan).unwrap();
    let began = Instant::now();
    let (mut finished, mut ok) = (false, 0);
    while !finished {
        match fleet.receive(Duration::from_millis(10)) {
            Some(Message::Interval(interval)) => {
                ok += interval.counts.ok;
                fleet.give_back(interval);
            }
            Some(Message::Note { .. }) => {}
            Some(Message::Finished(_)) => finished = true,
            None => {}
        }
        match began.elapsed().as_millis() {
            300..700 => WATCHED.store(fleet.thread_ids()[0], Ordering::Relaxed),
            700.. => {
                WATCHED.store(0, Ordering::Relaxed);
                fleet.control().stop();
            }
            _ => {}
        }
        assert!(began.elapsed() < testkit::HANG_GUARD, "hangs");
    }
    assert!(ok > 100, "the loop hardly ran: {ok}");
    assert_eq!(fleet.join(), 0);
    Some(ALLOCATIONS.swap(0, Ordering::Relaxed))
}

/// The same of many requests at once on each connection, answered in another order, with a ping in each piece.
fn allocations_of_frames(kind: DriverKind) -> Option<u64> {
    fn pinged(requests: &[(u32, Vec<u8>)], _: u64) -> Vec<driver::sim::Action> {
        vec![reply(&[frame(b'P', 0, b""), replies(requests)].concat())]
    }
    static THREAD: AtomicU32 = AtomicU32::new(0);
    let mut plan = plan(echo());
    plan.pipeline = 8;
    plan.timeouts.reply_ns = 30 * S;
    plan.stop = Stop { duration_ns: Some(S), requests: None };
    let load = std::thread::spawn(move || {
        THREAD.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
        let protocol = Mux { depth: 8, greets: true };
        run_protocol(kind, plan, driver::sim::Weather::default(), protocol, MuxServer::new(pinged))
    });
    std::thread::sleep(Duration::from_millis(400));
    WATCHED.store(THREAD.load(Ordering::Relaxed), Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(300));
    WATCHED.store(0, Ordering::Relaxed);
    let sum = load.join().unwrap()?;
    assert!(sum.total.counts.ok > 100 && sum.total.counts.failed == 0, "{:?}", sum.total.counts);
    Some(ALLOCATIONS.swap(0, Ordering::Relaxed))
}

/// A reply with JSON in its body for each request, whose body has no empty line.
fn http_json(bytes: &[u8]) -> Vec<driver::sim::Action> {
    const JSON: &[u8] =
        b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=abc; Path=/\r\nContent-Length: 34\r\n\r\n{\"n\":[1,2.5,null],\"token\":\"t-12\"}\n";
    let heads = bytes.windows(4).filter(|window| window == b"\r\n\r\n").count();
    vec![reply(&JSON.repeat(heads))]
}

/// Requests with values put in, and rows of data; in sequence also values taken from replies, and checks.
fn templates(sequence: bool) -> Workload {
    let (mut packed, mut row) = (PackedRows::new(1), RowBuffer::default());
    for n in 0..100 {
        row.clear();
        row.bytes.extend_from_slice(format!("name \"{n}\"").as_bytes());
        row.end_field();
        assert!(packed.push(&row));
    }
    let data = DataFile {
        name: String::new(),
        path: "rows.csv".into(),
        columns: vec![Column { name: "name".to_owned(), longest: 9 }],
        rows: 100,
        order: Order::Random,
        source: RowSource(Some(Arc::new(packed))),
    };
    let first = HttpRequest {
        weight: 1.0,
        method: "POST".to_owned(),
        target: "/{{name}}/{{uuid}}?n={{random:1..99}}&u={{user}}".into(),
        headers: vec![("Host".into(), "local".into()), ("X-Seq".into(), "{{seq}}".into())],
        body: Body::new(b"{\"name\": {{name}}, \"seq\": {{seq}}}".to_vec(), String::new()),
        is_template: true,
        ..HttpRequest::default()
    };
    let mut requests = vec![first];
    if sequence {
        let takes = ["token = json /token", "sid = cookie sid", "half = regex ,([0-9.]+),"];
        requests[0].take = takes.iter().map(|take| Take::parse(take).unwrap()).collect();
        let mut second = requests[0].clone();
        second.take.clear();
        second.headers.push(("Authorization".into(), "Bearer {{token}} {{sid}} {{half}}".into()));
        let checks = ["json /n/1 = 2.5", "body contains token", "header Set-Cookie contains sid"];
        second.checks = checks.iter().map(|check| ReplyCheck::parse(check, |_| None).unwrap()).collect();
        requests.push(second);
    }
    Workload::Http1(Http1 {
        requests,
        keep_alive: true,
        head_bytes_max: 65_536,
        sequence,
        data: vec![data],
        keys: None,
    })
}

/// `+OK` for each SET, nil for each GET, found by their names. A name cut in two is lost, and its user waits: the loop
/// goes on with the others.
fn resp_ok(bytes: &[u8]) -> Vec<driver::sim::Action> {
    let mut replies = Vec::new();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\r\n$3\r\n")) {
        match bytes.get(at + 6..at + 9) {
            Some(b"SET") => replies.extend_from_slice(b"+OK\r\n"),
            Some(b"GET") => replies.extend_from_slice(b"$-1\r\n"),
            _ => {}
        }
    }
    vec![reply(&replies)]
}

/// The handshake's answer, or each message that is whole, as it came: compressed, too. Small ones come whole.
fn messages_back(bytes: &[u8]) -> Vec<driver::sim::Action> {
    let text = String::from_utf8_lossy(bytes);
    if let Some(key) = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")) {
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        let agreed =
            if text.contains("permessage-deflate") { "Sec-WebSocket-Extensions: permessage-deflate\r\n" } else { "" };
        let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        return vec![reply(format!("{switch}{agreed}Sec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes())];
    }
    let (mut rest, mut said) = (bytes, Vec::new());
    while let Some(((first, _, payload), behind)) = testkit::websocket::read(rest) {
        said.extend(testkit::websocket::frame(first, &payload).bytes(false, 0));
        rest = behind;
    }
    vec![reply(&said)]
}

fn websocket(compress: bool) -> Workload {
    let headers = vec![("Host".to_owned(), "local".into())];
    Workload::WebSocket(WebSocket {
        handshakes: vec![Opening { target: "/".into(), headers }],
        subprotocols: vec![],
        text: true,
        sizes: Sizes::Range(10, 300),
        content: Content::Text,
        compress,
    })
}

/// None in one of three runs: a loop that allocates does so in each, and on a busy machine the beginning of one, in which
/// connections are made and buffers get their size, may last longer than is waited for.
fn assert_none(what: &str, run: impl Fn() -> Option<u64>) {
    let mut counts = Vec::new();
    while counts.len() < 3 {
        match run() {
            None | Some(0) => return,
            Some(count) => counts.push(count),
        }
    }
    panic!("{what}: allocations in each of three runs: {counts:?}");
}

/// One test, so that nothing else of this program runs beside it.
#[test]
fn the_loop_does_not_allocate() {
    let mut open_pace = plan(http());
    open_pace.pace = open(2000.0);
    let mut pipelined = plan(http());
    pipelined.pipeline = 4;
    let mut thinking = plan(echo());
    thinking.pace = Pace::Closed { think: Think::FixedNs(MS) };
    let mut resp_pipelined = plan(resp());
    resp_pipelined.pipeline = 16;
    for (what, plan) in [
        ("resp", plan(resp())),
        ("resp, pipelined", resp_pipelined),
        ("closed", plan(http())),
        ("templates", plan(templates(false))),
        ("a sequence with values taken and checks", plan(templates(true))),
        ("echo", plan(echo())),
        ("open", open_pace),
        ("pipelined", pipelined),
        ("thinking", thinking),
        ("websocket", plan(websocket(false))),
        ("websocket, compressed", plan(websocket(true))),
    ] {
        for kind in [DriverKind::Epoll, DriverKind::Uring] {
            assert_none(&format!("{what} on {}", kind.name()), || allocations_of(plan.clone(), kind));
        }
    }
    for kind in [DriverKind::Epoll, DriverKind::Uring] {
        assert_none(&format!("frames on {}", kind.name()), || allocations_of_frames(kind));
    }
}
