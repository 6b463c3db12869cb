//! What a stranger sends to `serve ws`: whole, cut at random and byte by byte it must get the same replies; nothing may
//! panic.
//!
//! Input: a byte of choices (whether a good handshake goes before, compression, bound of messages), eight bytes of seed for
//! the cuts, the stranger's bytes. Memory is bounded by run.sh: an allocation made for a declared length would not survive it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::cut;
use servers::websocket::WebSocketOptions;
use servers::websocket::stranger::{Said, replies};

const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nHost: f\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n";

fuzz_target!(|input: &[u8]| {
    let [choices, seed @ ..] = input else { return };
    let Some((seed, sent)) = seed.split_first_chunk::<8>() else { return };
    let options = WebSocketOptions {
        deflate: choices & 2 != 0,
        message_bytes_max: if choices & 4 == 0 { 64 } else { 1 << 20 },
        ..WebSocketOptions::default()
    };
    let before = if choices & 1 == 0 { HANDSHAKE } else { &[] };
    let of = |pieces: Vec<&[u8]>| -> Said { replies([before].into_iter().chain(pieces), &options) };
    let whole = of(vec![sent]);
    assert!(!whole.is_refused || whole.is_closed, "refused and not closed");
    assert_eq!(of(cut(sent, u64::from_le_bytes(*seed))), whole, "in pieces");
    assert_eq!(of(sent.chunks(1).collect()), whole, "byte by byte");
});
