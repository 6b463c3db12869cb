//! RESP2 replies: whole, cut at random and byte by byte they must come to the same; nothing may panic.
//!
//! Input: a byte of choices (command, how the connection ends), eight bytes of seed for the cuts, the reply's bytes.
//! Memory is bounded by run.sh: an allocation made for a declared length would not survive it. The same bytes as the
//! answer to a greeting must come to an end of their own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::plan::{Content, Sizes};
use model::resp::{KeyDistribution, Login, Resp, RespCommand, RespExpect};
use plimsoll_fuzz::{cut, exchange};
use wire::resp::{Drawn, RespProtocol};
use wire::{AsSent, Progress, Protocol};

/// Requests outstanding at once.
const OUTSTANDING: usize = 4;
/// What may be due.
const EXPECTED: [RespExpect; 6] =
    [RespExpect::Ok, RespExpect::Pong, RespExpect::Integer, RespExpect::Value, RespExpect::Array, RespExpect::Any];

fuzz_target!(|input: &[u8]| {
    let [choices, seed @ ..] = input else { return };
    let Some((seed, reply)) = seed.split_first_chunk::<8>() else { return };
    PROTOCOL.with(|protocol| alike(protocol, *choices, *seed, reply));
});

/// However a reply is cut, it must come to the same.
fn alike(protocol: &RespProtocol, choices: u8, seed: [u8; 8], reply: &[u8]) {
    let command = u32::from(choices & 7) % EXPECTED.len() as u32;
    let requests = [Drawn { command, key: 0, as_sent: AsSent::default() }; OUTSTANDING];
    let then_closed = choices & 8 != 0;

    let whole = exchange(protocol, &requests, [reply], then_closed);
    let pieces = cut(reply, u64::from_le_bytes(seed));
    assert_eq!(exchange(protocol, &requests, pieces.iter().copied(), then_closed), whole, "in pieces");
    assert_eq!(exchange(protocol, &requests, reply.chunks(1), then_closed), whole, "byte by byte");
    assert_eq!(greeted(protocol, pieces), greeted(protocol, vec![reply]), "as a greeting");
}

/// How the answer to a greeting ends.
fn greeted(protocol: &RespProtocol, pieces: Vec<&[u8]>) -> Progress {
    let mut connection = protocol.connection();
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let fed = protocol.greeted(&mut connection, 0, piece);
        assert!(fed.consumed <= piece.len(), "took more than there was");
        if fed.progress != Progress::More {
            return fed.progress;
        }
        assert_eq!(fed.consumed, piece.len(), "wants more, and has not taken all");
    }
    Progress::More
}

thread_local! {
    static PROTOCOL: RespProtocol = protocol();
}

fn protocol() -> RespProtocol {
    let command =
        |expect| RespCommand { name: "X".to_owned(), weight: 1.0, words: vec!["X".into(), "{key}".into()], expect };
    let plan = Resp {
        commands: EXPECTED.map(command).into(),
        keys: 1,
        key_prefix: String::new(),
        key_distribution: KeyDistribution::Uniform,
        // Short and of one letter's distance from what a fuzzer finds.
        values: Sizes::Fixed(1),
        content: Content::Text,
        value_seed: 0,
        validate: true,
        // What one reply leaves behind would change what the next one comes to.
        verify_writes: false,
        logins: vec![Login { auth: true, database: Some(1), ..Login::default() }],
    };
    RespProtocol::new(&plan, 0, 1).expect("a plan of this target")
}
