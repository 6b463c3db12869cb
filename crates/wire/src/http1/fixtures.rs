//! What the tests of this module share: a plan to begin with, and an engine's loop without an engine.

use super::{Connection, Drawn, Http1Protocol};
use crate::{Progress, Protocol};
use model::ErrorKind;
use model::plan::{Body, Expect, Http1, HttpRequest};

/// A plain request.
pub fn get() -> HttpRequest {
    HttpRequest {
        origin: 0,
        weight: 1.0,
        method: "GET".into(),
        target: "/x?y=1".into(),
        headers: vec![("Host".into(), "h".into())],
        body: Body::default(),
        expect: Expect::default(),
        ..HttpRequest::default()
    }
}

/// A protocol with one request and a limit of heads.
pub fn protocol(request: HttpRequest, keep_alive: bool, head_bytes_max: u32) -> Http1Protocol {
    Http1Protocol::new(&Http1 { requests: vec![request], keep_alive, head_bytes_max, ..Http1::default() }).unwrap()
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    TimedOut,
}

/// What became of `outstanding` equal requests on one connection: `pieces` came, and then `end`.
pub fn exchange<'a>(
    protocol: &Http1Protocol,
    outstanding: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    end: End,
) -> Vec<String> {
    let request = Drawn::default();
    let mut connection = protocol.connection();
    let mut outcomes = Vec::new();
    let mut begun = false;
    for mut bytes in pieces {
        while !bytes.is_empty() {
            if outcomes.len() == outstanding {
                outcomes.push("unsolicited".to_owned());
                return outcomes;
            }
            let fed = protocol.feed(&mut connection, request, bytes);
            assert!(fed.consumed <= bytes.len());
            bytes = &bytes[fed.consumed..];
            begun = fed.progress == Progress::More;
            assert_eq!(connection.has_begun, begun);
            match fed.progress {
                Progress::More => assert!(bytes.is_empty(), "more is wanted, but not all was taken"),
                progress => {
                    assert_idle(&connection);
                    outcomes.push(outcome(progress));
                    if !matches!(progress, Progress::Reply(reply) if reply.keep) {
                        return outcomes;
                    }
                }
            }
        }
    }
    if outcomes.len() < outstanding {
        assert_eq!(connection.has_begun, begun);
        outcomes.push(match end {
            End::Closed => outcome(protocol.closed(&mut connection, request)),
            End::TimedOut => outcome(Progress::Broken(protocol.timed_out(&mut connection, 0, request))),
        });
        assert_idle(&connection);
    }
    outcomes
}

/// An idle connection has no memory of its own.
fn assert_idle(connection: &Connection) {
    assert!(connection.scratch.is_none() && !connection.has_begun);
}

/// Such as `200 keep`, `404 close unexpected-status 404: Not Found` or `broken bad-framing the status line is malformed`.
fn outcome(progress: Progress) -> String {
    let failure = |kind: ErrorKind, detail| format!(" {} {}", kind.name(), super::words(detail).unwrap_or_default());
    match progress {
        Progress::More => "more".to_owned(),
        Progress::Reply(reply) => {
            let keep = if reply.keep { "keep" } else { "close" };
            let failure = reply.failure.map(|f| failure(f.kind, f.detail)).unwrap_or_default();
            format!("{} {keep}{failure}", reply.status)
        }
        Progress::Broken(f) => format!("broken{}", failure(f.kind, f.detail)),
        framed => panic!("{framed:?}"),
    }
}
