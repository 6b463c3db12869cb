//! Echo replies, changed in a few places: the verdict must be that of a plain comparison, however they are cut.
//!
//! Input: a byte of choices (pipelined, how the connection ends, how many requests), eight bytes that are randomness
//! and seed, then changes of three bytes: what, where, with what. Random bytes alone would never be a right reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::ErrorKind;
use model::plan::{Content, Echo, Sizes};
use plimsoll_fuzz::{Outcome, cut, exchange};
use std::sync::LazyLock;
use wire::echo::{Detail, EchoProtocol};
use wire::{Failure, Payload, Progress, Protocol, Reply};

/// Made once each: a pool has a megabyte.
static PROTOCOLS: LazyLock<[EchoProtocol; 2]> = LazyLock::new(|| [false, true].map(protocol));

fn protocol(is_pipelined: bool) -> EchoProtocol {
    let plan = Echo { sizes: Sizes::Range(1, 300), content: Content::Binary };
    EchoProtocol::new(&plan, 1).expect("a plan of this target").pipelined(is_pipelined)
}

fuzz_target!(|input: &[u8]| {
    let [choices, rest @ ..] = input else { return };
    let Some((seed, changes)) = rest.split_first_chunk::<8>() else { return };
    let seed = u64::from_le_bytes(*seed);
    let is_pipelined = choices & 1 != 0;
    let then_closed = choices & 2 != 0;
    let count = if is_pipelined { 1 + usize::from(choices >> 2 & 3) } else { 1 };

    let protocol = &PROTOCOLS[usize::from(is_pipelined)];
    let pool = &protocol.blobs()[0];
    let requests: Vec<_> = (0..count as u64)
        .map(|n| {
            let random = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let length = (random >> 32) as u32 % 300 + 1;
            Payload { blob: 0, start: random as u32 % (pool.len() as u32 - length), length }
        })
        .collect();
    let sent = |request: &Payload| &pool[request.start as usize..][..request.length as usize];
    let mut reply: Vec<u8> = requests.iter().flat_map(sent).copied().collect();
    for change in changes.chunks_exact(3).take(8) {
        let at = usize::from(change[1]) * 4 % (reply.len() + 1);
        match change[0] % 4 {
            0 if at < reply.len() => reply[at] ^= change[2],
            1 => reply.truncate(at),
            2 => reply.insert(at, change[2]),
            3 => reply.extend_from_slice(&[change[2]].repeat(at % 7)),
            _ => {}
        }
    }

    let expected = compare(&requests.iter().map(sent).collect::<Vec<_>>(), &reply, is_pipelined, then_closed);
    assert_eq!(exchange(protocol, &requests, [reply.as_slice()], then_closed), expected, "whole");
    for pieces in [cut(&reply, seed), reply.chunks(1).collect()] {
        let got = exchange(protocol, &requests, pieces, then_closed);
        if matches!(expected[..], [Outcome::Ended(Progress::Broken(Failure { kind: ErrorKind::PaddedReply, .. }))]) {
            // What is too much is seen with the reply, or, cut just there, by the engine; and never all of it at once.
            let is_padded = matches!(
                got[..],
                [Outcome::Ended(Progress::Broken(Failure { kind: ErrorKind::PaddedReply, .. }))]
                    | [Outcome::Ended(Progress::Reply(_)), Outcome::Unsolicited]
            );
            assert!(is_padded, "{got:?} in pieces, {expected:?} whole");
        } else {
            assert_eq!(got, expected, "in pieces");
        }
    }
});

/// The same verdicts from all bytes at once.
fn compare(sent: &[&[u8]], mut reply: &[u8], is_pipelined: bool, then_closed: bool) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let failed = |kind, detail: Detail| Outcome::Ended(Progress::Broken(Failure { kind, detail: detail.number() }));
    for payload in sent {
        let same = payload.iter().zip(reply).take_while(|(a, b)| a == b).count();
        if same < payload.len() {
            outcomes.push(if same < reply.len() {
                failed(ErrorKind::CorruptedReply, Detail::DiffersAt(same as u32))
            } else {
                let kind = match (then_closed, same) {
                    (true, 0) => ErrorKind::MissingReply,
                    (true, _) => ErrorKind::TruncatedReply,
                    (false, 0) => ErrorKind::ReplyTimeout,
                    (false, _) => ErrorKind::ShortReply,
                };
                failed(kind, Detail::CameBack(same as u32))
            });
            return outcomes;
        }
        reply = &reply[same..];
        if !is_pipelined && !reply.is_empty() {
            outcomes.push(failed(ErrorKind::PaddedReply, Detail::Extra(reply.len() as u32)));
            return outcomes;
        }
        outcomes.push(Outcome::Ended(Progress::Reply(Reply { status: 0, keep: true, failure: None })));
    }
    if !reply.is_empty() {
        outcomes.push(Outcome::Unsolicited);
    }
    outcomes
}
