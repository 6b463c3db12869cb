//! What a stranger sends to `serve http`: whole, cut at random and byte by byte it must get the same replies; nothing may
//! panic, and where nothing was answered nothing is said.
//!
//! Input: a byte of choices (keep-alive, bound of bodies), eight bytes of seed for the cuts, requests. Memory is bounded by
//! run.sh: an allocation made for a declared length would not survive it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::{cut, says};
use servers::http::stranger::replies;

fuzz_target!(|input: &[u8]| {
    let [choices, seed @ ..] = input else { return };
    let Some((seed, requests)) = seed.split_first_chunk::<8>() else { return };
    // It would keep a CPU busy, as it is asked to.
    if says(requests, b"burn") {
        return;
    }
    let (keep_alive, body_bytes_max) = (choices & 1 == 0, if choices & 2 == 0 { 64 } else { u64::MAX });
    let whole = replies([requests], keep_alive, body_bytes_max);
    assert!(whole.refused <= whole.requests, "refused without a request");
    if whole.requests == 0 && !says(requests, b"100-continue") {
        assert!(whole.bytes.is_empty() && !whole.is_closed, "nothing was asked: {}", whole.bytes.escape_ascii());
    }
    let pieces = replies(cut(requests, u64::from_le_bytes(*seed)), keep_alive, body_bytes_max);
    let single = replies(requests.chunks(1), keep_alive, body_bytes_max);
    // Who waits for 100 is told more, or less, than who sent the body anyway.
    if !says(requests, b"100-continue") {
        assert_eq!(pieces, whole, "in pieces");
        assert_eq!(single, whole, "byte by byte");
    }
});
