//! Seeds of the fuzz targets of the servers: whole, cut at every place and byte by byte they come to the same.
//!
//! So that what fuzzing sees of this crate is tested wherever the crate is, without a fuzzer.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use servers::{http, names, proxy};

/// All seeds of a target, without choices and the seed of the cuts, `skip` bytes.
fn seeds(target: &str, skip: usize) -> Vec<(u8, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let seeds: Vec<_> = files.map(|bytes| (bytes[0], bytes[skip..].to_vec())).collect();
    assert!(seeds.len() >= 5, "too few seeds of {target}");
    seeds
}

#[track_caller]
fn check<T: PartialEq + std::fmt::Debug>(bytes: &[u8], of: impl Fn(Vec<&[u8]>) -> T) -> T {
    let whole = of(vec![bytes]);
    for at in 0..bytes.len() {
        assert_eq!(of(vec![&bytes[..at], &bytes[at..]]), whole, "cut at {at}: {}", bytes.escape_ascii());
    }
    assert_eq!(of(bytes.chunks(1).collect()), whole, "byte by byte: {}", bytes.escape_ascii());
    whole
}

#[test]
fn seeds_come_to_the_same_however_they_are_cut() {
    let mut answered = 0;
    for (choices, bytes) in seeds("serve-http", 9) {
        let bytes_max = if choices & 2 == 0 { 64 } else { u64::MAX };
        let of = |pieces: Vec<&[u8]>| http::stranger::replies(pieces, choices & 1 == 0, bytes_max);
        // Who waits for 100 is told more than who sent the body anyway.
        let said = if bytes.windows(4).any(|w| w == b"100-") { of(vec![&bytes]) } else { check(&bytes, of) };
        assert!(said.bytes.starts_with(b"HTTP/1.1 "), "{}: {said:?}", bytes.escape_ascii());
        answered += said.requests - said.refused;
    }
    assert!(answered >= 8, "{answered}");
    let heard: usize = seeds("serve-names", 8)
        .into_iter()
        .map(|(_, bytes)| check(&bytes, |pieces| names::stranger::commands(pieces)).len())
        .sum();
    assert!(heard >= 15, "{heard}");
    for (who, bytes) in seeds("serve-proxy", 9) {
        let passed = check(&bytes, |pieces| match who & 1 {
            0 => proxy::stranger::requests(pieces),
            _ => proxy::stranger::reply(pieces, who & 2 != 0, who & 4 != 0),
        });
        assert!(!passed.is_empty(), "{}", bytes.escape_ascii());
    }
}
