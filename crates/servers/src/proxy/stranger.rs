//! What strangers' bytes come to on both sides of the proxy, without sockets: for fuzz targets, which see the crate from
//! outside.
//!
//! What goes on must be read on the other side as it was read here: the same method, target, status and end of the body,
//! and one head. A head that is read in two ways is how requests are smuggled past a proxy.

use super::forward::{self, Framing};
use super::reply::{self, Body};
use crate::http::body::BodyReader;
use crate::http::request::{self, BodyLength};

/// Feeds a client's `pieces`. Each request as it goes on, and its body's content; the last may be a refusal.
///
/// # Panics
/// When a request that goes on is not the one that was read.
pub fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut passed, mut input, mut scanned) = (Vec::new(), Vec::new(), 0);
    let mut body: Option<BodyReader> = None;
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            if let (Some(reader), Some((_, content))) = (&mut body, passed.last_mut()) {
                match reader.read(&input, Some(content)) {
                    Ok(taken) => drop(input.drain(..taken)),
                    Err(refusal) => {
                        // How much of a body is there before it is refused is a matter of cuts.
                        content.clear();
                        passed.push((refusal.why.into(), Vec::new()));
                        return passed;
                    }
                }
                if !reader.is_done() {
                    break;
                }
                body = None;
            }
            match request(&input, &mut scanned) {
                Ok(None) => break,
                Ok(Some((len, length, on))) => {
                    input.drain(..len);
                    scanned = 0;
                    passed.push((on, Vec::new()));
                    body = BodyReader::new(length, u64::MAX).ok();
                }
                Err(refusal) => {
                    passed.push((refusal.why.into(), Vec::new()));
                    return passed;
                }
            }
        }
    }
    passed
}

type Passed = (usize, BodyLength, Vec<u8>);

fn request(input: &[u8], scanned: &mut usize) -> Result<Option<Passed>, request::Refusal> {
    let Some(len) = request::find_end(input, scanned)? else { return Ok(None) };
    let parsed = request::parse(&input[..len])?;
    let mut on = Vec::new();
    let peer = Some(std::net::Ipv4Addr::LOCALHOST.into());
    forward::push_request(&mut on, &input[..len], &parsed, "origin:80", peer, true)?;
    assert_eq!(request::find_end(&on, &mut 0), Ok(Some(on.len())), "one head: {}", on.escape_ascii());
    match request::parse(&on) {
        Ok(again) => assert_eq!(
            (again.method, again.path, again.query, again.body),
            (parsed.method, parsed.path, parsed.query, parsed.body),
            "the same request: {}",
            on.escape_ascii()
        ),
        // The one thing that HTTP/1.0 may say and HTTP/1.1 may not.
        Err(refusal) => assert!(parsed.http10 && refusal.status == 417, "{}: {}", refusal.why, on.escape_ascii()),
    }
    Ok(Some((len, parsed.body, on)))
}

/// Feeds an origin's `pieces` after one request. Each head as it goes on, interim ones too, and what follows of the body;
/// the last may be what was expected.
///
/// # Panics
/// When a reply that goes on is not the one that was read.
pub fn reply<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    to_head: bool,
    to_http10: bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut passed, mut input, mut scanned) = (Vec::new(), Vec::new(), 0);
    let mut left = None;
    for piece in pieces {
        input.extend_from_slice(piece);
        while left.is_none() {
            let refused = match request::find_end(&input, &mut scanned) {
                Ok(None) => break,
                Err(_) => "no reply".to_owned(),
                Ok(Some(len)) => match head(&input[..len], to_head, to_http10) {
                    Err(why) => why.to_owned(),
                    Ok((on, body)) => {
                        input.drain(..len);
                        scanned = 0;
                        passed.push((on, Vec::new()));
                        left = body;
                        continue;
                    }
                },
            };
            passed.push((refused.into_bytes(), Vec::new()));
            return passed;
        }
        let (Some(left), Some((_, content))) = (&mut left, passed.last_mut()) else { continue };
        if !left.take(&mut input, content) {
            passed.push((b"a body that is broken".to_vec(), Vec::new()));
            return passed;
        }
    }
    passed
}

/// What is to come of a body.
enum Left {
    Bytes(u64),
    Chunks(BodyReader),
    UntilClose,
}

impl Left {
    /// Moves what belongs to the body; false where it is broken.
    fn take(&mut self, input: &mut Vec<u8>, content: &mut Vec<u8>) -> bool {
        let taken = match self {
            Left::Bytes(left) => {
                let taken = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                content.extend_from_slice(&input[..taken]);
                taken
            }
            Left::Chunks(reader) => match reader.read(input, Some(content)) {
                Ok(taken) => taken,
                Err(_) => {
                    content.clear();
                    return false;
                }
            },
            Left::UntilClose => {
                content.extend_from_slice(input);
                input.len()
            }
        };
        input.drain(..taken);
        true
    }
}

fn head(head: &[u8], to_head: bool, to_http10: bool) -> Result<(Vec<u8>, Option<Left>), &'static str> {
    let parsed = reply::parse(head, to_head)?;
    let mut on = Vec::new();
    if parsed.status < 200 {
        forward::push_reply_fields(&mut on, head, &parsed);
        on.extend_from_slice(b"\r\n");
        assert_eq!(request::find_end(&on, &mut 0), Ok(Some(on.len())), "one head: {}", on.escape_ascii());
        return Ok((on, None));
    }
    let framing = match parsed.body {
        Body::None { .. } | Body::Known(_) => Framing::Plain,
        Body::Chunked | Body::UntilClose if to_http10 => Framing::UntilClose,
        Body::Chunked | Body::UntilClose => Framing::Chunked,
    };
    forward::push_reply(&mut on, head, &parsed, framing, framing != Framing::UntilClose, to_http10);
    assert_eq!(request::find_end(&on, &mut 0), Ok(Some(on.len())), "one head: {}", on.escape_ascii());
    let again = reply::parse(&on, to_head);
    let due = match framing {
        Framing::Plain => parsed.body,
        Framing::Chunked => Body::Chunked,
        Framing::UntilClose => Body::UntilClose,
    };
    assert_eq!(again.map(|again| (again.status, again.body)), Ok((parsed.status, due)), "{}", on.escape_ascii());
    let left = match parsed.body {
        Body::None { .. } => Left::Bytes(0),
        Body::Known(length) => Left::Bytes(length),
        Body::Chunked => match BodyReader::new(BodyLength::Chunked, u64::MAX) {
            Ok(reader) => Left::Chunks(reader),
            Err(refusal) => return Err(refusal.why),
        },
        Body::UntilClose => Left::UntilClose,
    };
    Ok((on, Some(left)))
}
