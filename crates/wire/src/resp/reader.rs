//! RESP2 replies into tokens, from whatever bytes came: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
//!
//! Keeps no bytes but the first of a line: bulk strings are handed on piece by piece as they lie, lengths are summed
//! digit by digit. Bounds on line, bulk, array and depth make a hostile reply fail before it costs anything. RESP3's
//! types are not read: it must be asked for with HELLO, which nobody here does.

use super::detail::Detail;
use model::limits::{RESP_BULK_BYTES_MAX, RESP_DEPTH_MAX, RESP_ELEMENTS_MAX, RESP_LINE_BYTES_MAX};

/// Bytes of a line that are kept: enough for every word that is told apart.
const WORD_BYTES: usize = 16;
/// Digits that fit any 64-bit number.
const DIGITS_MAX: u8 = 19;

/// What a piece of a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// Incomplete; all bytes were taken.
    More,
    /// A simple string; [`Reader::word`] has its beginning.
    Simple,
    /// An error; [`Reader::word`] has its first word, if it is not too long to be a known one.
    Error,
    /// An integer.
    Integer,
    /// The head of a bulk string of so many bytes.
    Bulk(u32),
    /// A piece of it.
    Data(&'a [u8]),
    /// Its end.
    BulkEnd,
    /// A nil bulk string or array.
    Nil,
    /// The head of an array.
    Array,
    /// Not the protocol.
    Bad(Detail),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Kind,
    Line,
    LineEnd,
    Number,
    NumberEnd,
    Data,
    DataCr,
    DataLf,
}

/// Where a reply stands. Copied with its connection; owns nothing.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    stage: Stage,
    kind: u8,
    depth: u8,
    is_negative: bool,
    digits: u8,
    word_length: u8,
    word: [u8; WORD_BYTES],
    /// Bytes of the line so far.
    line: u32,
    number: u64,
    /// Bytes of the bulk string still to come.
    left: u32,
    /// Elements of the whole reply so far.
    elements: u32,
    /// Elements still to come of each array that is open, outermost first.
    open: [u32; RESP_DEPTH_MAX],
    is_done: bool,
}

impl Reader {
    /// Before a reply.
    pub const fn new() -> Self {
        Reader {
            stage: Stage::Kind,
            kind: 0,
            depth: 0,
            is_negative: false,
            digits: 0,
            word_length: 0,
            word: [0; WORD_BYTES],
            line: 0,
            number: 0,
            left: 0,
            elements: 0,
            open: [0; RESP_DEPTH_MAX],
            is_done: false,
        }
    }

    /// Whether the last token completed the reply.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The beginning of the last line: of a simple string all of it, or more than a known one has; of an error its
    /// first word.
    pub fn word(&self) -> &[u8] {
        &self.word[..usize::from(self.word_length)]
    }

    /// Begins the next reply.
    #[inline]
    pub fn restart(&mut self) {
        self.stage = Stage::Kind;
        self.depth = 0;
        self.elements = 0;
        self.is_done = false;
    }

    /// Where the reply stands, for a failure.
    pub fn place(&self, has_begun: bool) -> Detail {
        match self.stage {
            _ if !has_begun => Detail::BeforeFirstByte,
            Stage::Data | Stage::DataCr | Stage::DataLf => Detail::InBulk,
            Stage::Kind if self.depth > 0 => Detail::InArray,
            _ => Detail::InLine,
        }
    }

    /// Takes bytes (never none) up to the end of the next token; how many.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> (usize, Token<'a>) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.stage {
                Stage::Kind => {
                    at += 1;
                    self.kind = byte;
                    self.line = 0;
                    self.stage = match byte {
                        b'+' | b'-' => Stage::Line,
                        b':' | b'$' | b'*' => Stage::Number,
                        _ => return (at, Token::Bad(Detail::UnknownType)),
                    };
                    self.word_length = 0;
                    (self.number, self.digits, self.is_negative) = (0, 0, false);
                }
                Stage::Line => {
                    let rest = &bytes[at..];
                    let end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
                    self.keep(&rest[..end]);
                    self.line = self.line.saturating_add(u32::try_from(end).unwrap_or(u32::MAX));
                    if self.line > RESP_LINE_BYTES_MAX {
                        return (at + end, Token::Bad(Detail::LineTooLong));
                    }
                    at += end;
                    match rest.get(end) {
                        None => {}
                        Some(b'\r') => {
                            at += 1;
                            self.stage = Stage::LineEnd;
                        }
                        Some(_) => return (at, Token::Bad(Detail::LineEnding)),
                    }
                }
                Stage::LineEnd => {
                    at += 1;
                    if byte != b'\n' {
                        return (at, Token::Bad(Detail::LineEnding));
                    }
                    self.complete();
                    return (at, if self.kind == b'+' { Token::Simple } else { Token::Error });
                }
                Stage::Number => {
                    at += 1;
                    match byte {
                        b'0'..=b'9' => {
                            self.digits += 1;
                            if self.digits > DIGITS_MAX {
                                return (at, Token::Bad(Detail::Number));
                            }
                            self.number = self.number * 10 + u64::from(byte - b'0');
                        }
                        b'-' | b'+' if self.digits == 0 && self.line == 0 => self.is_negative = byte == b'-',
                        b'\r' if self.digits > 0 => self.stage = Stage::NumberEnd,
                        _ => return (at, Token::Bad(Detail::Number)),
                    }
                    self.line = 1;
                }
                Stage::NumberEnd => {
                    at += 1;
                    return (at, if byte == b'\n' { self.counted() } else { Token::Bad(Detail::LineEnding) });
                }
                Stage::Data => {
                    let rest = &bytes[at..];
                    let taken = rest.len().min(self.left as usize);
                    self.left -= taken as u32;
                    if self.left == 0 {
                        self.stage = Stage::DataCr;
                    }
                    return (at + taken, Token::Data(&rest[..taken]));
                }
                Stage::DataCr | Stage::DataLf => {
                    at += 1;
                    let is_cr = self.stage == Stage::DataCr;
                    if byte != if is_cr { b'\r' } else { b'\n' } {
                        return (at, Token::Bad(Detail::BulkEnding));
                    }
                    if !is_cr {
                        self.complete();
                        return (at, Token::BulkEnd);
                    }
                    self.stage = Stage::DataLf;
                }
            }
        }
        (at, Token::More)
    }

    /// Keeps the beginning of a line; of an error its first word.
    fn keep(&mut self, piece: &[u8]) {
        let have = usize::from(self.word_length);
        let is_first_word_over = self.kind == b'-' && self.line as usize > have;
        if is_first_word_over {
            return;
        }
        let room = WORD_BYTES - have;
        let wanted = match self.kind {
            b'-' => memchr::memchr(b' ', piece).unwrap_or(piece.len()),
            _ => piece.len(),
        };
        let taken = wanted.min(room);
        self.word[have..have + taken].copy_from_slice(&piece[..taken]);
        self.word_length += taken as u8;
    }

    /// A number's line is complete.
    fn counted(&mut self) -> Token<'static> {
        let is_minus_one = self.is_negative && self.number == 1;
        match self.kind {
            b':' => {
                // -2^63 is the one number whose size alone is not one.
                if self.number > i64::MAX as u64 + u64::from(self.is_negative) {
                    return Token::Bad(Detail::Number);
                }
                self.complete();
                Token::Integer
            }
            _ if is_minus_one => {
                self.complete();
                Token::Nil
            }
            _ if self.is_negative => Token::Bad(Detail::Number),
            b'$' => {
                if self.number > u64::from(RESP_BULK_BYTES_MAX) {
                    return Token::Bad(Detail::BulkTooLong);
                }
                self.left = self.number as u32;
                self.stage = if self.left == 0 { Stage::DataCr } else { Stage::Data };
                Token::Bulk(self.left)
            }
            _ => self.array(),
        }
    }

    fn array(&mut self) -> Token<'static> {
        if self.number > u64::from(RESP_ELEMENTS_MAX - self.elements) {
            return Token::Bad(Detail::TooManyElements);
        }
        self.elements += self.number as u32;
        if self.number == 0 {
            self.complete();
            return Token::Array;
        }
        let Some(place) = self.open.get_mut(usize::from(self.depth)) else { return Token::Bad(Detail::TooDeep) };
        *place = self.number as u32;
        self.depth += 1;
        self.stage = Stage::Kind;
        Token::Array
    }

    /// An element is complete, and with it perhaps the arrays it was the last of.
    #[inline]
    fn complete(&mut self) {
        self.stage = Stage::Kind;
        while self.depth > 0 {
            let left = &mut self.open[usize::from(self.depth) - 1];
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.depth -= 1;
        }
        self.is_done = true;
    }
}
