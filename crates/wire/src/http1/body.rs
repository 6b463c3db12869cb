//! Framing of bodies: by length, chunked with extensions and trailers, until the close (RFC 9112 sections 6 and 7).
//!
//! Counts, and hands out the content's ranges; copies nothing, keeps nothing, and needs 16 bytes. Line ends inside
//! chunked framing must be CRLF. Extensions are skipped, trailer fields checked for syntax and dropped; both limited.
//! Cost: content is skipped whole, framing bytes one by one.

use super::detail::Detail;
use super::head::LENGTH_MAX;
use super::request::is_token;
use model::ErrorKind;

/// Longest line of a chunk's size with its extensions, bytes, line end included.
pub const CHUNK_LINE_BYTES_MAX: u32 = 4096;

/// A body being received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// Length: bytes still to come. Chunked: the same of the chunk, or its size while that is read.
    left: u64,
    /// Bytes of the chunk's size line, or of all trailer fields.
    line: u32,
    at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Length,
    UntilClose,
    SizeFirst,
    Size,
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the first byte of a trailer line, or of the line that ends them; `TrailerFirst` cannot be a folded line.
    TrailerFirst,
    TrailerNext,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
}

/// How far a body has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Not at its end; all bytes were taken.
    More,
    /// At its end, so many bytes were taken.
    Done(usize),
    /// Not the protocol.
    Bad(ErrorKind, Detail),
}

impl Body {
    /// A body of a known length above 0.
    pub fn of_length(length: u64) -> Body {
        Body { left: length, line: 0, at: At::Length }
    }

    /// A chunked body.
    pub fn chunked() -> Body {
        Body { left: 0, line: 0, at: At::SizeFirst }
    }

    /// A body that the close ends.
    pub fn until_close() -> Body {
        Body { left: 0, line: 0, at: At::UntilClose }
    }

    /// Whether a close now is the body's end.
    pub fn ends_with_close(&self) -> bool {
        self.at == At::UntilClose
    }

    /// Bytes still to come of a body of known length.
    pub fn left_of_length(&self) -> Option<u64> {
        (self.at == At::Length).then_some(self.left)
    }

    /// Where a body without a known length stands.
    pub fn place(&self) -> Detail {
        match self.at {
            At::UntilClose | At::Length => Detail::InBodyUntilClose,
            At::Data => Detail::InChunkData,
            At::SizeFirst | At::Size | At::SizeSpace | At::Extension | At::SizeLf | At::DataCr | At::DataLf => {
                Detail::InChunkSize
            }
            At::TrailerFirst | At::TrailerNext | At::TrailerName | At::TrailerValue | At::TrailerLf | At::LastLf => {
                Detail::InTrailers
            }
        }
    }

    /// Takes bytes; `content` gets the content among them, in order. `trailer_bytes_max` bounds all trailer fields.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], trailer_bytes_max: u32, mut content: impl FnMut(&[u8])) -> Step {
        match self.at {
            At::Length => {
                let taken = at_most(self.left, bytes.len());
                content(&bytes[..taken]);
                self.left -= taken as u64;
                if self.left == 0 { Step::Done(taken) } else { Step::More }
            }
            At::UntilClose => {
                content(bytes);
                Step::More
            }
            _ => self.feed_chunked(bytes, trailer_bytes_max, content),
        }
    }

    fn feed_chunked(&mut self, bytes: &[u8], trailer_bytes_max: u32, mut content: impl FnMut(&[u8])) -> Step {
        let mut offset = 0;
        while offset < bytes.len() {
            if self.at == At::Data {
                let taken = at_most(self.left, bytes.len() - offset);
                content(&bytes[offset..offset + taken]);
                self.left -= taken as u64;
                offset += taken;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            let byte = bytes[offset];
            offset += 1;
            let next = match self.at {
                At::SizeFirst | At::Size | At::SizeSpace | At::Extension | At::SizeLf => self.size_line(byte),
                At::DataCr => expect(byte, b'\r', At::DataLf, Detail::ChunkEnd),
                At::DataLf => expect(byte, b'\n', At::SizeFirst, Detail::ChunkEnd),
                At::LastLf if byte == b'\n' => return Step::Done(offset),
                At::TrailerFirst | At::TrailerNext if byte == b'\n' => return Step::Done(offset),
                _ => self.trailer(byte, trailer_bytes_max),
            };
            match next {
                Ok(at) => self.at = at,
                Err((kind, detail)) => return Step::Bad(kind, detail),
            }
        }
        Step::More
    }

    fn size_line(&mut self, byte: u8) -> Result<At, (ErrorKind, Detail)> {
        let bad = |detail| Err((ErrorKind::BadFraming, detail));
        if self.at == At::SizeFirst {
            (self.left, self.line) = (0, 0);
        }
        self.line += 1;
        if self.line > CHUNK_LINE_BYTES_MAX {
            return bad(Detail::ChunkLineTooLong);
        }
        match (self.at, byte) {
            (At::SizeFirst | At::Size, _) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                // Before the shift: four bits more must still be believable.
                if self.left > LENGTH_MAX >> 4 {
                    return bad(Detail::ChunkSizeTooLarge);
                }
                self.left = self.left << 4 | u64::from(digit);
                Ok(At::Size)
            }
            (At::SizeFirst, _) => bad(Detail::ChunkSize),
            (At::Size | At::SizeSpace, b' ' | b'\t') => Ok(At::SizeSpace),
            (At::Size | At::SizeSpace, b';') => Ok(At::Extension),
            (At::Size | At::SizeSpace | At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Size | At::SizeSpace, b'\n') => bad(Detail::ChunkLine),
            (At::Size | At::SizeSpace, _) => bad(Detail::ChunkSize),
            (At::Extension, _) if is_text(byte) => Ok(At::Extension),
            (At::SizeLf, b'\n') if self.left > 0 => Ok(At::Data),
            (At::SizeLf, b'\n') => {
                self.line = 0;
                Ok(At::TrailerFirst)
            }
            _ => bad(Detail::ChunkLine),
        }
    }

    /// `byte` is not the LF that ends the last line: that was seen to.
    fn trailer(&mut self, byte: u8, bytes_max: u32) -> Result<At, (ErrorKind, Detail)> {
        self.line = self.line.saturating_add(1);
        if self.line > bytes_max {
            return Err((ErrorKind::HeadTooLarge, Detail::TrailersTooLong));
        }
        match (self.at, byte) {
            (At::TrailerFirst | At::TrailerNext, b'\r') => Ok(At::LastLf),
            (At::TrailerNext, b' ' | b'\t') => Ok(At::TrailerValue),
            (At::TrailerFirst | At::TrailerNext | At::TrailerName, _) if is_token(byte) => Ok(At::TrailerName),
            (At::TrailerName, b':') => Ok(At::TrailerValue),
            (At::TrailerValue, b'\r') => Ok(At::TrailerLf),
            (At::TrailerValue | At::TrailerLf, b'\n') => Ok(At::TrailerNext),
            (At::TrailerValue, _) if is_text(byte) => Ok(At::TrailerValue),
            _ => Err((ErrorKind::BadFraming, Detail::Trailer)),
        }
    }
}

fn expect(byte: u8, wanted: u8, next: At, detail: Detail) -> Result<At, (ErrorKind, Detail)> {
    if byte == wanted { Ok(next) } else { Err((ErrorKind::BadFraming, detail)) }
}

/// What may stand in a field's value or an extension (RFC 9110 section 5.5).
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `left`, but at most `there`: never larger than memory, so never cut off by the cast.
fn at_most(left: u64, there: usize) -> usize {
    left.min(there as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The content and how many bytes are left behind it, or why there is none; the same however the bytes are cut.
    fn check(mut body: Body, bytes: &[u8], expected: Result<(&[u8], usize), Detail>) {
        let whole = body;
        for cut in 0..=bytes.len() {
            body = whole;
            let mut content = Vec::new();
            let mut end = Ok(None);
            for (start, piece) in [(0, &bytes[..cut]), (cut, &bytes[cut..])] {
                match body.feed(piece, 64, |part| content.extend_from_slice(part)) {
                    Step::More => continue,
                    Step::Done(taken) => end = Ok(Some(start + taken)),
                    Step::Bad(_, detail) => end = Err(detail),
                }
                break;
            }
            match expected {
                Ok((expected, left)) => {
                    let at = bytes.len() - left;
                    assert_eq!((content.as_slice(), end), (expected, Ok(Some(at))), "{bytes:?} cut at {cut}");
                }
                Err(detail) => assert_eq!(end, Err(detail), "{bytes:?} cut at {cut}"),
            }
        }
    }

    #[test]
    fn chunked_bodies_are_decoded() {
        let check = |bytes: &[u8], expected: Result<(&[u8], usize), Detail>| check(Body::chunked(), bytes, expected);
        check(b"0\r\n\r\nrest", Ok((b"", 4)));
        check(b"3\r\nabc\r\n0\r\n\r\n", Ok((b"abc", 0)));
        check(b"3\r\nabc\r\n00A\r\n0123456789\r\n000\r\n\r\n", Ok((b"abc0123456789", 0)));
        check(b"a;x=y;z=\"1;2\"\r\n\r\n\r\n\r\n\r\n\r\n\r\n0;end\r\n\r\n", Ok((b"\r\n\r\n\r\n\r\n\r\n", 0)));
        check(b"1 \t\r\na\r\n0 ; x\r\n\r\n", Ok((b"a", 0)));
        check(b"0\r\nA: b\r\nC:\r\n d\r\n\te\r\n\r\nHTTP", Ok((b"", 4)));
        check(b"0\r\nA: b\n\n", Ok((b"", 0)));
        check(b"0000000000000000000000000001\r\na\r\n0\r\n\r\n", Ok((b"a", 0)));
        for (bad, detail) in [
            (&b"\r\n"[..], Detail::ChunkSize),
            (b"x\r\n", Detail::ChunkSize),
            (b"-1\r\n", Detail::ChunkSize),
            (b" 1\r\n", Detail::ChunkSize),
            (b"0x1\r\n", Detail::ChunkSize),
            (b"1 1\r\n", Detail::ChunkSize),
            (b";a\r\n", Detail::ChunkSize),
            (b"1\na", Detail::ChunkLine),
            (b"1\r\ra", Detail::ChunkLine),
            (b"1;\n", Detail::ChunkLine),
            (b"1;\0", Detail::ChunkLine),
            (b"1\r\nab", Detail::ChunkEnd),
            (b"1\r\na\n", Detail::ChunkEnd),
            (b"1\r\na\rx", Detail::ChunkEnd),
            (b"8000000000000000\r\n", Detail::ChunkSizeTooLarge),
            (b"ffffffffffffffffffffffff\r\n", Detail::ChunkSizeTooLarge),
            (b"0\r\n a: b\r\n", Detail::Trailer),
            (b"0\r\nno colon\r\n", Detail::Trailer),
            (b"0\r\na: \0\r\n", Detail::Trailer),
            (b"0\r\na: b\rc\r\n", Detail::Trailer),
            (b"0\r\n\rx", Detail::Trailer),
            (b"0\r\n: b\r\n", Detail::Trailer),
        ] {
            check(bad, Err(detail));
        }
    }

    #[test]
    fn the_largest_chunk_is_counted_and_not_waited_for_in_memory() {
        let mut body = Body::chunked();
        let mut seen = 0u64;
        assert_eq!(body.feed(b"7fffffffffffffff\r\nab", 64, |part| seen += part.len() as u64), Step::More);
        assert_eq!((seen, body.left, body.place()), (2, LENGTH_MAX - 2, Detail::InChunkData));
    }

    #[test]
    fn endless_lines_end() {
        for (begin, endless, limit, expected) in [
            (&b"1;"[..], b'x', CHUNK_LINE_BYTES_MAX, (ErrorKind::BadFraming, Detail::ChunkLineTooLong)),
            (b"0", b'0', CHUNK_LINE_BYTES_MAX, (ErrorKind::BadFraming, Detail::ChunkLineTooLong)),
            (b"1", b' ', CHUNK_LINE_BYTES_MAX, (ErrorKind::BadFraming, Detail::ChunkLineTooLong)),
            (b"0\r\n", b'x', 1000, (ErrorKind::HeadTooLarge, Detail::TrailersTooLong)),
            (b"0\r\nx:", b'x', 1000, (ErrorKind::HeadTooLarge, Detail::TrailersTooLong)),
        ] {
            let mut body = Body::chunked();
            assert_eq!(body.feed(begin, 1000, |_| ()), Step::More);
            let end = (0..=limit + 1).find_map(|n| match body.feed(&[endless], 1000, |_| ()) {
                Step::More => None,
                step => Some((n, step)),
            });
            let (after, step) = end.expect("an end");
            assert_eq!(step, Step::Bad(expected.0, expected.1));
            assert!(after >= limit - 4, "refused too early: {after} of {limit}");
        }
        let mut body = Body::chunked();
        assert_eq!(body.feed(b"0\r\n", 1000, |_| ()), Step::More);
        let end = (0..1000).find_map(|_| match body.feed(b"a:\n", 1000, |_| ()) {
            Step::More => None,
            step => Some(step),
        });
        assert_eq!(end, Some(Step::Bad(ErrorKind::HeadTooLarge, Detail::TrailersTooLong)));
    }

    #[test]
    fn a_body_of_known_length_ends_there() {
        check(Body::of_length(3), b"abcHTTP", Ok((b"abc", 4)));
        let mut body = Body::of_length(u64::MAX);
        assert_eq!(body.feed(b"abc", 64, |_| ()), Step::More);
        assert_eq!(body.left_of_length(), Some(u64::MAX - 3));
        let mut body = Body::until_close();
        assert_eq!(body.feed(b"abc", 64, |_| ()), Step::More);
        assert!(body.ends_with_close());
    }

    proptest! {
        #[test]
        fn what_was_chunked_comes_out(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8), cuts in any::<u64>()) {
            let mut bytes = Vec::new();
            for part in &parts {
                bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                bytes.extend_from_slice(part);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let (mut body, mut content, mut start) = (Body::chunked(), Vec::new(), 0);
            let mut last = Step::More;
            for end in (1..=bytes.len()).filter(|n| *n == bytes.len() || cuts >> (n % 64) & 1 == 1) {
                prop_assert_eq!(last, Step::More);
                last = body.feed(&bytes[start..end], 64, |part| content.extend_from_slice(part));
                if end < bytes.len() { start = end; }
            }
            prop_assert_eq!(last, Step::Done(bytes.len() - start));
            prop_assert_eq!(content, parts.concat());
        }
    }
}
