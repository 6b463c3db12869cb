//! HTTP/1.1 replies: whole, cut at random and byte by byte they must come to the same; nothing may panic.
//!
//! Input: a byte of choices (method, keep-alive, checks, how the connection ends), eight bytes of seed for the cuts,
//! the reply's bytes. Memory is bounded by run.sh: an allocation made for a declared length would not survive it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::plan::{Body, Expect, Http1, HttpRequest};
use plimsoll_fuzz::{cut, exchange};
use std::sync::LazyLock;
use wire::Protocol;
use wire::http1::{Drawn, Http1Protocol};

/// Requests outstanding at once.
const OUTSTANDING: usize = 4;

fuzz_target!(|input: &[u8]| {
    let [choices, seed @ ..] = input else { return };
    let Some((seed, reply)) = seed.split_first_chunk::<8>() else { return };
    let plan = &PLANS[usize::from(choices & 31)];
    let then_closed = choices & 32 != 0;

    let mut protocol = Http1Protocol::new(plan).expect("a plan of this target");
    let request: Drawn = protocol.next_request(0, 0);
    let requests = [request; OUTSTANDING];
    let whole = exchange(&protocol, &requests, [reply], then_closed);
    let pieces = cut(reply, u64::from_le_bytes(*seed));
    assert_eq!(exchange(&protocol, &requests, pieces, then_closed), whole, "in pieces");
    assert_eq!(exchange(&protocol, &requests, reply.chunks(1), then_closed), whole, "byte by byte");
    // The heads are known now; that must not change anything.
    assert_eq!(exchange(&protocol, &requests, [reply], then_closed), whole, "the second time");
});

/// Every combination of method (2 bits), keep-alive, digest and expression.
static PLANS: LazyLock<Vec<Http1>> = LazyLock::new(|| (0..32).map(plan).collect());

fn plan(choices: u8) -> Http1 {
    let method = ["GET", "HEAD", "POST", "CONNECT"][usize::from(choices & 3)];
    // Of the empty body, and of one that begins with a.
    let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let request = HttpRequest {
        origin: 0,
        weight: 1.0,
        method: method.to_owned(),
        target: "/".into(),
        headers: vec![("Host".to_owned(), "localhost".into())],
        body: Body::default(),
        expect: Expect {
            status: vec![],
            body_sha256: (choices & 8 != 0).then(|| digest.to_owned()),
            body_regex: (choices & 16 != 0).then(|| "^a".to_owned()),
        },
        ..HttpRequest::default()
    };
    Http1 { requests: vec![request], keep_alive: choices & 4 == 0, head_bytes_max: 300, ..Http1::default() }
}
