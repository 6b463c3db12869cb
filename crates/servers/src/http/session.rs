//! One connection's HTTP, without its socket: bytes in, reply bytes and steps out.
//!
//! All complete requests of the input are answered into one buffer, in order, so that they leave in one
//! write. What takes time or is large becomes a step for the event loop: sleeping, streaming, closing.
//! Holds no buffer between requests; input that is not consumed yet is the caller's to keep.

use super::body::BodyReader;
use super::conditions::Part;
use super::files::{Content, Entry, Files};
use super::generated::Generated;
use super::output::Stream;
use super::reply::{self, Length, Manner, Stamp};
use super::request::{self, BodyLength, Method, Refusal};
use super::route::{self, Answer};
use crate::clock;
use crate::counters::Counters;
use crate::limits;

/// What the sessions of one worker share.
pub(crate) struct Site {
    pub(crate) files: Option<Files>,
    pub(crate) stamp: Stamp,
    pub(crate) keep_alive: bool,
    pub(crate) body_bytes_max: u64,
    /// No further request is waited for: every reply is its connection's last.
    pub(crate) draining: bool,
    /// Monotonic.
    pub(crate) now_ns: u64,
}

impl Site {
    /// The manner, as far as it still holds: the server may have been told to stop since the head was read.
    fn at_most(&self, manner: Manner) -> Manner {
        Manner { keep_alive: manner.keep_alive && !self.draining, ..manner }
    }
}

/// What comes next, once the bytes in `out` are written.
#[derive(Debug)]
pub(crate) enum Step {
    /// More input.
    Receive,
    /// Step again, with the input that was not consumed.
    Continue,
    /// Send the stream, then step again (or close).
    Stream(Stream, After),
    /// Step again at this monotonic time.
    Sleep(u64),
    /// Close.
    Close(Close),
}

/// What follows a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Continue,
    Close(Close),
}

/// How a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// The request was read to its end.
    AtOnce,
    /// Input may still come, and closing on it would reset the connection and lose the reply: read on
    /// for a while.
    Lingering,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    state: State,
    /// How far the end of the next head was looked for.
    scanned: usize,
    empty_lines: u8,
}

#[derive(Debug)]
enum State {
    Head,
    Body(Box<Reading>),
    /// An answer that waits until what was written before has left.
    Held(Box<(Answer, Manner)>),
    Asleep {
        until_ns: u64,
        ms: u64,
        manner: Manner,
    },
}

#[derive(Debug)]
struct Reading {
    reader: BodyReader,
    answer: Answer,
    manner: Manner,
    /// The body so far, where the answer needs it.
    kept: Option<Vec<u8>>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self { state: State::Head, scanned: 0, empty_lines: 0 }
    }

    /// Whether a request is being read or answered, beyond bytes that were not consumed.
    pub(crate) fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// Whether a request's body is being waited for.
    pub(crate) fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Goes on as far as the input reaches. Returns how much of it was consumed, and what comes next.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> (usize, Step) {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let flow = match std::mem::replace(&mut self.state, State::Head) {
                State::Head => self.head(rest, &mut consumed, site, out, counters),
                State::Body(reading) => self.body(reading, rest, &mut consumed, site, out, counters),
                State::Held(held) => Ok(self.perform(held.0, held.1, None, site, out, counters)),
                State::Asleep { until_ns, ms, manner } if until_ns > site.now_ns => {
                    self.state = State::Asleep { until_ns, ms, manner };
                    return (consumed, Step::Sleep(until_ns));
                }
                State::Asleep { ms, manner, .. } => {
                    let manner = site.at_most(manner);
                    reply::push_text(out, &site.stamp, 200, b"", &format!("slept {ms} ms\n"), manner);
                    Ok(Flow::Replied(manner.keep_alive))
                }
            };
            match flow {
                Ok(Flow::Again) => {}
                Ok(Flow::Step(step)) => return (consumed, step),
                Ok(Flow::Replied(true)) if out.len() >= limits::OUT_BATCH_BYTES => return (consumed, Step::Continue),
                Ok(Flow::Replied(true)) => {}
                Ok(Flow::Replied(false)) => return (consumed, Step::Close(close_after(consumed, input))),
                Ok(Flow::Stream(stream, keep_alive)) => {
                    let after = if keep_alive { After::Continue } else { After::Close(close_after(consumed, input)) };
                    return (consumed, Step::Stream(stream, after));
                }
                Err(refusal) => {
                    push_refusal(out, site, refusal, counters);
                    // Nothing behind a request that was not understood can be: where it ends is not known.
                    return (input.len(), Step::Close(Close::Lingering));
                }
            }
        }
    }

    /// Writes the reply to a request that never came whole.
    pub(crate) fn give_up(site: &Site, out: &mut Vec<u8>, counters: &mut Counters) {
        let refusal = Refusal { status: 408, why: "expected the rest of the request sooner" };
        push_refusal(out, site, refusal, counters);
    }

    fn head(
        &mut self,
        rest: &[u8],
        consumed: &mut usize,
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<Flow, Refusal> {
        if rest.first() == Some(&b'\r') {
            if rest.get(1).is_none() {
                return Ok(Flow::Step(Step::Receive));
            }
            self.empty_lines += 1;
            if rest[1] != b'\n' || usize::from(self.empty_lines) > limits::LEADING_EMPTY_LINES_MAX {
                return Err(Refusal { status: 400, why: "expected a request line" });
            }
            *consumed += 2;
            return Ok(Flow::Again);
        }
        let Some(len) = request::find_end(rest, &mut self.scanned)? else { return Ok(Flow::Step(Step::Receive)) };
        let head = request::parse(&rest[..len])?;
        *consumed += len;
        self.scanned = 0;
        self.empty_lines = 0;
        let manner = Manner {
            keep_alive: head.keep_alive && site.keep_alive,
            head_only: head.method == Method::Head,
            http10: head.http10,
        };
        let answer = route::route(&head, site.files.as_mut(), site.now_ns);
        if head.body == BodyLength::None {
            return Ok(self.perform(answer, manner, None, site, out, counters));
        }
        let reader = BodyReader::new(head.body, site.body_bytes_max)?;
        if head.expect_continue && !reader.is_done() && rest.len() == len {
            if let Answer::Refuse(status, why) = answer {
                // The client waits before it sends the body: it need not.
                return Err(Refusal { status, why });
            }
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let kept = matches!(answer, Answer::Echo).then(Vec::new);
        self.state = State::Body(Box::new(Reading { reader, answer, manner, kept }));
        Ok(Flow::Again)
    }

    fn body(
        &mut self,
        mut reading: Box<Reading>,
        rest: &[u8],
        consumed: &mut usize,
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<Flow, Refusal> {
        *consumed += reading.reader.read(rest, reading.kept.as_mut())?;
        if reading.reader.is_done() {
            return Ok(self.perform(reading.answer, reading.manner, reading.kept, site, out, counters));
        }
        self.state = State::Body(reading);
        Ok(Flow::Step(Step::Receive))
    }

    fn perform(
        &mut self,
        answer: Answer,
        manner: Manner,
        body: Option<Vec<u8>>,
        site: &mut Site,
        out: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Flow {
        if matches!(answer, Answer::Burn { .. }) && !out.is_empty() {
            // Replies that are ready must not wait for this one's work.
            self.state = State::Held(Box::new((answer, manner)));
            return Flow::Step(Step::Continue);
        }
        let manner = site.at_most(manner);
        counters.requests += 1;
        match answer {
            Answer::Index => reply::push_text(out, &site.stamp, 200, b"", route::INDEX, manner),
            Answer::Status(status) => push_status(out, site, status, manner),
            Answer::Refuse(status, why) => {
                counters.refused += 1;
                push_error(out, site, Refusal { status, why }, b"", manner);
            }
            Answer::NotAllowed(methods) => {
                counters.refused += 1;
                let allow = format!("Allow: {methods}\r\n");
                let refusal = Refusal { status: 405, why: "expected one of the methods in Allow" };
                push_error(out, site, refusal, allow.as_bytes(), manner);
            }
            Answer::AddSlash(location) => {
                let fields = [b"Location: ", &location[..], b"\r\n"].concat();
                reply::push_text(out, &site.stamp, 301, &fields, "the folder is at Location\n", manner);
            }
            Answer::Sleep { ms } => {
                // Read anew: the batch this request came in may have burnt processor time before.
                let until_ns = clock::monotonic_ns().saturating_add(ms.saturating_mul(1_000_000));
                self.state = State::Asleep { until_ns, ms, manner };
                return Flow::Again;
            }
            Answer::Burn { us } => {
                clock::burn_us(us);
                reply::push_text(out, &site.stamp, 200, b"", &format!("burnt {us} us\n"), manner);
            }
            Answer::Bytes { n } => {
                reply::push_head(out, &site.stamp, 200, BINARY, Length::Known(n), manner);
                return stream_generated(Generated::bytes(n), manner, out);
            }
            Answer::Chunked { n, size } if manner.http10 => {
                let manner = Manner { keep_alive: false, ..manner };
                reply::push_head(out, &site.stamp, 200, BINARY, Length::UntilClose, manner);
                return stream_generated(Generated::bytes(n.saturating_mul(size)), manner, out);
            }
            Answer::Chunked { n, size } => {
                reply::push_head(out, &site.stamp, 200, BINARY, Length::Chunked, manner);
                return stream_generated(Generated::chunked(n, size), manner, out);
            }
            Answer::Echo => {
                let body = body.unwrap_or_default();
                reply::push_head(out, &site.stamp, 200, BINARY, Length::Known(body.len() as u64), manner);
                if !manner.head_only && body.len() > limits::COPY_BODY_BYTES_MAX {
                    return Flow::Stream(Stream::Owned { bytes: body, sent: 0 }, manner.keep_alive);
                }
                if !manner.head_only {
                    out.extend_from_slice(&body);
                }
            }
            Answer::File(entry, part) => return send_file(entry, part, manner, site, out, counters),
        }
        Flow::Replied(manner.keep_alive)
    }
}

const BINARY: &[u8] = b"Content-Type: application/octet-stream\r\n";

enum Flow {
    Again,
    Step(Step),
    /// A reply is in `out`; whether the connection is kept.
    Replied(bool),
    /// A head is in `out`, its body to be streamed; whether the connection is kept.
    Stream(Stream, bool),
}

fn close_after(consumed: usize, input: &[u8]) -> Close {
    if consumed == input.len() { Close::AtOnce } else { Close::Lingering }
}

fn stream_generated(mut generated: Generated, manner: Manner, out: &mut Vec<u8>) -> Flow {
    if manner.head_only {
        return Flow::Replied(manner.keep_alive);
    }
    let left = generated.left();
    if left <= limits::COPY_BODY_BYTES_MAX as u64 {
        generated.fill(out, limits::COPY_BODY_BYTES_MAX);
        generated.advance(left);
        return Flow::Replied(manner.keep_alive);
    }
    Flow::Stream(Stream::Generated(generated), manner.keep_alive)
}

fn send_file(
    entry: std::rc::Rc<Entry>,
    part: Part,
    manner: Manner,
    site: &Site,
    out: &mut Vec<u8>,
    counters: &mut Counters,
) -> Flow {
    let size = entry.size();
    let (from, to) = match part {
        Part::Whole => {
            reply::push_head(out, &site.stamp, 200, &entry.fields, Length::Known(size), manner);
            (0, size)
        }
        Part::Range { from, to } => {
            let mut fields = entry.fields.clone();
            reply::push_format(&mut fields, format_args!("Content-Range: bytes {from}-{}/{size}\r\n", to - 1));
            reply::push_head(out, &site.stamp, 206, &fields, Length::Known(to - from), manner);
            (from, to)
        }
        Part::NotModified => {
            reply::push_head(out, &site.stamp, 304, &entry.fields, Length::Absent, manner);
            return Flow::Replied(manner.keep_alive);
        }
        Part::PreconditionFailed => {
            counters.refused += 1;
            let refusal = Refusal { status: 412, why: "expected the file to be as the precondition says" };
            push_error(out, site, refusal, b"", manner);
            return Flow::Replied(manner.keep_alive);
        }
        Part::NotSatisfiable => {
            counters.refused += 1;
            let fields = format!("Content-Range: bytes */{size}\r\n");
            let refusal = Refusal { status: 416, why: "expected a range inside the file" };
            push_error(out, site, refusal, fields.as_bytes(), manner);
            return Flow::Replied(manner.keep_alive);
        }
    };
    if manner.head_only || from == to {
        return Flow::Replied(manner.keep_alive);
    }
    match &entry.content {
        Content::Memory(bytes) if to - from <= limits::COPY_BODY_BYTES_MAX as u64 => {
            // In memory, so its positions fit.
            out.extend_from_slice(&bytes[from as usize..to as usize]);
            Flow::Replied(manner.keep_alive)
        }
        _ => Flow::Stream(Stream::File { entry, from, to }, manner.keep_alive),
    }
}

fn push_status(out: &mut Vec<u8>, site: &Site, status: u16, manner: Manner) {
    match status {
        // These never have a body (RFC 9110 §15.3.5, §15.4.5), and a 205 an empty one (§15.3.6).
        204 | 304 => reply::push_head(out, &site.stamp, status, b"", Length::Absent, manner),
        205 => reply::push_head(out, &site.stamp, status, b"", Length::Known(0), manner),
        _ => {
            let text = format!("{status} {}\n", reply::reason(status));
            reply::push_text(out, &site.stamp, status, b"", &text, manner);
        }
    }
}

fn push_refusal(out: &mut Vec<u8>, site: &Site, refusal: Refusal, counters: &mut Counters) {
    counters.requests += 1;
    counters.refused += 1;
    // Without knowing the request, a body is right: it ends with the connection at the latest.
    push_error(out, site, refusal, b"", Manner { keep_alive: false, head_only: false, http10: false });
}

fn push_error(out: &mut Vec<u8>, site: &Site, refusal: Refusal, fields: &[u8], manner: Manner) {
    let text = format!("{} {}: {}\n", refusal.status, reply::reason(refusal.status), refusal.why);
    reply::push_text(out, &site.stamp, refusal.status, fields, &text, manner);
}
