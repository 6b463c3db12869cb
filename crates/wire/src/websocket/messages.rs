//! The messages that a load sends: written once, before it starts, each with masking keys of its own.
//!
//! There are as many as fit in [`WRITTEN_BYTES_MAX`], at most [`MESSAGES_MAX`] of them; a request is one of them. What they
//! hold are ranges of a pool, so the reply that is due is known without keeping it. Cost: what the frames and the pool take,
//! for each worker; finding a message is a search of ten steps.

use super::frame::Kind;
use super::writer::Writer;
use crate::echo::{check_sizes, pool};
use crate::random::{SplitMix64, below, size};
use crate::{Payload, WireError};
use model::plan::{Content, Sizes};
use std::sync::Arc;

/// The most messages of a worker.
pub const MESSAGES_MAX: usize = 1024;
/// Messages are written until their payloads have so many bytes together; one is written in any case.
pub const WRITTEN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Characters of more than one byte that text is strewn with.
const WIDE: [&str; 4] = ["é", "κ", "€", "😀"];

/// What messages are like.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Text or binary.
    pub kind: Kind,
    /// Their sizes, before compression.
    pub sizes: Sizes,
    /// Their bytes. Text is always text, with characters of one to four bytes.
    pub content: Content,
    /// Payload of one frame at most, bytes; longer messages are fragmented.
    pub fragment_bytes: Option<usize>,
    /// The window messages are compressed with, 2^n bytes; `None`: they are not.
    pub window_bits: Option<u8>,
}

/// Messages, written.
#[derive(Debug)]
pub struct Messages {
    kind: Kind,
    pool: Vec<u8>,
    blob: Arc<[u8]>,
    written: Vec<Written>,
    /// The next of a list's sizes.
    turn: usize,
    is_list: bool,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    /// Its frames in the blob.
    start: u32,
    length: u32,
    /// Its bytes in the pool.
    from: u32,
    bytes: u32,
}

impl Messages {
    /// The same shape and seed make the same messages.
    ///
    /// # Errors
    /// Sizes that cannot be sent, as for [`crate::echo`].
    pub fn new(shape: &Shape, seed: u64) -> Result<Self, WireError> {
        check_sizes(&shape.sizes)?;
        let mut pool = match shape.kind {
            Kind::Text => pool::make(Content::Text, shape.sizes.largest(), seed),
            Kind::Binary => pool::make(shape.content, shape.sizes.largest(), seed),
        };
        let mut random = SplitMix64::new(seed ^ 0x0077_7321);
        if shape.kind == Kind::Text {
            widen(&mut pool, &mut random);
        }
        let mut writer = Writer::new(random.bits(), shape.fragment_bytes, shape.window_bits);
        let (mut blob, mut written) = (Vec::new(), Vec::new());
        let (mut payloads, mut turn) = (0, 0);
        let round = if let Sizes::List(sizes) = &shape.sizes { sizes.len() } else { 1 };
        // Whole rounds of a list, so that its sizes come in turn.
        while written.is_empty() || turn % round != 0 || (payloads < WRITTEN_BYTES_MAX && written.len() < MESSAGES_MAX)
        {
            let size = size(&shape.sizes, turn, (random.bits() >> 32) as u32);
            turn += 1;
            let places = (pool.len() - size as usize + 1) as u64;
            let from = below((random.bits() >> 32) as u32, places) as usize;
            let (from, bytes) = whole_characters(shape.kind, &pool, from, size as usize);
            let start = blob.len();
            writer.message(shape.kind, &pool[from..from + bytes], &mut blob);
            payloads += bytes;
            let narrow = |n: usize| u32::try_from(n).map_err(|_| WireError::Size { size });
            let length = narrow(blob.len() - start)?;
            written.push(Written { start: narrow(start)?, length, from: narrow(from)?, bytes: narrow(bytes)? });
        }
        let is_list = matches!(shape.sizes, Sizes::List(_));
        Ok(Messages { kind: shape.kind, pool, blob: blob.into(), written, turn: 0, is_list })
    }

    /// What all requests are ranges of.
    pub fn blob(&self) -> Arc<[u8]> {
        Arc::clone(&self.blob)
    }

    /// Text or binary.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The next request: drawn, or the next of the list.
    #[inline]
    pub fn draw(&mut self, random: u64) -> Payload {
        let index = if self.is_list {
            let next = (self.turn + 1) % self.written.len();
            std::mem::replace(&mut self.turn, next)
        } else {
            below((random >> 32) as u32, self.written.len() as u64) as usize
        };
        let Written { start, length, .. } = self.written[index];
        Payload { blob: 0, start, length }
    }

    /// The message that a request is.
    #[inline]
    pub fn message(&self, request: Payload) -> &[u8] {
        let behind = self.written.partition_point(|written| written.start <= request.start);
        let Written { from, bytes, .. } = self.written[behind.saturating_sub(1)];
        &self.pool[from as usize..][..bytes as usize]
    }
}

/// Puts a character of several bytes over every eighth place or so.
fn widen(text: &mut [u8], random: &mut SplitMix64) {
    let mut at = 0;
    while at + 4 <= text.len() {
        let bits = random.bits();
        let wide = WIDE[(bits & 3) as usize].as_bytes();
        text[at..at + wide.len()].copy_from_slice(wide);
        at += wide.len() + (bits >> 8 & 15) as usize;
    }
}

/// A range of exactly so many bytes that cuts no character: moved until it begins with one. A character cut at its end is
/// left out, so such a message is up to three bytes shorter.
fn whole_characters(kind: Kind, pool: &[u8], from: usize, bytes: usize) -> (usize, usize) {
    if kind == Kind::Binary {
        return (from, bytes);
    }
    let is_first = |at: usize| pool.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let begin = (0..=from).rev().find(|at| is_first(*at)).unwrap_or(0);
    let end = (begin..=begin + bytes).rev().find(|at| is_first(*at)).unwrap_or(begin);
    (begin, end - begin)
}
