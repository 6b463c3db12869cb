//! Replies, good and bad, as a table; each cut at every byte and byte by byte. And what must stay bounded.

use super::fixtures::{End, exchange, get, protocol};
use super::head::counters::{PARSED, SCANNED};
use super::*;
use model::plan::{Expect, HttpRequest};
use proptest::prelude::*;

const HEAD_MAX: u32 = 512;

/// The same outcomes whole, in two pieces cut anywhere, byte by byte, and the second time (when the head is known).
fn check_with(protocol: &Http1Protocol, outstanding: usize, reply: &[u8], end: End, expected: &[&str]) {
    let shown = String::from_utf8_lossy(&reply[..reply.len().min(300)]);
    for round in 0..2 {
        let got = exchange(protocol, outstanding, [reply], end);
        assert_eq!(got, expected, "whole, round {round}: {shown:?}");
    }
    assert_eq!(exchange(protocol, outstanding, reply.chunks(1), end), expected, "byte by byte: {shown:?}");
    for cut in 0..=reply.len() {
        let pieces = [&reply[..cut], &reply[cut..]];
        assert_eq!(exchange(protocol, outstanding, pieces, end), expected, "cut at {cut}: {shown:?}");
    }
}

fn method(method: &str) -> Http1Protocol {
    protocol(HttpRequest { method: method.into(), ..get() }, true, HEAD_MAX)
}

/// Three requests are outstanding, then the peer closes.
fn check(method: &Http1Protocol, reply: &str, expected: &[&str]) {
    check_with(method, 3, reply.as_bytes(), End::Closed, expected);
}

const NOTHING_MORE: &str = "broken closed-early before the reply's first byte";

#[test]
fn sound_replies() {
    let get = method("GET");
    let one = |reply: &str, outcome: &str| {
        let outcomes = [outcome, NOTHING_MORE];
        check(&get, reply, if outcome.ends_with("close") { &outcomes[..1] } else { &outcomes });
    };
    one("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 keep");
    one("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200 keep");
    one("HTTP/1.1 200\r\ncontent-length:2\r\n\r\nok", "200 keep");
    one("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", "200 keep");
    one("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "200 keep");
    one("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length:\r\n 2\r\n\r\nok", "200 keep");
    one("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "200 keep");
    one("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "200 close");
    one("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 close");
    one("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "200 keep");
    one("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the close", "200 close");
    one("HTTP/1.1 200 OK\r\n\r\nuntil the close", "200 close");
    one("HTTP/1.1 200 OK\r\n\r\n", "200 close");
    one("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", "200 close");
    one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "200 keep");
    one("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200 keep");
    one(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nA;q=\"x\"\r\n0123456789\r\n0;x\r\nT: 1\r\n\r\n",
        "200 keep",
    );
    one("HTTP/1.1 204 No Content\r\n\r\n", "204 keep");
    one("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204 keep");
    one("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "304 keep");
    one("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 keep");
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\nConnection: close\r\n\r\n".repeat(3);
    one(&format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), "200 keep");
    one("HTTP/1.1 404 Nope\r\nContent-Length: 2\r\n\r\nok", "404 keep unexpected-status 404: Not Found");
    one("HTTP/1.1 999 \r\nContent-Length: 2\r\n\r\nok", "999 keep unexpected-status 999: a status beyond 599");
    check(
        &get,
        "HTTP/1.1 503 \r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        &["503 close unexpected-status 503: Service Unavailable"],
    );
}

#[test]
fn methods_without_a_body() {
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    ] {
        check(&method("HEAD"), reply, &["200 keep", NOTHING_MORE]);
        check(&method("CONNECT"), reply, &["200 close"]);
    }
    let refused = "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno";
    check(&method("CONNECT"), refused, &["403 keep unexpected-status 403: Forbidden", NOTHING_MORE]);
    // Methods are case-sensitive: this one is not HEAD.
    check(&method("head"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", &["200 keep", NOTHING_MORE]);
}

#[test]
fn pipelined_replies_are_told_apart() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    let empty = "HTTP/1.1 204 No Content\r\n\r\n";
    let get = method("GET");
    check(&get, &[length, chunked, empty].concat(), &["200 keep", "201 keep", "204 keep"]);
    check(&get, &[chunked, empty, length, "H"].concat(), &["201 keep", "204 keep", "200 keep", "unsolicited"]);
    check(
        &get,
        &[empty, length, "HTTP/1.1 200 OK\r\n\r\nall the rest"].concat(),
        &["204 keep", "200 keep", "200 close"],
    );
    check(
        &get,
        &[length, "\r\n", length].concat(),
        &["200 keep", "broken bad-framing the reply does not begin with HTTP/1."],
    );
    // Nothing that comes behind a reply without keep-alive counts.
    check(
        &get,
        &["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", length].concat(),
        &["200 close"],
    );
    // The plan has no keep-alive: every reply is the last.
    let once = protocol(fixtures::get(), false, HEAD_MAX);
    check(&once, &[length, length].concat(), &["200 close"]);
    // A head as the last one but for a later byte: what is remembered must not be taken for it.
    let longer = length.replace("5\r\n\r\n", "5\r\nConnection: close\r\n\r\n");
    check(&get, &[length, &longer].concat(), &["200 keep", "200 close"]);
    check(
        &get,
        &[length, &length.replace('5', "0"), empty].concat(),
        &["200 keep", "200 keep", "broken bad-framing the reply does not begin with HTTP/1."],
    );
}

#[test]
fn broken_framing_is_named() {
    let get = method("GET");
    let bad = |reply: &str, words: &str| {
        let broken = format!("broken bad-framing {words}");
        check(&get, reply, &[&broken]);
        // With what makes it complete behind it, too.
        check(&get, &format!("{reply}0\r\n\r\n"), &[&broken]);
    };
    for garbage in
        ["x", "\r\n", "http/1.1 200 OK", "HTTP/2 200", "\0\0\0", "ICY 200 OK\r\n\r\n", "<html>", "\u{16}\u{3}\u{1}"]
    {
        bad(garbage, "the reply does not begin with HTTP/1.");
    }
    bad("HTTP/1.9 200 OK\r\n\r\n", "the reply's version is neither HTTP/1.0 nor HTTP/1.1");
    bad("HTTP/1.1 99 OK\r\n\r\n", "the status line is malformed");
    bad("HTTP/1.1 000 OK\r\n\r\n", "the status is below 100");
    bad("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "a header field's name is malformed");
    bad("HTTP/1.1 200 OK\r\nX: \u{1}\r\n\r\n", "a header field's value has a forbidden byte");
    bad("HTTP/1.1 101 Switching\r\n\r\n", "101 Switching Protocols came though no upgrade was asked for");
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
    bad(&head("Content-Length: -1"), "Content-Length is not a number");
    bad(
        &head("Content-Length: 1\r\nContent-Length: 2"),
        "Content-Length is given more than once, with different values",
    );
    bad(&head("Content-Length: 99999999999999999999999"), "Content-Length is beyond 2^63-1");
    bad(
        &head("Content-Length: 3\r\nTransfer-Encoding: chunked"),
        "Content-Length and Transfer-Encoding stand in one reply",
    );
    let encoding = "Transfer-Encoding is empty, malformed, or has chunked more than once";
    bad(&head("Transfer-Encoding: chunked, chunked"), encoding);
    bad("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding stands in an HTTP/1.0 reply");
    let chunked = |body: &str| format!("{}{body}", head("Transfer-Encoding: chunked"));
    bad(&chunked("x"), "a chunk's size is not a hexadecimal number");
    bad(&chunked("8000000000000000\r\n"), "a chunk's size is beyond 2^63-1");
    bad(&chunked("3\r\nabcd\r\n"), "a chunk's data is not followed by CRLF");
    bad(&chunked("1;\n"), "a chunk's size line is malformed");
    bad(&chunked("0\r\nno colon\r\n"), "a trailer field is malformed");
}

#[test]
fn replies_that_stop_say_where() {
    let get = method("GET");
    let stops = |reply: &str, place: &str| {
        let (closed, silent) = (format!("broken closed-early {place}"), format!("broken reply-timeout {place}"));
        check_with(&get, 1, reply.as_bytes(), End::Closed, &[&closed]);
        check_with(&get, 1, reply.as_bytes(), End::TimedOut, &[&silent]);
    };
    stops("", "before the reply's first byte");
    for head in ["H", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r"] {
        stops(head, "inside the reply's head");
    }
    stops("HTTP/1.1 100 Continue\r\n\r\n", "after an interim reply, before the final one");
    stops("HTTP/1.1 100 Continue\r\n\r\nHTTP", "inside the reply's head");
    stops("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n", "inside the body, after 0.0 % of it");
    stops("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nabc", "inside the body, after 37.5 % of it");
    stops("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nabc", "inside the body, after 0.0 % of it");
    let chunked = |body: &str, place: &str| {
        stops(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"), place);
    };
    chunked("", "between two chunks");
    chunked("5\r\nhello", "between two chunks");
    chunked("5\r\nhell", "inside a chunk");
    chunked("7fffffffffffffff\r\nx", "inside a chunk");
    chunked("0\r\nA:", "after the last chunk, before the end of the trailer fields");
    let endless = "HTTP/1.1 200 OK\r\n\r\nabc";
    check_with(
        &get,
        1,
        endless.as_bytes(),
        End::TimedOut,
        &["broken reply-timeout inside a body that only a close would have ended"],
    );
}

#[test]
fn heads_are_limited() {
    let too_long = "broken head-too-large the reply's head has no end within the limit (--max-head)";
    let get = method("GET");
    let head = |length: usize| {
        let (begin, end) = ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ", "\r\n\r\n");
        format!("{begin}{}{end}", "y".repeat(length - begin.len() - end.len()))
    };
    let limit = HEAD_MAX as usize;
    check(&get, &format!("{}ok", head(limit)), &["200 keep", NOTHING_MORE]);
    check(&get, &format!("{}ok", head(limit + 1)), &[too_long]);
    check(&get, &head(limit + 1)[..limit], &[too_long]);
    check(&get, &format!("HTTP/1.1 {}", "2".repeat(limit)), &[too_long]);
    let trailers = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}\r\n", "A: b\r\n".repeat(100));
    check(&get, &trailers, &["broken head-too-large the trailer fields are longer than the limit of heads"]);
    // Each head has the limit to itself.
    let interim = format!("HTTP/1.1 103 Early\r\n{}\r\n", "Link: </x>\r\n".repeat(40));
    check(&get, &format!("{}HTTP/1.1 204 \r\n\r\n", interim.repeat(2)), &["204 keep", NOTHING_MORE]);
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 1\r\n\r\nx", "a:\n".repeat(145));
    check(&get, &many, &["200 keep", NOTHING_MORE]);
}

#[test]
fn contents_are_checked_however_they_come() {
    let with = |sha256: Option<&str>, regex: Option<&str>| {
        let (body_sha256, body_regex) = (sha256.map(str::to_owned), regex.map(str::to_owned));
        let expect = Expect { status: vec![(200, 299)], body_sha256, body_regex };
        protocol(HttpRequest { expect, ..get() }, true, HEAD_MAX)
    };
    let digest = with(Some("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"), None);
    let regex = with(None, Some("^hel+o$"));
    let framed = |body: &str| {
        let middle = body.len() / 2;
        let (a, b) = body.split_at(middle);
        [
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x};x\r\n{b}\r\n0\r\nT: hello\r\n\r\n",
                a.len(),
                b.len()
            ),
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}"),
        ]
    };
    for (protocol, wrong) in [
        (&digest, "wrong-content the body's SHA-256 is not the expected one"),
        (&regex, "wrong-content the regular expression matches nowhere in the body"),
    ] {
        for (good, bad) in framed("hello").iter().zip(&framed("hullo")) {
            let keep = if good.contains("close") { "close" } else { "keep" };
            check_with(protocol, 1, good.as_bytes(), End::Closed, &[&format!("200 {keep}")]);
            check_with(protocol, 1, bad.as_bytes(), End::Closed, &[&format!("200 {keep} {wrong}")]);
        }
        let [good, chunked, _] = framed("hello");
        let [bad, ..] = framed("hullo");
        let failed = format!("200 keep {wrong}");
        let all = [good, bad, chunked].concat();
        check_with(protocol, 3, all.as_bytes(), End::Closed, &["200 keep", &failed, "200 keep"]);
        let status = "HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\nhullo";
        check_with(protocol, 1, status.as_bytes(), End::Closed, &["404 keep unexpected-status 404: Not Found"]);
        check_with(protocol, 1, b"HTTP/1.1 204 No\r\n\r\n", End::Closed, &[&format!("204 keep {wrong}")]);
    }
}

#[test]
fn a_head_in_single_bytes_costs_linear_time() {
    let limit = 64 * 1024;
    let get = protocol(get(), true, limit);
    let begin = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";
    let field = "X-Some-Field: with a value\r\n";
    let head = format!("{begin}{}\r\n", field.repeat((limit as usize - begin.len() - 2) / field.len()));
    let reply = format!("{head}ok");
    for size in [1, 2, 1000, head.len() - 1] {
        SCANNED.set(0);
        PARSED.set(0);
        assert_eq!(exchange(&get, 1, reply.as_bytes().chunks(size), End::Closed), ["200 keep"]);
        let looked_at = SCANNED.get() + PARSED.get();
        // The first piece is parsed for nothing; then every byte is searched once and parsed once or twice (fields > 128).
        assert!(looked_at <= 4 * reply.len() as u64, "{looked_at} bytes looked at, in pieces of {size}");
    }
    // Replies of 400 bytes that lie in one piece, and the piece cut anywhere: as well.
    let many = "HTTP/1.1 204 No Content\r\nX-Some-Field: with a value\r\n\r\n".repeat(1000);
    for size in [many.len(), 1000, 50] {
        SCANNED.set(0);
        PARSED.set(0);
        assert_eq!(exchange(&get, 1000, many.as_bytes().chunks(size), End::Closed).len(), 1000);
        // A parse of what lies there may run to the end of its piece, once a piece.
        let looked_at = SCANNED.get();
        assert!(looked_at <= 2 * many.len() as u64, "{looked_at} bytes searched, in pieces of {size}");
    }
    // Whole, and known: parsed once, then not at all.
    let small = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for parsed in [small.len() as u64, 0] {
        SCANNED.set(0);
        PARSED.set(0);
        assert_eq!(exchange(&get, 1, [small.as_bytes()], End::Closed), ["200 keep"]);
        assert_eq!((SCANNED.get(), PARSED.get()), (0, parsed));
    }
}

#[test]
fn endless_heads_stop_at_the_limit_and_their_memory_is_given_back() {
    let limit = 64 * 1024;
    let get = protocol(get(), true, limit);
    let request = Drawn::default();
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(10 * 1024 * 1024 / 6));
    for size in [1usize, 7, 4096, endless.len()] {
        let mut connection = get.connection();
        let mut taken = 0;
        for piece in endless.as_bytes().chunks(size) {
            let fed = get.feed(&mut connection, request, piece);
            if let Some(scratch) = &connection.scratch {
                assert!(scratch.head.len() <= limit as usize && scratch.head.capacity() <= 2 * limit as usize);
            }
            taken += piece.len();
            match fed.progress {
                Progress::More => continue,
                Progress::Broken(failure) => assert_eq!(failure.kind, ErrorKind::HeadTooLarge),
                other => panic!("{other:?}"),
            }
            break;
        }
        assert!((limit as usize..limit as usize + size).contains(&taken) || size == endless.len(), "{taken}");
        assert!(connection.scratch.is_none());
    }
    let spares = get.spares.borrow();
    assert!(spares.len() <= 1 && spares.iter().all(|spare| spare.head.capacity() <= SPARE_BYTES_MAX));
}

#[test]
fn memory_for_pieces_is_bounded_over_many_connections() {
    let get = protocol(get(), true, HEAD_MAX);
    let request = Drawn::default();
    let mut connections: Vec<_> = (0..4 * SPARES_MAX).map(|_| get.connection()).collect();
    for connection in &mut connections {
        assert_eq!(get.feed(connection, request, b"HTTP").progress, Progress::More);
        assert!(connection.scratch.is_some());
    }
    for connection in &mut connections {
        assert!(matches!(get.closed(connection, request), Progress::Broken(_)));
        assert!(connection.scratch.is_none());
    }
    assert_eq!(get.spares.borrow().len(), SPARES_MAX);
    assert!(size_of::<Connection>() <= 64, "{}", size_of::<Connection>());
}

#[test]
fn a_million_tiny_chunks_keep_nothing() {
    let expect = Expect { body_regex: Some("x".into()), ..Expect::default() };
    for request in [get(), HttpRequest { expect, ..get() }] {
        let protocol = protocol(request, true, HEAD_MAX);
        let payload = Drawn::default();
        let mut connection = protocol.connection();
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(protocol.feed(&mut connection, payload, head).progress, Progress::More);
        let thousand = b"1\r\nx\r\n".repeat(1000);
        for n in 0..1000 {
            // Cut somewhere else each time.
            let (a, b) = thousand.split_at(1 + n % (thousand.len() - 1));
            for piece in [a, b] {
                assert_eq!(protocol.feed(&mut connection, payload, piece).progress, Progress::More);
            }
        }
        let fed = protocol.feed(&mut connection, payload, b"0\r\n\r\nH");
        assert_eq!(fed.consumed, 5);
        assert_eq!(fed.progress, Progress::Reply(Reply { status: 200, keep: true, failure: None }));
    }
}

#[test]
fn requests_with_different_heads_do_not_disturb_each_other() {
    let requests =
        (0..3 * MEMOS_MAX).map(|n| HttpRequest { method: if n % 2 == 0 { "GET" } else { "HEAD" }.into(), ..get() });
    let plan = Http1 { requests: requests.collect(), keep_alive: true, head_bytes_max: HEAD_MAX, ..Http1::default() };
    let mut protocol = Http1Protocol::new(&plan).unwrap();
    assert_eq!(protocol.blobs().len(), 3 * MEMOS_MAX);
    for round in 0..1000u64 {
        let request = protocol.next_request(0, round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let body = if request.request % 2 == 0 { "x".repeat(round as usize % 3) } else { String::new() };
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", round % 3);
        let fed = protocol.feed(&mut protocol.connection(), request, reply.as_bytes());
        assert_eq!(fed.consumed, reply.len());
        assert_eq!(fed.progress, Progress::Reply(Reply { status: 200, keep: true, failure: None }));
    }
}

#[test]
fn a_plan_without_requests_is_refused() {
    let plan = Http1 { keep_alive: true, head_bytes_max: HEAD_MAX, ..Http1::default() };
    assert!(matches!(Http1Protocol::new(&plan), Err(WireError::NoRequests)));
}

/// Bytes that come near to replies: parts of them, in any order.
fn nearly_replies() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop::sample::select(vec![
            "HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 404 \r\n", "HTTP/1.1 204 \r\n", "HTTP/1.1 100 \r\n",
            "Content-Length: 3\r\n", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
            "Connection: keep-alive\r\n", "X: y\r\n", " folded\r\n", "\r\n", "\n", "\r", "abc", "3\r\nabc\r\n",
            "0\r\n\r\n", "0\r\n", "1;x=y\r\n", "T: 1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ]).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..8),
    ];
    prop::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_in_any_cuts_give_the_same(bytes in nearly_replies(), cuts in prop::collection::vec(0usize..300, 0..8), head: bool, looked_at: bool, end in prop::sample::select(vec![End::Closed, End::TimedOut])) {
        let expect = Expect { body_regex: looked_at.then(|| "b".to_owned()), ..Expect::default() };
        let method = if head { "HEAD" } else { "GET" };
        let protocol = protocol(HttpRequest { method: method.into(), expect, ..get() }, true, 120);
        let whole = exchange(&protocol, 3, [bytes.as_slice()], end);
        let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = || cuts.windows(2).map(|w| &bytes[w[0]..w[1]]);
        prop_assert_eq!(exchange(&protocol, 3, pieces(), end), whole.clone());
        prop_assert_eq!(exchange(&protocol, 3, bytes.chunks(1), end), whole.clone());
        prop_assert_eq!(exchange(&protocol, 3, [bytes.as_slice()], end), whole);
    }
}
