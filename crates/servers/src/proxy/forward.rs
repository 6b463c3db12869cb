//! Heads as they go on: a client's request to an origin, an origin's reply to a client (RFC 9110 §7.6).
//!
//! Fields that speak of one connection only are left out, with those that `Connection` names; who came before
//! is added in `X-Forwarded-For` and `Via`. `Host` stays the client's. What delimits the body is written
//! anew from what was understood, so that both sides of the proxy read the same message.

use std::net::IpAddr;

use super::fields::{field, fields, is_of_connection, list, nominated};
use super::reply::{Body, ReplyHead};
use crate::http::reply::push_format;
use crate::http::request::{BodyLength, Head, Method, Refusal};

/// The name in `Via`.
const VIA: &str = "plimsoll";

/// How a body goes on towards a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Unframed: as many bytes as `Content-Length` says, or none.
    Plain,
    /// In chunks of our own.
    Chunked,
    /// Unframed, and ended by closing the connection.
    UntilClose,
}

/// What a request is asked for: target in origin form, and host.
pub(super) fn target_and_host(head: &[u8]) -> (&[u8], Option<&[u8]>) {
    let raw = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    if !raw.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http://")) {
        return (raw, field(head, b"host").filter(|host| !host.is_empty()));
    }
    // Its host overrides the field (RFC 9112 §3.2.2).
    let slash = raw[7..].iter().position(|&byte| byte == b'/');
    let (host, target) = raw[7..].split_at(slash.unwrap_or(raw.len() - 7));
    (if target.is_empty() { b"/" } else { target }, Some(host))
}

/// Writes a request's head as it goes to an origin.
pub(super) fn push_request(
    out: &mut Vec<u8>,
    head: &[u8],
    parsed: &Head<'_>,
    authority: &str,
    peer: Option<IpAddr>,
    keep: bool,
) -> Result<(), Refusal> {
    if parsed.method == Method::Connect {
        return Err(Refusal { status: 501, why: "expected a request for an origin, as this proxy makes no tunnels" });
    }
    if field(head, b"upgrade").is_some() {
        return Err(Refusal { status: 501, why: "expected no Upgrade, as this proxy passes on HTTP/1.1 only" });
    }
    let nominated = nominated(head).ok_or(Refusal { status: 400, why: "expected at most 32 options in Connection" })?;
    let method = head.split(|&byte| byte == b' ').next().unwrap_or_default();
    let (target, host) = target_and_host(head);
    for part in [method, b" ", target, b" HTTP/1.1\r\nHost: ", host.unwrap_or(authority.as_bytes()), b"\r\n"] {
        out.extend_from_slice(part);
    }
    for (name, value) in fields(head) {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        if is(b"host") || is(b"x-forwarded-for") || is(b"via") || is_of_connection(name, &nominated) {
            continue;
        }
        push_field(out, name, value);
    }
    let forwarded: Vec<_> = list(head, b"x-forwarded-for").collect();
    let mut chain = forwarded.join(&b", "[..]);
    if let Some(peer) = peer {
        if !chain.is_empty() {
            chain.extend_from_slice(b", ");
        }
        push_format(&mut chain, format_args!("{}", peer.to_canonical()));
    }
    if !chain.is_empty() {
        push_field(out, b"X-Forwarded-For", &chain);
    }
    push_via(out, head, parsed.http10);
    match parsed.body {
        BodyLength::None => {}
        BodyLength::Known(length) => push_format(out, format_args!("Content-Length: {length}\r\n")),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    out.extend_from_slice(if keep { b"\r\n" } else { b"Connection: close\r\n\r\n" });
    Ok(())
}

/// Writes a reply's head as it goes to a client.
pub(super) fn push_reply(
    out: &mut Vec<u8>,
    head: &[u8],
    parsed: &ReplyHead,
    framing: Framing,
    keep_alive: bool,
    http10: bool,
) {
    push_reply_fields(out, head, parsed);
    match (framing, parsed.body) {
        (Framing::Chunked, _) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        (_, Body::Known(length)) => push_format(out, format_args!("Content-Length: {length}\r\n")),
        (_, Body::None { stated: Some(length) }) => push_format(out, format_args!("Content-Length: {length}\r\n")),
        _ => {}
    }
    push_connection(out, keep_alive, http10);
}

/// What says whether the connection is kept, and the head's end.
pub(super) fn push_connection(out: &mut Vec<u8>, keep_alive: bool, http10: bool) {
    out.extend_from_slice(match (keep_alive, http10) {
        (false, _) => b"Connection: close\r\n\r\n",
        (true, true) => b"Connection: keep-alive\r\n\r\n",
        (true, false) => b"\r\n",
    });
}

/// Status line and fields, without what delimits the body.
pub(super) fn push_reply_fields(out: &mut Vec<u8>, head: &[u8], parsed: &ReplyHead) {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1");
    out.extend_from_slice(line.get(8..).unwrap_or_default());
    out.extend_from_slice(b"\r\n");
    // More options than that were refused when the head was read.
    let nominated = nominated(head).unwrap_or_default();
    for (name, value) in fields(head) {
        if !name.eq_ignore_ascii_case(b"via") && !is_of_connection(name, &nominated) {
            push_field(out, name, value);
        }
    }
    push_via(out, head, parsed.http10);
}

fn push_via(out: &mut Vec<u8>, head: &[u8], http10: bool) {
    let mut via = list(head, b"via").collect::<Vec<_>>().join(&b", "[..]);
    if !via.is_empty() {
        via.extend_from_slice(b", ");
    }
    push_format(&mut via, format_args!("1.{} {VIA}", u8::from(!http10)));
    push_field(out, b"Via", &via);
}

fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes content as one chunk, and the last chunk behind it.
pub(super) fn push_chunk(out: &mut Vec<u8>, content: &[u8], is_last: bool) {
    if !content.is_empty() {
        push_format(out, format_args!("{:x}\r\n", content.len()));
        out.extend_from_slice(content);
        out.extend_from_slice(b"\r\n");
    }
    if is_last {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request;

    fn check(head: &str) -> Result<String, u16> {
        let parsed = request::parse(head.as_bytes()).map_err(|refusal| refusal.status)?;
        let mut out = Vec::new();
        let peer = Some(IpAddr::from([10, 0, 0, 7]));
        push_request(&mut out, head.as_bytes(), &parsed, "origin:1", peer, true).map_err(|refusal| refusal.status)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_speaks_of_the_connection_stays_behind() {
        let head = "GET /a?b HTTP/1.1\r\nHost: h\r\nConnection: close, X-Own\r\nx-own: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
            X-Forwarded-For: 1.2.3.4\r\nVia: 1.0 front\r\nAccept: */*\r\n\r\n";
        assert_eq!(
            check(head).unwrap(),
            "GET /a?b HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nX-Forwarded-For: 1.2.3.4, 10.0.0.7\r\n\
            Via: 1.0 front, 1.1 plimsoll\r\n\r\n"
        );
        let head =
            "POST http://other:8/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: Content-Length\r\n\r\n";
        assert_eq!(
            check(head).unwrap(),
            "POST /x HTTP/1.1\r\nHost: other:8\r\nX-Forwarded-For: 10.0.0.7\r\nVia: 1.1 plimsoll\r\nContent-Length: 5\r\n\r\n",
            "a length is never left out by being named"
        );
        assert!(check("GET / HTTP/1.0\r\n\r\n").unwrap().starts_with("GET / HTTP/1.1\r\nHost: origin:1\r\n"));
        assert_eq!(check("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"), Err(501));
        assert_eq!(check("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"), Err(501));
        let many = format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: {}\r\n\r\n", "a,".repeat(33));
        assert_eq!(check(&many), Err(400));
    }
}
