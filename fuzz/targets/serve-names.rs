//! What a stranger sends to `serve names`: whole, cut at random and byte by byte it must come to the same commands and the
//! same replies; a command written as an array is the same command; nothing may panic.
//!
//! Input: eight bytes of seed for the cuts, commands. Memory is bounded by run.sh.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::cut;
use servers::names::stranger::commands;

fuzz_target!(|input: &[u8]| {
    let Some((seed, bytes)) = input.split_first_chunk::<8>() else { return };
    let whole = commands([bytes]);
    assert_eq!(commands(cut(bytes, u64::from_le_bytes(*seed))), whole, "in pieces");
    assert_eq!(commands(bytes.chunks(1)), whole, "byte by byte");
});
