//! What a connection sends: ranges of the protocol's blobs, or bytes made on the spot (TLS records), by one name.
//!
//! A driver queues [`Payload`]s; those with `OWNED` in their blob's index name a buffer of this outbox, which comes
//! back when the bytes have left and is lent again. So what is made on the spot costs neither a copy nor, once enough
//! buffers are there, an allocation. A worker that sends blobs alone never makes a buffer.

use std::sync::Arc;
use wire::Payload;

/// Marks the index of an owned buffer.
const OWNED: u32 = 1 << 31;
/// Empty buffers kept for the next loan.
const SPARES_MAX: usize = 64;
/// A buffer that has grown beyond this is not kept, bytes.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Blobs and buffers of one worker.
#[derive(Debug)]
pub struct Outbox {
    blobs: Vec<Arc<[u8]>>,
    /// Buffers on their way, by index; an empty one is free.
    owned: Vec<Vec<u8>>,
    free: Vec<u32>,
    spares: Vec<Vec<u8>>,
}

impl Outbox {
    /// Blobs and no buffer yet.
    pub fn new(blobs: Vec<Arc<[u8]>>) -> Self {
        Outbox { blobs, owned: Vec::new(), free: Vec::new(), spares: Vec::new() }
    }

    /// An empty buffer to fill.
    pub fn lend(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Takes a buffer that was not needed, or whose bytes have left.
    pub fn take_back(&mut self, mut buffer: Vec<u8>) {
        if self.spares.len() < SPARES_MAX && buffer.capacity() <= KEPT_BYTES_MAX {
            buffer.clear();
            self.spares.push(buffer);
        }
    }

    /// Keeps bytes until they have left; their name, from `start` on.
    pub fn keep(&mut self, bytes: Vec<u8>, start: usize) -> Payload {
        let length = (bytes.len() - start) as u32;
        let index = match self.free.pop() {
            Some(index) => {
                self.owned[index as usize] = bytes;
                index
            }
            None => {
                self.owned.push(bytes);
                self.owned.len() as u32 - 1
            }
        };
        Payload { blob: index | OWNED, start: start as u32, length }
    }

    /// Whether a payload is a buffer of ours.
    #[inline]
    pub fn is_owned(payload: Payload) -> bool {
        payload.blob & OWNED != 0
    }

    /// The bytes still to be sent.
    #[inline]
    pub fn bytes(&self, payload: Payload) -> &[u8] {
        let (start, length) = (payload.start as usize, payload.length as usize);
        if Self::is_owned(payload) {
            &self.owned[(payload.blob & !OWNED) as usize][start..start + length]
        } else {
            &self.blobs[payload.blob as usize][start..start + length]
        }
    }

    /// The bytes have left, or never will.
    #[inline]
    pub fn release(&mut self, payload: Payload) {
        if Self::is_owned(payload) {
            let index = payload.blob & !OWNED;
            let buffer = std::mem::take(&mut self.owned[index as usize]);
            self.free.push(index);
            self.take_back(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_round() {
        let mut outbox = Outbox::new(vec![Arc::from(&b"blob"[..])]);
        assert_eq!(outbox.bytes(Payload { blob: 0, start: 1, length: 2 }), b"lo");
        let mut buffer = outbox.lend();
        buffer.extend_from_slice(b"record");
        let place = buffer.as_ptr();
        let first = outbox.keep(buffer, 2);
        let second = outbox.keep(b"other".to_vec(), 0);
        assert_eq!((outbox.bytes(first), outbox.bytes(second)), (&b"cord"[..], &b"other"[..]));
        outbox.release(first);
        let again = outbox.lend();
        assert!(again.is_empty() && again.as_ptr() == place, "the same memory");
        let third = outbox.keep(b"third".to_vec(), 0);
        assert_eq!((outbox.bytes(third), outbox.bytes(second)), (&b"third"[..], &b"other"[..]));
        assert_eq!(outbox.owned.len(), 2, "a free place is taken again");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut outbox = Outbox::new(Vec::new());
        outbox.take_back(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert!(outbox.spares.is_empty());
        (0..200).for_each(|_| outbox.take_back(Vec::with_capacity(10)));
        assert_eq!(outbox.spares.len(), SPARES_MAX);
    }
}
