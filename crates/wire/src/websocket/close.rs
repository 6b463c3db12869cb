//! Close frames: which codes may be sent, what they mean, and what a failure here is closed with (RFC 6455 §7.4).

use super::Detail;

pub use model::workload::websocket::close_meaning as meaning;

/// Everything is done.
pub const NORMAL: u16 = 1000;
/// The peer broke the protocol.
pub const PROTOCOL_ERROR: u16 = 1002;
/// Bytes that are not what they are said to be: text that is not UTF-8, compression that is none.
pub const INVALID_DATA: u16 = 1007;
/// A message longer than is taken.
pub const TOO_BIG: u16 = 1009;

/// Whether a code may stand in a close frame: RFC 6455 §7.4.1 and IANA's registry up to 1014, then those of libraries and
/// applications. 1004 to 1006 and 1015 are for local use.
pub fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// What a peer that sent this is told.
pub fn code_for(detail: Detail) -> u16 {
    match detail {
        Detail::NotUtf8 | Detail::CloseReason | Detail::Deflate | Detail::DeflateEnd => INVALID_DATA,
        Detail::MessageTooLong | Detail::DeflateTooLong => TOO_BIG,
        _ => PROTOCOL_ERROR,
    }
}

/// Reads a close frame's payload: its code, if it has one.
pub fn parse(payload: &[u8]) -> Result<Option<u16>, Detail> {
    match payload {
        [] => Ok(None),
        [_] => Err(Detail::CloseTooShort),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !is_sendable(code) {
                return Err(Detail::CloseCode);
            }
            std::str::from_utf8(reason).map_err(|_| Detail::CloseReason)?;
            Ok(Some(code))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_that_may_be_sent() {
        let sendable: Vec<u16> = (0..=u16::MAX).filter(|code| is_sendable(*code)).collect();
        assert_eq!(sendable.len(), 12 + 2000);
        for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
            assert_eq!(parse(&code.to_be_bytes()), Err(Detail::CloseCode), "{code}");
        }
        assert!(sendable.iter().all(|code| meaning(*code) != "no meaning"));
        assert_eq!(parse(b""), Ok(None));
        assert_eq!(parse(b"\x03"), Err(Detail::CloseTooShort));
        assert_eq!(parse(b"\x03\xe8"), Ok(Some(1000)));
        assert_eq!(parse("\u{3}\u{0}".as_bytes()), Err(Detail::CloseCode));
        assert_eq!(parse(b"\x03\xe9bye \xce\xba"), Ok(Some(1001)));
        assert_eq!(parse(b"\x03\xe9bye \xce"), Err(Detail::CloseReason));
    }
}
