//! The proxy between a bare client and origins of known behaviour: framing, cuts, retries, hostile ends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::proxy::{Proxied, proxy_to};
use crate::common::{HANG_GUARD, noise};
use servers::ServeOptions;
use servers::http::HttpOptions;
use servers::proxy::{Balance, ProxyOptions};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";

/// An origin that answers each connection by `serve`, which gets its number, from 0.
fn origin(serve: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let (serve, counted) = (Arc::new(serve), Arc::clone(&count));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let serve = Arc::clone(&serve);
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(HANG_GUARD)).unwrap();
            std::thread::spawn(move || serve(number, &mut stream));
        }
    });
    (addr, count)
}

/// Reads a request's head; `None` at the connection's end.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

fn ok(stream: &mut TcpStream, fields: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

#[test]
fn bodies_arrive_as_they_were_in_every_framing() {
    let (addr, _) = origin(|_, stream| {
        while let Some(head) = head(stream) {
            let path = head.split(' ').nth(1).unwrap();
            let (kind, size) = path[1..].split_once('/').unwrap();
            let body = noise(size.parse().unwrap());
            match kind {
                "known" => ok(stream, "", &body),
                "chunked" => {
                    let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                    for piece in body.chunks(4099) {
                        reply.extend_from_slice(format!("{:x};ext=1\r\n", piece.len()).as_bytes());
                        reply.extend_from_slice(piece);
                        reply.extend_from_slice(b"\r\n");
                    }
                    reply.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
                    stream.write_all(&reply).unwrap();
                }
                _ => {
                    stream.write_all(&[b"HTTP/1.0 200 OK\r\n\r\n", &body[..]].concat()).unwrap();
                    return;
                }
            }
        }
    });
    for (buffering, temp_bytes_max) in [(true, 1 << 30), (true, 10_000), (true, 0), (false, 0)] {
        let proxy = proxy_to(&[addr], ProxyOptions { buffering, temp_bytes_max, ..ProxyOptions::default() });
        let mut client = proxy.connect();
        for kind in ["known", "chunked", "close"] {
            for size in [0, 1, 4095, 4096, 4097, 8 * 4096 - 1, 8 * 4096, 8 * 4096 + 1, 65_536, 1 << 20, 5_000_000] {
                client.send(format!("GET /{kind}/{size} HTTP/1.1\r\nHost: t\r\n\r\n").as_bytes());
                let reply = client.reply(false);
                assert!(reply.status == 200 && reply.body == noise(size), "{kind} {size} {}", reply.body.len());
                assert_eq!(reply.field("Via").map(|via| via.ends_with(" plimsoll")), Some(true));
            }
            // And to a client that knows no chunks.
            let mut old = proxy.connect();
            old.send(format!("GET /{kind}/70000 HTTP/1.0\r\n\r\n").as_bytes());
            let reply = old.reply(false);
            assert_eq!(reply.field("Transfer-Encoding"), None);
            assert!(reply.body == noise(70_000), "{kind}");
        }
        drop(client);
        proxy.finish();
    }
}

#[test]
fn a_slow_reader_gets_every_byte_through_buffers_and_file() {
    let body = Arc::new(noise(26_000_000));
    let written = Arc::new(AtomicUsize::new(0));
    let (to_send, progress) = (Arc::clone(&body), Arc::clone(&written));
    let (addr, _) = origin(move |_, stream| {
        while head(stream).is_some() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", to_send.len());
            let pieces = std::iter::once(head.as_bytes()).chain(to_send.chunks(64 << 10));
            for piece in pieces {
                if stream.write_all(piece).is_err() {
                    return;
                }
                progress.fetch_add(piece.len(), Ordering::SeqCst);
            }
        }
    });
    for (buffering, temp_bytes_max) in [(true, 1 << 30), (true, 1 << 20), (false, 0)] {
        let options =
            ProxyOptions { buffering, temp_bytes_max, buffers: 16, buffer_bytes: 32 << 10, ..ProxyOptions::default() };
        let proxy = proxy_to(&[addr], options);
        written.store(0, Ordering::SeqCst);
        let mut client = proxy.connect();
        client.send(GET);
        // Nothing is read until the origin has no more to write, or nowhere to: what does not fit the sockets has then
        // gone where it may.
        let give_up = Instant::now() + HANG_GUARD;
        let (mut before, mut still) = (0, 0);
        while before < body.len() && still < 80 && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(25));
            let now = written.load(Ordering::SeqCst);
            still = if now == before && now > 0 { still + 1 } else { 0 };
            before = now;
        }
        assert!(client.reply(false).body == *body);
        let (_, of_origins) = proxy.finish();
        assert_eq!(of_origins.temp_bytes > 0, temp_bytes_max > 0, "{before} bytes written, {of_origins:?}");
    }
}

#[test]
fn a_reply_that_breaks_off_is_never_whole_nor_padded() {
    let (addr, _) = origin(|_, stream| {
        while let Some(head) = head(stream) {
            let reply: &[u8] = match head.split(' ').nth(1).unwrap() {
                "/known" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
                "/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
                "/bad" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nxyz\r\n",
                _ => b"HTTP/1.1 200 OK\r\nContent-",
            };
            stream.write_all(reply).unwrap();
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    let proxy = proxy_to(&[addr], ProxyOptions::default());
    for (path, version, tail) in [
        ("/known", "1.1", &b"12345"[..]),
        ("/known", "1.0", b"12345"),
        ("/chunked", "1.1", b"5\r\n12345\r\n"),
        ("/bad", "1.1", b"5\r\n12345\r\n"),
    ] {
        let mut client = proxy.connect();
        client.send(format!("GET {path} HTTP/{version}\r\nHost: t\r\n\r\n").as_bytes());
        let all = client.rest();
        assert!(all.ends_with(tail) && all.starts_with(b"HTTP/1.1 200"), "{path}: {}", all.escape_ascii());
    }
    // Where only the connection's end could say it, it is a reset.
    let mut client = proxy.connect();
    client.send(b"GET /chunked HTTP/1.0\r\n\r\n");
    let mut all = Vec::new();
    assert!(client.stream.read_to_end(&mut all).is_err(), "{}", all.escape_ascii());
    let reply = proxy.get("/head");
    assert_eq!(reply.status, 502);
    assert!(reply.text().contains("closed the connection before"), "{}", reply.text());
    let (_, of_origins) = proxy.finish();
    assert_eq!(of_origins.upstream_errors, 6, "{of_origins:?}");
}

#[test]
fn connections_to_origins_are_kept_and_a_closed_one_is_retried() {
    // Each connection is good for three requests, and then closes without a word.
    let (addr, connections) = origin(|_, stream| {
        for _ in 0..3 {
            if head(stream).is_none() {
                return;
            }
            ok(stream, "", b"here");
        }
        // The fourth is read and not answered.
        head(stream);
    });
    let proxy = proxy_to(&[addr], ProxyOptions::default());
    let mut client = proxy.connect();
    for n in 0..9 {
        client.send(GET);
        assert_eq!(client.reply(false).body, b"here", "{n}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
    // A POST may have been acted on: it is not sent twice.
    client.send(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.reply(false).status, 502);
    let (_, of_origins) = proxy.finish();
    assert_eq!((of_origins.upstream_connects, of_origins.upstream_retries), (3, 2), "{of_origins:?}");
    assert_eq!((of_origins.upstream_reused, of_origins.upstream_errors), (9, 1), "{of_origins:?}");

    let (addr, connections) = origin(|_, stream| {
        while head(stream).is_some() {
            ok(stream, "", b"")
        }
    });
    for (keep, expected) in [(32, 1), (0, 20)] {
        let before = connections.load(Ordering::SeqCst);
        let proxy = proxy_to(&[addr], ProxyOptions { upstream_keepalive: keep, ..ProxyOptions::default() });
        (0..20).for_each(|_| assert_eq!(proxy.get("/").status, 200));
        assert_eq!(connections.load(Ordering::SeqCst) - before, expected, "keep {keep}");
        proxy.finish();
    }
}

#[test]
fn origins_share_as_asked_and_one_that_refuses_is_passed_over() {
    let named = |name: &'static str| {
        origin(move |_, stream| {
            while head(stream).is_some() {
                ok(stream, "", name.as_bytes())
            }
        })
    };
    let ((a, _), (b, _)) = (named("a"), named("b"));
    let port = testkit::port::Reserved::new().unwrap();
    let refusing = port.address();
    let options = ProxyOptions { balance: Balance::RoundRobin, ..ProxyOptions::default() };
    let proxy = proxy_to(&[a, b], options.clone());
    let got: Vec<_> = (0..100).map(|_| proxy.get("/x").body).collect();
    assert_eq!(got.iter().filter(|body| *body == b"a").count(), 50);
    proxy.finish();
    let proxy = proxy_to(&[a, b], ProxyOptions::default());
    let first: Vec<_> = (0..50).map(|n| proxy.get(&format!("/{n}")).body).collect();
    assert!((0..50).all(|n| proxy.get(&format!("/{n}")).body == first[n]), "the same target, the same origin");
    assert!(first.contains(&b"a".to_vec()) && first.contains(&b"b".to_vec()));
    proxy.finish();
    let proxy = proxy_to(&[refusing, a], options);
    assert!((0..20).all(|_| proxy.get("/").body == b"a"));
    let (_, of_origins) = proxy.finish();
    assert!(of_origins.upstream_errors < 5 && of_origins.upstream_retries >= 1, "{of_origins:?}");
    let proxy = proxy_to(&[refusing], ProxyOptions::default());
    for _ in 0..2 {
        let reply = proxy.get("/");
        assert_eq!(
            (reply.status, reply.text()),
            (502, "502 Bad Gateway: expected an origin to accept a connection, but none did\n")
        );
    }
    proxy.finish();
}

#[test]
fn uploads_stream_in_either_framing_and_expectations_go_through() {
    let upstream = crate::common::Running::http(ServeOptions::default(), HttpOptions::default());
    let proxy = proxy_to(&[upstream.addrs[0]], ProxyOptions::default());
    let mut client = proxy.connect();
    for size in [0, 1, 65_535, 65_536, 65_537, 3_000_000] {
        let body = noise(size);
        client.send(format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {size}\r\n\r\n").as_bytes());
        client.send(&body);
        assert!(client.reply(false).body == body, "{size}");
        client.send(b"PUT /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(10_007) {
            client.send(format!("{:x}\r\n", piece.len()).as_bytes());
            client.send(piece);
            client.send(b"\r\n");
        }
        client.send(b"0\r\n\r\n");
        assert!(client.reply(false).body == body, "chunked {size}");
    }
    client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.reply(false).status, 100);
    client.send(b"body");
    assert_eq!(client.reply(false).body, b"body");
    client.send(b"POST /nothing HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.reply(false).status, 404, "the origin need not let the body come");
    assert!(client.is_at_end());
    proxy.finish();
    upstream.finish();
}

#[test]
fn requests_may_be_cut_anywhere_and_piped_and_replies_too() {
    let requests = b"\r\nPOST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\na\0b\r\n1\r\nc\r\n0\r\nT: v\r\n\r\n\
        PUT /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nfivesHEAD /bytes?n=9 HTTP/1.1\r\nHost: t\r\n\r\n\
        GET /status?code=204 HTTP/1.1\r\nHost: t\r\n\r\nGET /bytes?n=3 HTTP/1.1\r\nHost: t\r\n\r\n";
    let upstream = crate::common::Running::http(ServeOptions::default(), HttpOptions::default());
    let proxy = proxy_to(&[upstream.addrs[0]], ProxyOptions::default());
    let check = |client: &mut crate::common::Client, what: &str| {
        for (is_head, expected) in
            [(false, &b"a\0bc"[..]), (false, b"fives"), (true, b""), (false, b""), (false, b"ABC")]
        {
            assert_eq!(client.reply(is_head).body, expected, "{what}");
        }
    };
    proxy.cut_anywhere(requests, check);
    let mut client = proxy.connect();
    client.send(&requests.repeat(100));
    (0..100).for_each(|_| check(&mut client, "a pipeline"));
    drop(client);
    let (counters, _) = proxy.finish();
    assert_eq!(counters.requests, 5 * (requests.len() as u64 + 101), "{counters:?}");
    upstream.finish();

    const REPLY: &[u8] = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (addr, _) = origin(|number, stream| {
        head(stream);
        stream.set_nodelay(true).unwrap();
        stream.write_all(&REPLY[..number % REPLY.len()]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        stream.write_all(&REPLY[number % REPLY.len()..]).unwrap();
    });
    let proxy = proxy_to(&[addr], ProxyOptions { upstream_keepalive: 0, ..ProxyOptions::default() });
    for cut in 0..REPLY.len() {
        let mut client = proxy.connect();
        client.send(GET);
        assert_eq!(client.reply(false).status, 103, "cut at {cut}");
        let reply = client.reply(false);
        assert_eq!((&reply.body[..], reply.field("X")), (&b"abc"[..], Some("y")), "cut at {cut}");
    }
    proxy.finish();
}

#[test]
fn what_is_ambiguous_or_garbage_goes_neither_way() {
    let (addr, connections) = origin(|_, stream| {
        let Some(head) = head(stream) else { return };
        let reply: Vec<u8> = match head.split(' ').nth(1).unwrap() {
            "/two" => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_vec(),
            "/both" => b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            "/fold" => b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "/switch" => b"HTTP/1.1 101 x\r\nUpgrade: y\r\n\r\n".to_vec(),
            "/endless" => b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100),
            "/huge" => [&b"HTTP/1.1 200 OK\r\nA: "[..], &vec![b'a'; 100_000]].concat(),
            _ => noise(5000),
        };
        let _ = stream.write_all(&reply);
        std::thread::sleep(Duration::from_millis(50));
    });
    let proxy = proxy_to(&[addr], ProxyOptions::default());
    for path in ["/two", "/both", "/fold", "/switch", "/huge", "/garbage"] {
        let reply = proxy.get(path);
        assert_eq!(reply.status, 502, "{path}");
        assert!(
            reply.text().contains("expected") && reply.text().contains("from the origin"),
            "{path}: {}",
            reply.text()
        );
    }
    let mut client = proxy.connect();
    client.send(b"GET /endless HTTP/1.1\r\nHost: t\r\n\r\n");
    let last = std::iter::repeat_with(|| client.reply(false)).find(|reply| reply.status != 100).unwrap();
    assert_eq!(last.status, 502);
    let asked = connections.load(Ordering::SeqCst);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: t\r\nA: b\r\n c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 501),
        ("CONNECT t:1 HTTP/1.1\r\nHost: t\r\n\r\n", 501),
        ("\x16\x03\x01garbage", 400),
        (&format!("GET / HTTP/1.1\r\nHost: t\r\nA: {}\r\n\r\n", "a".repeat(70_000)), 431),
    ] {
        let mut client = proxy.connect();
        client.try_send(request.as_bytes());
        assert_eq!(client.reply(false).status, status, "{request:.80}");
        assert!(client.is_at_end());
    }
    assert_eq!(connections.load(Ordering::SeqCst), asked, "no origin has seen any of them");
    proxy.finish();
}

#[test]
fn an_origin_that_does_not_go_on_is_given_up() {
    let (addr, _) = origin(|_, stream| {
        if head(stream).is_some_and(|head| head.starts_with("GET /half")) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345").unwrap();
        }
        head(stream);
    });
    let options = ProxyOptions { upstream_timeout: Duration::from_secs(2), ..ProxyOptions::default() };
    let proxy = proxy_to(&[addr], options);
    let reply = proxy.get("/none");
    assert_eq!(reply.status, 504);
    assert!(reply.text().contains("--upstream-timeout"), "{}", reply.text());
    let mut client = proxy.connect();
    client.send(b"GET /half HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(client.rest().ends_with(b"12345"));
    proxy.finish();
}

#[test]
fn a_head_that_never_ends_is_cut_after_its_time_however_often_a_byte_comes() {
    let (addr, _) = origin(|_, stream| {
        while head(stream).is_some() {
            ok(stream, "", b"here")
        }
    });
    let head_timeout = Some(Duration::from_secs(2));
    let proxy = proxy_to(&[addr], ProxyOptions { head_timeout, ..ProxyOptions::default() });
    // The first head of a connection, one after another, and one that came with another's end.
    for before in [&b""[..], GET, &[GET, b"GET"].concat()] {
        let (mut client, began) = (proxy.connect(), Instant::now());
        client.send(before);
        if !before.is_empty() {
            assert_eq!(client.reply(false).body, b"here");
        }
        client.stream.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        while client.stream.get_ref().peek(&mut [0]).is_err_and(|error| timed_out(&error)) {
            assert!(began.elapsed() < testkit::HANG_GUARD, "{before:?}: nothing ends it");
            client.try_send(b"x");
        }
        assert!(began.elapsed() >= Duration::from_secs(2), "{before:?}: not before its time");
        assert_eq!(client.reply(false).status, 408);
    }
    // Neither waiting between requests nor many heads are one that takes long.
    let mut slow = proxy.connect();
    for pause_ms in [400, 400, 400, 400, 400, 400, 2500] {
        slow.send(&GET[..9]);
        std::thread::sleep(Duration::from_millis(400));
        slow.send(&GET[9..]);
        assert_eq!(slow.reply(false).body, b"here");
        std::thread::sleep(Duration::from_millis(pause_ms - 400));
    }
    slow.send(GET);
    assert_eq!(slow.reply(false).body, b"here");
    drop(slow);
    assert_eq!(proxy.finish().0.idle_closed, 3);
}

#[test]
fn a_stop_lets_what_is_in_flight_end() {
    let (tell, told) = std::sync::mpsc::channel();
    let (addr, _) = origin(move |_, stream| {
        head(stream);
        tell.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        ok(stream, "", b"late");
    });
    let proxy: Proxied = proxy_to(&[addr], ProxyOptions::default());
    let mut client = proxy.connect();
    let idle = proxy.connect();
    client.send(GET);
    told.recv_timeout(HANG_GUARD).unwrap();
    proxy.stop.stop();
    let reply = client.reply(false);
    assert_eq!((&reply.body[..], reply.field("Connection")), (&b"late"[..], Some("close")));
    let (counters, _) = proxy.finish();
    assert_eq!((counters.cut_at_stop, counters.requests), (0, 1), "{counters:?}");
    drop(idle);
}
