//! Frames (RFC 6455 §5.2): heads of a client's as far as they have come, and a server's own.
//!
//! A head is judged from its first byte on, so a peer that breaks the protocol need not finish the frame to be told.

/// Why a connection is closed: the code and the reason that its peer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: u16,
    pub(super) why: &'static str,
}

const fn broken<T>(why: &'static str) -> Result<T, Fault> {
    Err(Fault { code: 1002, why })
}

pub(super) const INVALID_TEXT: Fault = Fault { code: 1007, why: "expected text to be UTF-8" };
pub(super) const TOO_LONG: Fault = Fault { code: 1009, why: "expected a shorter message" };

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }

    fn number(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }
}

/// A client's frame head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) opcode: Opcode,
    pub(super) is_final: bool,
    pub(super) is_compressed: bool,
    pub(super) length: u64,
    pub(super) key: [u8; 4],
}

/// The head at the start of `input` and its length; `None` if more is needed. `compression`: it was agreed on;
/// `in_message`: a message's first frame has come and its last has not.
pub(super) fn parse(input: &[u8], compression: bool, in_message: bool) -> Result<Option<(Head, usize)>, Fault> {
    let Some(&first) = input.first() else { return Ok(None) };
    let is_final = first & 0x80 != 0;
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return broken("expected an opcode of RFC 6455"),
    };
    let is_compressed = first & 0x40 != 0;
    if first & 0x30 != 0 || (is_compressed && !(compression && matches!(opcode, Opcode::Text | Opcode::Binary))) {
        return broken("expected no reserved bit without a meaning");
    }
    match opcode {
        Opcode::Continuation if !in_message => return broken("expected a message before its continuation"),
        Opcode::Text | Opcode::Binary if in_message => return broken("expected the message before to be finished"),
        opcode if opcode.is_control() && !is_final => return broken("expected control frames in one piece"),
        _ => {}
    }
    let Some(&second) = input.get(1) else { return Ok(None) };
    if second & 0x80 == 0 {
        return broken("expected a client to mask its frames");
    }
    let short = second & 0x7f;
    if opcode.is_control() && short > 125 {
        return broken("expected at most 125 bytes in a control frame");
    }
    let (length, key_at) = match short {
        126 => {
            let Some(bytes) = input.get(2..4) else { return Ok(None) };
            (u64::from(bytes[0]) << 8 | u64::from(bytes[1]), 4)
        }
        127 => {
            let bytes = input.get(2..input.len().min(10)).unwrap_or_default();
            if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
                return broken("expected a length below 2^63");
            }
            let Some(bytes) = bytes.first_chunk::<8>() else { return Ok(None) };
            (u64::from_be_bytes(*bytes), 10)
        }
        short => (u64::from(short), 2),
    };
    if (short == 126 && length < 126) || (short == 127 && length < 0x1_0000) {
        return broken("expected a length in the fewest bytes");
    }
    let Some(key) = input.get(key_at..).and_then(|rest| rest.first_chunk::<4>()) else { return Ok(None) };
    Ok(Some((Head { opcode, is_final, is_compressed, length, key: *key }, key_at + 4)))
}

/// Takes the mask off, or puts it on; `at`: how many bytes of the payload came before these.
pub(super) fn unmask(key: [u8; 4], at: u64, bytes: &mut [u8]) {
    let turned: [u8; 8] = std::array::from_fn(|place| key[(at as usize + place) % 4]);
    let word = u64::from_ne_bytes(turned);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    words.iter_mut().for_each(|eight| *eight = (u64::from_ne_bytes(*eight) ^ word).to_ne_bytes());
    rest.iter_mut().zip(turned).for_each(|(byte, key)| *byte ^= key);
}

/// Appends the head of a frame of the server, which is a whole message or a control frame.
pub(super) fn push_head(out: &mut Vec<u8>, opcode: Opcode, is_compressed: bool, length: usize) {
    out.push(0x80 | u8::from(is_compressed) << 6 | opcode.number());
    if length < 126 {
        out.push(length as u8);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(126);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}

/// Appends a close frame.
pub(super) fn push_close(out: &mut Vec<u8>, code: u16, why: &str) {
    push_head(out, Opcode::Close, false, 2 + why.len());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(why.as_bytes());
}

/// The code of a close frame's payload, if it has one.
pub(super) fn parse_close(payload: &[u8]) -> Result<Option<u16>, Fault> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() { Ok(None) } else { broken("expected a close code of two bytes") };
    };
    let code = u16::from_be_bytes(*code);
    if code < 1000 || (1004..=1006).contains(&code) || (1015..3000).contains(&code) || code >= 5000 {
        return broken("expected a close code that may be sent");
    }
    let mut text = super::utf8::Utf8::default();
    if text.push(reason) && text.end() { Ok(Some(code)) } else { Err(INVALID_TEXT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_judged_as_early_as_they_can_be() {
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let (head, length) = parse(&hello, false, false).unwrap().unwrap();
        assert_eq!((head.opcode, head.is_final, head.length, length), (Opcode::Text, true, 5, 6));
        let mut payload = hello[length..].to_vec();
        unmask(head.key, 0, &mut payload[..2]);
        unmask(head.key, 2, &mut payload[2..]);
        assert_eq!(payload, b"Hello");
        assert!((0..6).all(|cut| parse(&hello[..cut], false, false) == Ok(None)));
        for (input, compression, in_message) in [
            (&[0x83][..], true, false),
            (&[0x8b], true, false),
            (&[0xc1], false, false),
            (&[0xc9], true, false),
            (&[0xc0], true, true),
            (&[0xa1], true, false),
            (&[0x91], true, false),
            (&[0x80], false, false),
            (&[0x81], false, true),
            (&[0x09], false, false),
            (&[0x81, 0x05], false, false),
            (&[0x89, 0xfe], false, false),
            (&[0x82, 0xff, 0x80], false, false),
            (&[0x82, 0xfe, 0, 125], false, false),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], false, false),
        ] {
            let last = input.len() - 1;
            assert_eq!(parse(&input[..last], compression, in_message), Ok(None), "{input:x?}");
            assert_eq!(parse(input, compression, in_message).map_err(|fault| fault.code), Err(1002), "{input:x?}");
        }
        for (length, head) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let mut out = Vec::new();
            push_head(&mut out, Opcode::Binary, false, length);
            assert_eq!(out.len(), head);
        }
    }

    #[test]
    fn close_codes_are_those_that_may_be_sent() {
        let good = (0..=u16::MAX).filter(|code| parse_close(&code.to_be_bytes()) == Ok(Some(*code))).count();
        assert_eq!(good, 4 + 8 + 2000);
        assert_eq!(parse_close(b""), Ok(None));
        assert_eq!(parse_close(b"\x03").unwrap_err().code, 1002);
        assert_eq!(parse_close(b"\x03\xe8ok"), Ok(Some(1000)));
        assert_eq!(parse_close(b"\x03\xe8\xff").unwrap_err().code, 1007);
    }
}
