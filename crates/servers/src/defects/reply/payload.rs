//! Where the payload is in the bytes of a reply: all of it for echo, behind the last head for http.
//!
//! Walks what this server itself wrote, so little of HTTP is needed. A reply to HEAD is told by what stands where its
//! body would: nothing, or the next head.

use crate::defects::server::Server;
use std::ops::Range;

/// The last payload in a piece of replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    /// Where it is; it ends where the piece does, and is not empty.
    pub(super) at: Range<usize>,
    /// Nothing of it is still to come in another piece.
    pub(super) is_whole: bool,
}

/// The last reply's payload; `None` if it has none.
pub(super) fn last(server: Server, piece: &[u8]) -> Option<Payload> {
    if !matches!(server, Server::Http | Server::Proxy) {
        return (!piece.is_empty()).then_some(Payload { at: 0..piece.len(), is_whole: true });
    }
    let mut from = 0;
    while from < piece.len() {
        let head_bytes = memchr::memmem::find(&piece[from..], b"\r\n\r\n")? + 4;
        let head = &piece[from..from + head_bytes];
        let at = from + head_bytes..piece.len();
        let body = &piece[at.clone()];
        let is_bodiless = body.is_empty() || body.starts_with(b"HTTP/1.1 ");
        from = match content_length(head) {
            _ if is_bodiless => at.start,
            Some(length) if length < body.len() => at.start + length,
            Some(length) => return Some(Payload { at, is_whole: length == body.len() }),
            None => return Some(Payload { is_whole: body.ends_with(b"\r\n0\r\n\r\n"), at }),
        };
    }
    None
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\nContent-Length: ";
    let digits = &head[memchr::memmem::find(head, NAME)? + NAME.len()..];
    std::str::from_utf8(&digits[..memchr::memchr(b'\r', digits)?]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_payload_is_found_behind_heads() {
        let one = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";
        let none = "HTTP/1.1 304 Not Modified\r\n\r\n";
        let to_head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
        let begun = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcd";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        for (piece, bytes, is_whole) in [
            (one.to_owned(), 4, true),
            (one.repeat(3), 4, true),
            (format!("{to_head}{none}{one}"), 4, true),
            (format!("{one}{begun}"), 4, false),
            (chunked.to_owned(), 11, true),
        ] {
            let payload = last(Server::Http, piece.as_bytes()).unwrap();
            assert_eq!((payload.at.len(), payload.at.end, payload.is_whole), (bytes, piece.len(), is_whole), "{piece}");
        }
        for piece in [none.to_owned(), to_head.to_owned(), format!("{one}{none}"), String::new()] {
            assert_eq!(last(Server::Http, piece.as_bytes()), None, "{piece}");
        }
        assert_eq!(last(Server::Echo, one.as_bytes()), Some(Payload { at: 0..one.len(), is_whole: true }));
        assert_eq!(last(Server::Echo, b""), None);
    }
}
