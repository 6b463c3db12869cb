//! The numbers that say more about a WebSocket failure than its kind, and their words.
//!
//! Numbers are stored in recordings: never change one, add new ones. Named details are below 1000; [`STATUS`] + a status
//! is that of a server that did not switch protocols, [`CLOSED`] + a code that of a server that closed. From
//! [`DIFFERS_AT`] on it is the offset of a byte.

use super::close;
use crate::detail::details;
use std::borrow::Cow;

/// Where the statuses of refused handshakes begin.
const STATUS: u32 = 1_000;
/// Where close codes begin; the code 0 stands for a close without one.
const CLOSED: u32 = 10_000;
/// Where offsets of differing bytes begin: messages are far below 2^31 bytes.
const DIFFERS_AT: u32 = 1 << 31;

details! {
    /// No status line, or lines that are no head.
    NotHttp = 1, "the answer to the handshake is not HTTP/1.1";
    /// Longer than 64 KiB, or more than 128 fields.
    HeadTooLarge = 2, "the head of the handshake's answer is larger than 64 KiB or 128 fields";
    /// `Upgrade` is not `websocket`.
    NoUpgrade = 3, "the handshake's answer has status 101 and no 'Upgrade: websocket'";
    /// `Connection` does not name it.
    NoConnectionUpgrade = 4, "the handshake's answer has status 101 and no 'Connection: Upgrade'";
    /// `Sec-WebSocket-Accept` is missing or twice there.
    NoAccept = 5, "the handshake's answer has not exactly one Sec-WebSocket-Accept";
    /// It was made of another key.
    WrongAccept = 6, "Sec-WebSocket-Accept does not belong to the key that was sent: a cache or something else than a WebSocket server answered";
    /// None of those offered.
    Subprotocol = 7, "the server chose a subprotocol that was not offered";
    /// Not as RFC 6455 §9.1 writes extensions.
    ExtensionSyntax = 8, "Sec-WebSocket-Extensions cannot be read";
    /// None of those offered, or one twice.
    ExtensionNotOffered = 9, "the server chose an extension that was not offered, or one twice";
    /// A parameter that RFC 7692 does not know, or one twice, or with a value it cannot have.
    DeflateParameter = 10, "permessage-deflate was accepted with a parameter that is unknown, twice there or malformed";
    /// `client_max_window_bits` though it was not offered.
    ClientBitsNotOffered = 11, "permessage-deflate was accepted with client_max_window_bits, which was not offered";
    /// More than was offered.
    BitsTooLarge = 12, "permessage-deflate was accepted with a larger window than was offered";
    /// `server_no_context_takeover` or `server_max_window_bits` was asked for and not promised.
    DeflateNotPromised = 13, "permessage-deflate was accepted without a promise that was asked for (server_no_context_takeover, server_max_window_bits)";
    /// Messages were compressed beforehand, with a larger window.
    ClientBitsTooSmall = 14, "the server wants messages compressed with a smaller window than was offered: offer client_max_window_bits as small";
    /// permessage-deflate was offered and messages were compressed beforehand.
    DeflateRefused = 15, "the server did not accept permessage-deflate, which was asked for";
    /// RSV1 without an extension, or on a frame that cannot have it; RSV2, RSV3.
    ReservedBits = 20, "a frame has a reserved bit set that no extension gives a meaning";
    /// 3 to 7, 11 to 15.
    UnknownOpcode = 21, "a frame has an opcode that RFC 6455 does not know";
    /// A frame from a server with a mask.
    MaskedFrame = 22, "the server masked a frame, which only clients do";
    /// A control frame with a longer payload than 125 bytes.
    ControlTooLong = 23, "a control frame has more than 125 bytes";
    /// A control frame without FIN.
    ControlFragmented = 24, "a control frame is fragmented";
    /// A length that would have fitted fewer bytes.
    LengthNotMinimal = 25, "the length of a frame is not written in the fewest bytes";
    /// The highest bit of a 64-bit length.
    LengthTooLarge = 26, "the length of a frame has its highest bit set";
    /// A continuation frame, and no message has begun.
    NothingToContinue = 27, "a continuation frame came and no message had begun";
    /// A new message inside another.
    MessageInMessage = 28, "a message began before the one before it was complete";
    /// Text that is not UTF-8.
    NotUtf8 = 29, "a text message is not UTF-8";
    /// Longer than the bound.
    MessageTooLong = 30, "a message is longer than is taken";
    /// A close frame of one byte.
    CloseTooShort = 31, "a close frame has a single byte, which is no code";
    /// A code that must not be sent.
    CloseCode = 32, "a close frame has a code that must not be sent";
    /// Its reason is not UTF-8.
    CloseReason = 33, "the reason in a close frame is not UTF-8";
    /// Not DEFLATE, or a distance beyond the window agreed on.
    Deflate = 34, "a compressed message cannot be decompressed: not DEFLATE, or beyond the window agreed on";
    /// It ends inside a block.
    DeflateEnd = 35, "a compressed message ends inside a DEFLATE block";
    /// Compression without end.
    DeflateTooLong = 36, "a compressed message has far more bytes than the message it could hold";
    /// Nothing came.
    BeforeFirstByte = 40, "before the reply's first byte";
    /// In the handshake.
    InHandshake = 41, "inside the answer to the handshake";
    /// In a frame.
    InFrame = 42, "inside a frame of the reply";
    /// Between frames.
    InMessage = 43, "between two fragments of the reply";
    /// Text for binary, or the other way round.
    OtherKind = 50, "text came back for binary, or binary for text";
    /// The message is over too early.
    Shorter = 51, "the message that came back is shorter than the one sent";
    /// It goes on.
    Longer = 52, "the message that came back is longer than the one sent";
    /// A message that nothing was sent for.
    Unasked = 53, "a message came though none was outstanding";
    /// Held connections: nothing that answers a ping.
    NoPong = 60, "no pong came";
    /// The same, and something else is under way.
    NoPongInside = 61, "no pong came, and the server is inside a frame or message";
    /// Held connections: a pong, but not the one that was due.
    OtherPong = 62, "no pong with the ping's payload came, but one with another payload";
    /// The end of a connection that was open.
    NoClose = 63, "the server ended the connection without a close frame";
}

/// The number of a handshake answered with a status other than 101.
pub fn of_status(status: u16) -> u32 {
    STATUS + u32::from(status)
}

/// The number of a close by the server; `None`: without a code.
pub fn of_close(code: Option<u16>) -> u32 {
    CLOSED + u32::from(code.unwrap_or(0))
}

/// The number of a byte that differs from the one sent.
pub fn of_difference(offset: u32) -> u32 {
    DIFFERS_AT | offset
}

/// The code that a close by the server has in its number; `None`: it is no such number.
pub(super) fn close_of(detail: u32) -> Option<Option<u16>> {
    match read(detail)? {
        Number::Closed(code) => Some(Some(code).filter(|code| *code > 0)),
        _ => None,
    }
}

enum Number {
    Named(&'static str),
    Status(u32),
    Closed(u16),
    DiffersAt(u32),
}

fn read(detail: u32) -> Option<Number> {
    Some(match detail {
        DIFFERS_AT.. => Number::DiffersAt(detail & !DIFFERS_AT),
        CLOSED..=14_999 => Number::Closed((detail - CLOSED) as u16),
        STATUS..=1_999 => Number::Status(detail - STATUS),
        _ => Number::Named(named(detail)?),
    })
}

/// A detail in words, without its number.
pub fn describe(detail: u32) -> Option<&'static str> {
    Some(match read(detail)? {
        Number::Named(words) => words,
        Number::Status(_) => "the server did not switch to WebSocket",
        Number::Closed(_) => "the server closed the WebSocket connection",
        Number::DiffersAt(_) => "the message that came back differs from the one sent",
    })
}

/// A detail in words, with its number where it holds one.
pub fn words(detail: u32) -> Option<Cow<'static, str>> {
    Some(match read(detail)? {
        Number::Named(words) => Cow::Borrowed(words),
        Number::Status(status) => {
            Cow::Owned(format!("the server did not switch to WebSocket: expected status 101, got {status}"))
        }
        Number::Closed(0) => Cow::Borrowed("the server closed the WebSocket connection without a code"),
        Number::Closed(code) => Cow::Owned(format!(
            "the server closed the WebSocket connection with code {code} ({})",
            close::meaning(code)
        )),
        Number::DiffersAt(offset) => Cow::Owned(format!("the first differing byte is at offset {offset}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_words() {
        let numbers: std::collections::BTreeSet<_> = NAMED.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), NAMED.len(), "a number twice");
        assert!(numbers.iter().all(|number| (1..STATUS).contains(number)));
        for (number, said) in NAMED {
            assert_eq!((describe(*number), words(*number).as_deref()), (Some(*said), Some(*said)));
        }
        for (number, said) in [
            (of_status(404), "the server did not switch to WebSocket: expected status 101, got 404"),
            (of_close(Some(1009)), "the server closed the WebSocket connection with code 1009 (message too big)"),
            (of_close(Some(4999)), "the server closed the WebSocket connection with code 4999 (an application's own)"),
            (of_close(None), "the server closed the WebSocket connection without a code"),
            (of_difference(0), "the first differing byte is at offset 0"),
            (of_difference(67_108_863), "the first differing byte is at offset 67108863"),
        ] {
            assert_eq!(words(number).as_deref(), Some(said));
            assert!(describe(number).is_some());
        }
        for none in [0, 999, 2_000, 15_000, (1 << 31) - 1] {
            assert_eq!((describe(none), words(none)), (None, None), "{none}");
        }
    }
}
