//! What a server says to a WebSocket client: whole, cut at random and byte by byte it must come to the same; nothing may
//! panic, and what is answered stays within its bound.
//!
//! Input: a byte of choices (compression, whether it is the answer to the handshake, how the connection ends), eight bytes of
//! seed for the cuts, the server's bytes. Behind the handshake they are frames. Memory is bounded by run.sh.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::plan::{Content, Sizes};
use model::workload::websocket::{Opening, WebSocket};
use plimsoll_fuzz::cut;
use std::sync::LazyLock;
use wire::websocket::{SAID_BYTES_MAX, WebSocketProtocol};
use wire::{Payload, Progress, Protocol, Source};

/// Requests outstanding at once.
const OUTSTANDING: usize = 3;
/// The connection's own randomness, and what a server makes of the key that comes of it.
const RANDOM: u64 = 1;

fuzz_target!(|input: &[u8]| {
    let [choices, seed @ ..] = input else { return };
    let Some((seed, said)) = seed.split_first_chunk::<8>() else { return };
    let (protocol, requests) = &*PROTOCOLS[usize::from(choices & 1)];
    let (is_answer, then_closed) = (choices & 2 != 0, choices & 4 != 0);
    let of = |pieces: Vec<&[u8]>| outcome(protocol, requests, pieces, is_answer, then_closed, choices & 1 != 0);
    let whole = of(vec![said]);
    assert_eq!(of(cut(said, u64::from_le_bytes(*seed))), whole, "in pieces");
    assert_eq!(of(said.chunks(1).collect()), whole, "byte by byte");
});

/// What became of it: how each reply ended, and what is said to the server at the end of each piece.
fn outcome(
    protocol: &WebSocketProtocol,
    requests: &[Payload],
    pieces: Vec<&[u8]>,
    is_answer: bool,
    then_closed: bool,
    compresses: bool,
) -> Vec<Progress> {
    let mut connection = protocol.connection();
    let mut greeting = Vec::new();
    protocol.greeting(&mut connection, 0, RANDOM, &mut greeting);
    let mut is_open = false;
    if !is_answer {
        let answer = answer_to(&greeting, compresses);
        let fed = protocol.greeted(&mut connection, 0, &answer);
        assert!(matches!(fed.progress, Progress::Reply(_)) && fed.consumed == answer.len(), "{fed:?}");
        is_open = true;
    }
    let (mut ended, mut outcomes, mut said) = (0, Vec::new(), Vec::new());
    for mut bytes in pieces {
        while !bytes.is_empty() {
            let fed = match requests.get(ended) {
                _ if !is_open => protocol.greeted(&mut connection, 0, bytes),
                Some(request) => protocol.feed(&mut connection, *request, bytes),
                None => protocol.feed_idle(&mut connection, bytes),
            };
            assert!(fed.consumed <= bytes.len(), "took more than there was");
            bytes = &bytes[fed.consumed..];
            said.clear();
            match fed.progress {
                Progress::More => assert!(bytes.is_empty(), "wants more, and has not taken all"),
                // When a reply begins depends on the pieces.
                Progress::Begun(number) => assert_eq!(number as usize, ended, "another reply than the one due"),
                Progress::Say => protocol.say(&mut connection, &mut said),
                Progress::Reply(reply) if is_open => {
                    check_words(reply.failure.map_or(0, |failure| failure.detail));
                    ended += 1;
                    outcomes.push(fed.progress);
                }
                Progress::Reply(_) => is_open = true,
                Progress::Broken(failure) => {
                    check_words(failure.detail);
                    protocol.say(&mut connection, &mut said);
                    assert!(said.len() <= SAID_BYTES_MAX);
                    outcomes.push(fed.progress);
                    return outcomes;
                }
                Progress::Ending => {
                    protocol.say(&mut connection, &mut said);
                    outcomes.push(fed.progress);
                    return outcomes;
                }
                Progress::ReplyTo(..) => panic!("replies come in order"),
                Progress::Came(_) => panic!("only where connections are held"),
            }
            assert!(said.len() <= SAID_BYTES_MAX);
        }
    }
    if let Some(request) = requests.get(ended) {
        let end = match then_closed {
            true => protocol.closed(&mut connection, *request),
            false => Progress::Broken(protocol.timed_out(&mut connection, ended as u32, *request)),
        };
        let Progress::Broken(failure) = end else { panic!("{end:?}") };
        check_words(failure.detail);
        outcomes.push(end);
    }
    outcomes
}

/// Every detail that is given has words.
fn check_words(detail: u32) {
    assert!(detail == 0 || WebSocketProtocol::describe(detail).is_some(), "detail {detail} has no words");
}

/// The answer that switches, to the key of a greeting.
fn answer_to(greeting: &[u8], compresses: bool) -> Vec<u8> {
    let text = String::from_utf8_lossy(greeting);
    let key = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).expect("a key");
    let handshake = format!(
        "GET / HTTP/1.1\r\nHost: f\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\
         Sec-WebSocket-Version: 13\r\n{}\r\n",
        if compresses { "Sec-WebSocket-Extensions: permessage-deflate\r\n" } else { "" }
    );
    servers::websocket::stranger::replies([handshake.as_bytes()], &Default::default()).bytes
}

type Made = (WebSocketProtocol, [Payload; OUTSTANDING]);

/// Without and with compression; messages are short, so that a fuzzer finds an echo.
static PROTOCOLS: [LazyLock<Made>; 2] = [LazyLock::new(|| made(false)), LazyLock::new(|| made(true))];

fn made(compress: bool) -> Made {
    let plan = WebSocket {
        handshakes: vec![Opening { target: "/".into(), headers: vec![("Host".to_owned(), "f".into())] }],
        subprotocols: vec!["a".into()],
        text: false,
        sizes: Sizes::Fixed(1),
        content: Content::Text,
        compress,
    };
    let mut protocol = WebSocketProtocol::new(&plan, 0).expect("a plan of this target");
    let request = protocol.next_request(0, 0);
    assert!(matches!(protocol.source(request), Source::Blob(_)));
    (protocol, [request; OUTSTANDING])
}
