//! The opening handshake, as a server reads and answers it (RFC 6455 §4.2).
//!
//! The head is read as strictly as the HTTP server reads it; then the fields of the switch are looked at. A request that
//! asks for no WebSocket is told 426, another version as well, with the one spoken here.

use aws_lc_rs::digest;
use memchr::memmem;

use super::WebSocketOptions;
use super::compression::{self, Agreed};
use crate::http::request::{self, BodyLength, Method, Refusal};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Said with every refusal that a WebSocket client could do something about.
pub(super) const SPOKEN: &[u8] = b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";

const fn refuse<T>(status: u16, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, why })
}

/// Reads a complete head and appends the answer that switches. Returns what was agreed on.
pub(super) fn answer(head: &[u8], options: &WebSocketOptions, out: &mut Vec<u8>) -> Result<Option<Agreed>, Refusal> {
    let parsed = request::parse(head)?;
    if parsed.method != Method::Get {
        return refuse(405, "expected GET");
    }
    if parsed.http10 || parsed.body != BodyLength::None {
        return refuse(400, "expected HTTP/1.1 and no body");
    }
    if !options_of(head, b"upgrade").any(|option| option.eq_ignore_ascii_case(b"websocket")) {
        return refuse(426, "expected a WebSocket handshake");
    }
    if !options_of(head, b"connection").any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return refuse(400, "expected Connection to name Upgrade");
    }
    if one(head, b"sec-websocket-version")? != Some(b"13") {
        return refuse(426, "expected Sec-WebSocket-Version 13");
    }
    let Some(key) = one(head, b"sec-websocket-key")?.filter(|key| is_key(key)) else {
        return refuse(400, "expected Sec-WebSocket-Key to be 16 bytes in base64");
    };
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
    out.extend_from_slice(b"Sec-WebSocket-Accept: ");
    push_accept(key, out);
    out.extend_from_slice(b"\r\n");
    let asked: Vec<&[u8]> = options_of(head, b"sec-websocket-protocol").collect();
    if let Some(chosen) = options.subprotocols.iter().find(|own| asked.contains(&own.as_bytes())) {
        out.extend_from_slice(b"Sec-WebSocket-Protocol: ");
        out.extend_from_slice(chosen.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let offers: Vec<&[u8]> = values(head, b"sec-websocket-extensions").collect();
    let agreed = compression::accept(&offers).filter(|_| options.deflate);
    if let Some(agreed) = agreed {
        out.extend_from_slice(b"Sec-WebSocket-Extensions: ");
        agreed.push(out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(agreed)
}

/// The values of a field, in order. The head was parsed: its lines end in CR LF and its fields have a colon.
fn values<'a>(head: &'a [u8], name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let end = memmem::find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        Some(line)
    })
    .skip(1)
    .filter_map(move |line| {
        let (field, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        field.eq_ignore_ascii_case(name).then(|| value[1..].trim_ascii())
    })
}

/// The members of the lists that all values of a field are together.
fn options_of<'a>(head: &'a [u8], name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    values(head, name).flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// The value of a field that must not be there twice.
fn one<'a>(head: &'a [u8], name: &'static [u8]) -> Result<Option<&'a [u8]>, Refusal> {
    let mut values = values(head, name);
    match (values.next(), values.next()) {
        (_, Some(_)) => refuse(400, "expected Sec-WebSocket-Key and Sec-WebSocket-Version once"),
        (value, None) => Ok(value),
    }
}

/// 16 bytes in base64: 22 characters, of which the last holds two bits, and two of padding.
fn is_key(key: &[u8]) -> bool {
    let Some((text, b"==")) = key.split_at_checked(22) else { return false };
    text.iter().all(|byte| ALPHABET.contains(byte)) && matches!(text[21], b'A' | b'Q' | b'g' | b'w')
}

fn push_accept(key: &[u8], out: &mut Vec<u8>) {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    for three in hash.finish().as_ref().chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let is_padding = place > three.len();
            out.push(if is_padding { b'=' } else { ALPHABET[(bits >> (18 - 6 * place) & 63) as usize] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "GET /chat HTTP/1.1\r\nHost: t\r\nUpgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

    fn answered(head: &str) -> Result<String, u16> {
        let options = WebSocketOptions { subprotocols: vec!["b".to_owned(), "a".to_owned()], ..Default::default() };
        let mut out = Vec::new();
        match answer(format!("{head}\r\n").as_bytes(), &options, &mut out) {
            Ok(_) => Ok(String::from_utf8(out).unwrap()),
            Err(refusal) => Err(refusal.status),
        }
    }

    #[test]
    fn a_handshake_is_answered_as_the_rfc_says() {
        let plain = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        assert_eq!(answered(HEAD), Ok(format!("{plain}\r\n")));
        for (field, chosen) in [
            ("Sec-WebSocket-Protocol: x, a\r\nsec-websocket-protocol: b\r\n", "Sec-WebSocket-Protocol: b\r\n"),
            ("Sec-WebSocket-Protocol: B\r\n", ""),
            ("Sec-WebSocket-Extensions: permessage-deflate\r\n", "Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        ] {
            assert_eq!(answered(&format!("{HEAD}{field}")), Ok(format!("{plain}{chosen}\r\n")));
        }
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        for (is, instead, status) in [
            ("GET", "POST", 405),
            ("HTTP/1.1", "HTTP/1.0", 400),
            ("Host: t\r\n", "", 400),
            ("Host: t", "Host: t\r\nContent-Length: 1", 400),
            ("Upgrade: WebSocket\r\n", "", 426),
            ("Upgrade: WebSocket", "Upgrade: h2c", 426),
            (", upgrade", "", 400),
            ("Version: 13", "Version: 8", 426),
            ("Sec-WebSocket-Version: 13\r\n", "", 426),
            ("Version: 13", "Version: 13\r\nSec-WebSocket-Version: 13", 400),
            ("ZQ==", "ZQ=", 400),
            ("ZQ==", "ZR==", 400),
            ("dGhl", "dGh*", 400),
            ("dGhl", "", 400),
            ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400),
        ] {
            let head = HEAD.replace(is, instead);
            assert_ne!(head, HEAD);
            assert_eq!(answered(&head), Err(status), "{head}");
        }
    }
}
