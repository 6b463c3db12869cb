//! One open connection as a client speaks it: frames in, events out, and what it owes its peer beside messages.
//!
//! A ping is answered by a pong with its payload, a close by a close with its code, a broken protocol by a close that says
//! so (RFC 6455 §5.5, §7.1.7): the caller asks for these bytes and sends them when it can. Until then they take no memory:
//! of several pings only the last is answered, as §5.5.3 allows, and behind a close of ours nothing is.

use super::frame::{self, CLOSE, CONTROL_BYTES_MAX, FIN, PING, PONG};
use super::{Agreed, Detail, Inflate, Kind, Place, Reader, Token, close};
use crate::random::SplitMix64;

/// The most that [`Machine::say`] appends, bytes: a pong and a close, with their heads.
pub const SAID_BYTES_MAX: usize = (6 + CONTROL_BYTES_MAX) + (6 + 2);

/// What has come, beyond what is answered by itself.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing more: all bytes were taken.
    More,
    /// A piece of the message that is coming, never empty.
    Data(&'a [u8]),
    /// The message is complete.
    End(Kind),
    /// A ping: its pong is owed.
    Pinged,
    /// A pong, with its payload.
    Pong(&'a [u8]),
    /// The peer closes, or has answered our close; with its code. Nothing comes behind it.
    Closed(Option<u16>),
    /// Not the protocol: nothing can be read any more.
    Bad(Detail),
}

/// One connection after its handshake.
#[derive(Debug)]
pub struct Machine {
    reader: Reader,
    masks: SplitMix64,
    /// The payload of the pong that is owed, and its length.
    pong: [u8; CONTROL_BYTES_MAX],
    pong_owed: Option<u8>,
    closing: Closing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// Messages may be sent.
    No,
    /// A close with this code is owed.
    Owed(Option<u16>),
    /// It was said.
    Said,
}

impl Machine {
    /// As agreed on; `seed` makes the masking keys of what it says by itself.
    pub fn new(agreed: &Agreed, message_bytes_max: u64, seed: u64) -> Self {
        let inflate =
            agreed.deflate.map(|deflate| Inflate::new(deflate.server_window_bits, deflate.server_no_context_takeover));
        Machine {
            reader: Reader::new(message_bytes_max, inflate),
            masks: SplitMix64::new(seed),
            pong: [0; CONTROL_BYTES_MAX],
            pong_owed: None,
            closing: Closing::No,
        }
    }

    /// The same, for a connection of which only is told that messages come: of any length, and compressed ones as they are.
    pub fn unread(agreed: &Agreed, seed: u64) -> Self {
        Machine {
            reader: Reader::raw(agreed.deflate.is_some()),
            masks: SplitMix64::new(seed),
            pong: [0; CONTROL_BYTES_MAX],
            pong_owed: None,
            closing: Closing::No,
        }
    }

    /// Takes some of `bytes`, which may be empty: how many, and what they come to. To be called with the rest until it
    /// says [`Event::More`].
    pub fn take<'a>(&'a mut self, bytes: &'a [u8]) -> (usize, Event<'a>) {
        let Machine { reader, pong, pong_owed, closing, .. } = self;
        let mut owe = |code| {
            if *closing == Closing::No {
                *closing = Closing::Owed(code);
            }
        };
        let (taken, token) = reader.next(bytes);
        let event = match token {
            Token::More => Event::More,
            Token::Data(piece) => Event::Data(piece),
            Token::End(kind) => Event::End(kind),
            Token::Pong(payload) => Event::Pong(payload),
            Token::Ping(payload) => {
                pong[..payload.len()].copy_from_slice(payload);
                *pong_owed = Some(payload.len() as u8);
                Event::Pinged
            }
            Token::Close(code) => {
                owe(code);
                Event::Closed(code)
            }
            Token::Bad(detail) => {
                owe(Some(close::code_for(detail)));
                Event::Bad(detail)
            }
        };
        (taken, event)
    }

    /// Appends a ping with this payload, of at most 125 bytes; nothing behind a close of ours.
    pub fn ping(&mut self, payload: &[u8], to: &mut Vec<u8>) {
        if !self.is_closing() {
            frame::write(FIN | PING, payload, frame::key(&mut self.masks), to);
        }
    }

    /// Closes: the peer's close is due, and nothing is to be sent behind ours.
    pub fn close(&mut self, code: u16) {
        if self.closing == Closing::No {
            self.closing = Closing::Owed(Some(code));
        }
    }

    /// Whether a close is owed or was said: no message may be sent any more.
    pub fn is_closing(&self) -> bool {
        self.closing != Closing::No
    }

    /// Appends what is owed to the peer, at most [`SAID_BYTES_MAX`] bytes. It is owed no more.
    pub fn say(&mut self, to: &mut Vec<u8>) {
        let pong = self.pong_owed.take().filter(|_| self.closing != Closing::Said);
        if let Some(length) = pong {
            frame::write(FIN | PONG, &self.pong[..usize::from(length)], frame::key(&mut self.masks), to);
        }
        if let Closing::Owed(code) = self.closing {
            let code = code.map(u16::to_be_bytes);
            frame::write(FIN | CLOSE, code.as_ref().map_or(&[], |code| code), frame::key(&mut self.masks), to);
            self.closing = Closing::Said;
        }
    }

    /// Where in the stream of frames it is.
    pub fn place(&self) -> Place {
        self.reader.place()
    }

    /// What the message that is coming holds.
    pub fn kind(&self) -> Option<Kind> {
        self.reader.kind()
    }
}
