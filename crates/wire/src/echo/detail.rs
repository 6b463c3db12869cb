//! The numbers that say more about an echo failure than its kind, and their words.
//!
//! The upper four bits say what is counted, the lower 28 how many bytes: payloads are at most 64 MiB, so every offset
//! fits. Numbers are stored in recordings: never change one.

use std::borrow::Cow;

const COUNT_BITS: u32 = 28;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Offset of the first byte that differs.
    DiffersAt(u32),
    /// Bytes that had come back when it ended.
    CameBack(u32),
    /// Bytes more than were sent, in the piece that completed the reply.
    Extra(u32),
}

impl Detail {
    /// As a [`crate::Failure::detail`]. Counts beyond 2^28 are cut to it.
    pub fn number(self) -> u32 {
        let (what, count) = match self {
            Detail::DiffersAt(count) => (1, count),
            Detail::CameBack(count) => (2, count),
            Detail::Extra(count) => (3, count),
        };
        what << COUNT_BITS | count.min(COUNT_MAX)
    }

    /// The reverse of [`Detail::number`]; `None` for 0 and numbers it never gives.
    pub fn from_number(number: u32) -> Option<Detail> {
        let count = number & COUNT_MAX;
        match number >> COUNT_BITS {
            1 => Some(Detail::DiffersAt(count)),
            2 => Some(Detail::CameBack(count)),
            3 => Some(Detail::Extra(count)),
            _ => None,
        }
    }
}

/// The words of a detail, without its number.
pub fn describe(detail: u32) -> Option<&'static str> {
    Some(match Detail::from_number(detail)? {
        Detail::DiffersAt(0) => "the first byte differs",
        Detail::DiffersAt(_) => "a byte after the first differs",
        Detail::CameBack(0) => "nothing had come back",
        Detail::CameBack(_) => "only the payload's first part had come back",
        Detail::Extra(_) => "more came back than was sent",
    })
}

/// The words of a detail with its number.
pub fn words(detail: u32) -> Option<Cow<'static, str>> {
    let bytes = |count| if count == 1 { "byte" } else { "bytes" };
    Some(match Detail::from_number(detail)? {
        Detail::DiffersAt(offset) => Cow::Owned(format!("the first differing byte is at offset {offset}")),
        Detail::CameBack(0) => Cow::Borrowed("nothing had come back"),
        Detail::CameBack(count) => Cow::Owned(format!("{count} {} had come back", bytes(count))),
        Detail::Extra(count) => Cow::Owned(format!("{count} {} more came back than were sent", bytes(count))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::limits::ECHO_BYTES_MAX;

    #[test]
    fn numbers_and_words_belong_together() {
        for (detail, coarse, exact) in [
            (Detail::DiffersAt(0), "the first byte differs", "the first differing byte is at offset 0"),
            (Detail::DiffersAt(9), "a byte after the first differs", "the first differing byte is at offset 9"),
            (Detail::CameBack(0), "nothing had come back", "nothing had come back"),
            (Detail::CameBack(1), "only the payload's first part had come back", "1 byte had come back"),
            (Detail::Extra(2), "more came back than was sent", "2 bytes more came back than were sent"),
        ] {
            assert_eq!(describe(detail.number()), Some(coarse));
            assert_eq!(words(detail.number()).as_deref(), Some(exact));
        }
        for count in [0, 1, ECHO_BYTES_MAX] {
            for detail in [Detail::DiffersAt(count), Detail::CameBack(count), Detail::Extra(count)] {
                assert_eq!(Detail::from_number(detail.number()), Some(detail));
            }
        }
        assert_eq!(Detail::from_number(Detail::Extra(u32::MAX).number()), Some(Detail::Extra(COUNT_MAX)));
        for nothing in [0, COUNT_MAX, 4 << COUNT_BITS, u32::MAX] {
            assert_eq!((describe(nothing), words(nothing)), (None, None));
        }
    }
}
