//! Request heads: where one ends, and what it says (RFC 9112 §2 to §6, read strictly).
//!
//! The end is looked for from where the last look stopped, so a head in one-byte pieces costs linear
//! time, and the head is parsed once, when complete. Only the fields the server acts on are kept,
//! borrowed from the input. Lenient readings that requests are smuggled with are refused with 400:
//! bare LF, folded lines, spaces before a colon, two lengths, a length beside a transfer coding.

use memchr::memchr;

use crate::limits;

/// A request that is answered with an error, and the connection closed after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// What was expected, for the reply's body.
    pub(crate) why: &'static str,
}

const fn refuse<T>(status: u16, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, why })
}

/// The methods known; others are answered 501.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Trace,
    Connect,
}

/// How the request's body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyLength {
    None,
    Known(u64),
    Chunked,
}

/// A request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) method: Method,
    /// As sent, without scheme and host, percent-encoded; starts with `/` (or is `*` or an authority).
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a [u8],
    pub(crate) http10: bool,
    pub(crate) keep_alive: bool,
    pub(crate) body: BodyLength,
    pub(crate) expect_continue: bool,
    pub(crate) range: Option<&'a [u8]>,
    pub(crate) if_range: Option<&'a [u8]>,
    pub(crate) if_match: Option<&'a [u8]>,
    pub(crate) if_none_match: Option<&'a [u8]>,
    pub(crate) if_modified_since: Option<&'a [u8]>,
    pub(crate) if_unmodified_since: Option<&'a [u8]>,
}

/// The length of the head at the start of `input`, its final empty line included; `None` if more is
/// needed. `scanned` is kept between calls on the same head and starts at 0.
pub(crate) fn find_end(input: &[u8], scanned: &mut usize) -> Result<Option<usize>, Refusal> {
    if input.first().is_some_and(|&byte| !is_token(byte)) {
        return refuse(400, "expected a request line, beginning with a method");
    }
    let limit = input.len().min(limits::HEAD_BYTES_MAX);
    while let Some(found) = memchr(b'\n', &input[*scanned..limit]) {
        let newline = *scanned + found;
        match &input[newline + 1..] {
            // Also after bare line feeds, so that such a head is refused instead of waited on.
            [b'\n', ..] => return Ok(Some(newline + 2)),
            [b'\r', b'\n', ..] => return Ok(Some(newline + 3)),
            [] | [b'\r'] => {
                *scanned = newline;
                return within_limits(input);
            }
            _ => *scanned = newline + 1,
        }
    }
    *scanned = limit;
    within_limits(input)
}

/// Parses a complete head, as `find_end` delimited it.
pub(crate) fn parse(head: &[u8]) -> Result<Head<'_>, Refusal> {
    let mut lines = Lines { rest: head };
    let Some(request_line) = lines.next()? else { return refuse(400, "expected a request line") };
    if request_line.len() > limits::REQUEST_LINE_BYTES_MAX {
        return refuse(414, "expected a request line of at most 16 KiB");
    }
    let mut parsed = parse_request_line(request_line)?;
    let mut hosts = 0_u32;
    let mut coded = false;
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            break;
        }
        let (name, value) = split_field(line)?;
        // Lengths first: almost every field is passed over by one comparison.
        match name.len() {
            4 if is(name, b"host") => {
                hosts += 1;
                if !value.iter().all(|&byte| is_host(byte)) {
                    return refuse(400, "expected a Host of letters, digits and .-_:[]");
                }
            }
            5 if is(name, b"range") => parsed.range = Some(value),
            6 if is(name, b"expect") && !parsed.http10 => {
                if !is(value, b"100-continue") {
                    return refuse(417, "expected no other expectation than 100-continue");
                }
                parsed.expect_continue = true;
            }
            8 if is(name, b"if-range") => parsed.if_range = Some(value),
            8 if is(name, b"if-match") => parsed.if_match = Some(value),
            10 if is(name, b"connection") => {
                for option in value.split(|&byte| byte == b',') {
                    let option = option.trim_ascii();
                    if is(option, b"close") {
                        parsed.keep_alive = false;
                    } else if parsed.http10 && is(option, b"keep-alive") {
                        parsed.keep_alive = true;
                    }
                }
            }
            13 if is(name, b"if-none-match") => parsed.if_none_match = Some(value),
            14 if is(name, b"content-length") => {
                if parsed.body != BodyLength::None {
                    return refuse(400, "expected one Content-Length, or one Transfer-Encoding, not more");
                }
                parsed.body = BodyLength::Known(parse_length(value)?);
            }
            17 if is(name, b"if-modified-since") => parsed.if_modified_since = Some(value),
            17 if is(name, b"transfer-encoding") => {
                if coded || parsed.body != BodyLength::None || parsed.http10 {
                    return refuse(400, "expected one Transfer-Encoding, in HTTP/1.1, and no Content-Length beside it");
                }
                if !is(value, b"chunked") {
                    return refuse(501, "expected no other transfer coding than chunked");
                }
                coded = true;
                parsed.body = BodyLength::Chunked;
            }
            19 if is(name, b"if-unmodified-since") => parsed.if_unmodified_since = Some(value),
            _ => {}
        }
    }
    if hosts > 1 || (hosts == 0 && !parsed.http10) {
        return refuse(400, "expected exactly one Host field");
    }
    Ok(parsed)
}

fn within_limits(input: &[u8]) -> Result<Option<usize>, Refusal> {
    if input.len() > limits::REQUEST_LINE_BYTES_MAX && memchr(b'\n', &input[..limits::REQUEST_LINE_BYTES_MAX]).is_none()
    {
        return refuse(414, "expected a request line of at most 16 KiB");
    }
    if input.len() >= limits::HEAD_BYTES_MAX {
        return refuse(431, "expected a request head of at most 64 KiB");
    }
    Ok(None)
}

struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    /// The next line without its end.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Refusal> {
        let Some(newline) = memchr(b'\n', self.rest) else { return Ok(None) };
        let (line, rest) = self.rest.split_at(newline + 1);
        self.rest = rest;
        match line {
            [line @ .., b'\r', b'\n'] => Ok(Some(line)),
            _ => refuse(400, "expected lines to end in CR LF"),
        }
    }
}

fn parse_request_line(line: &[u8]) -> Result<Head<'_>, Refusal> {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return refuse(400, "expected `METHOD TARGET HTTP/1.1`, separated by single spaces");
    };
    if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) {
        return refuse(400, "expected a method of token characters");
    }
    let http10 = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if minor.is_ascii_digit() => false,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return refuse(505, "expected HTTP/1.0 or HTTP/1.1");
        }
        _ => return refuse(400, "expected a version like HTTP/1.1"),
    };
    let method = match method {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"PATCH" => Method::Patch,
        b"DELETE" => Method::Delete,
        b"OPTIONS" => Method::Options,
        b"TRACE" => Method::Trace,
        b"CONNECT" => Method::Connect,
        _ => return refuse(501, "expected a method this server knows, for example GET"),
    };
    if !target.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') {
        return refuse(400, "expected a target of visible ASCII characters, without fragment");
    }
    let origin = origin_form(method, target)?;
    let (path, query) = match memchr(b'?', origin) {
        Some(mark) => (&origin[..mark], &origin[mark + 1..]),
        None => (origin, &[][..]),
    };
    Ok(Head {
        method,
        path,
        query,
        http10,
        keep_alive: !http10,
        body: BodyLength::None,
        expect_continue: false,
        range: None,
        if_range: None,
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
    })
}

/// Path and query of a target in any of its four forms (RFC 9112 §3.2).
fn origin_form(method: Method, target: &[u8]) -> Result<&[u8], Refusal> {
    if target.first() == Some(&b'/') || (target == b"*" && method == Method::Options) {
        return Ok(target);
    }
    if method == Method::Connect {
        // Answered 405, whatever it names.
        return Ok(b"*");
    }
    let Some(after) = target.get(..7).filter(|scheme| is(scheme, b"http://")).map(|_| &target[7..]) else {
        return refuse(400, "expected a target that begins with / or http://");
    };
    let authority = after.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(after.len());
    if authority == 0 || !after[..authority].iter().all(|&byte| is_host(byte)) {
        return refuse(400, "expected a host after http://");
    }
    match after.get(authority) {
        None => Ok(b"/"),
        Some(b'/') => Ok(&after[authority..]),
        Some(_) => refuse(400, "expected a path between host and query"),
    }
}

fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let colon = line.iter().position(|&byte| !is_token(byte)).unwrap_or(line.len());
    if colon == 0 || line.get(colon) != Some(&b':') {
        return refuse(400, "expected header fields as `name: value`, on one line each");
    }
    let value = &line[colon + 1..];
    if value.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return refuse(400, "expected header values without control characters");
    }
    Ok((&line[..colon], value.trim_ascii()))
}

fn parse_length(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return refuse(400, "expected Content-Length to be digits");
    }
    let length =
        value.iter().try_fold(0_u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    length.ok_or(Refusal { status: 413, why: "expected a smaller body" })
}

fn is(text: &[u8], lowercase: &[u8]) -> bool {
    text.eq_ignore_ascii_case(lowercase)
}

/// `tchar` of RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let marks = b"!#$%&'*+-.^_`|~";
        let mut mark = 0;
        while mark < marks.len() {
            table[marks[mark] as usize] = true;
            mark += 1;
        }
        table
    };
    TOKEN[usize::from(byte)]
}

/// Enough for a registered name, an address and a port, without judging which.
fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_:[]~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8]) -> Result<Head<'_>, u16> {
        let mut scanned = 0;
        match find_end(head, &mut scanned) {
            Ok(Some(len)) => parse(&head[..len]).map_err(|refusal| refusal.status),
            Ok(None) => Err(0),
            Err(refusal) => Err(refusal.status),
        }
    }

    #[test]
    fn a_plain_request_is_read() {
        let head = check(b"GET /a?b=c HTTP/1.1\r\nHost: x:1\r\nConnection: foo, CLOSE\r\n\r\n").unwrap();
        assert_eq!((head.method, head.path, head.query), (Method::Get, &b"/a"[..], &b"b=c"[..]));
        assert!(!head.keep_alive && !head.http10);
        let head =
            check(b"POST http://h:80/x HTTP/1.0\r\ncontent-LENGTH:\t12 \r\nconnection: Keep-Alive\r\n\r\n").unwrap();
        assert_eq!((head.path, head.body), (&b"/x"[..], BodyLength::Known(12)));
        assert!(head.keep_alive && head.http10);
        assert_eq!(check(b"GET http://h HTTP/1.0\r\n\r\n").unwrap().path, b"/");
        assert!(!check(b"GET / HTTP/1.0\r\n\r\n").unwrap().keep_alive);
        assert!(check(b"GET / HTTP/1.7\r\nHost:\r\n\r\n").unwrap().keep_alive);
        assert_eq!(check(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().path, b"*");
    }

    #[test]
    fn malformed_heads_are_refused_with_the_right_status() {
        let cases: &[(&[u8], u16)] = &[
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            (b"GET /\r\n\r\n", 400),
            (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
            (b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/11\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
            (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
            (b"G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/1.1\nHost: a\n\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nx: a\0b\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nx: a\rb\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", 413),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", 400),
            (b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417),
            (b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            (b"\n", 400),
            (b"\x16\x03\x01", 400),
        ];
        for (head, status) in cases {
            assert_eq!(check(head), Err(*status), "{}", head.escape_ascii());
        }
    }

    #[test]
    fn the_end_is_the_same_wherever_the_input_is_cut() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\nGET ";
        let mut scanned = 0;
        for cut in 0..head.len() {
            let end = find_end(&head[..cut], &mut scanned).unwrap();
            if cut < head.len() - 4 {
                assert_eq!(end, None, "at {cut}");
            } else {
                assert_eq!(end, Some(head.len() - 4), "at {cut}");
            }
        }
    }

    #[test]
    fn endless_heads_are_refused() {
        let line = [b'a'; limits::REQUEST_LINE_BYTES_MAX + 1];
        assert_eq!(check(&line), Err(414));
        let mut head = b"GET / HTTP/1.1\r\n".to_vec();
        head.resize(limits::HEAD_BYTES_MAX - 1, b'a');
        assert_eq!(check(&head), Err(0), "one byte below the limit more is waited for");
        head.push(b'a');
        assert_eq!(check(&head), Err(431));
        head.truncate(head.len() - 4);
        head.extend_from_slice(b"\r\n\r\n");
        assert_eq!(check(&head), Err(400), "complete at exactly the limit, it is judged by its content");
    }
}
