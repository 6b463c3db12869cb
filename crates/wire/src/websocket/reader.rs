//! Frames of a server as they come, cut anywhere: pieces of messages, control frames, or what is wrong with them.
//!
//! Everything is judged at the first byte that shows it, wherever the bytes are cut: a frame's head before its payload has
//! come, text inside a character. Messages are not kept: each piece is handed on as it comes, decompressed and checked.
//! Cost: some 200 bytes a connection; decompressing has its own ([`super::deflate`]).

use super::deflate::Inflate;
use super::frame::{CLOSE, COMPRESSED, CONTINUATION, CONTROL_BYTES_MAX, FIN, HEAD_BYTES_MAX, Kind, MASKED, PING, PONG};
use super::{Detail, close, utf8::Utf8};

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Nothing more: all bytes were taken.
    More,
    /// A piece of the message that is coming, never empty.
    Data(&'a [u8]),
    /// The message is complete.
    End(Kind),
    /// A ping, with its payload.
    Ping(&'a [u8]),
    /// A pong, with its payload.
    Pong(&'a [u8]),
    /// The peer closes, with its code. Whatever comes behind is thrown away.
    Close(Option<u16>),
    /// Not the protocol: nothing can be read any more.
    Bad(Detail),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a frame's head.
    Head,
    /// In a frame's payload, or at its end.
    Payload,
    /// All frames of a compressed message have come; the decompressor is to be emptied.
    Tail,
    /// Nothing that comes is of interest.
    Closed,
    Broken(Detail),
}

/// Where in the stream of frames a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nothing of a message or frame has come.
    Between,
    /// Inside a frame.
    InFrame,
    /// Inside a message, behind one of its frames.
    InMessage,
}

/// The frames of one connection.
#[derive(Debug)]
pub struct Reader {
    state: State,
    head: [u8; HEAD_BYTES_MAX],
    /// Bytes of the head that have come, and that it has as far as is known.
    head_came: u8,
    head_length: u8,
    /// Of the payload, bytes that have not come.
    left: u64,
    /// The message that is coming.
    message: Option<Message>,
    message_bytes_max: u64,
    utf8: Utf8,
    control: [u8; CONTROL_BYTES_MAX],
    control_came: u8,
    inflate: Option<Box<Inflate>>,
    /// Whether messages may be compressed and are handed on so.
    is_raw: bool,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    kind: Kind,
    /// It is to be decompressed.
    is_compressed: bool,
    /// It is compressed, and stays so.
    is_raw: bool,
    /// Bytes of it, decompressed.
    bytes: u64,
    /// Bytes of its frames' payloads.
    framed: u64,
}

/// Payloads of a compressed message may be so many times the longest message, and [`COMPRESSED_SPARE`]: a peer that flushes
/// after each byte needs six times.
const COMPRESSED_FACTOR: u64 = 8;
const COMPRESSED_SPARE: u64 = 1024;

impl Reader {
    /// Takes messages of at most so many bytes. With `inflate` they may be compressed.
    pub fn new(message_bytes_max: u64, inflate: Option<Inflate>) -> Self {
        Reader {
            state: State::Head,
            head: [0; HEAD_BYTES_MAX],
            head_came: 0,
            head_length: 2,
            left: 0,
            message: None,
            message_bytes_max,
            utf8: Utf8::default(),
            control: [0; CONTROL_BYTES_MAX],
            control_came: 0,
            inflate: inflate.map(Box::new),
            is_raw: false,
        }
    }

    /// Takes messages of any length, for one who does not read them: where they may be compressed, those that are are handed
    /// on as they came. Needs no memory for decompressing.
    pub fn raw(may_be_compressed: bool) -> Self {
        Reader { is_raw: may_be_compressed, ..Reader::new(u64::MAX, None) }
    }

    /// Takes some of `bytes`, which may be empty: how many, and what they come to. To be called with the rest until it
    /// says [`Token::More`].
    pub fn next<'a>(&'a mut self, bytes: &'a [u8]) -> (usize, Token<'a>) {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            match self.state {
                State::Broken(detail) => return (bytes.len(), Token::Bad(detail)),
                State::Closed => return (bytes.len(), Token::More),
                State::Head => {
                    let Some(byte) = rest.first() else { return (taken, Token::More) };
                    taken += 1;
                    if let Err(detail) = self.take_head(*byte) {
                        return (bytes.len(), self.fail(detail));
                    }
                }
                State::Payload if self.is_control() => {
                    let piece = &rest[..rest.len().min(self.left as usize)];
                    let from = usize::from(self.control_came);
                    self.control[from..from + piece.len()].copy_from_slice(piece);
                    self.control_came += piece.len() as u8;
                    self.left -= piece.len() as u64;
                    taken += piece.len();
                    if self.left > 0 {
                        return (taken, Token::More);
                    }
                    return (taken, self.finish_control());
                }
                State::Payload if self.left == 0 && !self.has_more() => {
                    self.begin_head();
                    if self.head[0] & FIN == 0 {
                        continue;
                    }
                    if self.message.is_some_and(|message| message.is_compressed) {
                        self.state = State::Tail;
                        continue;
                    }
                    return (taken, self.finish_message());
                }
                State::Payload if rest.is_empty() && !self.has_more() => return (taken, Token::More),
                State::Payload => {
                    let piece = &rest[..rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))];
                    let Some(message) = &mut self.message else {
                        return (bytes.len(), self.fail(Detail::NothingToContinue));
                    };
                    if !message.is_compressed {
                        taken += piece.len();
                        self.left -= piece.len() as u64;
                        message.bytes = message.bytes.saturating_add(piece.len() as u64);
                        if message.kind == Kind::Text && !message.is_raw && !self.utf8.push(piece) {
                            return (bytes.len(), self.fail(Detail::NotUtf8));
                        }
                        return (taken, Token::Data(piece));
                    }
                    let inflated = self.inflate.as_mut().map(|inflate| inflate.take(piece));
                    match inflated.unwrap_or(Err(Detail::ReservedBits)) {
                        Ok((n, range)) => {
                            taken += n;
                            self.left -= n as u64;
                            if let Err(detail) = self.inflated(range.clone()) {
                                return (bytes.len(), self.fail(detail));
                            }
                            if !range.is_empty() {
                                return (taken, self.output(range));
                            }
                        }
                        Err(detail) => return (bytes.len(), self.fail(detail)),
                    }
                }
                State::Tail => match self.inflate.as_mut().map_or(Ok(None), |inflate| inflate.end()) {
                    Ok(None) => {
                        self.state = State::Head;
                        return (taken, self.finish_message());
                    }
                    Ok(Some(range)) => {
                        if let Err(detail) = self.inflated(range.clone()) {
                            return (bytes.len(), self.fail(detail));
                        }
                        return (taken, self.output(range));
                    }
                    Err(detail) => return (bytes.len(), self.fail(detail)),
                },
            }
        }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        match self.state {
            State::Head if self.head_came > 0 => Place::InFrame,
            State::Payload | State::Tail => Place::InFrame,
            _ if self.message.is_some() => Place::InMessage,
            _ => Place::Between,
        }
    }

    /// What the message that is coming holds.
    pub fn kind(&self) -> Option<Kind> {
        self.message.map(|message| message.kind)
    }

    fn is_control(&self) -> bool {
        self.head[0] & 0x08 != 0
    }

    fn has_more(&self) -> bool {
        let is_compressed = self.message.is_some_and(|message| message.is_compressed);
        is_compressed && self.inflate.as_ref().is_some_and(|inflate| inflate.has_more())
    }

    fn begin_head(&mut self) {
        self.state = State::Head;
        self.head_came = 0;
        self.head_length = 2;
    }

    fn take_head(&mut self, byte: u8) -> Result<(), Detail> {
        self.head[usize::from(self.head_came)] = byte;
        self.head_came += 1;
        match self.head_came {
            1 => return self.judge_first(byte),
            2 => {
                if byte & MASKED != 0 {
                    return Err(Detail::MaskedFrame);
                }
                if self.is_control() && byte > CONTROL_BYTES_MAX as u8 {
                    return Err(Detail::ControlTooLong);
                }
                self.head_length = match byte {
                    126 => 4,
                    127 => 10,
                    _ => 2,
                };
            }
            3 if self.head_length == 10 && byte & 0x80 != 0 => return Err(Detail::LengthTooLarge),
            _ => {}
        }
        if self.head_came < self.head_length {
            return Ok(());
        }
        let extended = self.head[2..usize::from(self.head_length)].iter();
        let extended = extended.fold(0, |length: u64, byte| length << 8 | u64::from(*byte));
        let (length, least) = match self.head_length {
            2 => (u64::from(byte), 0),
            4 => (extended, 126),
            _ => (extended, 0x1_0000),
        };
        if length < least {
            return Err(Detail::LengthNotMinimal);
        }
        self.begin_payload(length)
    }

    fn judge_first(&mut self, first: u8) -> Result<(), Detail> {
        let (opcode, is_final) = (first & 0x0f, first & FIN != 0);
        let may_be_compressed = (self.inflate.is_some() || self.is_raw) && matches!(opcode, 1 | 2);
        let reserved = if may_be_compressed { 0x30 } else { 0x70 };
        if first & reserved != 0 {
            return Err(Detail::ReservedBits);
        }
        match opcode {
            CONTINUATION if self.message.is_none() => Err(Detail::NothingToContinue),
            CONTINUATION => Ok(()),
            1 | 2 if self.message.is_some() => Err(Detail::MessageInMessage),
            1 | 2 => {
                let kind = if opcode == 1 { Kind::Text } else { Kind::Binary };
                let has_bit = first & COMPRESSED != 0;
                let (is_compressed, is_raw) = (has_bit && !self.is_raw, has_bit && self.is_raw);
                self.message = Some(Message { kind, is_compressed, is_raw, bytes: 0, framed: 0 });
                if let Some(inflate) = self.inflate.as_mut().filter(|_| is_compressed) {
                    inflate.begin();
                }
                Ok(())
            }
            CLOSE | PING | PONG if !is_final => Err(Detail::ControlFragmented),
            CLOSE | PING | PONG => Ok(()),
            _ => Err(Detail::UnknownOpcode),
        }
    }

    fn begin_payload(&mut self, length: u64) -> Result<(), Detail> {
        self.left = length;
        self.state = State::Payload;
        self.control_came = 0;
        if self.is_control() {
            return Ok(());
        }
        let Some(message) = &mut self.message else { return Err(Detail::NothingToContinue) };
        message.framed = message.framed.saturating_add(length);
        let most = self.message_bytes_max;
        if message.is_compressed {
            let most = most.saturating_mul(COMPRESSED_FACTOR).saturating_add(COMPRESSED_SPARE);
            return if message.framed > most { Err(Detail::DeflateTooLong) } else { Ok(()) };
        }
        if message.framed > most { Err(Detail::MessageTooLong) } else { Ok(()) }
    }

    /// Counts and checks what the decompressor has made.
    fn inflated(&mut self, range: std::ops::Range<usize>) -> Result<(), Detail> {
        let (Some(message), Some(inflate)) = (&mut self.message, &self.inflate) else { return Ok(()) };
        message.bytes += range.len() as u64;
        if message.bytes > self.message_bytes_max {
            return Err(Detail::MessageTooLong);
        }
        if message.kind == Kind::Text && !self.utf8.push(&inflate.output()[range]) {
            return Err(Detail::NotUtf8);
        }
        Ok(())
    }

    fn output(&self, range: std::ops::Range<usize>) -> Token<'_> {
        self.inflate.as_ref().map_or(Token::More, |inflate| Token::Data(&inflate.output()[range]))
    }

    fn finish_message(&mut self) -> Token<'static> {
        let Some(message) = self.message.take() else { return self.fail(Detail::NothingToContinue) };
        if !self.utf8.end() {
            return self.fail(Detail::NotUtf8);
        }
        Token::End(message.kind)
    }

    fn finish_control(&mut self) -> Token<'_> {
        self.begin_head();
        let opcode = self.head[0] & 0x0f;
        if opcode == CLOSE {
            return match close::parse(&self.control[..usize::from(self.control_came)]) {
                Ok(code) => {
                    self.state = State::Closed;
                    Token::Close(code)
                }
                Err(detail) => self.fail(detail),
            };
        }
        let payload = &self.control[..usize::from(self.control_came)];
        if opcode == PING { Token::Ping(payload) } else { Token::Pong(payload) }
    }

    #[cold]
    fn fail(&mut self, detail: Detail) -> Token<'static> {
        self.state = State::Broken(detail);
        Token::Bad(detail)
    }
}
