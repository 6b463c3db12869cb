//! The opening handshake (RFC 6455 §4.1): a GET that asks for the switch, and the answer, checked to the letter.
//!
//! Each connection has a key of its own; the answer must have been made of it. The answer's head is kept until it is
//! whole, 64 KiB at most; what stands behind it are frames, and is left alone.

use super::extension::{self, DeflateAgreed, DeflateOffer};
use super::{Detail, of_status};
use crate::Failure;
use crate::random::SplitMix64;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use model::workload::websocket::Opening;
use model::{ErrorKind, Secret};
use sha1::{Digest, Sha1};

/// Appended to the key before it is hashed (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest head of an answer, bytes; as for HTTP.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most fields of an answer.
const FIELDS_MAX: usize = 128;
/// What every answer begins with.
const BEGINNING: &[u8] = b"HTTP/1.1 ";

/// What a connection is asked to become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The `Host` field: name, and port where it is not the scheme's.
    pub host: String,
    /// Path and query, beginning with `/`.
    pub target: String,
    /// Subprotocols, the one liked best first.
    pub subprotocols: Vec<String>,
    /// permessage-deflate, if it is offered.
    pub deflate: Option<DeflateOffer>,
    /// Further fields, by name and value.
    pub fields: Vec<(String, String)>,
}

/// A connection's key: 16 bytes of chance, in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 24]);

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed {
    /// Index in [`Handshake::subprotocols`]; `None`: the server chose none.
    pub subprotocol: Option<usize>,
    /// Compression, if both want it.
    pub deflate: Option<DeflateAgreed>,
}

/// Why there is no WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The server answered, with a status other than 101.
    Status(u16),
    /// The answer is none.
    Bad(Detail),
}

impl Refusal {
    /// As a [`crate::Failure::detail`].
    pub fn number(self) -> u32 {
        match self {
            Refusal::Status(status) => of_status(status),
            Refusal::Bad(detail) => detail as u32,
        }
    }

    /// As a connection's failure.
    pub fn failure(self) -> Failure {
        let kind = match self {
            Refusal::Status(_) => ErrorKind::UnexpectedStatus,
            Refusal::Bad(Detail::HeadTooLarge) => ErrorKind::HeadTooLarge,
            Refusal::Bad(_) => ErrorKind::BadFraming,
        };
        Failure { kind, detail: self.number() }
    }
}

impl Key {
    /// Of two numbers that are as good as random.
    pub fn new(bits: [u64; 2]) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&bits[0].to_be_bytes());
        bytes[8..].copy_from_slice(&bits[1].to_be_bytes());
        let mut text = [0; 24];
        // 16 bytes are 24 characters.
        let _ = STANDARD.encode_slice(bytes, &mut text);
        Key(text)
    }

    /// As it is sent.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// What the server makes of it.
    pub fn accept(&self) -> String {
        STANDARD.encode(Sha1::new().chain_update(self.0).chain_update(GUID).finalize())
    }
}

impl Handshake {
    /// Appends the request.
    pub fn write(&self, key: &Key, to: &mut Vec<u8>) {
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| to.extend_from_slice(part));
            to.extend_from_slice(b"\r\n");
        };
        line(&[b"GET ", self.target.as_bytes(), b" HTTP/1.1"]);
        line(&[b"Host: ", self.host.as_bytes()]);
        line(&[b"Upgrade: websocket"]);
        line(&[b"Connection: Upgrade"]);
        line(&[b"Sec-WebSocket-Key: ", key.text()]);
        line(&[b"Sec-WebSocket-Version: 13"]);
        if !self.subprotocols.is_empty() {
            line(&[b"Sec-WebSocket-Protocol: ", self.subprotocols.join(", ").as_bytes()]);
        }
        if let Some(deflate) = &self.deflate {
            let mut value = Vec::new();
            deflate.write(&mut value);
            line(&[b"Sec-WebSocket-Extensions: ", &value]);
        }
        for (name, value) in &self.fields {
            line(&[name.as_bytes(), b": ", value.as_bytes()]);
        }
        line(&[]);
    }

    fn judge(&self, key: &Key, head: &[u8]) -> Result<Agreed, Refusal> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut fields);
        match answer.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::Bad(Detail::HeadTooLarge)),
            _ => return Err(Refusal::Bad(Detail::NotHttp)),
        }
        if answer.version != Some(1) {
            return Err(Refusal::Bad(Detail::NotHttp));
        }
        match answer.code {
            Some(101) => {}
            Some(status) => return Err(Refusal::Status(status)),
            None => return Err(Refusal::Bad(Detail::NotHttp)),
        }
        self.judge_fields(key, answer.headers).map_err(Refusal::Bad)
    }

    fn judge_fields(&self, key: &Key, fields: &[httparse::Header<'_>]) -> Result<Agreed, Detail> {
        let of = |name: &'static str| fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        let one = |name| {
            let mut values = of(name);
            (values.next().map(|field| field.value.trim_ascii()), values.next().is_some())
        };
        match one("Upgrade") {
            (Some(value), false) if value.eq_ignore_ascii_case(b"websocket") => {}
            _ => return Err(Detail::NoUpgrade),
        }
        let options = of("Connection").flat_map(|field| field.value.split(|byte| *byte == b','));
        if !options.into_iter().any(|option| option.trim_ascii().eq_ignore_ascii_case(b"upgrade")) {
            return Err(Detail::NoConnectionUpgrade);
        }
        match one("Sec-WebSocket-Accept") {
            (Some(value), false) if value == key.accept().as_bytes() => {}
            (Some(_), false) => return Err(Detail::WrongAccept),
            _ => return Err(Detail::NoAccept),
        }
        let subprotocol = match one("Sec-WebSocket-Protocol") {
            (None, _) => None,
            (Some(value), is_twice) => {
                let at = self.subprotocols.iter().position(|offered| offered.as_bytes() == value);
                Some(at.filter(|_| !is_twice).ok_or(Detail::Subprotocol)?)
            }
        };
        let values = of("Sec-WebSocket-Extensions").map(|field| std::str::from_utf8(field.value));
        let values: Vec<&str> = values.collect::<Result<_, _>>().map_err(|_| Detail::ExtensionSyntax)?;
        Ok(Agreed { subprotocol, deflate: extension::agree(self.deflate.as_ref(), &values)? })
    }
}

/// The answer to a handshake, as it comes.
#[derive(Debug, Default)]
pub struct Answer {
    head: Vec<u8>,
}

impl Answer {
    /// Takes some of `bytes`: how many, and what was agreed on; `None`: all were taken, and more must come.
    pub fn take(&mut self, asked: &Handshake, key: &Key, bytes: &[u8]) -> (usize, Option<Result<Agreed, Refusal>>) {
        let before = self.head.len();
        let room = HEAD_BYTES_MAX - before;
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let compared = self.head.len().min(BEGINNING.len());
        if self.head[..compared] != BEGINNING[..compared] {
            return (bytes.len(), Some(Err(Refusal::Bad(Detail::NotHttp))));
        }
        let from = before.saturating_sub(3);
        if let Some(end) = memmem::find(&self.head[from..], b"\r\n\r\n") {
            let length = from + end + 4;
            let judged = asked.judge(key, &self.head[..length]);
            self.head = Vec::new();
            return (length - before, Some(judged));
        }
        if self.head.len() == HEAD_BYTES_MAX {
            return (bytes.len(), Some(Err(Refusal::Bad(Detail::HeadTooLarge))));
        }
        (bytes.len(), None)
    }

    /// Whether any of it has come.
    pub fn has_begun(&self) -> bool {
        !self.head.is_empty()
    }
}

/// How far the opening of one connection has got.
#[derive(Debug)]
pub(super) struct Greeting {
    key: Key,
    seed: u64,
    answer: Answer,
}

impl Default for Greeting {
    fn default() -> Self {
        Greeting { key: Key::new([0; 2]), seed: 0, answer: Answer::default() }
    }
}

impl Greeting {
    /// The seed of the masks of what is said on the connection.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

/// What a worker opens its connections with.
#[derive(Debug)]
pub(super) struct Openings {
    /// For each origin.
    handshakes: Vec<Handshake>,
    /// Whether compression is needed, and not only offered.
    needs_deflate: bool,
}

impl Openings {
    /// As a plan says; with `deflate` nothing else than compression is taken.
    pub(super) fn new(openings: &[Opening], subprotocols: &[Secret], deflate: Option<DeflateOffer>) -> Self {
        let subprotocols: Vec<String> = subprotocols.iter().map(|name| name.expose_text().into_owned()).collect();
        let handshake = |opening: &Opening| {
            let (host, fields): (Vec<_>, Vec<_>) =
                text_of(opening).partition(|(name, _)| name.eq_ignore_ascii_case("host"));
            Handshake {
                host: host.into_iter().next().map(|(_, value)| value).unwrap_or_default(),
                target: opening.target.expose_text().into_owned(),
                subprotocols: subprotocols.clone(),
                deflate,
                fields,
            }
        };
        Openings { handshakes: openings.iter().map(handshake).collect(), needs_deflate: deflate.is_some() }
    }

    /// Appends the request for a connection to an origin; `random` is the connection's own.
    pub(super) fn write(&self, greeting: &mut Greeting, origin: u16, random: u64, to: &mut Vec<u8>) {
        let Some(handshake) = self.handshakes.get(usize::from(origin)) else { return };
        let mut random = SplitMix64::new(random);
        greeting.key = Key::new([random.bits(), random.bits()]);
        greeting.seed = random.bits();
        handshake.write(&greeting.key, to);
    }

    /// Takes some of `bytes` that answer it: how many, and what was agreed on; `None`: more must come.
    pub(super) fn take(
        &self,
        greeting: &mut Greeting,
        origin: u16,
        bytes: &[u8],
    ) -> (usize, Option<Result<Agreed, Failure>>) {
        let Some(handshake) = self.handshakes.get(usize::from(origin)) else {
            let failure = Failure { kind: ErrorKind::UnsolicitedReply, detail: Detail::Unasked as u32 };
            return (bytes.len(), Some(Err(failure)));
        };
        let (consumed, judged) = greeting.answer.take(handshake, &greeting.key, bytes);
        let judged = judged.map(|judged| match judged {
            Ok(Agreed { deflate: None, .. }) if self.needs_deflate => Err(Refusal::Bad(Detail::DeflateRefused)),
            judged => judged,
        });
        (consumed, judged.map(|judged| judged.map_err(Refusal::failure)))
    }
}

/// Fields of a handshake, as they are sent.
fn text_of(opening: &Opening) -> impl Iterator<Item = (String, String)> {
    opening.headers.iter().map(|(name, value)| (name.clone(), value.expose_text().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key(*b"dGhlIHNhbXBsZSBub25jZQ==")
    }

    fn asked() -> Handshake {
        Handshake {
            host: "example.com:8080".to_owned(),
            target: "/chat?x=1".to_owned(),
            subprotocols: vec!["superchat".to_owned(), "chat".to_owned()],
            deflate: Some(DeflateOffer::default()),
            fields: vec![("Origin".to_owned(), "http://example.com".to_owned())],
        }
    }

    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    /// What an answer comes to, which must be the same however it is cut.
    #[track_caller]
    fn answered(head: &str) -> Option<Result<Agreed, Refusal>> {
        let bytes = [head.as_bytes(), b"\x81\x00"].concat();
        let whole = Answer::default().take(&asked(), &key(), &bytes);
        for cut in 0..bytes.len() {
            let mut answer = Answer::default();
            let (taken, first) = answer.take(&asked(), &key(), &bytes[..cut]);
            let got = match first {
                None => {
                    assert_eq!((taken, answer.has_begun()), (cut, cut > 0));
                    let (more, second) = answer.take(&asked(), &key(), &bytes[cut..]);
                    (taken + more, second)
                }
                first => (taken, first),
            };
            assert_eq!(got.1, whole.1, "{head} cut at {cut}");
            if matches!(whole.1, Some(Ok(_))) {
                assert_eq!((got.0, whole.0), (head.len(), head.len()), "frames are left alone");
            }
        }
        whole.1
    }

    #[test]
    fn the_request_is_as_the_rfc_says() {
        let mut request = Vec::new();
        asked().write(&key(), &mut request);
        let expected = "GET /chat?x=1 HTTP/1.1\r\nHost: example.com:8080\r\nUpgrade: websocket\r\n\
                        Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: superchat, chat\r\n\
                        Sec-WebSocket-Extensions: permessage-deflate\r\nOrigin: http://example.com\r\n\r\n";
        assert_eq!(String::from_utf8(request).unwrap(), expected);
        // RFC 6455 §1.3.
        assert_eq!(key().accept(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(Key::new([0x7468_6520_7361_6d70, 0x6c65_206e_6f6e_6365]), key());
    }

    #[test]
    fn good_answers_are_taken() {
        let plain = Agreed::default();
        assert_eq!(answered(&format!("{GOOD}\r\n")), Some(Ok(plain)));
        let chosen = answered(&format!("{GOOD}Sec-WebSocket-Protocol: chat\r\n\r\n"));
        assert_eq!(chosen, Some(Ok(Agreed { subprotocol: Some(1), ..plain })));
        let deflate = answered(&format!("{GOOD}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"));
        assert!(deflate.unwrap().unwrap().deflate.is_some());
        assert_eq!(answered(GOOD), None, "the empty line is missing");
    }

    #[test]
    fn answers_that_are_none_are_told_apart() {
        let without = |line: &str| format!("{}\r\n", GOOD.replace(line, ""));
        let many = |n: usize| format!("{GOOD}{}\r\n", "X: y\r\n".repeat(n));
        let bad = Refusal::Bad;
        for (answer, refusal) in [
            ("SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned(), bad(Detail::NotHttp)),
            ("HTTP/1.0 101 Switching\r\n\r\n".to_owned(), bad(Detail::NotHttp)),
            ("HTTP/1.1 1O1 Switching\r\n\r\n".to_owned(), bad(Detail::NotHttp)),
            ("HTTP/1.1 101 Switching\r\nno field\r\n\r\n".to_owned(), bad(Detail::NotHttp)),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n".to_owned(), Refusal::Status(404)),
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), Refusal::Status(200)),
            ("HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 8\r\n\r\n".to_owned(), Refusal::Status(426)),
            (without("upgrade: WebSocket\r\n"), bad(Detail::NoUpgrade)),
            (format!("{GOOD}Upgrade: websocket\r\n\r\n"), bad(Detail::NoUpgrade)),
            (GOOD.replace("WebSocket", "h2c") + "\r\n", bad(Detail::NoUpgrade)),
            (without("Connection: keep-alive, Upgrade\r\n"), bad(Detail::NoConnectionUpgrade)),
            (GOOD.replace(", Upgrade", "") + "\r\n", bad(Detail::NoConnectionUpgrade)),
            (without("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), bad(Detail::NoAccept)),
            (format!("{GOOD}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"), bad(Detail::NoAccept)),
            (GOOD.replace("s3p", "S3p") + "\r\n", bad(Detail::WrongAccept)),
            (format!("{GOOD}Sec-WebSocket-Protocol: Chat\r\n\r\n"), bad(Detail::Subprotocol)),
            (format!("{GOOD}Sec-WebSocket-Protocol: superchat, chat\r\n\r\n"), bad(Detail::Subprotocol)),
            (
                format!("{GOOD}Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: chat\r\n\r\n"),
                bad(Detail::Subprotocol),
            ),
            (format!("{GOOD}Sec-WebSocket-Extensions: bzip\r\n\r\n"), bad(Detail::ExtensionNotOffered)),
            (format!("{GOOD}Sec-WebSocket-Extensions: \u{e9}\r\n\r\n"), bad(Detail::ExtensionSyntax)),
            (many(FIELDS_MAX), bad(Detail::HeadTooLarge)),
        ] {
            assert_eq!(answered(&answer), Some(Err(refusal)), "{answer}");
        }
        let endless = format!("{GOOD}X: {}", "y".repeat(HEAD_BYTES_MAX));
        let (_, refused) = Answer::default().take(&asked(), &key(), endless.as_bytes());
        assert_eq!(refused, Some(Err(bad(Detail::HeadTooLarge))));
    }
}
