//! What may be kept, for how long, and for whom (RFC 9111): only what says so itself.
//!
//! Kept are replies of 200 to GET with `max-age` or `s-maxage`, without `no-store`, `no-cache`, `private`,
//! `Set-Cookie` or `Vary: *`, to requests without `Authorization` and `Range`. Nothing is judged by guess:
//! a reply without explicit freshness is passed on and forgotten. Stale replies are not validated anew.

use super::cache::Stored;
use super::fields::{field, list};
use super::forward;
use super::reply::ReplyHead;
use crate::http::date;
use crate::http::reply::push_format;
use crate::http::request::{BodyLength, Head, Method};

/// The longest a reply is kept, whatever it says: a year.
const FRESH_S_MAX: u64 = 365 * 86_400;

/// What a request lets a cache do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    /// It may be answered from the cache.
    pub(super) find: bool,
    /// Its reply may be kept.
    pub(super) keep: bool,
}

/// What the request with this head lets a cache do.
pub(super) fn allowed(head: &[u8], parsed: &Head<'_>) -> Allowed {
    let is_read = matches!(parsed.method, Method::Get | Method::Head) && parsed.body == BodyLength::None;
    let is_plain = is_read && parsed.range.is_none() && field(head, b"authorization").is_none();
    let directive = |name: &[u8]| list(head, b"cache-control").any(|item| item.eq_ignore_ascii_case(name));
    let is_fresh_wanted = directive(b"no-cache") || directive(b"max-age=0") || field(head, b"pragma").is_some();
    let keep = is_plain && parsed.method == Method::Get && !directive(b"no-store");
    Allowed { find: is_plain && !directive(b"no-store") && !is_fresh_wanted, keep }
}

/// For how many seconds from now a reply is fresh, and its age; `None` if it must not be kept.
pub(super) fn fresh_s(head: &[u8], parsed: &ReplyHead) -> Option<(u64, u64)> {
    if parsed.status != 200 || field(head, b"set-cookie").is_some() || list(head, b"vary").any(|item| item == b"*") {
        return None;
    }
    let (mut max_age, mut shared) = (None, None);
    for item in list(head, b"cache-control") {
        let (name, value) = match item.iter().position(|&byte| byte == b'=') {
            Some(equals) => (&item[..equals], &item[equals + 1..]),
            None => (item, &b""[..]),
        };
        let name = name.to_ascii_lowercase();
        match &name[..] {
            b"no-store" | b"no-cache" | b"private" => return None,
            // Twice, or no number: then nothing is explicit.
            b"max-age" if max_age.replace(seconds(value)?).is_some() => return None,
            b"s-maxage" if shared.replace(seconds(value)?).is_some() => return None,
            _ => {}
        }
    }
    let age = field(head, b"age").map_or(Some(0), seconds)?;
    let left = shared.or(max_age)?.min(FRESH_S_MAX).checked_sub(age)?;
    (left > 0).then_some((left, age))
}

/// A reply to be kept, still without its body; `request` is the head it answers.
pub(super) fn stored(request: &[u8], head: &[u8], parsed: &ReplyHead, now_ns: u64) -> Option<Stored> {
    let (left_s, age_s) = fresh_s(head, parsed)?;
    let mut kept = Vec::new();
    // An origin's Age goes: ours is written with each reply.
    forward::push_reply_fields(&mut kept, &without_age(head), parsed);
    let vary = list(head, b"vary").map(|name| (name.to_ascii_lowercase(), joined(request, name))).collect();
    Some(Stored {
        head: kept,
        body: Vec::new(),
        etag: field(head, b"etag").map(<[u8]>::to_vec),
        last_modified_s: field(head, b"last-modified").and_then(date::parse),
        vary,
        age_s,
        stored_ns: now_ns,
        fresh_until_ns: now_ns.saturating_add(left_s.saturating_mul(1_000_000_000)),
    })
}

/// Whether a request agrees in the fields the reply depends on.
pub(super) fn matches(request: &[u8], stored: &Stored) -> bool {
    stored.vary.iter().all(|(name, value)| joined(request, name) == *value)
}

/// Writes the head of a reply from the cache; whether the body follows.
pub(super) fn push_hit(
    out: &mut Vec<u8>,
    request: &[u8],
    parsed: &Head<'_>,
    stored: &Stored,
    now_ns: u64,
    keep_alive: bool,
) -> bool {
    let is_same = is_not_modified(request, stored);
    let line = stored.head.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    match is_same {
        true => {
            out.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n");
            out.extend_from_slice(&stored.head[line..]);
        }
        false => {
            out.extend_from_slice(&stored.head);
            push_format(out, format_args!("Content-Length: {}\r\n", stored.body.len()));
        }
    }
    let age_s = stored.age_s + now_ns.saturating_sub(stored.stored_ns) / 1_000_000_000;
    push_format(out, format_args!("Age: {age_s}\r\nCache-Status: plimsoll; hit\r\n"));
    forward::push_connection(out, keep_alive, parsed.http10);
    !is_same && parsed.method == Method::Get && !stored.body.is_empty()
}

/// RFC 9110 §13.2.2, for GET and HEAD of a complete reply.
fn is_not_modified(request: &[u8], stored: &Stored) -> bool {
    let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    let mut tags = list(request, b"if-none-match").peekable();
    if tags.peek().is_some() {
        return tags.any(|tag| tag == b"*" || stored.etag.as_ref().is_some_and(|etag| opaque(tag) == opaque(etag)));
    }
    let since_s = field(request, b"if-modified-since").and_then(date::parse);
    matches!((since_s, stored.last_modified_s), (Some(since_s), Some(modified_s)) if modified_s <= since_s)
}

fn joined(request: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    field(request, name)?;
    Some(list(request, name).collect::<Vec<_>>().join(&b","[..]))
}

fn without_age(head: &[u8]) -> Vec<u8> {
    let is_age = |line: &[u8]| line.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"age:"));
    head.split_inclusive(|&byte| byte == b'\n').filter(|line| !is_age(line)).flatten().copied().collect()
}

/// Delta-seconds (RFC 9111 §1.2.2), with quotes tolerated; what overflows is the most there is.
fn seconds(value: &[u8]) -> Option<u64> {
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    is_number.then(|| value.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::super::reply;
    use super::*;

    #[test]
    fn only_what_says_so_itself_is_kept() {
        let check = |fields: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n");
            fresh_s(head.as_bytes(), &reply::parse(head.as_bytes(), false).unwrap())
        };
        assert_eq!(check("Cache-Control: max-age=60\r\n"), Some((60, 0)));
        assert_eq!(check("Cache-Control: public, MAX-AGE=60, s-maxage=5\r\nAge: 2\r\n"), Some((3, 2)));
        assert_eq!(check("Cache-Control: max-age=\"7\"\r\nVary: Accept\r\n"), Some((7, 0)));
        for fields in [
            "",
            "ETag: x\r\n",
            "Cache-Control: max-age=0\r\n",
            "Cache-Control: max-age=60, no-store\r\n",
            "Cache-Control: max-age=60\r\nCache-Control: private\r\n",
            "Cache-Control: max-age=60, no-cache=\"x\"\r\n",
            "Cache-Control: max-age=-1\r\n",
            "Cache-Control: max-age=5, max-age=6\r\n",
            "Cache-Control: max-age=60\r\nAge: 60\r\n",
            "Cache-Control: max-age=60\r\nVary: *\r\n",
            "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
        ] {
            assert_eq!(check(fields), None, "{fields}");
        }
    }

    #[test]
    fn conditions_are_judged_as_by_an_origin() {
        let head = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=9\r\nETag: W/\"a\"\r\n\
            Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nVary: Accept\r\nContent-Length: 0\r\n\r\n";
        let parsed = reply::parse(head, false).unwrap();
        let stored = stored(b"GET / HTTP/1.1\r\nAccept: a\r\n\r\n", head, &parsed, 0).unwrap();
        let check = |fields: &str| {
            let request = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            (matches(request.as_bytes(), &stored), is_not_modified(request.as_bytes(), &stored))
        };
        assert_eq!(check("Accept: a\r\n"), (true, false));
        assert_eq!(check("Accept: b\r\n"), (false, false));
        assert_eq!(check("If-None-Match: \"b\", \"a\"\r\n"), (false, true));
        assert_eq!(check("Accept: a\r\nIf-None-Match: *\r\n"), (true, true));
        assert_eq!(check("Accept: a\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), (true, true));
        assert_eq!(check("Accept: a\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), (true, false));
    }
}
