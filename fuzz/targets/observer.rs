//! What an observer hears of strangers and clients, and a run of an observer: whole, cut at random and byte by byte it must
//! come to the same messages; nothing may panic, and what is kept never exceeds the bound.
//!
//! Input: a byte that says who speaks, eight bytes of seed for the cuts, frames. Memory is bounded by run.sh.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::cut;
use remote::frame::Decoder;
use remote::limits::{ASKED_BYTES_MAX, HELLO_BYTES_MAX};
use remote::message::{Answer, FromObserver, FromRun, Hello};
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|input: &[u8]| {
    let [who, rest @ ..] = input else { return };
    let Some((seed, bytes)) = rest.split_first_chunk::<8>() else { return };
    let seed = u64::from_le_bytes(*seed);
    match who & 3 {
        0 => hear::<Hello>(bytes, seed, HELLO_BYTES_MAX),
        1 => hear::<Answer>(bytes, seed, HELLO_BYTES_MAX),
        2 => hear::<FromRun>(bytes, seed, ASKED_BYTES_MAX),
        // What is fuzzed is shorter than the bound of readings: the same frames meet one here.
        _ => hear::<FromObserver>(bytes, seed, ASKED_BYTES_MAX),
    }
});

fn hear<T: Serialize + DeserializeOwned>(bytes: &[u8], seed: u64, most: usize) {
    let whole = all::<T>([bytes], most);
    assert_eq!(all::<T>(cut(bytes, seed), most), whole, "in pieces");
    assert_eq!(all::<T>(bytes.chunks(1), most), whole, "byte by byte");
}

/// Every message, as JSON; the last may be an error.
fn all<'a, T: Serialize + DeserializeOwned>(pieces: impl IntoIterator<Item = &'a [u8]>, most: usize) -> Vec<String> {
    let mut decoder = Decoder::new(most);
    let mut heard = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            let is_ready = decoder.is_ready();
            match decoder.take::<T>() {
                Ok(Some(message)) => {
                    assert!(is_ready, "there was one");
                    heard.push(serde_json::to_string(&message).expect("what was read can be written"));
                }
                Ok(None) => {
                    assert!(!is_ready, "there was none");
                    break;
                }
                Err(error) => {
                    heard.push(error.to_string());
                    return heard;
                }
            }
        }
    }
    heard
}
