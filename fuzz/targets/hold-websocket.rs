//! What a server says on a held WebSocket connection: whole, cut at random and byte by byte it must come to the same; nothing
//! may panic, and what is answered stays within its bound.
//!
//! Input: a byte of choices (compression, whether a ping is under way), eight bytes of seed for the cuts, the server's frames
//! behind the handshake. Memory is bounded by run.sh.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::workload::hold_websocket::{Came, HoldWebSocket};
use model::workload::websocket::Opening;
use plimsoll_fuzz::cut;
use std::sync::LazyLock;
use wire::websocket::{HoldProtocol, SAID_BYTES_MAX};
use wire::{Progress, Protocol};

fuzz_target!(|input: &[u8]| {
    let [choices, seed @ ..] = input else { return };
    let Some((seed, said)) = seed.split_first_chunk::<8>() else { return };
    let of = |pieces: Vec<&[u8]>| outcome(*choices, pieces);
    let whole = of(vec![said]);
    assert_eq!(of(cut(said, u64::from_le_bytes(*seed))), whole, "in pieces");
    assert_eq!(of(said.chunks(1).collect()), whole, "byte by byte");
});

/// What became of it, and what was said to the server.
fn outcome(choices: u8, pieces: Vec<&[u8]>) -> (Vec<Progress>, Vec<u8>) {
    let (compresses, is_pinged) = (choices & 1 != 0, choices & 2 != 0);
    let protocol = &*PROTOCOLS[usize::from(compresses)];
    let mut connection = protocol.connection();
    let (mut greeting, mut outcomes, mut said) = (Vec::new(), Vec::new(), Vec::new());
    protocol.greeting(&mut connection, 0, 1, &mut greeting);
    let answer = servers::websocket::stranger::replies([&greeting[..]], &Default::default()).bytes;
    let fed = protocol.greeted(&mut connection, 0, &answer);
    assert!(matches!(fed.progress, Progress::Reply(_)) && fed.consumed == answer.len(), "{fed:?}");
    // A ping of zeros, so that a fuzzer finds its pong.
    let ping = HoldProtocol::new(&plan(compresses)).next_request(0, 0);
    let mut due = is_pinged.then_some(ping);
    for mut bytes in pieces {
        while !bytes.is_empty() {
            let fed = match due {
                Some(ping) => protocol.feed(&mut connection, ping, bytes),
                None => protocol.feed_idle(&mut connection, bytes),
            };
            assert!(fed.consumed <= bytes.len(), "took more than there was");
            bytes = &bytes[fed.consumed..];
            let before = said.len();
            match fed.progress {
                Progress::More => {
                    assert!(bytes.is_empty(), "wants more, and has not taken all");
                    continue;
                }
                Progress::Reply(_) => assert!(due.take().is_some(), "a reply to nothing"),
                Progress::Came(number) => assert!(Came::of_number(number).is_some_and(|came| !came.is_end())),
                Progress::Broken(failure) => {
                    assert!(HoldProtocol::describe(failure.detail).is_some(), "{failure:?} has no words");
                    let number = protocol.outcome_of_end(failure);
                    assert!(number == 0 || Came::of_number(number).is_some_and(Came::is_end), "{failure:?}: {number}");
                }
                other => panic!("{other:?}"),
            }
            outcomes.push(fed.progress);
            protocol.say(&mut connection, &mut said);
            assert!(said.len() - before <= SAID_BYTES_MAX);
            if matches!(fed.progress, Progress::Broken(_)) {
                return (outcomes, said);
            }
        }
    }
    if let Some(ping) = due {
        let failure = protocol.timed_out(&mut connection, 0, ping);
        assert!(HoldProtocol::describe(failure.detail).is_some(), "{failure:?} has no words");
        outcomes.push(Progress::Broken(failure));
    }
    (outcomes, said)
}

/// Without and with compression.
static PROTOCOLS: [LazyLock<HoldProtocol>; 2] =
    [LazyLock::new(|| HoldProtocol::new(&plan(false))), LazyLock::new(|| HoldProtocol::new(&plan(true)))];

fn plan(compress: bool) -> HoldWebSocket {
    let handshakes = vec![Opening { target: "/".into(), headers: vec![("Host".to_owned(), "f".into())] }];
    HoldWebSocket { handshakes, subprotocols: Vec::new(), compress, until_failure: false }
}
