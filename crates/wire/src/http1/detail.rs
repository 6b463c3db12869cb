//! The numbers that say more about an HTTP/1.1 failure than its kind, and their words.
//!
//! A failure is counted in the hot loop, so it carries a number; words are looked up when a report is written. Numbers
//! are stored in recordings: never change one, add new ones. Ranges: named details below 100, 1000 + status for
//! an unexpected status, [`IN_BODY`] + per mille for a body that stopped part of the way, [`CHECK`] and [`MISSING_VALUE`] + the
//! places of a request and of what was looked at in its reply.

use crate::detail::details;
use model::plan::Http1;
use model::workload::ProtocolPlan as _;
use std::borrow::Cow;

/// Where the numbers of unexpected statuses begin: this + status.
const STATUS: u32 = 1000;
/// Where the numbers of bodies of known length that stopped begin: this + thousandths received.
const IN_BODY: u32 = 0x1000_0000;

/// Where the numbers of checks that a reply did not pass begin: this + 256 × the request's place in the plan + the check's.
const CHECK: u32 = 0x2000_0000;
/// Where those of values that a reply did not have begin, likewise.
const MISSING_VALUE: u32 = 0x2100_0000;
/// How many of either a request can have.
const LOOKS_MAX: u32 = 256;
/// Requests that are told apart.
const ENTRIES_MAX: u32 = 0x1_0000;

details! {
    /// The first bytes are not `HTTP/1.`.
    NotHttp = 1, "the reply does not begin with HTTP/1.";
    /// HTTP/1.2 and the like.
    Version = 2, "the reply's version is neither HTTP/1.0 nor HTTP/1.1";
    /// Status line.
    StatusLine = 3, "the status line is malformed";
    /// RFC 9110 section 15: statuses begin at 100.
    StatusBelow100 = 4, "the status is below 100";
    /// A field name that is no token, a space before the colon, a line without a colon.
    HeaderName = 5, "a header field's name is malformed";
    /// A control byte.
    HeaderValue = 6, "a header field's value has a forbidden byte";
    /// CR without LF.
    LineEnd = 7, "a line of the head ends in a bare CR";
    /// 101 without our asking (RFC 9110 section 15.2.2).
    Upgrade = 8, "101 Switching Protocols came though no upgrade was asked for";
    /// RFC 9112 section 6.3 rule 5.
    Length = 9, "Content-Length is not a number";
    /// RFC 9112 section 6.3 rule 5.
    LengthsDiffer = 10, "Content-Length is given more than once, with different values";
    /// Beyond any file offset.
    LengthTooLarge = 11, "Content-Length is beyond 2^63-1";
    /// RFC 9112 section 6.3 rule 3: "ought to be handled as an error".
    LengthAndEncoding = 12, "Content-Length and Transfer-Encoding stand in one reply";
    /// RFC 9112 section 6.1: chunked at most once, and last.
    Encoding = 13, "Transfer-Encoding is empty, malformed, or has chunked more than once";
    /// RFC 9112 section 6.1: faulty framing.
    EncodingIn10 = 14, "Transfer-Encoding stands in an HTTP/1.0 reply";
    /// No hexadecimal number.
    ChunkSize = 15, "a chunk's size is not a hexadecimal number";
    /// Beyond any file offset.
    ChunkSizeTooLarge = 16, "a chunk's size is beyond 2^63-1";
    /// Endless extensions or leading zeros.
    ChunkLineTooLong = 17, "a chunk's size line with its extensions is longer than 4096 bytes";
    /// Bare CR or LF, or a control byte in the line.
    ChunkLine = 18, "a chunk's size line is malformed";
    /// Data longer than the size said.
    ChunkEnd = 19, "a chunk's data is not followed by CRLF";
    /// Trailer section.
    Trailer = 20, "a trailer field is malformed";
    /// Trailer section over the head's limit.
    TrailersTooLong = 21, "the trailer fields are longer than the limit of heads";
    /// Head over its limit.
    HeadTooLong = 22, "the reply's head has no end within the limit (--max-head)";
    /// A TLS alert (RFC 8446 section 5.1: content type 21), as servers send to whoever speaks no TLS.
    TlsAlert = 23, "the reply begins as a TLS alert does: the server speaks TLS on this port, use https://";

    /// Nothing came.
    BeforeFirstByte = 30, "before the reply's first byte";
    /// Only 1xx came.
    AfterInterim = 31, "after an interim reply, before the final one";
    /// Part of a head came.
    InHead = 32, "inside the reply's head";
    /// A body without a length.
    InBodyUntilClose = 33, "inside a body that only a close would have ended";
    /// Between the data of two chunks.
    InChunkSize = 34, "between two chunks";
    /// In the data of a chunk.
    InChunkData = 35, "inside a chunk";
    /// After the last chunk.
    InTrailers = 36, "after the last chunk, before the end of the trailer fields";

    /// SHA-256.
    WrongDigest = 40, "the body's SHA-256 is not the expected one";
    /// Regular expression, whole body seen.
    NoMatch = 41, "the regular expression matches nowhere in the body";
    /// Regular expression, body too long.
    NoMatchInPart = 42, "the regular expression matches nowhere in the body's first MiB, which is all that is looked at";

    /// What was acknowledged of a key is gone.
    LostWrite = 50, "404 or 410 came for a key whose write had been acknowledged before this request left: the write is lost";
}

/// The number of an unexpected status.
pub fn status(status: u16) -> u32 {
    STATUS + u32::from(status)
}

/// The number of a body that stopped after `came` of `length` bytes.
pub fn in_body(came: u64, length: u64) -> u32 {
    let per_mille = u128::from(came) * 1000 / u128::from(length.max(1));
    IN_BODY + per_mille.min(999) as u32
}

/// The number of a check that a reply did not pass: of a request, and of the check, by their places.
pub fn check(request: u32, place: usize) -> u32 {
    CHECK + look(request, place)
}

/// The number of a value that a reply did not have.
pub fn missing_value(request: u32, place: usize) -> u32 {
    MISSING_VALUE + look(request, place)
}

fn look(request: u32, place: usize) -> u32 {
    request.min(ENTRIES_MAX - 1) * LOOKS_MAX + (place as u32).min(LOOKS_MAX - 1)
}

/// The places of a request and of what was looked at in its reply.
fn places(detail: u32, base: u32) -> Option<(usize, usize)> {
    let look = detail.checked_sub(base).filter(|look| *look < ENTRIES_MAX * LOOKS_MAX)?;
    Some(((look / LOOKS_MAX) as usize, (look % LOOKS_MAX) as usize))
}

/// The words of a detail with what the plan says of it.
pub fn words_of(plan: &Http1, detail: u32) -> Option<Cow<'static, str>> {
    let name = |place: usize| u16::try_from(place).ok().and_then(|entry| plan.entry_name(entry)).unwrap_or_default();
    if let Some((request, place)) = places(detail, CHECK)
        && let Some(check) = plan.requests.get(request).and_then(|request| request.checks.get(place))
    {
        return Some(Cow::Owned(format!("the reply to '{}' does not pass '{check}'", name(request))));
    }
    if let Some((request, place)) = places(detail, MISSING_VALUE)
        && let Some(take) = plan.requests.get(request).and_then(|request| request.take.get(place))
    {
        return Some(Cow::Owned(format!("the reply to '{}' has no value for '{take}'", name(request))));
    }
    words(detail)
}

/// The words of a detail, coarse where it holds a number.
pub fn describe(detail: u32) -> Option<&'static str> {
    if places(detail, CHECK).is_some() {
        return Some("a check was not passed");
    }
    if places(detail, MISSING_VALUE).is_some() {
        return Some("a value was not there");
    }
    if let Some(per_mille) = detail.checked_sub(IN_BODY) {
        return match per_mille {
            0..250 => Some("in the first quarter of the body"),
            250..500 => Some("in the second quarter of the body"),
            500..750 => Some("in the third quarter of the body"),
            750..1000 => Some("in the last quarter of the body"),
            _ => None,
        };
    }
    if let Some(status) = detail.checked_sub(STATUS) {
        return STATUSES.iter().find(|(s, _)| u32::from(*s) == status).map(|(_, words)| *words).or(match status {
            100..200 => Some("an interim status"),
            200..300 => Some("a 2xx status"),
            300..400 => Some("a 3xx status (redirects are not followed)"),
            400..500 => Some("a 4xx status"),
            500..600 => Some("a 5xx status"),
            600..1000 => Some("a status beyond 599"),
            _ => None,
        });
    }
    named(detail)
}

/// The words of a detail with its number.
pub fn words(detail: u32) -> Option<Cow<'static, str>> {
    let coarse = describe(detail)?;
    if let Some(per_mille) = detail.checked_sub(IN_BODY) {
        return Some(Cow::Owned(format!("inside the body, after {}.{} % of it", per_mille / 10, per_mille % 10)));
    }
    match detail.checked_sub(STATUS) {
        Some(status) => Some(Cow::Owned(format!("{status}: {coarse}"))),
        None => Some(Cow::Borrowed(coarse)),
    }
}

/// Statuses one meets, by the IANA registry's names.
const STATUSES: &[(u16, &str)] = &[
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (204, "No Content"),
    (206, "Partial Content"),
    (301, "Moved Permanently (redirects are not followed)"),
    (302, "Found (redirects are not followed)"),
    (303, "See Other (redirects are not followed)"),
    (304, "Not Modified"),
    (307, "Temporary Redirect (redirects are not followed)"),
    (308, "Permanent Redirect (redirects are not followed)"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (415, "Unsupported Media Type"),
    (417, "Expectation Failed"),
    (421, "Misdirected Request"),
    (422, "Unprocessable Content"),
    (426, "Upgrade Required"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
    (505, "HTTP Version Not Supported"),
    (507, "Insufficient Storage"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_words_and_only_those() {
        for (number, text) in NAMED {
            assert_eq!(describe(*number), Some(*text));
            assert_eq!(words(*number).as_deref(), Some(*text));
            assert_eq!(NAMED.iter().filter(|(n, _)| n == number).count(), 1, "{number} is there twice");
            assert!((1..STATUS).contains(number));
        }
        for nothing in [0, 99, STATUS, STATUS + 99, STATUS + 1000, IN_BODY - 1, IN_BODY + 1000, u32::MAX] {
            assert_eq!((describe(nothing), words(nothing)), (None, None), "{nothing}");
        }
        for code in 100..1000 {
            assert!(describe(status(code)).is_some(), "{code}");
        }
        assert_eq!(words(status(404)).as_deref(), Some("404: Not Found"));
        assert_eq!(words(status(499)).as_deref(), Some("499: a 4xx status"));
    }

    #[test]
    fn how_far_a_body_got_is_never_all_of_it() {
        for (came, length, expected) in [
            (0, 10, "inside the body, after 0.0 % of it"),
            (375, 1000, "inside the body, after 37.5 % of it"),
            (u64::MAX - 1, u64::MAX, "inside the body, after 99.9 % of it"),
            (10, 10, "inside the body, after 99.9 % of it"),
            (0, 0, "inside the body, after 0.0 % of it"),
        ] {
            assert_eq!(words(in_body(came, length)).as_deref(), Some(expected));
        }
        assert_eq!(describe(in_body(3, 4)), Some("in the last quarter of the body"));
    }
}
