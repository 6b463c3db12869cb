//! Request bodies: read to their end, kept only where the reply needs them (RFC 9112 §6, §7.1).
//!
//! A sans-I/O machine, byte exact: what follows the body is left for the next request. Chunk
//! extensions and trailers are passed over, within a limit on their sum.

use super::request::{BodyLength, Refusal};
use crate::limits;

/// Reads one body.
#[derive(Debug)]
pub(crate) struct BodyReader {
    place: Place,
    /// Body bytes still allowed.
    room: u64,
    /// Bytes of extensions and trailers still allowed.
    overhead_room: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Fixed { left: u64 },
    SizeFirst,
    Size { size: u64 },
    Extension { size: u64 },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerFirst,
    Trailer,
    TrailerEnd,
    LastEnd,
    Done,
}

const BAD_CHUNK: Refusal = Refusal { status: 400, why: "expected chunks as `size CR LF data CR LF`" };
const TOO_LARGE: Refusal = Refusal { status: 413, why: "expected a smaller body" };
const TOO_MUCH: Refusal = Refusal { status: 431, why: "expected at most 64 KiB of chunk extensions and trailers" };

impl BodyReader {
    /// A reader for a body of at most `max` bytes; refused at once if it says that it is longer.
    pub(crate) fn new(length: BodyLength, max: u64) -> Result<Self, Refusal> {
        let place = match length {
            BodyLength::None | BodyLength::Known(0) => Place::Done,
            BodyLength::Known(left) if left > max => return Err(TOO_LARGE),
            BodyLength::Known(left) => Place::Fixed { left },
            BodyLength::Chunked => Place::SizeFirst,
        };
        Ok(Self { place, room: max, overhead_room: limits::CHUNK_OVERHEAD_BYTES_MAX })
    }

    /// Whether the whole body was read.
    pub(crate) fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// Reads on; returns how many bytes of `input` belonged to the body. The content goes to `sink`.
    pub(crate) fn read(&mut self, input: &[u8], mut sink: Option<&mut Vec<u8>>) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            match self.place {
                Place::Fixed { left } | Place::Data { left } => {
                    let n = (input.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                    if let Some(sink) = sink.as_deref_mut() {
                        sink.extend_from_slice(&input[at..at + n]);
                    }
                    at += n;
                    let left = left - n as u64;
                    self.place = match self.place {
                        Place::Fixed { .. } if left == 0 => Place::Done,
                        Place::Fixed { .. } => Place::Fixed { left },
                        _ if left == 0 => Place::DataCr,
                        _ => Place::Data { left },
                    };
                }
                place => {
                    self.place = self.framing(place, input[at])?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    fn framing(&mut self, place: Place, byte: u8) -> Result<Place, Refusal> {
        Ok(match (place, byte) {
            (Place::SizeFirst, _) => Place::Size { size: hex(byte).ok_or(BAD_CHUNK)? },
            (Place::Size { size }, b'\r') => Place::SizeEnd { size },
            (Place::Size { size }, b';' | b' ' | b'\t') => Place::Extension { size },
            (Place::Size { size }, _) => {
                let digit = hex(byte).ok_or(BAD_CHUNK)?;
                if size == 0 {
                    // Leading zeros could go on for ever without the value growing.
                    self.spend_overhead()?;
                }
                Place::Size { size: size.checked_mul(16).and_then(|size| size.checked_add(digit)).ok_or(TOO_LARGE)? }
            }
            (Place::Extension { size }, b'\r') => Place::SizeEnd { size },
            (Place::Extension { size }, _) => {
                self.spend_overhead()?;
                no_control(byte)?;
                Place::Extension { size }
            }
            (Place::SizeEnd { size: 0 }, b'\n') => Place::TrailerFirst,
            (Place::SizeEnd { size }, b'\n') => {
                self.room = self.room.checked_sub(size).ok_or(TOO_LARGE)?;
                Place::Data { left: size }
            }
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => Place::SizeFirst,
            (Place::TrailerFirst, b'\r') => Place::LastEnd,
            (Place::Trailer, b'\r') => Place::TrailerEnd,
            (Place::TrailerFirst | Place::Trailer, _) => {
                self.spend_overhead()?;
                no_control(byte)?;
                Place::Trailer
            }
            (Place::TrailerEnd, b'\n') => Place::TrailerFirst,
            (Place::LastEnd, b'\n') => Place::Done,
            _ => return Err(BAD_CHUNK),
        })
    }

    fn spend_overhead(&mut self) -> Result<(), Refusal> {
        self.overhead_room = self.overhead_room.checked_sub(1).ok_or(TOO_MUCH)?;
        Ok(())
    }
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

fn no_control(byte: u8) -> Result<(), Refusal> {
    if (byte < b' ' && byte != b'\t') || byte == 0x7f { Err(BAD_CHUNK) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `input` whole, and cut at every byte; both must agree. Returns content and what was left.
    fn check(length: BodyLength, input: &[u8], max: u64) -> Result<(Vec<u8>, usize), u16> {
        let read = |pieces: &[&[u8]]| -> Result<(Vec<u8>, usize), u16> {
            let mut reader = BodyReader::new(length, max).map_err(|refusal| refusal.status)?;
            let (mut content, mut taken) = (Vec::new(), 0);
            for piece in pieces {
                taken += reader.read(piece, Some(&mut content)).map_err(|refusal| refusal.status)?;
            }
            if reader.is_done() { Ok((content, input.len() - taken)) } else { Err(0) }
        };
        let whole = read(&[input]);
        for cut in 0..input.len() {
            assert_eq!(read(&[&input[..cut], &input[cut..]]), whole, "cut at {cut}");
        }
        let single: Vec<_> = input.chunks(1).collect();
        assert_eq!(read(&single), whole);
        whole
    }

    #[test]
    fn bodies_end_exactly_where_they_should() {
        let chunked = |input: &[u8]| check(BodyLength::Chunked, input, 100);
        assert_eq!(check(BodyLength::Known(3), b"abcGET", 100), Ok((b"abc".to_vec(), 3)));
        assert_eq!(check(BodyLength::None, b"GET", 100), Ok((Vec::new(), 3)));
        assert_eq!(check(BodyLength::Known(0), b"", 100), Ok((Vec::new(), 0)));
        assert_eq!(chunked(b"3\r\nabc\r\n0\r\n\r\nX"), Ok((b"abc".to_vec(), 1)));
        assert_eq!(
            chunked(b"0A;x=\"y\"\r\n0123456789\r\n1 ;q\r\nz\r\n00\r\nT: v\r\nU: w\r\n\r\n"),
            Ok((b"0123456789z".to_vec(), 0))
        );
        assert_eq!(chunked(b"0\r\n\r\n"), Ok((Vec::new(), 0)));
        assert_eq!(chunked(b"3\r\n\r\n\r\r\n0\r\n\r\n"), Ok((b"\r\n\r".to_vec(), 0)));
        assert_eq!(chunked(b"3\r\nab"), Err(0));
        assert_eq!(chunked(b"0\r\n\r"), Err(0));
    }

    #[test]
    fn broken_or_oversized_bodies_are_refused() {
        let chunked = |input: &[u8]| check(BodyLength::Chunked, input, 100);
        for broken in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"0x3\r\n",
            b"3\nabc\r\n",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"3\r\nabc0\r\n\r\n",
            b"0\r\n\rX",
            b"0\r\nT: \0\r\n\r\n",
            b"1;\x01\r\n",
            b"0\r\n\n",
        ] {
            assert_eq!(chunked(broken), Err(400), "{}", broken.escape_ascii());
        }
        assert_eq!(check(BodyLength::Known(101), b"", 100), Err(413));
        assert_eq!(chunked(b"65\r\n"), Err(413));
        assert_eq!(chunked(b"8000000000000000\r\n"), Err(413));
        assert_eq!(chunked(b"10000000000000000\r\n"), Err(413));
        assert_eq!(chunked(b"FFFFFFFFFFFFFFFFF\r\n"), Err(413));
        let mut sixty = b"3c\r\n".to_vec();
        sixty.extend_from_slice(&[b'a'; 60]);
        sixty.extend_from_slice(b"\r\n");
        assert_eq!(chunked(&[&sixty[..], &sixty[..]].concat()), Err(413), "the sum counts");
    }

    #[test]
    fn endless_framing_is_refused() {
        let mut reader = BodyReader::new(BodyLength::Chunked, 100).unwrap();
        let zeros = vec![b'0'; limits::CHUNK_OVERHEAD_BYTES_MAX as usize + 2];
        assert_eq!(reader.read(&zeros, None).map_err(|refusal| refusal.status), Err(431));
        let mut reader = BodyReader::new(BodyLength::Chunked, 100).unwrap();
        reader.read(b"0\r\n", None).unwrap();
        let trailer = b"a: b\r\n".repeat(limits::CHUNK_OVERHEAD_BYTES_MAX as usize);
        assert_eq!(reader.read(&trailer, None).map_err(|refusal| refusal.status), Err(431));
    }
}
