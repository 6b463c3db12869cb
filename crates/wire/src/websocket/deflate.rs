//! permessage-deflate (RFC 7692): messages compressed one by one, and decompressed piece by piece.
//!
//! The window of a connection is a ring of exactly the size agreed on, so a distance beyond it is found. A message must end
//! where a block ends: behind it the four bytes are put that its sender left out, and a last block of nothing, which is
//! read as one only there. What is sent refers to nothing before it, whatever was agreed on: so messages are compressed
//! once, before the load. Cost: 11 KiB and the window a connection that has received a compressed message.

use super::Detail;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use std::ops::{Range, RangeInclusive};

/// What the sender leaves out (RFC 7692 §7.2.1), and a last, empty block.
const TAIL: [u8; 9] = [0x00, 0x00, 0xff, 0xff, 0x01, 0x00, 0x00, 0xff, 0xff];
/// Of those, what the sender leaves out.
const LEFT_OUT: usize = 4;
/// Effort of compressing, as zlib counts it: its default.
const LEVEL: i32 = 6;
/// Smallest and largest window, as powers of two (RFC 7692 §7.1.2).
pub const WINDOW_BITS: RangeInclusive<u8> = 8..=15;

/// The decompressor of one connection.
pub struct Inflate {
    state: DecompressorOxide,
    /// The window; a power of two.
    ring: Box<[u8]>,
    at: usize,
    /// How much of the ring this message has written, at most all of it.
    written: usize,
    forgets: bool,
    /// How far the tail was read.
    tail: usize,
    /// The ring was full: there may be output without further input.
    has_more: bool,
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate").field("window", &self.ring.len()).field("forgets", &self.forgets).finish()
    }
}

impl Inflate {
    /// For a window of 2^`bits` bytes; `forgets`: each message stands for itself.
    pub fn new(bits: u8, forgets: bool) -> Self {
        let bits = bits.clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end());
        Inflate {
            state: DecompressorOxide::new(),
            ring: vec![0; 1 << bits].into_boxed_slice(),
            at: 0,
            written: 0,
            forgets,
            tail: 0,
            has_more: false,
        }
    }

    /// A message begins.
    pub fn begin(&mut self) {
        self.state.init();
        self.tail = 0;
        self.has_more = false;
        if self.forgets {
            // What the message before left is not to be referred to: nothing sensible is there.
            self.ring[..self.written].fill(0);
            self.at = 0;
        }
        self.written = 0;
    }

    /// Whether there may be output without further input.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Decompresses a piece of the message: how much of it was taken, and where in [`Inflate::output`] it came to.
    pub fn take(&mut self, input: &[u8]) -> Result<(usize, Range<usize>), Detail> {
        let (taken, range, is_done) = self.step(input)?;
        // A last block may stand anywhere in a message (RFC 7692 §7.2.3.4): another stream begins behind it.
        if is_done {
            self.state.init();
        }
        Ok((taken, range))
    }

    /// The message is over: what else it came to; `None` once that is all and it has ended as it must.
    pub fn end(&mut self) -> Result<Option<Range<usize>>, Detail> {
        loop {
            let before = self.tail;
            let (taken, range, is_done) = self.step(&TAIL[before..]).map_err(|_| Detail::DeflateEnd)?;
            self.tail += taken;
            if is_done {
                self.state.init();
            }
            if !range.is_empty() {
                return Ok(Some(range));
            }
            if self.tail == TAIL.len() && !self.has_more {
                return if is_done { Ok(None) } else { Err(Detail::DeflateEnd) };
            }
        }
    }

    /// How much was taken, where its output is, and whether a last block has ended.
    fn step(&mut self, input: &[u8]) -> Result<(usize, Range<usize>, bool), Detail> {
        if self.at == self.ring.len() {
            self.at = 0;
        }
        let from = self.at;
        let (status, taken, made) =
            decompress(&mut self.state, input, &mut self.ring, self.at, TINFL_FLAG_HAS_MORE_INPUT);
        self.at += made;
        self.written = (self.written + made).min(self.ring.len());
        self.has_more = status == TINFLStatus::HasMoreOutput;
        let is_done = status == TINFLStatus::Done;
        if !is_done && !self.has_more && status != TINFLStatus::NeedsMoreInput {
            if made == 0 {
                return Err(Detail::Deflate);
            }
            // What was there before the fault counts; the next step comes upon it again.
            self.has_more = true;
        }
        Ok((taken, from..from + made, is_done))
    }

    /// What ranges are of.
    pub fn output(&self) -> &[u8] {
        &self.ring
    }
}

/// The compressor of a worker: made once, some 300 KiB.
pub struct Deflate {
    state: Box<CompressorOxide>,
    /// Bytes that one piece may have, so that no distance is longer.
    piece: usize,
}

impl Deflate {
    /// For a window of 2^`bits` bytes.
    pub fn new(bits: u8) -> Self {
        let bits = bits.clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end());
        let state = Box::new(CompressorOxide::new(create_comp_flags_from_zip_params(LEVEL, -15, 0)));
        // With the largest window the compressor itself keeps to it.
        Deflate { state, piece: if bits == 15 { usize::MAX } else { 1 << bits } }
    }

    /// Appends a message, compressed.
    pub fn message(&mut self, message: &[u8], to: &mut Vec<u8>) {
        if message.is_empty() {
            // RFC 7692 §7.2.3.6.
            return to.push(0);
        }
        for piece in message.chunks(self.piece) {
            self.state.reset();
            compress_to_output(&mut self.state, piece, TDEFLFlush::Sync, |made| {
                to.extend_from_slice(made);
                true
            });
        }
        // A flush ends in these, and they are left out.
        debug_assert!(to.ends_with(&TAIL[..LEFT_OUT]));
        to.truncate(to.len() - LEFT_OUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two messages of one connection, in pieces of so many bytes.
    fn inflate(inflate: &mut Inflate, compressed: &[u8], piece: usize) -> Result<Vec<u8>, Detail> {
        let mut message = Vec::new();
        inflate.begin();
        for piece in compressed.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() || inflate.has_more() {
                let (taken, range) = inflate.take(rest)?;
                rest = &rest[taken..];
                message.extend_from_slice(&inflate.output()[range]);
            }
        }
        while let Some(range) = inflate.end()? {
            message.extend_from_slice(&inflate.output()[range]);
        }
        Ok(message)
    }

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| b"the load line of a ship"[(at * at / 7 + at) % 23]).collect()
    }

    #[test]
    fn what_was_compressed_comes_out_again() {
        for bits in WINDOW_BITS {
            let mut deflate = Deflate::new(bits);
            for forgets in [false, true] {
                let mut connection = Inflate::new(bits, forgets);
                for length in [0, 1, 5, 255, 256, 257, 1000, 40_000, 100_000] {
                    let message = text(length);
                    let mut compressed = Vec::new();
                    deflate.message(&message, &mut compressed);
                    for piece in [1, 7, 4096, usize::MAX] {
                        let got = inflate(&mut connection, &compressed, piece);
                        assert!(got.as_ref() == Ok(&message), "{bits} {length} {piece}: {:?}", got.map(|m| m.len()));
                    }
                }
            }
        }
    }

    /// The examples of RFC 7692 §7.2.3.
    #[test]
    fn the_examples_of_the_rfc_are_understood() {
        for (compressed, message) in [
            (&b"\xf2\x48\xcd\xc9\xc9\x07\x00"[..], "Hello"),
            (b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", "Hello"),
            (b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", "Hello"),
            (b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", "Hello"),
            (b"\x00", ""),
        ] {
            for piece in [1, 100] {
                let got = inflate(&mut Inflate::new(15, false), compressed, piece);
                assert_eq!(got.as_deref(), Ok(message.as_bytes()), "{}", compressed.escape_ascii());
            }
        }
        // The second refers to the first.
        let (first, second) = (b"\xf2\x48\xcd\xc9\xc9\x07\x00", b"\xf2\x00\x11\x00\x00");
        for (forgets, expected) in [(false, &b"Hello"[..]), (true, b"\0\0\0\0\0")] {
            let mut connection = Inflate::new(15, forgets);
            assert_eq!(inflate(&mut connection, first, 1).as_deref(), Ok(&b"Hello"[..]));
            let got = inflate(&mut connection, second, 1).unwrap();
            assert_eq!(got == b"Hello", !forgets, "{got:?} {expected:?}");
        }
    }

    #[test]
    fn what_is_no_compressed_message_is_refused() {
        for (compressed, detail) in [
            // A block type that there is not, lengths that do not agree.
            (&b"\x06"[..], Detail::Deflate),
            (b"\x00\x05\x00\xfa\xfeHello\x00", Detail::Deflate),
            // Cut inside a block, and with the four bytes that are left out.
            (b"\xf2\x48\xcd", Detail::DeflateEnd),
            (b"\x00\x05\x00\xfa\xffHel", Detail::DeflateEnd),
            (b"\xf2\x48\xcd\xc9\xc9\x07\x00\x00\x00\xff\xff", Detail::DeflateEnd),
            (b"", Detail::DeflateEnd),
        ] {
            for piece in [1, 100] {
                let got = inflate(&mut Inflate::new(15, false), compressed, piece);
                assert_eq!(got, Err(detail), "{}", compressed.escape_ascii());
            }
        }
    }

    #[test]
    fn a_distance_beyond_the_window_is_found() {
        let mut message = text(600);
        message.extend_from_within(..300);
        let mut compressed = Vec::new();
        Deflate::new(15).message(&message, &mut compressed);
        assert_eq!(inflate(&mut Inflate::new(15, false), &compressed, 9), Ok(message.clone()));
        assert_eq!(inflate(&mut Inflate::new(8, false), &compressed, 9), Err(Detail::Deflate));
    }
}
