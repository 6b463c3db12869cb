//! Requests that differ each time: written from pieces, which are made once, at the moment they are sent.
//!
//! A value is escaped as the place wants it: percent-encoded in a target and in a form, as JSON in a JSON body (inside a
//! string as its characters, elsewhere as a number or a string), in a header without bytes that would end the line. The
//! body is written first where its length differs, as the head names it.
//! Not here: what values there are (`user`). Cost: a copy of each piece; nothing is allocated once memory has its size.

use super::request::{self, METHODS_WITH_BODY};
use super::user::{Known, Scope};
use crate::WireError;
use crate::random::SplitMix64;
use model::plan::HttpRequest;
use model::template::{self, Filter, Name, Piece};
use std::io::Write as _;

/// The longest value that is taken from a reply, bytes.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Digits of the largest number.
const NUMBER_BYTES_MAX: usize = 20;
/// A UUID as text.
const UUID_BYTES: usize = 36;

/// A request made ready to be written.
#[derive(Debug)]
pub struct Template {
    head: Vec<Part>,
    /// What is written behind the head, whose length it names; `None`: the head has all.
    body: Option<Vec<Part>>,
    longest: usize,
    /// Whether the target names a key.
    names_key: bool,
}

#[derive(Debug)]
enum Part {
    Text(Box<[u8]>),
    Value(Known, Escape),
}

/// What a value must be for its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// As it is.
    None,
    /// Percent-encoded, but for unreserved characters (RFC 3986 section 2.3).
    Url,
    /// A target's own characters stay; what would end it is percent-encoded.
    Target,
    /// Without CR, LF and NUL: each becomes a space (RFC 9110 section 5.5).
    Field,
    /// The inside of a JSON string.
    JsonText,
    /// A JSON value: a number, true, false or null as it is, anything else as a string.
    JsonValue,
}

impl Escape {
    /// The most that it makes of a value of so many bytes.
    fn longest(self, bytes: usize) -> usize {
        match self {
            Escape::None | Escape::Field => bytes,
            Escape::Url | Escape::Target => 3 * bytes,
            Escape::JsonText => 6 * bytes,
            Escape::JsonValue => 6 * bytes + 2,
        }
    }
}

/// What a text is, as far as escaping asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Target,
    Field,
    Json,
    Form,
    Other,
}

impl Template {
    /// Makes a request ready. `index` is its place in the plan, for errors.
    ///
    /// # Errors
    /// What [`request::write`] refuses; text that is no template; a name that nothing has.
    pub fn new(index: usize, request: &HttpRequest, keep_alive: bool, scope: &Scope) -> Result<Template, WireError> {
        request::write(index, &probe(index, request)?, keep_alive)?;
        let mut head = Parts::new(index, scope);
        head.text(request.method.as_bytes());
        head.text(b" ");
        head.template(request.target.expose(), Place::Target)?;
        let names_key = head.parts.iter().any(|part| matches!(part, Part::Value(Known::Key, _)));
        head.text(b" HTTP/1.1\r\n");
        for (name, value) in &request.headers {
            head.text(name.as_bytes());
            head.text(b": ");
            head.template(value.expose(), Place::Field)?;
            head.text(b"\r\n");
        }
        let has = |wanted: &str| request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if !keep_alive && !has("connection") {
            head.text(b"Connection: close\r\n");
        }
        let body = request.body.bytes.expose();
        let states_length = !body.is_empty() || METHODS_WITH_BODY.contains(&request.method.as_str());
        let needs_length = states_length && !has("content-length") && !has("transfer-encoding");
        if needs_length {
            head.text(b"Content-Length: ");
        }
        let mut longest = NUMBER_BYTES_MAX + 4;
        let body = if template::is_template(body) {
            let mut parts = Parts::new(index, scope);
            parts.template(body, place_of_body(request))?;
            longest += parts.longest;
            Some(parts.finish())
        } else {
            if needs_length {
                head.text(body.len().to_string().as_bytes());
                head.text(b"\r\n");
            }
            head.text(b"\r\n");
            head.text(body);
            None
        };
        longest += head.longest;
        if u32::try_from(longest).is_err() {
            return Err(WireError::RequestTooLarge { request: index, length: longest });
        }
        Ok(Template { head: head.finish(), body, longest, names_key })
    }

    /// Whether the target names a key.
    pub fn names_key(&self) -> bool {
        self.names_key
    }

    /// The most that it writes, bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Appends the request. `body` is memory for the body; `random` is uniform over all 64 bits.
    pub fn write(
        &self,
        values: &impl Fn(Known, &mut dyn FnMut(&[u8])),
        random: u64,
        body: &mut Vec<u8>,
        to: &mut Vec<u8>,
    ) {
        let mut random = SplitMix64::new(random);
        match &self.body {
            None => write_parts(&self.head, values, &mut random, to),
            Some(parts) => {
                body.clear();
                write_parts(parts, values, &mut random, body);
                write_parts(&self.head, values, &mut random, to);
                number(body.len() as u64, |digits| to.extend_from_slice(digits));
                to.extend_from_slice(b"\r\n\r\n");
                to.extend_from_slice(body);
            }
        }
    }
}

fn write_parts(
    parts: &[Part],
    values: &impl Fn(Known, &mut dyn FnMut(&[u8])),
    random: &mut SplitMix64,
    to: &mut Vec<u8>,
) {
    for part in parts {
        match part {
            Part::Text(text) => to.extend_from_slice(text),
            Part::Value(Known::Random(low, high), escape) => {
                // The high half of the product: uniform to the width of the range over 2^64.
                let width = u128::from(high - low) + 1;
                let drawn = low + ((u128::from(random.bits()) * width) >> 64) as u64;
                number(drawn, |digits| put(digits, *escape, to));
            }
            Part::Value(Known::Uuid, escape) => uuid(random.bits(), random.bits(), |text| put(text, *escape, to)),
            Part::Value(known, escape) => values(*known, &mut |value| put(value, *escape, to)),
        }
    }
}

/// Hands over a number's digits.
pub fn number(number: u64, to: impl FnOnce(&[u8])) {
    let mut digits = [0; NUMBER_BYTES_MAX];
    let mut rest = &mut digits[..];
    // There is room for the largest.
    let _ = write!(rest, "{number}");
    let left = rest.len();
    to(&digits[..NUMBER_BYTES_MAX - left]);
}

/// A UUID of version 4 from 128 random bits, of which six say version and variant (RFC 9562 section 5.4).
fn uuid(high: u64, low: u64, to: impl FnOnce(&[u8])) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bits = (u128::from(high) << 64 | u128::from(low)) & !(0xf << 76) & !(3 << 62) | 4 << 76 | 2 << 62;
    let mut text = [b'-'; UUID_BYTES];
    let mut shift = 128;
    for at in (0..UUID_BYTES).filter(|at| ![8, 13, 18, 23].contains(at)) {
        shift -= 4;
        text[at] = DIGITS[(bits >> shift) as usize & 0xf];
    }
    to(&text);
}

/// Appends a value as its place wants it.
#[inline]
fn put(value: &[u8], escape: Escape, to: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let percent = |byte: u8, to: &mut Vec<u8>| {
        to.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
    };
    match escape {
        Escape::None => to.extend_from_slice(value),
        Escape::Url => value.iter().for_each(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => to.push(*byte),
            _ => percent(*byte, to),
        }),
        Escape::Target => value.iter().for_each(|byte| match byte {
            0..=b' ' | 0x7f.. | b'#' => percent(*byte, to),
            _ => to.push(*byte),
        }),
        Escape::Field => {
            to.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }))
        }
        Escape::JsonValue if is_json_scalar(value) => to.extend_from_slice(value),
        Escape::JsonValue => {
            to.push(b'"');
            json_text(value, to);
            to.push(b'"');
        }
        Escape::JsonText => json_text(value, to),
    }
}

/// The inside of a JSON string (RFC 8259 section 7).
fn json_text(value: &[u8], to: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in value {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', *byte]),
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\r' => to.extend_from_slice(b"\\r"),
            b'\t' => to.extend_from_slice(b"\\t"),
            0..b' ' => {
                to.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 0xf)],
                ]);
            }
            _ => to.push(*byte),
        }
    }
}

/// Whether a text is a JSON number, true, false or null.
fn is_json_scalar(value: &[u8]) -> bool {
    match value {
        b"true" | b"false" | b"null" => true,
        [b'-' | b'0'..=b'9', ..] => serde_json::from_slice::<serde::de::IgnoredAny>(value).is_ok(),
        _ => false,
    }
}

/// Pieces in the making.
struct Parts<'a> {
    index: usize,
    scope: &'a Scope,
    parts: Vec<Part>,
    text: Vec<u8>,
    longest: usize,
}

impl<'a> Parts<'a> {
    fn new(index: usize, scope: &'a Scope) -> Self {
        Parts { index, scope, parts: Vec::new(), text: Vec::new(), longest: 0 }
    }

    fn text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        self.longest += text.len();
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Text(std::mem::take(&mut self.text).into()));
        }
    }

    fn template(&mut self, text: &[u8], place: Place) -> Result<(), WireError> {
        let mut is_in_string = false;
        for piece in pieces(self.index, text)? {
            match piece {
                Piece::Text(text) => {
                    is_in_string = is_in_string_after(&text, is_in_string);
                    self.text(&text);
                }
                Piece::Value(name, filter) => {
                    self.end_text();
                    let known = self.known(name)?;
                    let escape = match (filter, place) {
                        (Filter::ByPlace, Place::Target | Place::Form) => Escape::Url,
                        (Filter::ByPlace, Place::Json) if is_in_string => Escape::JsonText,
                        (Filter::ByPlace, Place::Json) => Escape::JsonValue,
                        (Filter::Raw, Place::Target) => Escape::Target,
                        (Filter::ByPlace | Filter::Raw, Place::Field) => Escape::Field,
                        (Filter::ByPlace, Place::Other) | (Filter::Raw, _) => Escape::None,
                        (Filter::Url, _) | (Filter::Json, Place::Target) => Escape::Url,
                        (Filter::Json, _) => Escape::JsonText,
                    };
                    self.longest += escape.longest(self.scope.longest(known));
                    self.parts.push(Part::Value(known, escape));
                }
            }
        }
        Ok(())
    }

    fn known(&self, name: Name) -> Result<Known, WireError> {
        match name {
            Name::Seq => Ok(Known::Seq),
            Name::User => Ok(Known::User),
            Name::Uuid => Ok(Known::Uuid),
            Name::Random(low, high) => Ok(Known::Random(low, high)),
            Name::Named(name) => self.scope.named(&name).ok_or(WireError::UnknownName { request: self.index, name }),
        }
    }

    fn finish(mut self) -> Vec<Part> {
        self.end_text();
        self.parts
    }
}

impl Known {
    /// Bytes of its longest value, where that does not depend on data.
    pub fn longest_built_in(self) -> usize {
        if self == Known::Uuid { UUID_BYTES } else { NUMBER_BYTES_MAX }
    }
}

fn pieces(index: usize, text: &[u8]) -> Result<Vec<Piece>, WireError> {
    template::pieces(text).map_err(|error| WireError::NoTemplate { request: index, what: error.to_string() })
}

/// Whether a JSON string is open behind a text, if one was or was not before it.
fn is_in_string_after(text: &[u8], was_in_string: bool) -> bool {
    let (mut is_in_string, mut is_escaped) = (was_in_string, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            _ => {}
        }
    }
    is_in_string
}

/// The request with something short and harmless in place of each value: what is wrong with it is wrong with all.
fn probe(index: usize, request: &HttpRequest) -> Result<HttpRequest, WireError> {
    let filled = |text: &[u8]| -> Result<Vec<u8>, WireError> {
        let parts = pieces(index, text)?.into_iter().map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Value(..) => b"x".to_vec(),
        });
        Ok(parts.collect::<Vec<_>>().concat())
    };
    let mut probe = request.clone();
    probe.target = filled(request.target.expose())?.into();
    for (_, value) in &mut probe.headers {
        *value = filled(value.expose())?.into();
    }
    Ok(probe)
}

/// By `Content-Type`; without one by how the body begins.
fn place_of_body(request: &HttpRequest) -> Place {
    let content_type = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = content_type.map(|(_, value)| value.expose_text().to_ascii_lowercase());
    match content_type {
        Some(kind) if kind.contains("json") => Place::Json,
        Some(kind) if kind.contains("x-www-form-urlencoded") => Place::Form,
        Some(_) => Place::Other,
        None => match request.body.bytes.expose().trim_ascii_start().first() {
            // Two braces are a template's.
            Some(b'[') => Place::Json,
            Some(b'{') if !request.body.bytes.expose().trim_ascii_start().starts_with(b"{{") => Place::Json,
            _ => Place::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_as_their_place_wants_it() {
        let check = |value: &str, escape, expected: &str| {
            let mut to = Vec::new();
            put(value.as_bytes(), escape, &mut to);
            assert_eq!(String::from_utf8(to).unwrap(), expected, "{value} {escape:?}");
            assert!(expected.len() <= escape.longest(value.len()));
        };
        check("a b/ü?&~", Escape::Url, "a%20b%2F%C3%BC%3F%26~");
        check("a b/ü?&#\r\n", Escape::Target, "a%20b/%C3%BC?&%23%0D%0A");
        check("a\r\nX: y\0", Escape::Field, "a  X: y ");
        check("say \"hi\"\\\n\u{1}ü", Escape::JsonText, "say \\\"hi\\\"\\\\\\n\\u0001ü");
        for scalar in ["1", "-1.5e3", "true", "false", "null", "0"] {
            check(scalar, Escape::JsonValue, scalar);
        }
        for (text, expected) in
            [("", "\"\""), ("01", "\"01\""), ("1 2", "\"1 2\""), ("a", "\"a\""), ("{}", "\"{}\""), ("-", "\"-\"")]
        {
            check(text, Escape::JsonValue, expected);
        }
    }

    #[test]
    fn uuids_are_of_version_4() {
        let text = |high, low| {
            let mut text = String::new();
            uuid(high, low, |uuid| text = String::from_utf8(uuid.to_vec()).unwrap());
            text
        };
        assert_eq!(text(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(text(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef), "01234567-89ab-4def-8123-456789abcdef");
    }

    #[test]
    fn strings_are_told_from_what_is_between_them() {
        for (text, is_in_string) in
            [("", false), ("{\"a\": ", false), ("{\"a\": \"", true), ("\"a\\\"", true), ("\"a\\\\\"", false)]
        {
            assert_eq!(is_in_string_after(text.as_bytes(), false), is_in_string, "{text}");
        }
        assert!(!is_in_string_after(b"\"", true));
    }
}
