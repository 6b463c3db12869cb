//! One connection's WebSocket, without its socket: bytes in, the bytes to say and what comes next out.
//!
//! A message is gathered until it is whole, then said again in one frame; a message that came in one frame and lies whole in
//! the input is written straight to the output. Control frames are answered where they come, between fragments too.
//! Between messages a connection holds no buffer. Input that is not consumed is the caller's to keep: part of the
//! handshake's head or of a frame's head or a control frame, 64 KiB at most.

use super::WebSocketOptions;
use super::compression::Compression;
use super::frame::{self, Fault, INVALID_TEXT, Opcode, TOO_LONG};
use super::upgrade;
use super::utf8::Utf8;
use crate::counters::Counters;
use crate::http::reply::{self, Manner, Stamp};
use crate::http::request::{self, Refusal};
use crate::limits;

/// What the sessions of one worker share.
pub(super) struct Site {
    pub(super) options: WebSocketOptions,
    pub(super) stamp: Stamp,
    /// Where pieces are decompressed.
    pub(super) piece: Vec<u8>,
}

/// What comes next, once the bytes in `out` are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// More input.
    Receive,
    /// Step again, with the input that was not consumed.
    Continue,
    /// Everything is said: close. What still comes is thrown away.
    Close,
}

/// One connection.
pub(super) enum Session {
    /// Before and in the handshake; how far its end was looked for.
    Opening { scanned: usize },
    /// Messages.
    Open(Box<Open>),
    /// Everything is said.
    Closed,
}

/// A connection after its handshake.
pub(super) struct Open {
    compression: Option<Compression>,
    /// The data frame that is being read.
    frame: Option<Frame>,
    message: Option<Message>,
}

struct Frame {
    is_final: bool,
    key: [u8; 4],
    /// Bytes of the payload that have come, and that have not.
    came: u64,
    left: u64,
}

struct Message {
    opcode: Opcode,
    is_compressed: bool,
    bytes: Vec<u8>,
    /// Bytes of it as they came, compressed.
    framed: u64,
    text: Utf8,
}

impl Session {
    pub(super) fn new() -> Self {
        Self::Opening { scanned: 0 }
    }

    /// Whether the handshake is still to be done.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self, Self::Opening { .. })
    }

    /// Whether no message is being read, beyond bytes that were not consumed.
    pub(super) fn is_between_messages(&self) -> bool {
        match self {
            Self::Open(open) => open.message.is_none(),
            _ => true,
        }
    }

    /// Goes on as far as the input reaches. Returns how much of it was consumed, and what comes next.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> (usize, Step) {
        let mut consumed = 0;
        loop {
            if out.len() >= limits::OUT_BATCH_BYTES {
                return (consumed, Step::Continue);
            }
            let rest = &input[consumed..];
            match self {
                Self::Closed => return (input.len(), Step::Close),
                Self::Opening { scanned } => match open(rest, scanned, site, out) {
                    Ok(None) => return (consumed, Step::Receive),
                    Ok(Some((length, open))) => {
                        consumed += length;
                        *self = Self::Open(Box::new(open));
                    }
                    Err(refusal) => {
                        push_refusal(out, site, refusal, counters);
                        *self = Self::Closed;
                    }
                },
                Self::Open(open) => match open.advance(rest, site, out, counters) {
                    Ok(Advance::Taken(n)) => consumed += n,
                    Ok(Advance::Starved) => return (consumed, Step::Receive),
                    Ok(Advance::Closed(n)) => {
                        consumed += n;
                        *self = Self::Closed;
                    }
                    Err(fault) => {
                        counters.refused += 1;
                        frame::push_close(out, fault.code, fault.why);
                        *self = Self::Closed;
                    }
                },
            }
        }
    }

    /// Says a ping, where the handshake is done and nothing closes.
    pub(super) fn ping(&self, out: &mut Vec<u8>) {
        if let Self::Open(_) = self {
            frame::push_head(out, Opcode::Ping, false, 0);
        }
    }

    /// Says that the server has had enough: the handshake took too long, nothing moved, or the server ends.
    pub(super) fn give_up(&mut self, site: &Site, out: &mut Vec<u8>, counters: &mut Counters, why: &'static str) {
        match self {
            Self::Opening { .. } => push_refusal(out, site, Refusal { status: 408, why }, counters),
            Self::Open(_) => frame::push_close(out, 1001, why),
            Self::Closed => {}
        }
        *self = Self::Closed;
    }
}

fn open(input: &[u8], scanned: &mut usize, site: &Site, out: &mut Vec<u8>) -> Result<Option<(usize, Open)>, Refusal> {
    let Some(length) = request::find_end(input, scanned)? else { return Ok(None) };
    let agreed = upgrade::answer(&input[..length], &site.options, out)?;
    Ok(Some((length, Open { compression: agreed.map(Compression::new), frame: None, message: None })))
}

fn push_refusal(out: &mut Vec<u8>, site: &Site, refusal: Refusal, counters: &mut Counters) {
    counters.refused += 1;
    let text = format!("{} {}: {}\n", refusal.status, reply::reason(refusal.status), refusal.why);
    let fields = match refusal.status {
        405 => b"Allow: GET\r\n",
        426 => upgrade::SPOKEN,
        _ => b"",
    };
    let manner = Manner { keep_alive: false, head_only: false, http10: false };
    reply::push_text(out, &site.stamp, refusal.status, fields, &text, manner);
}

enum Advance {
    /// So many bytes were taken.
    Taken(usize),
    /// More input is needed.
    Starved,
    /// The peer closed by the last of so many bytes, and was answered.
    Closed(usize),
}

impl Open {
    fn advance(
        &mut self,
        input: &[u8],
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<Advance, Fault> {
        if self.frame.is_some() {
            return self.payload(input, site, out, counters);
        }
        let Some((head, length)) = frame::parse(input, self.compression.is_some(), self.message.is_some())? else {
            return Ok(Advance::Starved);
        };
        if head.opcode.is_control() {
            let Some(payload) = input.get(length..length + head.length as usize) else { return Ok(Advance::Starved) };
            let mut bytes = [0; 125];
            let payload_at = &mut bytes[..payload.len()];
            payload_at.copy_from_slice(payload);
            frame::unmask(head.key, 0, payload_at);
            return self.control(head.opcode, payload_at, length + payload.len(), out);
        }
        let before = self.message.as_ref().map_or(0, |message| message.framed);
        let framed = before.saturating_add(head.length);
        let is_compressed = self.message.as_ref().map_or(head.is_compressed, |message| message.is_compressed);
        let most = site.options.message_bytes_max as u64;
        // Compressed it may be somewhat longer than it is, and not without end.
        let most = if is_compressed { most.saturating_mul(8).saturating_add(1024) } else { most };
        if framed > most {
            return Err(TOO_LONG);
        }
        let is_alone = self.message.is_none() && head.is_final && !head.is_compressed;
        if is_alone && let Some(payload) = input.get(length..length.saturating_add(head.length as usize)) {
            let before = out.len();
            frame::push_head(out, head.opcode, false, payload.len());
            let from = out.len();
            out.extend_from_slice(payload);
            frame::unmask(head.key, 0, &mut out[from..]);
            let mut text = Utf8::default();
            if head.opcode == Opcode::Text && !(text.push(&out[from..]) && text.end()) {
                out.truncate(before);
                return Err(INVALID_TEXT);
            }
            counters.requests += 1;
            return Ok(Advance::Taken(length + payload.len()));
        }
        let message = self.message.get_or_insert_with(|| Message {
            opcode: head.opcode,
            is_compressed: head.is_compressed,
            bytes: Vec::new(),
            framed: 0,
            text: Utf8::default(),
        });
        message.framed = framed;
        self.frame = Some(Frame { is_final: head.is_final, key: head.key, came: 0, left: head.length });
        Ok(Advance::Taken(length))
    }

    fn payload(
        &mut self,
        input: &[u8],
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<Advance, Fault> {
        let (Some(frame), Some(message)) = (&mut self.frame, &mut self.message) else { return Ok(Advance::Taken(0)) };
        if input.is_empty() && frame.left > 0 {
            return Ok(Advance::Starved);
        }
        let n = input.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
        let bytes_max = site.options.message_bytes_max;
        let from = message.bytes.len();
        if message.bytes.try_reserve(n).is_err() {
            counters.memory_error += 1;
            return Err(Fault { code: 1011, why: "no memory for the message" });
        }
        message.bytes.extend_from_slice(&input[..n]);
        frame::unmask(frame.key, frame.came, &mut message.bytes[from..]);
        frame.came += n as u64;
        frame.left -= n as u64;
        let is_last = frame.left == 0 && frame.is_final;
        if frame.left == 0 {
            self.frame = None;
        }
        let mut inflated = Ok(());
        if message.is_compressed
            && let Some(compression) = &mut self.compression
        {
            let compressed = message.bytes.split_off(from);
            inflated = compression.inflate(&compressed, &mut message.bytes, bytes_max, &mut site.piece);
            if is_last && inflated.is_ok() {
                inflated = compression.end(&mut message.bytes, bytes_max, &mut site.piece);
            }
        }
        // What came out before a fault of the compression is judged before it.
        if message.opcode == Opcode::Text && !message.text.push(&message.bytes[from..]) {
            return Err(INVALID_TEXT);
        }
        inflated?;
        if is_last && let Some(message) = self.message.take() {
            self.echo(message, out)?;
            counters.requests += 1;
        }
        Ok(Advance::Taken(n))
    }

    fn echo(&mut self, mut message: Message, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !message.text.end() {
            return Err(INVALID_TEXT);
        }
        match self.compression.as_mut().filter(|_| message.is_compressed) {
            None => {
                frame::push_head(out, message.opcode, false, message.bytes.len());
                out.extend_from_slice(&message.bytes);
            }
            Some(compression) => {
                let mut compressed = Vec::new();
                compression.deflate(&message.bytes, &mut compressed);
                frame::push_head(out, message.opcode, true, compressed.len());
                out.extend_from_slice(&compressed);
            }
        }
        Ok(())
    }

    fn control(&mut self, opcode: Opcode, payload: &[u8], taken: usize, out: &mut Vec<u8>) -> Result<Advance, Fault> {
        match opcode {
            Opcode::Ping => {
                frame::push_head(out, Opcode::Pong, false, payload.len());
                out.extend_from_slice(payload);
            }
            Opcode::Close => {
                match frame::parse_close(payload)? {
                    Some(code) => frame::push_close(out, code, ""),
                    None => frame::push_head(out, Opcode::Close, false, 0),
                }
                return Ok(Advance::Closed(taken));
            }
            // A pong that nothing asked for is allowed, and nothing asks here (RFC 6455 §5.5.3).
            _ => {}
        }
        Ok(Advance::Taken(taken))
    }
}
