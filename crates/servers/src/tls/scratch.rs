//! What a worker's TLS connections take turns with: buffers that hold nothing between two wakes.

use crate::limits;

/// One worker's buffers.
pub(super) struct Scratch {
    /// Ciphertext that was received, behind what the connection kept of it.
    pub(super) wire: Vec<u8>,
    /// Ciphertext that goes out with the next send.
    pub(super) out: Outgoing,
    /// The end of a head and the beginning of its body, to share a record.
    pub(super) joined: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self { wire: vec![0; limits::TLS_INPUT_BYTES], out: Outgoing::default(), joined: Vec::new() }
    }
}

/// Bytes gathered for one send. Its memory is kept: it is written to without being cleared first.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    used: usize,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// At least `n` bytes to write to; `advance` says how many were.
    pub(super) fn room(&mut self, n: usize) -> &mut [u8] {
        if self.bytes.len() - self.used < n {
            self.bytes.resize(self.used + n, 0);
        }
        &mut self.bytes[self.used..]
    }

    pub(super) fn advance(&mut self, n: usize) {
        self.used = self.used.saturating_add(n).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_stands_in_order() {
        let mut out = Outgoing::default();
        assert!(out.is_empty());
        out.room(3)[..3].copy_from_slice(b"abc");
        out.advance(3);
        out.room(2)[..2].copy_from_slice(b"de");
        out.advance(2);
        assert_eq!(out.filled(), b"abcde");
        out.clear();
        assert!(out.is_empty() && out.room(1).len() == 5, "the memory stays");
    }
}
