//! UTF-8 that comes in pieces: whether what has come so far can still become valid text.
//!
//! Says no at the first byte that no valid text can go on from, as RFC 6455 §8.1 allows, wherever the text is cut.
//! Holds at most the three bytes of a character that has not come whole.

/// Text that is checked piece by piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Utf8 {
    held: [u8; 4],
    length: u8,
}

impl Utf8 {
    /// Whether the text is still valid with these bytes behind it.
    #[inline]
    pub fn push(&mut self, mut bytes: &[u8]) -> bool {
        while self.length > 0 {
            let Some((first, rest)) = bytes.split_first() else { return true };
            self.held[usize::from(self.length)] = *first;
            self.length += 1;
            bytes = rest;
            match std::str::from_utf8(&self.held[..usize::from(self.length)]) {
                Ok(_) => self.length = 0,
                // The beginning of a character: never four bytes, which are one or none.
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let rest = &bytes[error.valid_up_to()..];
                self.held[..rest.len()].copy_from_slice(rest);
                self.length = rest.len() as u8;
                true
            }
        }
    }

    /// Whether the text may end here: no character is half there. Begins anew.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.length) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes were taken until it was certain that this is no text; `None`: it is one.
    fn fails_after(bytes: &[u8]) -> Option<usize> {
        let mut text = Utf8::default();
        (0..bytes.len()).find(|at| !text.push(&bytes[*at..=*at])).or_else(|| (!text.end()).then_some(bytes.len()))
    }

    #[test]
    fn the_first_wrong_byte_is_found() {
        for (bytes, at) in [
            (&b"\xce\xba\xe1\xbd\xb9\xf0\x9f\x98\x80 plain"[..], None),
            (b"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd\xf4\x8f\xbf\xbf", None),
            (b"\xf0\x90\x80\x80\xe0\xa0\x80\xc2\x80\x00", None),
            (b"a\x80", Some(1)),
            (b"\xc0\x80", Some(0)),
            (b"\xc1\xbf", Some(0)),
            (b"\xe0\x80\x80", Some(1)),
            (b"\xed\xa0\x80", Some(1)),
            (b"\xf0\x80\x80\x80", Some(1)),
            (b"\xf4\x90\x80\x80", Some(1)),
            (b"\xf5\x80", Some(0)),
            (b"\xfe", Some(0)),
            (b"\xce\xce", Some(1)),
            (b"\xe1\xbd", Some(2)),
            (b"\xf0\x9f\x98", Some(3)),
        ] {
            assert_eq!(fails_after(bytes), at, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn pieces_change_nothing() {
        let text = "aκ\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}z".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut checked = Utf8::default();
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert!(pieces.iter().all(|piece| checked.push(piece)) && checked.end(), "{first} {second}");
            }
        }
    }
}
