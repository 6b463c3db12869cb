//! The HTTP server against a bare client: framing, cuts, pipelines, refusals, deadlines, draining.

use std::time::{Duration, Instant};

use crate::common::{Client, Running, http_default, noise};
use servers::ServeOptions;
use servers::http::{GENERATED_LINE, HttpOptions};
use testkit::wait_until;

const GET: &str = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";

fn generated(n: usize) -> Vec<u8> {
    GENERATED_LINE.iter().copied().cycle().take(n).collect()
}

#[test]
fn scenario_paths_answer_as_documented() {
    let server = http_default();
    let index = server.get("/");
    assert_eq!(index.status, 200);
    assert_eq!(index.field("Server"), Some("plimsoll"));
    assert!(index.field("Date").is_some_and(|date| date.ends_with(" GMT")));
    for path in ["/sleep?ms=", "/cpu?us=", "/bytes?n=", "/chunked?n=", "/status?code=", "/echo"] {
        assert!(index.text().contains(path), "{path} is listed");
    }
    for n in [0, 1, 63, 64, 65, 8192, 8193, 65_536, 1_000_000] {
        assert!(server.get(&format!("/bytes?n={n}")).body == generated(n), "{n}");
    }
    for (n, size) in [(0, 5), (1, 1), (3, 64), (1000, 100), (2, 100_000), (5, 0)] {
        let reply = server.get(&format!("/chunked?n={n}&size={size}"));
        assert_eq!(reply.field("Transfer-Encoding"), Some("chunked"));
        assert!(reply.body == generated(size).repeat(n), "{n} of {size}");
    }
    assert_eq!(server.get("/cpu?us=200").text(), "burnt 200 us\n");
    assert_eq!(server.get("/sleep?ms=5").text(), "slept 5 ms\n");
    for code in 200..=599 {
        let reply = server.get(&format!("/status?code={code}"));
        assert_eq!(reply.status, code);
        assert_eq!(reply.body.is_empty(), [204, 205, 304].contains(&code), "{code}");
    }
    for (path, status) in [
        ("/status?code=199", 400),
        ("/status?code=600", 400),
        ("/status", 400),
        ("/sleep?ms=3600001", 400),
        ("/sleep?ms=-1", 400),
        ("/cpu?us=10000001", 400),
        ("/bytes?n=10737418241", 400),
        ("/bytes?n=99999999999999999999", 400),
        ("/chunked?n=100000000&size=108", 400),
        ("/chunked?n=5", 400),
        ("/nothing", 404),
        ("/../etc/passwd", 404),
    ] {
        let reply = server.get(path);
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.text().contains("expected"), "{path} says what was expected: {}", reply.text());
    }
    let counters = server.finish();
    assert_eq!(counters.requests, counters.accepted, "{counters:?}");
    assert_eq!(counters.refused, 12, "{counters:?}");
}

#[test]
fn head_is_get_without_its_body() {
    let server = http_default();
    for path in ["/", "/bytes?n=100000", "/bytes?n=3", "/chunked?n=2&size=3", "/status?code=404", "/nothing", "/echo"] {
        let mut client = server.connect();
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: t\r\n\r\n{GET}").as_bytes());
        let head = client.reply(true);
        // Whatever came as a body would be read as the next reply's head, and fail.
        assert_eq!(client.reply(false).status, 200, "{path}");
        let get = server.get(path);
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.field("Content-Length"), get.field("Content-Length"), "{path}");
        assert_eq!(head.field("Transfer-Encoding"), get.field("Transfer-Encoding"), "{path}");
    }
    server.finish();
}

#[test]
fn requests_may_be_cut_anywhere() {
    let server = http_default();
    let requests = b"\r\nPOST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;x=y\r\na\0b\r\n1\r\nc\r\n0\r\nT: v\r\n\r\n\
        PUT /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nfives\
        GET /bytes?n=3 HTTP/1.1\r\nHost: t\r\n\r\n";
    let check = |client: &mut Client, what: &str| {
        for expected in [&b"a\0bc"[..], b"fives", b"ABC"] {
            assert_eq!(client.reply(false).body, expected, "{what}");
        }
    };
    server.cut_anywhere(requests, check);
    let mut client = server.connect();
    for byte in requests.repeat(3).chunks(1) {
        client.send(byte);
    }
    for _ in 0..3 {
        check(&mut client, "byte by byte");
    }
    // And with a server that receives single bytes whatever is sent.
    let tiny = Running::http(ServeOptions { buffer_bytes: 1, ..ServeOptions::default() }, HttpOptions::default());
    let mut client = tiny.connect();
    client.send(requests);
    check(&mut client, "buffer of one byte");
    tiny.finish();
    server.finish();
}

#[test]
fn a_pipeline_is_answered_in_order_and_with_one_write() {
    let server = http_default();
    let mut client = server.connect();
    client.send(GET.repeat(100).as_bytes());
    for _ in 0..100 {
        assert_eq!(client.reply(false).status, 200);
    }
    drop(client);
    let counters = server.finish();
    assert_eq!((counters.requests, counters.recv, counters.send), (100, 1, 1), "{counters:?}");

    let server = http_default();
    let mut client = server.connect();
    let mut pipeline = String::new();
    for n in 0..300 {
        // Small, streamed, slow and refused ones in turn.
        let path = match n % 5 {
            0 => format!("/bytes?n={n}"),
            1 => format!("/bytes?n={}", n * 1000),
            2 => "/sleep?ms=1".to_owned(),
            3 => "/cpu?us=20".to_owned(),
            _ => format!("/status?code={}", 200 + n),
        };
        pipeline.push_str(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n"));
    }
    client.send(pipeline.as_bytes());
    for n in 0..300_usize {
        let reply = client.reply(false);
        match n % 5 {
            0 => assert_eq!(reply.body.len(), n),
            1 => assert!(reply.body == generated(n * 1000)),
            2 => assert_eq!(reply.text(), "slept 1 ms\n"),
            3 => assert_eq!(reply.text(), "burnt 20 us\n"),
            _ => assert_eq!(usize::from(reply.status), 200 + n),
        }
    }
    assert_eq!(server.finish().requests, 300);
}

#[test]
fn bodies_of_every_size_come_back() {
    let server = http_default();
    let mut client = server.connect();
    for size in [0, 1, 8191, 8192, 8193, 65_535, 65_536, 65_537, 1_000_000, 1 << 20] {
        let body = noise(size);
        let mut sent = format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        sent.extend_from_slice(&body);
        client.send(&sent);
        assert!(client.reply(false).body == body, "{size} by length");
        let mut sent = b"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in body.chunks(1000) {
            sent.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            sent.extend_from_slice(chunk);
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b"0\r\n\r\n");
        client.send(&sent);
        assert!(client.reply(false).body == body, "{size} in chunks");
    }
    // A body nobody asked for is passed over, whatever the answer is.
    client.send(b"POST /nothing HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nGET");
    assert_eq!(client.reply(false).status, 404);
    client.send(GET.as_bytes());
    assert_eq!(client.reply(false).status, 200);
    server.finish();
}

#[test]
fn expectations_are_answered_before_the_body() {
    let server = http_default();
    let mut client = server.connect();
    client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n");
    assert_eq!(client.reply(false).status, 100);
    client.send(b"ok");
    assert_eq!(client.reply(false).body, b"ok");
    // The body came along: nothing to wait for.
    client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nok");
    assert_eq!(client.reply(false).body, b"ok");
    client.send(b"POST /nothing HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    let refused = client.reply(false);
    assert_eq!((refused.status, refused.field("Connection")), (404, Some("close")));
    assert!(client.is_at_end());
    let large = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(server.ask(large).status, 413);
    server.finish();
}

#[test]
fn connections_are_kept_as_each_version_says() {
    let check = |server: &Running, request: &str, connection: Option<&str>, is_kept: bool| {
        let mut client = server.connect();
        client.send(request.as_bytes());
        let reply = client.reply(false);
        assert_eq!(reply.field("Connection"), connection, "{request}");
        if is_kept {
            client.send(GET.as_bytes());
            assert_eq!(client.reply(false).status, 200, "{request}");
        } else {
            assert!(client.is_at_end(), "{request}");
        }
    };
    let server = http_default();
    check(&server, GET, None, true);
    check(&server, "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", Some("close"), false);
    check(&server, "GET / HTTP/1.0\r\n\r\n", Some("close"), false);
    check(&server, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Some("keep-alive"), true);
    check(&server, "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", Some("close"), false);
    // Chunks are not for 1.0: the connection's end is the body's.
    check(&server, "GET /bytes?n=100000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), true);
    let old = server.ask("GET /chunked?n=1000&size=100 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!((old.field("Connection"), old.field("Transfer-Encoding")), (Some("close"), None));
    assert!(old.body == generated(100 * 1000));
    server.finish();
    let closing = Running::http(ServeOptions::default(), HttpOptions { keep_alive: false, ..HttpOptions::default() });
    check(&closing, GET, Some("close"), false);
    // What a pipelining client sent after it must not destroy the reply by a reset.
    for _ in 0..50 {
        let mut client = closing.connect();
        client.send(GET.repeat(3000).as_bytes());
        assert_eq!(client.reply(false).status, 200);
        assert!(client.is_at_end());
    }
    closing.finish();
}

#[test]
fn malformed_requests_are_refused_and_the_connection_closed() {
    let server = http_default();
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: t\r\n\r\n", "a".repeat(17_000));
    let long_line = "a".repeat(70_000);
    let long_head = format!("GET / HTTP/1.1\r\nHost: t\r\nX: {}\r\n\r\n", "a".repeat(70_000));
    let many_fields = format!("GET / HTTP/1.1\r\nHost: t\r\n{}", "X: y\r\n".repeat(20_000));
    let cases: &[(&str, u16)] = &[
        ("\x16\x03\x01\x02\x00", 400),
        ("\r\n\r\n\r\n\r\n\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: t\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: t\r\nBad Name: x\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\nHost: t\r\n\r\n", 505),
        ("BREW / HTTP/1.1\r\nHost: t\r\n\r\n", 501),
        ("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        ("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", 413),
        ("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 16777217\r\n\r\n", 413),
        ("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (&long_path, 414),
        (&long_line, 414),
        (&long_head, 431),
        (&many_fields, 431),
    ];
    for (request, status) in cases {
        let what = request.get(..60).unwrap_or(request).escape_debug().to_string();
        let mut client = server.connect();
        client.try_send(request.as_bytes());
        let reply = client.reply(false);
        assert_eq!((reply.status, reply.field("Connection")), (*status, Some("close")), "{what}");
        assert!(reply.text().starts_with(&status.to_string()), "{what}");
        assert!(client.is_at_end(), "{what}");
    }
    for method in ["OPTIONS", "TRACE", "CONNECT"] {
        let reply = server.ask(&format!("{method} / HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!((reply.status, reply.field("Allow").is_some()), (405, true), "{method}");
    }
    assert_eq!(server.get("/").status, 200);
    server.finish();
}

#[test]
fn mutated_requests_neither_hang_nor_harm() {
    let server = http_default();
    let sound = b"POST /echo?n=1&ms=2 HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..500 {
        let mut request = sound.to_vec();
        for _ in 0..=random(3) {
            let at = random(request.len());
            match random(3) {
                0 => request[at] = b"\0\r\n :;0f/%\xff"[random(11)],
                1 => drop(request.remove(at)),
                _ => request.insert(at, b"\0\r\n :;0f/%\xff"[random(11)]),
            }
        }
        let mut client = server.connect();
        client.try_send(&request);
        client.end();
        while let Some(reply) = client.try_reply(false) {
            assert!((100..600).contains(&reply.status));
        }
    }
    assert_eq!(server.get("/").status, 200);
    server.finish();
}

#[test]
fn a_sleeping_request_holds_up_nobody_else() {
    let server = http_default();
    let mut sleeper = server.connect();
    sleeper.send(b"GET /sleep?ms=5000 HTTP/1.1\r\nHost: t\r\n\r\nGET /bytes?n=2 HTTP/1.1\r\nHost: t\r\n\r\n");
    sleeper.stream.get_ref().set_nonblocking(true).unwrap();
    for _ in 0..50 {
        assert_eq!(server.get("/").status, 200);
    }
    let still_asleep = sleeper.stream.get_ref().peek(&mut [0]);
    assert!(still_asleep.is_err(), "50 requests took less than the sleep, on any machine that is not stopped");
    sleeper.stream.get_ref().set_nonblocking(false).unwrap();
    assert_eq!(sleeper.reply(false).text(), "slept 5000 ms\n");
    assert_eq!(sleeper.reply(false).body, b"AB");
    server.finish();
}

#[test]
fn idle_connections_end_and_half_requests_are_told_why() {
    let options = ServeOptions { idle_timeout: Some(Duration::from_secs(1)), ..ServeOptions::default() };
    let live = options.live.clone();
    let server = Running::http(options, HttpOptions::default());
    let mut idle = server.connect();
    assert!(idle.is_at_end());
    let mut kept = server.connect();
    kept.send(GET.as_bytes());
    assert_eq!(kept.reply(false).status, 200);
    assert!(kept.is_at_end());
    for half in ["GET / HT", "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nab"] {
        let mut client = server.connect();
        client.send(half.as_bytes());
        assert_eq!(client.reply(false).status, 408, "{half}");
        assert!(client.is_at_end());
    }
    // Sleeping is not idling.
    assert_eq!(server.get("/sleep?ms=2000").status, 200);
    let mut unread = server.connect();
    unread.send(b"GET /bytes?n=1000000000 HTTP/1.1\r\nHost: t\r\n\r\n");
    wait_until("the one that does not read is closed, too", || live.read(Duration::ZERO).counters.idle_closed >= 5);
    let counters = server.finish();
    assert_eq!(counters.cut_at_stop, 0, "{counters:?}");
}

#[test]
fn a_head_that_never_ends_is_cut_after_its_time_however_often_a_byte_comes() {
    let head_timeout = Some(Duration::from_secs(2));
    let server = Running::http(ServeOptions::default(), HttpOptions { head_timeout, ..HttpOptions::default() });
    // The first head of a connection, one after another, and one that came with another's end.
    for before in ["", GET, "GET / HTTP/1.1\r\nHost: t\r\n\r\nGET"] {
        let (mut client, began) = (server.connect(), Instant::now());
        client.send(before.as_bytes());
        if !before.is_empty() {
            assert_eq!(client.reply(false).status, 200);
        }
        client.stream.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        while client.stream.get_ref().peek(&mut [0]).is_err_and(|error| timed_out(&error)) {
            assert!(began.elapsed() < testkit::HANG_GUARD, "{before:?}: nothing ends it");
            client.try_send(b"x");
        }
        assert!(began.elapsed() >= Duration::from_secs(2), "{before:?}: not before its time");
    }
    // Neither waiting between requests nor many heads are one that takes long.
    let mut slow = server.connect();
    for _ in 0..6 {
        slow.send(&GET.as_bytes()[..9]);
        std::thread::sleep(Duration::from_millis(400));
        slow.send(&GET.as_bytes()[9..]);
        assert_eq!(slow.reply(false).status, 200);
    }
    std::thread::sleep(Duration::from_millis(2500));
    slow.send(GET.as_bytes());
    assert_eq!(slow.reply(false).status, 200);
    assert_eq!(server.finish().idle_closed, 3);
}

#[test]
fn half_closed_clients_get_their_replies_and_resets_harm_nobody() {
    let server = http_default();
    for request in
        [GET, "GET /bytes?n=3000000 HTTP/1.1\r\nHost: t\r\n\r\n", "GET /sleep?ms=20 HTTP/1.1\r\nHost: t\r\n\r\n"]
    {
        let mut client = server.connect();
        client.send(request.as_bytes());
        client.end();
        assert_eq!(client.reply(false).status, 200);
        assert!(client.is_at_end());
    }
    for partial in [
        "",
        "GET",
        GET,
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nab",
        "GET /bytes?n=1000000000 HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET /sleep?ms=3000000 HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET /sleep?ms=1 HTTP/1.1\r\nHost: t\r\n\r\nGET /bytes?n=100000000 HTTP/1.1\r\nHost: t\r\n\r\n",
    ] {
        for wait_ms in [0, 5] {
            let mut client = server.connect();
            client.send(partial.as_bytes());
            std::thread::sleep(Duration::from_millis(wait_ms));
            client.reset();
            assert_eq!(server.get("/").status, 200);
        }
    }
    let counters = server.finish();
    assert_eq!(counters.cut_at_stop, 0, "none of the reset ones was still there: {counters:?}");
}

#[test]
fn a_stop_lets_replies_in_flight_finish() {
    let options = ServeOptions { workers: 2, ..ServeOptions::default() };
    let live = options.live.clone();
    let server = Running::http(options, HttpOptions::default());
    let mut idle = server.connect();
    idle.send(GET.as_bytes());
    assert_eq!(idle.reply(false).status, 200);
    let mut asleep = server.connect();
    asleep.send(b"GET /sleep?ms=1000 HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut loading = server.connect();
    loading.send(b"GET /bytes?n=30000000 HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut forever = server.connect();
    forever.send(b"GET /sleep?ms=3000000 HTTP/1.1\r\nHost: t\r\n\r\n");
    wait_until("all have been asked for", || live.read(Duration::ZERO).counters.requests >= 4);
    let addr = server.addrs[0];
    let finished = std::thread::spawn(move || server.finish());
    // Meanwhile: of what is not read in time the stop does not wait for the end.
    let loaded = std::thread::spawn(move || loading.reply(false).body.len());
    assert!(idle.is_at_end());
    let reply = asleep.reply(false);
    assert_eq!((reply.text(), reply.field("Connection")), ("slept 1000 ms\n", Some("close")));
    assert!(asleep.is_at_end());
    assert_eq!(loaded.join().unwrap(), 30_000_000);
    assert!(std::net::TcpStream::connect(addr).is_err(), "nobody is let in any more");
    let counters = finished.join().unwrap();
    assert_eq!((counters.cut_at_stop, counters.accepted), (1, 4), "{counters:?}");
}
