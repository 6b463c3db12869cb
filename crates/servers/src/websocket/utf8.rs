//! UTF-8 in pieces, by the ranges of the Unicode standard's table 3-7: at most how many bytes of a character are missing,
//! and between what the next must lie. ASCII is passed over in words of eight.

/// Text that comes in pieces.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Utf8 {
    /// Bytes that the character which has begun still needs.
    missing: u8,
    /// What the next of them must lie between.
    low: u8,
    high: u8,
}

impl Utf8 {
    /// Whether it is still text with `bytes` behind it.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        if self.missing == 0 {
            while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
                if u64::from_ne_bytes(*eight) & 0x8080_8080_8080_8080 != 0 {
                    break;
                }
                rest = behind;
            }
        }
        rest.iter().all(|byte| self.push_one(*byte))
    }

    fn push_one(&mut self, byte: u8) -> bool {
        if self.missing > 0 {
            let fits = (self.low..=self.high).contains(&byte);
            self.missing -= 1;
            (self.low, self.high) = (0x80, 0xbf);
            return fits;
        }
        (self.missing, self.low, self.high) = match byte {
            0x00..=0x7f => return true,
            0xc2..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xe1..=0xec | 0xee..=0xef => (2, 0x80, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return false,
        };
        true
    }

    /// Whether it may end here. The next text begins.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.missing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sequence of up to four bytes of those at which something changes, against the standard library.
    #[test]
    fn it_is_what_the_standard_library_says() {
        let edges = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
            0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
        ];
        let mut valid = 0;
        for number in 0..edges.len().pow(4) {
            let of = |place: u32| edges[number / edges.len().pow(place) % edges.len()];
            let bytes = [of(0), of(1), of(2), of(3)];
            for length in 1..=4 {
                let mut text = Utf8::default();
                let is_text = bytes[..length].iter().all(|byte| text.push(&[*byte])) && text.end();
                assert_eq!(is_text, std::str::from_utf8(&bytes[..length]).is_ok(), "{:x?}", &bytes[..length]);
                valid += u32::from(is_text);
            }
        }
        assert!(valid > 1000, "{valid}");
    }

    #[test]
    fn long_text_is_read_in_words_and_in_pieces() {
        let text = "plain text of some length, ünd nöt ønly ASCII 😀 as it goes on and on".repeat(3);
        for cut in 0..=text.len() {
            let mut pieces = Utf8::default();
            assert!(pieces.push(&text.as_bytes()[..cut]) && pieces.push(&text.as_bytes()[cut..]) && pieces.end());
        }
    }
}
