//! Messages as a client sends them: in one frame or in fragments, compressed or not, masked with a key a frame.

use super::deflate::Deflate;
use super::frame::{self, COMPRESSED, CONTINUATION, FIN, Kind};
use crate::random::SplitMix64;

/// Writes the messages of a worker.
pub struct Writer {
    masks: SplitMix64,
    /// Payload of one frame at most, bytes.
    fragment_bytes: usize,
    deflate: Option<Deflate>,
    /// The message, compressed.
    compressed: Vec<u8>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let deflates = self.deflate.is_some();
        f.debug_struct("Writer").field("fragment_bytes", &self.fragment_bytes).field("deflates", &deflates).finish()
    }
}

impl Writer {
    /// Masks by `seed`. Messages with a longer payload than `fragment_bytes` are fragmented; with `window_bits` they are
    /// compressed, for a window of 2^n bytes.
    pub fn new(seed: u64, fragment_bytes: Option<usize>, window_bits: Option<u8>) -> Self {
        Writer {
            masks: SplitMix64::new(seed),
            fragment_bytes: fragment_bytes.unwrap_or(usize::MAX).max(1),
            deflate: window_bits.map(Deflate::new),
            compressed: Vec::new(),
        }
    }

    /// Appends a message's frames.
    pub fn message(&mut self, kind: Kind, message: &[u8], to: &mut Vec<u8>) {
        let mut first = kind as u8;
        let payload = match &mut self.deflate {
            None => message,
            Some(deflate) => {
                first |= COMPRESSED;
                self.compressed.clear();
                deflate.message(message, &mut self.compressed);
                &self.compressed
            }
        };
        let mut rest = payload;
        loop {
            let (piece, behind) = rest.split_at(rest.len().min(self.fragment_bytes));
            let fin = if behind.is_empty() { FIN } else { 0 };
            frame::write(fin | first, piece, frame::key(&mut self.masks), to);
            if behind.is_empty() {
                return;
            }
            (first, rest) = (CONTINUATION, behind);
        }
    }
}
