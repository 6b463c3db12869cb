//! Preconditions and ranges: which part of a file a request is answered with (RFC 9110 §13, §14).
//!
//! Pure. The order is that of §13.2.2. Single byte ranges only: a list of ranges is answered with the
//! whole file, which §14.2 allows.

use super::date;
use super::request::{Head, Method};

/// What a file is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// 200: all of it.
    Whole,
    /// 206: from the first byte to before the last.
    Range { from: u64, to: u64 },
    /// 304: the client has it.
    NotModified,
    /// 412: a precondition failed.
    PreconditionFailed,
    /// 416: no part of the range is in the file.
    NotSatisfiable,
}

/// Judges a request for a file of that entity tag, modification time and size.
pub(crate) fn part(head: &Head<'_>, etag: &str, modified_s: i64, size: u64) -> Part {
    let not_after = |since: &[u8]| date::parse(since).map(|since_s| modified_s <= since_s);
    match (head.if_match, head.if_unmodified_since) {
        (Some(tags), _) if !matches_strongly(tags, etag) => return Part::PreconditionFailed,
        (None, Some(since)) if not_after(since) == Some(false) => return Part::PreconditionFailed,
        _ => {}
    }
    match (head.if_none_match, head.if_modified_since) {
        (Some(tags), _) if matches_weakly(tags, etag) => return Part::NotModified,
        (None, Some(since)) if not_after(since) == Some(true) => return Part::NotModified,
        _ => {}
    }
    let (Method::Get, Some(range)) = (head.method, head.range) else { return Part::Whole };
    let still_the_same = head.if_range.is_none_or(|condition| {
        // A date here must be exactly the one that was sent (§13.1.5).
        condition == etag.as_bytes() || date::parse(condition) == Some(modified_s)
    });
    if still_the_same { byte_range(range, size) } else { Part::Whole }
}

fn byte_range(range: &[u8], size: u64) -> Part {
    let Some((unit, spec)) = split_at(range, b'=') else { return Part::Whole };
    let Some((first, last)) = split_at(spec.trim_ascii(), b'-') else { return Part::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return Part::Whole;
    }
    // Whatever does not read as one range (a list, say) is as if there were none.
    match (position(first), position(last)) {
        (Position::At(from), Position::At(last)) if from > last => Part::Whole,
        (Position::At(from), Position::At(_) | Position::Open) if from >= size => Part::NotSatisfiable,
        (Position::At(from), Position::At(last)) => Part::Range { from, to: last.saturating_add(1).min(size) },
        (Position::At(from), Position::Open) => Part::Range { from, to: size },
        (Position::Open, Position::At(0)) => Part::NotSatisfiable,
        (Position::Open, Position::At(_)) if size == 0 => Part::NotSatisfiable,
        (Position::Open, Position::At(suffix)) => Part::Range { from: size.saturating_sub(suffix), to: size },
        _ => Part::Whole,
    }
}

enum Position {
    At(u64),
    Open,
    Unreadable,
}

fn position(digits: &[u8]) -> Position {
    if digits.is_empty() {
        return Position::Open;
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return Position::Unreadable;
    }
    // A position beyond u64 is beyond any file, too.
    Position::At(
        digits.iter().fold(0, |value: u64, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

fn split_at(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == mark)?;
    Some((&text[..at], &text[at + 1..]))
}

fn matches_strongly(tags: &[u8], etag: &str) -> bool {
    tags == b"*" || list(tags).any(|tag| tag == etag.as_bytes())
}

fn matches_weakly(tags: &[u8], etag: &str) -> bool {
    tags == b"*" || list(tags).any(|tag| tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes())
}

/// Our own tags hold no comma, so a tag of somebody else's that is cut at one matches none of them.
fn list(tags: &[u8]) -> impl Iterator<Item = &[u8]> {
    tags.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request;

    const ETAG: &str = "\"a-b-c\"";
    const MODIFIED_S: i64 = 784_111_777;
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn check(method: &str, fields: &str, size: u64) -> Part {
        let text = format!("{method} / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let head = request::parse(text.as_bytes()).unwrap();
        part(&head, ETAG, MODIFIED_S, size)
    }

    #[test]
    fn ranges() {
        for (range, expected) in [
            ("bytes=0-0", Part::Range { from: 0, to: 1 }),
            ("bytes=2-", Part::Range { from: 2, to: 10 }),
            ("bytes=2-99", Part::Range { from: 2, to: 10 }),
            ("Bytes=9-9", Part::Range { from: 9, to: 10 }),
            ("bytes=-3", Part::Range { from: 7, to: 10 }),
            ("bytes=-99", Part::Range { from: 0, to: 10 }),
            ("bytes=0-18446744073709551615", Part::Range { from: 0, to: 10 }),
            ("bytes=10-", Part::NotSatisfiable),
            ("bytes=99999999999999999999999-", Part::NotSatisfiable),
            ("bytes=-0", Part::NotSatisfiable),
            ("bytes=5-4", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=", Part::Whole),
            ("bytes", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("lines=0-1", Part::Whole),
        ] {
            assert_eq!(check("GET", &format!("Range: {range}\r\n"), 10), expected, "{range}");
        }
        assert_eq!(check("GET", "Range: bytes=0-\r\n", 0), Part::NotSatisfiable);
        assert_eq!(check("GET", "Range: bytes=-1\r\n", 0), Part::NotSatisfiable);
        assert_eq!(check("HEAD", "Range: bytes=0-0\r\n", 10), Part::Whole);
    }

    #[test]
    fn preconditions_in_their_order() {
        let range = Part::Range { from: 0, to: 1 };
        for (fields, expected) in [
            (format!("If-None-Match: {ETAG}\r\n"), Part::NotModified),
            (format!("If-None-Match: \"x\", W/{ETAG}\r\n"), Part::NotModified),
            ("If-None-Match: *\r\n".to_owned(), Part::NotModified),
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {MODIFIED}\r\n"), Part::Whole),
            (format!("If-Modified-Since: {MODIFIED}\r\n"), Part::NotModified),
            (format!("If-Modified-Since: {EARLIER}\r\n"), Part::Whole),
            ("If-Modified-Since: yesterday\r\n".to_owned(), Part::Whole),
            (format!("If-Match: {ETAG}\r\n"), Part::Whole),
            (format!("If-Match: W/{ETAG}\r\n"), Part::PreconditionFailed),
            ("If-Match: \"x\"\r\n".to_owned(), Part::PreconditionFailed),
            (format!("If-Unmodified-Since: {EARLIER}\r\n"), Part::PreconditionFailed),
            (format!("If-Unmodified-Since: {MODIFIED}\r\nRange: bytes=0-0\r\n"), range),
            (format!("If-Range: {ETAG}\r\nRange: bytes=0-0\r\n"), range),
            (format!("If-Range: {MODIFIED}\r\nRange: bytes=0-0\r\n"), range),
            (format!("If-Range: {EARLIER}\r\nRange: bytes=0-0\r\n"), Part::Whole),
            (format!("If-Range: W/{ETAG}\r\nRange: bytes=0-0\r\n"), Part::Whole),
            (format!("If-None-Match: {ETAG}\r\nRange: bytes=0-0\r\n"), Part::NotModified),
        ] {
            assert_eq!(check("GET", &fields, 10), expected, "{fields}");
        }
    }
}
