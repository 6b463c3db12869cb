//! Heads of replies: where they end, and what they say about the reply's framing.
//!
//! A head is judged once, when its end is known, so the verdict does not depend on how the bytes were cut. Only three
//! fields are looked at: `Content-Length`, `Transfer-Encoding`, `Connection`; everything else is checked for syntax
//! by httparse and forgotten. Bare LF is taken for CRLF (RFC 9112 section 2.2), folded lines are unfolded (5.2).
//! Cost: one pass of httparse, one of `memchr` where the head came in pieces; no allocation up to 128 fields.

use super::detail::Detail;
use httparse::{EMPTY_HEADER, Header, ParserConfig, Response};
use std::mem::MaybeUninit;

/// What every reply begins with; only the minor version differs.
const PREFIX: &[u8] = b"HTTP/1.";
/// Fields parsed without memory of their own.
const FIELDS_INLINE: usize = 128;
/// The largest length that is believed: the largest file offset of Linux.
pub const LENGTH_MAX: u64 = i64::MAX as u64;

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status, at least 100.
    pub status: u16,
    /// Whether the connection persists after this reply, by version and `Connection` (RFC 9112 section 9.3).
    pub persists: bool,
    /// What the fields say about the body. Whether there is one depends on method and status too.
    pub declared: Declared,
}

/// What the fields say about the body (RFC 9112 section 6.3, rules 3 to 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// Neither field: the close ends the body.
    Nothing,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding` ending in chunked.
    Chunked,
    /// `Transfer-Encoding` not ending in chunked: the close ends the body.
    UntilClose,
    /// The fields contradict each other, or make no sense.
    Faulty(Detail),
}

/// What bytes are that no reply begins with.
#[cold]
pub fn what_else(bytes: &[u8]) -> Detail {
    match bytes {
        [21, ..] => Detail::TlsAlert,
        _ => Detail::NotHttp,
    }
}

/// Whether `bytes`, the first of a reply, can be the beginning of HTTP/1.
#[inline]
pub fn may_begin(bytes: &[u8]) -> bool {
    let known = bytes.len().min(PREFIX.len());
    bytes[..known] == PREFIX[..known]
}

/// The end of a head (behind its empty line), searched from `from` on; what is before was searched already.
pub fn find_end(bytes: &[u8], from: usize) -> Option<usize> {
    #[cfg(test)]
    counters::SCANNED.with(|n| n.set(n.get() + (bytes.len() - from) as u64));
    for at in memchr::memchr_iter(b'\n', &bytes[from..]) {
        if matches!(&bytes[..from + at], [.., b'\n'] | [.., b'\n', b'\r']) {
            return Some(from + at + 1);
        }
    }
    None
}

/// Parses the head that `bytes` may begin with: its length and what it says, if it is there as a whole and sound.
/// `None` says nothing: the head may be incomplete, malformed, or have more than [`FIELDS_INLINE`] fields.
#[inline]
pub fn parse_whole(bytes: &[u8]) -> Option<(usize, Result<Head, Detail>)> {
    #[cfg(test)]
    counters::PARSED.with(|n| n.set(n.get() + bytes.len() as u64));
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_INLINE];
    let mut response = Response::new(&mut []);
    match config().parse_response_with_uninit_headers(&mut response, bytes, &mut fields) {
        Ok(httparse::Status::Complete(end)) => Some((end, interpret(&response))),
        _ => None,
    }
}

/// Parses a head that [`find_end`] has found the end of: `bytes` is the head and nothing more.
pub fn parse(bytes: &[u8]) -> Result<Head, Detail> {
    #[cfg(test)]
    counters::PARSED.with(|n| n.set(n.get() + bytes.len() as u64));
    let mut inline = [const { MaybeUninit::uninit() }; FIELDS_INLINE];
    let mut response = Response::new(&mut []);
    let mut parsed = config().parse_response_with_uninit_headers(&mut response, bytes, &mut inline);
    let mut many: Vec<Header<'_>>;
    if parsed == Err(httparse::Error::TooManyHeaders) {
        // Every field ends a line, so this is enough, and it is bounded by the head's own bound.
        many = vec![EMPTY_HEADER; memchr::memchr_iter(b'\n', bytes).count()];
        response = Response::new(&mut many);
        parsed = config().parse_response(&mut response, bytes);
    }
    match parsed {
        Ok(httparse::Status::Complete(_)) => interpret(&response),
        Ok(httparse::Status::Partial) => Err(Detail::StatusLine),
        Err(error) => Err(match error {
            httparse::Error::Version => Detail::Version,
            httparse::Error::HeaderName => Detail::HeaderName,
            httparse::Error::HeaderValue => Detail::HeaderValue,
            httparse::Error::NewLine => Detail::LineEnd,
            _ => Detail::StatusLine,
        }),
    }
}

fn config() -> ParserConfig {
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    config
}

#[inline]
fn interpret(response: &Response<'_, '_>) -> Result<Head, Detail> {
    let status = response.code.unwrap_or(0);
    if status < 100 {
        return Err(Detail::StatusBelow100);
    }
    let is_10 = response.version == Some(0);
    let (mut close, mut keep_alive) = (false, false);
    let mut length = None;
    let mut encoding = None;
    let mut fault = None;
    for field in response.headers.iter() {
        // By length first: most fields are none of the three.
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for token in elements(field.value) {
                    close |= token.eq_ignore_ascii_case(b"close");
                    keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => match add_length(length, field.value) {
                Ok(sum) => length = Some(sum),
                Err(detail) => fault = fault.or(Some(detail)),
            },
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                let codings = encoding.get_or_insert(Codings::default());
                codings.add(field.value);
            }
            _ => {}
        }
    }
    let declared = match (encoding, length, fault) {
        (Some(_), Some(_), _) => Declared::Faulty(Detail::LengthAndEncoding),
        (_, _, Some(detail)) => Declared::Faulty(detail),
        (Some(_), None, None) if is_10 => Declared::Faulty(Detail::EncodingIn10),
        (Some(codings), None, None) => codings.declared(),
        (None, Some(length), None) => Declared::Length(length),
        (None, None, None) => Declared::Nothing,
    };
    let persists = !close && (!is_10 || keep_alive);
    Ok(Head { status, persists, declared })
}

/// The elements of a comma-separated list, without the whitespace around them (a folded line's among it).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii)
}

/// Takes another `Content-Length` field: one number, or a list of equal ones (RFC 9112 section 6.3 rule 5).
#[inline]
pub fn add_length(mut known: Option<u64>, value: &[u8]) -> Result<u64, Detail> {
    let mut last = 0;
    for element in elements(value) {
        last = number(element)?;
        if known.is_some_and(|known| known != last) {
            return Err(Detail::LengthsDiffer);
        }
        known = Some(last);
    }
    Ok(last)
}

fn number(digits: &[u8]) -> Result<u64, Detail> {
    if digits.is_empty() {
        return Err(Detail::Length);
    }
    let mut number = 0u64;
    let mut too_large = false;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Detail::Length);
        }
        number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        too_large |= number > LENGTH_MAX;
    }
    if too_large { Err(Detail::LengthTooLarge) } else { Ok(number) }
}

/// The codings of all `Transfer-Encoding` fields, in order.
#[derive(Debug, Clone, Copy, Default)]
struct Codings {
    any: bool,
    chunked: u32,
    ends_in_chunked: bool,
}

impl Codings {
    fn add(&mut self, value: &[u8]) {
        for coding in elements(value).filter(|coding| !coding.is_empty()) {
            let name = coding.split(|b| *b == b';').next().unwrap_or(coding).trim_ascii();
            self.any = true;
            self.ends_in_chunked = name.eq_ignore_ascii_case(b"chunked");
            self.chunked += u32::from(self.ends_in_chunked);
        }
    }

    fn declared(self) -> Declared {
        match self {
            Codings { any: false, .. } | Codings { chunked: 2.., .. } => Declared::Faulty(Detail::Encoding),
            Codings { ends_in_chunked: true, .. } => Declared::Chunked,
            // RFC 9112 section 6.1: chunked must be last.
            Codings { chunked: 1, .. } => Declared::Faulty(Detail::Encoding),
            Codings { .. } => Declared::UntilClose,
        }
    }
}

/// How many bytes were looked at, for tests that hold the cost to be linear.
#[cfg(test)]
pub mod counters {
    use std::cell::Cell;

    thread_local! {
        /// Bytes searched for a head's end.
        pub static SCANNED: Cell<u64> = const { Cell::new(0) };
        /// Bytes handed to the parser.
        pub static PARSED: Cell<u64> = const { Cell::new(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_its_first_empty_line() {
        for (bytes, end) in [
            (&b"a\r\n\r\nb"[..], Some(5)),
            (b"a\n\nb", Some(3)),
            (b"a\n\r\nb", Some(4)),
            (b"a\r\n\nb", Some(4)),
            (b"a\r\n \r\n\r\n", Some(8)),
            (b"a\r\r\n\r\r\n", None),
            (b"a\r\n\r", None),
            (b"\n", None),
            (b"\r\n", None),
            (b"", None),
        ] {
            assert_eq!(find_end(bytes, 0), end, "{bytes:?}");
            for from in 0..bytes.len().min(end.map_or(usize::MAX, |end| end - 1)) {
                assert_eq!(find_end(bytes, from), end, "{bytes:?} from {from}");
            }
        }
    }

    #[test]
    fn only_http_1_may_begin() {
        for n in 0..=PREFIX.len() {
            assert!(may_begin(&PREFIX[..n]));
        }
        assert!(may_begin(b"HTTP/1.1 200"));
        for bad in [&b"h"[..], b"HTTP/2", b"\r", b"\n", b" HTTP/1.1", b"HTTP 1", b"\0"] {
            assert!(!may_begin(bad), "{bad:?}");
        }
    }

    fn check(head: &str, expected: Result<(u16, bool, Declared), Detail>) {
        let got = parse(head.as_bytes()).map(|h| (h.status, h.persists, h.declared));
        assert_eq!(got, expected, "{head:?}");
        let mut followed = head.as_bytes().to_vec();
        followed.extend_from_slice(b"HTTP/1.1 500 x\r\n\r\n");
        match parse_whole(&followed) {
            Some((end, got)) => {
                assert_eq!((end, got.map(|h| (h.status, h.persists, h.declared))), (head.len(), expected), "{head:?}");
            }
            None => assert!(expected.is_err(), "{head:?}"),
        }
    }

    #[test]
    fn a_head_says_what_the_rfc_says_it_does() {
        let fields = |fields: &str, declared| {
            check(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), Ok((200, true, declared)));
            check(&format!("HTTP/1.1 200 OK\n{}\n", fields.replace("\r\n", "\n")), Ok((200, true, declared)));
        };
        use Declared::{Chunked, Faulty, Length, Nothing, UntilClose};
        fields("", Nothing);
        fields("Content-Length: 5\r\n", Length(5));
        fields("content-length:5\r\n", Length(5));
        fields("CONTENT-LENGTH:\t 005 \t\r\n", Length(5));
        fields("Content-Length:\r\n 5\r\n", Length(5));
        fields("Content-Length: 5\r\nContent-Length: 5\r\n", Length(5));
        fields("Content-Length: 5, 5,5\r\n", Length(5));
        fields("Content-Length: 5,\r\n 5\r\n", Length(5));
        fields("Content-Length: 9223372036854775807\r\n", Length(LENGTH_MAX));
        fields("Content-Length: 9223372036854775808\r\n", Faulty(Detail::LengthTooLarge));
        fields(&format!("Content-Length: {}\r\n", "9".repeat(500)), Faulty(Detail::LengthTooLarge));
        fields("Content-Length: 5\r\nContent-Length: 6\r\n", Faulty(Detail::LengthsDiffer));
        fields("Content-Length: 5, 6\r\n", Faulty(Detail::LengthsDiffer));
        for bad in ["", "-5", "+5", "0x5", "5 5", "5;", "5,", ",5", "five", "5.0", "\u{0665}"] {
            fields(&format!("Content-Length: {bad}\r\n"), Faulty(Detail::Length));
        }
        fields("Content-Length: x\r\nContent-Length: 5\r\n", Faulty(Detail::Length));
        fields("Transfer-Encoding: chunked\r\n", Chunked);
        fields("transfer-encoding: gzip, Chunked\r\n", Chunked);
        fields("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Chunked);
        fields("Transfer-Encoding: , chunked ,\r\n", Chunked);
        fields("Transfer-Encoding: gzip\r\n", UntilClose);
        fields("Transfer-Encoding: identity\r\n", UntilClose);
        fields("Transfer-Encoding: xchunked\r\n", UntilClose);
        for bad in ["", ",", "chunked, chunked", "chunked, gzip", "chunked;a=b, chunked"] {
            fields(&format!("Transfer-Encoding: {bad}\r\n"), Faulty(Detail::Encoding));
        }
        let both = Faulty(Detail::LengthAndEncoding);
        fields("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", both);
        fields("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", both);
        // Same lengths of name, other names.
        fields("Cxntent-Length: 5\r\nTransfer-Encodinx: chunked\r\nConnectiox: close\r\n", Nothing);
    }

    #[test]
    fn persistence_is_by_version_and_connection() {
        let check = |version, connection: &str, persists| {
            check(&format!("HTTP/1.{version} 200\r\n{connection}\r\n"), Ok((200, persists, Declared::Nothing)));
        };
        check(1, "", true);
        check(1, "Connection: close\r\n", false);
        check(1, "connection: foo, CLOSE\r\n", false);
        check(1, "Connection: foo\r\nConnection: keep-alive,\r\n\tclose\r\n", false);
        check(1, "Connection: closed, disclose\r\n", true);
        check(1, "Keep-Alive: timeout=5\r\n", true);
        check(0, "", false);
        check(0, "Connection: Keep-Alive\r\n", true);
        check(0, "Connection: keep-alive, close\r\n", false);
        check(0, "Connection: upgrade\r\n", false);
    }

    #[test]
    fn transfer_encoding_is_faulty_in_http_1_0() {
        let declared = Declared::Faulty(Detail::EncodingIn10);
        check("HTTP/1.0 200\r\nTransfer-Encoding: chunked\r\n\r\n", Ok((200, false, declared)));
    }

    #[test]
    fn malformed_heads_say_why() {
        for (head, detail) in [
            ("HTTP/1.2 200 OK\r\n\r\n", Detail::Version),
            ("HTTP/1.1200 OK\r\n\r\n", Detail::Version),
            ("HTTP/1.1 20 OK\r\n\r\n", Detail::StatusLine),
            ("HTTP/1.1 2000 OK\r\n\r\n", Detail::StatusLine),
            ("HTTP/1.1 2x0 OK\r\n\r\n", Detail::StatusLine),
            ("HTTP/1.1\r\n\r\n", Detail::Version),
            ("HTTP/1.1 \r\n\r\n", Detail::StatusLine),
            ("HTTP/1.1 200 O\0K\r\n\r\n", Detail::StatusLine),
            ("HTTP/1.1 099 OK\r\n\r\n", Detail::StatusBelow100),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Detail::HeaderName),
            ("HTTP/1.1 200 OK\r\nname : 1\r\n\r\n", Detail::HeaderName),
            ("HTTP/1.1 200 OK\r\n: 1\r\n\r\n", Detail::HeaderName),
            ("HTTP/1.1 200 OK\r\n folded: 1\r\n\r\n", Detail::HeaderName),
            ("HTTP/1.1 200 OK\r\na: \0\r\n\r\n", Detail::HeaderValue),
            ("HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n", Detail::HeaderValue),
            ("HTTP/1.1 200 OK\r\n\ra: b\r\n\r\n", Detail::LineEnd),
        ] {
            check(head, Err(detail));
        }
    }

    #[test]
    fn any_number_of_fields_is_read() {
        for count in [FIELDS_INLINE - 1, FIELDS_INLINE, FIELDS_INLINE + 1, 20_000] {
            let head = format!("HTTP/1.1 200\r\n{}Content-Length: 7\n\n", "a:\n".repeat(count - 1));
            let got = parse(head.as_bytes()).unwrap();
            assert_eq!(got.declared, Declared::Length(7), "{count}");
        }
    }
}
