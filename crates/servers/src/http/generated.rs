//! Generated reply bodies, computed from the position alone: nothing is allocated, any size can stream.
//!
//! Bytes of `/bytes` are a fixed 64-character line over and over, so that a client can tell at every
//! offset what must stand there. `/chunked` frames the same bytes, starting anew in each chunk.

/// What every generated body repeats: 63 characters and a line feed.
pub const LINE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+\n";

/// A body that is being sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generated {
    position: u64,
    length: u64,
    chunk: Option<Chunk>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    size_line: Vec<u8>,
    data: u64,
    /// Where the last chunk begins.
    end: u64,
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

impl Generated {
    /// `n` plain bytes.
    pub(crate) fn bytes(n: u64) -> Self {
        Self { position: 0, length: n, chunk: None }
    }

    /// `n` chunks of `size` bytes, framed, and the last chunk. An empty chunk would end the body, so
    /// with `size` 0 only the last one remains.
    pub(crate) fn chunked(n: u64, size: u64) -> Self {
        let size_line = format!("{size:x}\r\n").into_bytes();
        let framed = size_line.len() as u64 + size + 2;
        let end = if size == 0 { 0 } else { n.saturating_mul(framed) };
        Self {
            position: 0,
            length: end.saturating_add(LAST_CHUNK.len() as u64),
            chunk: Some(Chunk { size_line, data: size, end }),
        }
    }

    /// Bytes left to send.
    pub(crate) fn left(&self) -> u64 {
        self.length - self.position
    }

    /// Appends the next bytes, at most `most`, without going on: `advance` does, by what was sent.
    pub(crate) fn fill(&self, out: &mut Vec<u8>, most: usize) {
        let mut position = self.position;
        let end = self.length.min(position.saturating_add(most as u64));
        while position < end {
            let room = usize::try_from(end - position).unwrap_or(usize::MAX);
            let before = out.len();
            match &self.chunk {
                None => push_lines(out, position, room),
                Some(chunk) => chunk.push(out, position, room),
            }
            position += (out.len() - before) as u64;
        }
    }

    /// `n` bytes of what `fill` gave were sent.
    pub(crate) fn advance(&mut self, n: u64) {
        self.position = self.position.saturating_add(n).min(self.length);
    }
}

impl Chunk {
    fn push(&self, out: &mut Vec<u8>, position: u64, room: usize) {
        if position >= self.end {
            push_part(out, LAST_CHUNK, position - self.end, room);
            return;
        }
        let size_line = self.size_line.len() as u64;
        let at = position % (size_line + self.data + 2);
        if at < size_line {
            push_part(out, &self.size_line, at, room);
        } else if at < size_line + self.data {
            let left = usize::try_from(size_line + self.data - at).unwrap_or(usize::MAX);
            push_lines(out, at - size_line, room.min(left));
        } else {
            push_part(out, b"\r\n", at - size_line - self.data, room);
        }
    }
}

fn push_part(out: &mut Vec<u8>, part: &[u8], from: u64, room: usize) {
    let part = &part[usize::try_from(from).unwrap_or(usize::MAX).min(part.len())..];
    out.extend_from_slice(&part[..part.len().min(room)]);
}

fn push_lines(out: &mut Vec<u8>, position: u64, room: usize) {
    let line = LINE.len();
    let mut at = (position % line as u64) as usize;
    let mut left = room;
    while left > 0 {
        let n = left.min(line - at);
        out.extend_from_slice(&LINE[at..at + n]);
        left -= n;
        at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut generated: Generated, step: usize) -> Vec<u8> {
        let (mut whole, mut piece) = (Vec::new(), Vec::new());
        while generated.left() > 0 {
            piece.clear();
            generated.fill(&mut piece, step);
            assert!(!piece.is_empty() && piece.len() <= step);
            whole.extend_from_slice(&piece);
            generated.advance(piece.len() as u64);
        }
        whole
    }

    #[test]
    fn the_bytes_do_not_depend_on_how_they_are_cut() {
        for generated in [
            Generated::bytes(0),
            Generated::bytes(1000),
            Generated::chunked(0, 5),
            Generated::chunked(3, 0),
            Generated::chunked(3, 1),
            Generated::chunked(7, 100),
        ] {
            let whole = all(generated.clone(), 1 << 20);
            assert_eq!(whole.len() as u64, generated.length);
            for step in [1, 2, 3, 63, 64, 65] {
                assert_eq!(all(generated.clone(), step), whole, "{generated:?} by {step}");
            }
        }
        assert_eq!(all(Generated::chunked(2, 3), 7), b"3\r\nABC\r\n3\r\nABC\r\n0\r\n\r\n");
        assert_eq!(all(Generated::chunked(2, 0), 7), b"0\r\n\r\n");
        assert_eq!(&all(Generated::bytes(66), 64)[..], [&LINE[..], b"AB"].concat());
    }

    #[test]
    fn ten_gibibytes_can_be_entered_anywhere() {
        let mut generated = Generated::bytes(10 << 30);
        generated.advance((10 << 30) - 3);
        let mut out = Vec::new();
        generated.fill(&mut out, 100);
        assert_eq!(out, b"9+\n");
    }
}
