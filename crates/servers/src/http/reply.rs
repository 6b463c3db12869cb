//! Reply heads, written into a buffer: status line, server, date, what the body is, what comes after.
//!
//! The date is formatted once a second and everything about a file once a version, so a usual head is a
//! few copies. Every reply says how its body ends; nothing here depends on the connection closing,
//! except for a generated body of unknown framing towards HTTP/1.0.

use std::io::Write;

use super::date;

/// How a request wants to be answered, whatever the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    /// The connection stays open after the reply.
    pub(crate) keep_alive: bool,
    /// The reply to HEAD: no body.
    pub(crate) head_only: bool,
    /// No chunks, and keeping alive must be said.
    pub(crate) http10: bool,
}

/// What stands in a head about the body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    Known(u64),
    Chunked,
    /// The connection's end is the body's.
    UntilClose,
    /// The status has no body, and says nothing of one: 204, 304.
    Absent,
}

/// The `Server` and `Date` fields, kept ready.
#[derive(Debug)]
pub(crate) struct Stamp {
    server: String,
    second: i64,
    fields: Vec<u8>,
}

impl Stamp {
    /// For that `Server` field; bytes that would not fit a header are left out, and an empty one with them.
    pub(crate) fn new(server: &str, unix_s: i64) -> Self {
        let server: String = server.chars().filter(|char| char.is_ascii_graphic() || *char == ' ').collect();
        let mut stamp = Self { server: server.trim().to_owned(), second: unix_s, fields: Vec::new() };
        stamp.write(unix_s);
        stamp
    }

    /// Brings the date up to the second.
    pub(crate) fn refresh(&mut self, unix_s: i64) {
        if self.second != unix_s {
            self.write(unix_s);
        }
    }

    fn write(&mut self, unix_s: i64) {
        self.second = unix_s;
        self.fields.clear();
        if !self.server.is_empty() {
            self.fields.extend_from_slice(b"Server: ");
            self.fields.extend_from_slice(self.server.as_bytes());
            self.fields.extend_from_slice(b"\r\n");
        }
        self.fields.extend_from_slice(b"Date: ");
        self.fields.extend_from_slice(date::format(unix_s).as_bytes());
        self.fields.extend_from_slice(b"\r\n");
    }
}

/// Writes a whole head. `fields` are complete lines.
pub(crate) fn push_head(out: &mut Vec<u8>, stamp: &Stamp, status: u16, fields: &[u8], length: Length, manner: Manner) {
    match status {
        200 => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        status => push_format(out, format_args!("HTTP/1.1 {status} {}\r\n", reason(status))),
    }
    out.extend_from_slice(&stamp.fields);
    out.extend_from_slice(fields);
    match length {
        Length::Known(bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            push_number(out, bytes);
            out.extend_from_slice(b"\r\n");
        }
        Length::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Length::UntilClose | Length::Absent => {}
    }
    out.extend_from_slice(match (manner.keep_alive, manner.http10) {
        (false, _) => b"Connection: close\r\n\r\n",
        (true, true) => b"Connection: keep-alive\r\n\r\n",
        (true, false) => b"\r\n",
    });
}

/// Writes a reply whose body is one line of text.
pub(crate) fn push_text(out: &mut Vec<u8>, stamp: &Stamp, status: u16, fields: &[u8], text: &str, manner: Manner) {
    let fields = [b"Content-Type: text/plain\r\n", fields].concat();
    push_head(out, stamp, status, &fields, Length::Known(text.len() as u64), manner);
    if !manner.head_only {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends formatted text.
pub(crate) fn push_format(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing into a Vec cannot fail.
    let _ = out.write_fmt(text);
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[from..]);
}

/// Reason phrases of RFC 9110 §15 and its neighbours, for the statuses a test is likely to ask for.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "(Unused)",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        511 => "Network Authentication Required",
        _ => "Unnamed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 9, 10, 1_234_567_890, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn a_server_name_cannot_split_the_head() {
        let stamp = Stamp::new(" a\r\nX: y ", 0);
        assert_eq!(stamp.fields, b"Server: aX: y\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        assert!(Stamp::new("\r\n", 0).fields.starts_with(b"Date"));
    }

    #[test]
    fn the_connection_is_announced_as_each_version_needs_it() {
        let stamp = Stamp::new("", 0);
        for (keep_alive, http10, expected) in [
            (true, false, "Content-Length: 0\r\n\r\n"),
            (true, true, "Content-Length: 0\r\nConnection: keep-alive\r\n\r\n"),
            (false, false, "Content-Length: 0\r\nConnection: close\r\n\r\n"),
            (false, true, "Content-Length: 0\r\nConnection: close\r\n\r\n"),
        ] {
            let mut out = Vec::new();
            let manner = Manner { keep_alive, head_only: false, http10 };
            push_head(&mut out, &stamp, 200, b"", Length::Known(0), manner);
            assert!(out.ends_with(format!("GMT\r\n{expected}").as_bytes()));
        }
    }
}
