//! A command as it is written: what is fixed in one piece, keys and values where they belong.
//!
//! Compiled once from the plan's words into an array of bulk strings, the form in which clients send commands. Writing
//! one copies a handful of pieces. Cost: some 20 ns and the copy of the value.

use crate::WireError;
use model::plan::Sizes;
use model::resp::{RespCommand, RespExpect};

/// Digits of a key's number.
pub const KEY_DIGITS: usize = 12;
/// What stands for a key, and for its value.
const KEY: &str = "{key}";
const VALUE: &str = "{value}";

/// A piece of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    /// The key's number.
    Key,
    Value,
    /// A bulk string's head, where its length depends on the value: this is the rest of it.
    Head(u32),
}

/// A command, ready to be written.
#[derive(Debug)]
pub struct Command {
    pieces: Vec<Piece>,
    /// Bytes that do not depend on the value.
    fixed: usize,
    values: usize,
    /// Whether a key is in it, or a key's value.
    pub has_key: bool,
    /// What a good reply is.
    pub expect: RespExpect,
}

impl Command {
    /// Compiles a command of the plan.
    pub fn new(index: usize, command: &RespCommand, prefix: &str, values: &Sizes) -> Result<Self, WireError> {
        if command.words.first().is_none_or(|word| word.expose().is_empty()) {
            return Err(WireError::Empty { request: index, part: "command" });
        }
        let fixed_size = if let Sizes::Fixed(size) = values { Some(*size) } else { None };
        let mut pieces = Pieces::default();
        pieces.bytes(format!("*{}\r\n", command.words.len()).as_bytes());
        for word in &command.words {
            let word = word.expose_text();
            let parts = split(&word);
            let literal: usize = parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.len(),
                    Part::Key => prefix.len() + KEY_DIGITS,
                    Part::Value => 0,
                })
                .sum();
            let values = parts.iter().filter(|part| **part == Part::Value).count();
            match fixed_size {
                Some(size) => pieces.bytes(format!("${}\r\n", literal + values * size as usize).as_bytes()),
                None if values == 0 => pieces.bytes(format!("${literal}\r\n").as_bytes()),
                None if values > 1 => return Err(WireError::ManyValues { command: command.name.clone() }),
                None => pieces.0.push(Piece::Head(literal as u32)),
            }
            for part in parts {
                match part {
                    Part::Text(text) => pieces.bytes(text.as_bytes()),
                    Part::Key => {
                        pieces.bytes(prefix.as_bytes());
                        pieces.0.push(Piece::Key);
                    }
                    Part::Value => pieces.0.push(Piece::Value),
                }
            }
            pieces.bytes(b"\r\n");
        }
        let of = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Key => KEY_DIGITS,
            Piece::Value | Piece::Head(_) => 0,
        };
        let fixed = pieces.0.iter().map(of).sum();
        let values = pieces.0.iter().filter(|piece| **piece == Piece::Value).count();
        let has_key = values > 0 || pieces.0.contains(&Piece::Key) || command.expect == RespExpect::Value;
        Ok(Command { pieces: pieces.0, fixed, values, has_key, expect: command.expect })
    }

    /// Whether a value is in it.
    #[inline]
    pub fn has_value(&self) -> bool {
        self.values > 0
    }

    /// Its length with a value of so many bytes.
    #[inline]
    pub fn length(&self, value: u32) -> usize {
        let heads = self.pieces.iter().map(|piece| match piece {
            Piece::Head(rest) => "$\r\n".len() + decimal_digits(rest + value),
            _ => 0,
        });
        if self.values == 0 { self.fixed } else { self.fixed + self.values * value as usize + heads.sum::<usize>() }
    }

    /// Appends it.
    #[inline]
    pub fn write(&self, key: u32, value: &[u8], to: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => to.extend_from_slice(bytes),
                Piece::Key => {
                    let mut digits = [b'0'; KEY_DIGITS];
                    write_decimal(key, &mut digits);
                    to.extend_from_slice(&digits);
                }
                Piece::Value => to.extend_from_slice(value),
                Piece::Head(rest) => {
                    let length = rest + value.len() as u32;
                    let mut digits = [b'0'; 10];
                    write_decimal(length, &mut digits);
                    to.push(b'$');
                    to.extend_from_slice(&digits[digits.len() - decimal_digits(length)..]);
                    to.extend_from_slice(b"\r\n");
                }
            }
        }
    }
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn bytes(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Piece::Bytes(bytes.to_vec())),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Key,
    Value,
}

fn split(word: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let key = rest.find(KEY).map(|at| (at, KEY.len(), Part::Key));
        let value = rest.find(VALUE).map(|at| (at, VALUE.len(), Part::Value));
        let Some((at, length, part)) = [key, value].into_iter().flatten().min_by_key(|(at, ..)| *at) else {
            parts.push(Part::Text(rest));
            break;
        };
        if at > 0 {
            parts.push(Part::Text(&rest[..at]));
        }
        parts.push(part);
        rest = &rest[at + length..];
    }
    parts
}

fn decimal_digits(n: u32) -> usize {
    n.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Writes a number at the end of `to`, which holds zeroes.
fn write_decimal(mut n: u32, to: &mut [u8]) {
    for place in to.iter_mut().rev() {
        if n == 0 {
            return;
        }
        *place = b'0' + (n % 10) as u8;
        n /= 10;
    }
}
