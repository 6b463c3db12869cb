//! Reply heads of origins, read strictly (RFC 9112 §4 to §6): what is ambiguous is not passed on.
//!
//! An origin is not trusted more than a client: two lengths, a length beside a transfer coding, a folded
//! line, a bare line feed or a control character make the reply a 502 of the proxy's own.

use super::fields::{fields, list, nominated};

/// How a reply's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// At once; `stated` is the length a reply to HEAD, or a 304, names.
    None { stated: Option<u64> },
    /// After so many bytes.
    Known(u64),
    /// With its last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// What a reply's head says, as far as the proxy acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyHead {
    pub(super) status: u16,
    pub(super) http10: bool,
    /// Whether the origin keeps the connection.
    pub(super) keep_alive: bool,
    pub(super) body: Body,
}

/// Parses a complete head; `to_head`: the request was HEAD. On failure: what was expected.
pub(super) fn parse(head: &[u8], to_head: bool) -> Result<ReplyHead, &'static str> {
    let lines = head.strip_suffix(b"\r\n\r\n").ok_or("expected lines that end in CR LF from the origin")?;
    let mut lines = lines.split(|&byte| byte == b'\n').peekable();
    let line = lines.next().unwrap_or_default();
    let mut line = match lines.peek() {
        Some(_) => line.strip_suffix(b"\r").ok_or("expected lines that end in CR LF from the origin")?,
        None => line,
    };
    let http10 = match line.get(..9) {
        Some(b"HTTP/1.1 ") => false,
        Some(b"HTTP/1.0 ") => true,
        _ => return Err("expected a reply that begins with HTTP/1.1 or HTTP/1.0 from the origin"),
    };
    line = &line[9..];
    let is_status =
        line.len() >= 3 && line[..3].iter().all(u8::is_ascii_digit) && matches!(line.get(3), None | Some(b' '));
    let status = if is_status { line[..3].iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')) } else { 0 };
    if !(100..=599).contains(&status) || line.iter().any(|&byte| is_control(byte)) {
        return Err("expected a status of three digits from the origin");
    }
    while let Some(line) = lines.next() {
        let line = match lines.peek() {
            Some(_) => line.strip_suffix(b"\r").ok_or("expected lines that end in CR LF from the origin")?,
            None => line,
        };
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
        let is_name = colon > 0
            && line[..colon].iter().all(|&byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte));
        if !is_name || line.iter().any(|&byte| is_control(byte)) {
            return Err("expected header fields as `name: value`, on one line each, from the origin");
        }
    }
    let options = nominated(head).ok_or("expected at most 32 options in Connection from the origin")?;
    let says = |option: &[u8]| options.iter().any(|other| other.eq_ignore_ascii_case(option));
    let keep_alive = if http10 { says(b"keep-alive") } else { !says(b"close") };
    Ok(ReplyHead { status, http10, keep_alive, body: body(head, status, http10, to_head)? })
}

fn body(head: &[u8], status: u16, http10: bool, to_head: bool) -> Result<Body, &'static str> {
    const ONE: &str = "expected one Content-Length, or one Transfer-Encoding, from the origin, not more";
    let mut length = None;
    for (_, value) in fields(head).filter(|(name, _)| name.eq_ignore_ascii_case(b"content-length")) {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = if is_number { std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) } else { None };
        let number: u64 = number.ok_or("expected Content-Length to be digits from the origin")?;
        if length.replace(number).is_some() {
            return Err(ONE);
        }
    }
    let mut codings = list(head, b"transfer-encoding");
    let is_coded = fields(head).any(|(name, _)| name.eq_ignore_ascii_case(b"transfer-encoding"));
    if is_coded {
        let is_chunked = codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
        if length.is_some() || codings.next().is_some() {
            return Err(ONE);
        }
        if !is_chunked || http10 {
            return Err("expected no other transfer coding than chunked from the origin, and that only in HTTP/1.1");
        }
    }
    Ok(match (to_head || status < 200 || status == 204 || status == 304, is_coded, length) {
        // A length beside 204 means nothing (RFC 9110 §8.6), and would be read by some.
        (true, _, length) => Body::None { stated: length.filter(|_| status >= 200 && status != 204) },
        (false, true, _) => Body::Chunked,
        (false, false, Some(length)) => Body::Known(length),
        (false, false, None) => Body::UntilClose,
    })
}

fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8]) -> Option<(u16, Body, bool)> {
        parse(head, false).ok().map(|head| (head.status, head.body, head.keep_alive))
    }

    #[test]
    fn bodies_are_delimited_as_the_head_says() {
        let known = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(check(known), Some((200, Body::Known(12), true)));
        assert_eq!(parse(known, true).unwrap().body, Body::None { stated: Some(12) });
        assert_eq!(
            check(b"HTTP/1.1 404\r\nTransfer-Encoding: Chunked\r\nConnection: a, CLOSE\r\n\r\n"),
            Some((404, Body::Chunked, false))
        );
        assert_eq!(check(b"HTTP/1.0 200 x\r\n\r\n"), Some((200, Body::UntilClose, false)));
        assert_eq!(
            check(b"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n"),
            Some((204, Body::None { stated: None }, true))
        );
        assert_eq!(
            check(b"HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n"),
            Some((304, Body::None { stated: Some(5) }, true))
        );
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for head in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            b"HTTP/1.1 200 OK\nA: b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
            b"HTTP/1.1 20 OK\r\n\r\n",
            b"HTTP/1.1 2000\r\n\r\n",
            b"HTTP/2.0 200 OK\r\n\r\n",
            b"ICY 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\n\n",
        ] {
            assert_eq!(check(head), None, "{}", head.escape_ascii());
        }
    }
}
