//! What a client and an origin send to `serve proxy`: whole, cut at random and byte by byte it must go on as the same; what
//! goes on is read on the other side as it was read here; nothing may panic.
//!
//! Input: a byte that says who speaks (and of what the reply is), eight bytes of seed for the cuts, requests or a reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::cut;
use servers::proxy::stranger::{reply, requests};

fuzz_target!(|input: &[u8]| {
    let [who, rest @ ..] = input else { return };
    let Some((seed, bytes)) = rest.split_first_chunk::<8>() else { return };
    let pieces = || cut(bytes, u64::from_le_bytes(*seed));
    if who & 1 == 0 {
        let whole = requests([bytes]);
        assert_eq!(requests(pieces()), whole, "in pieces");
        assert_eq!(requests(bytes.chunks(1)), whole, "byte by byte");
    } else {
        let (to_head, to_http10) = (who & 2 != 0, who & 4 != 0);
        let whole = reply([bytes], to_head, to_http10);
        assert_eq!(reply(pieces(), to_head, to_http10), whole, "in pieces");
        assert_eq!(reply(bytes.chunks(1), to_head, to_http10), whole, "byte by byte");
    }
});
