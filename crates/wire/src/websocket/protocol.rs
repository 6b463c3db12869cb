//! WebSocket as a worker speaks it: the handshake as a greeting, messages as requests, their echoes as replies.
//!
//! Replies come in the order of requests, with pings and a close among them. An echo is compared as it comes and judged at
//! its end, so a wrong one leaves the connection in use. Messages are written before the load, compressed where that is
//! asked for: then a server that does not take compression cannot be spoken to. A close ends what is outstanding, with its
//! code. Cost: some 600 bytes a connection, and what its decompressor has.

use super::handshake::{Greeting, Openings};
use super::{DeflateOffer, Detail, Event, Kind, Machine, Messages, Place, SAID_BYTES_MAX, Shape, detail};
use crate::{Failure, Fed, Payload, Progress, Protocol, Reply, Source, Stream, WireError};
use model::ErrorKind;
use model::limits::ECHO_BYTES_MAX;
use model::workload::websocket::WebSocket;
use std::sync::Arc;

/// Codes of a close that is no complaint: everything is done, or the server goes away (RFC 6455 §7.4.1).
const NO_COMPLAINT: [u16; 2] = [super::NORMAL, 1001];

/// WebSocket for one worker.
#[derive(Debug)]
pub struct WebSocketProtocol {
    messages: Messages,
    openings: Openings,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Connection {
    greeting: Greeting,
    /// There once the handshake is answered.
    machine: Option<Machine>,
    /// Replies that have ended: the number of the request whose reply is due.
    ended: u32,
    /// Bytes of that reply's message that have come.
    came: usize,
    /// Whether any of the message has come, and the engine was told.
    has_begun: bool,
    is_told: bool,
    /// What is wrong with it.
    fault: Option<u32>,
}

impl WebSocketProtocol {
    /// WebSocket as a worker speaks it. The same plan and seed make the same messages.
    ///
    /// # Errors
    /// Sizes that cannot be sent.
    pub fn new(plan: &WebSocket, seed: u64) -> Result<Self, WireError> {
        // The client's own messages refer to nothing before them; the server may do as it likes.
        let deflate =
            plan.compress.then(|| DeflateOffer { client_no_context_takeover: true, ..DeflateOffer::default() });
        let shape = Shape {
            kind: if plan.text { Kind::Text } else { Kind::Binary },
            sizes: plan.sizes.clone(),
            content: plan.content,
            fragment_bytes: None,
            window_bits: deflate.as_ref().map(DeflateOffer::client_window_bits),
        };
        let openings = Openings::new(&plan.handshakes, &plan.subprotocols, deflate);
        Ok(WebSocketProtocol { messages: Messages::new(&shape, seed)?, openings })
    }

    /// What a request asks to have back.
    pub fn message(&self, request: Payload) -> &[u8] {
        self.messages.message(request)
    }

    /// Reads on; `oldest`: the request whose reply is due, `None`: nothing was asked.
    fn read(&self, connection: &mut Connection, oldest: Option<Payload>, bytes: &[u8]) -> Fed {
        let Connection { machine: Some(machine), ended, came, has_begun, is_told, fault, .. } = connection else {
            return unasked(bytes.len());
        };
        let mut consumed = 0;
        loop {
            // Of a message that nobody asked for its head alone says so. What its data would come to is found sooner or later
            // by how the bytes were cut, so here they are read one by one: few come while nothing is asked.
            let rest = &bytes[consumed..];
            let piece = if oldest.is_none() { &rest[..rest.len().min(1)] } else { rest };
            let (taken, event) = machine.take(piece);
            consumed += taken;
            let progress = match event {
                Event::More if *has_begun && !*is_told => {
                    *is_told = true;
                    return Fed { consumed, progress: Progress::Begun(*ended) };
                }
                Event::More => {
                    if oldest.is_none() && machine.kind().is_some() {
                        return unasked(consumed);
                    }
                    if consumed < bytes.len() {
                        continue;
                    }
                    return Fed { consumed, progress: Progress::More };
                }
                Event::Data(piece) => {
                    let Some(request) = oldest else { return unasked(consumed) };
                    let before = std::mem::replace(came, came.saturating_add(piece.len()));
                    if fault.is_none() {
                        *fault = difference(self.messages.message(request), before, piece);
                    }
                    *has_begun = true;
                    // Told at once if there are bytes for a further call: otherwise the message may end with these.
                    if *is_told || consumed == bytes.len() {
                        continue;
                    }
                    *is_told = true;
                    Progress::Begun(*ended)
                }
                Event::End(kind) => {
                    let Some(request) = oldest else { return unasked(consumed) };
                    let wrong = if kind != self.messages.kind() {
                        Some(Detail::OtherKind as u32)
                    } else if fault.is_none() && *came < self.messages.message(request).len() {
                        Some(Detail::Shorter as u32)
                    } else {
                        *fault
                    };
                    *ended = ended.wrapping_add(1);
                    (*came, *has_begun, *is_told, *fault) = (0, false, false, None);
                    let failure = wrong.map(|detail| Failure { kind: ErrorKind::CorruptedReply, detail });
                    Progress::Reply(Reply { status: 0, keep: true, failure })
                }
                Event::Pinged => Progress::Say,
                // An answer to no ping of ours: allowed, and of no interest (RFC 6455 §5.5.3).
                Event::Pong(_) => continue,
                Event::Closed(code) if oldest.is_none() && code.is_none_or(|code| NO_COMPLAINT.contains(&code)) => {
                    Progress::Ending
                }
                Event::Closed(code) => return broken(consumed, ErrorKind::ClosedEarly, detail::of_close(code)),
                Event::Bad(detail) => return broken(consumed, ErrorKind::BadFraming, detail as u32),
            };
            return Fed { consumed, progress };
        }
    }
}

impl Connection {
    /// Where the reply that is due has got to.
    fn place(&self) -> u32 {
        let place = match self.machine.as_ref().map(Machine::place) {
            None | Some(Place::Between) => Detail::BeforeFirstByte,
            Some(Place::InFrame) => Detail::InFrame,
            Some(Place::InMessage) => Detail::InMessage,
        };
        place as u32
    }
}

impl Protocol for WebSocketProtocol {
    type Connection = Connection;
    type Request = Payload;
    type Transport = Stream;

    const FRAMED: bool = true;

    fn blobs(&self) -> Vec<Arc<[u8]>> {
        vec![self.messages.blob()]
    }

    fn connection(&self) -> Connection {
        Connection {
            greeting: Greeting::default(),
            machine: None,
            ended: 0,
            came: 0,
            has_begun: false,
            is_told: false,
            fault: None,
        }
    }

    #[inline]
    fn next_request(&mut self, _origin: u16, random: u64) -> Payload {
        self.messages.draw(random)
    }

    #[inline]
    fn source(&self, request: Payload) -> Source {
        Source::Blob(request)
    }

    fn written_bytes_max(&self) -> usize {
        SAID_BYTES_MAX
    }

    fn greeting(&self, connection: &mut Connection, origin: u16, random: u64, to: &mut Vec<u8>) {
        self.openings.write(&mut connection.greeting, origin, random, to);
    }

    fn greeted(&self, connection: &mut Connection, origin: u16, bytes: &[u8]) -> Fed {
        let (consumed, judged) = self.openings.take(&mut connection.greeting, origin, bytes);
        let progress = match judged {
            None => Progress::More,
            Some(Err(failure)) => Progress::Broken(failure),
            Some(Ok(agreed)) => {
                connection.machine = Some(Machine::new(&agreed, u64::from(ECHO_BYTES_MAX), connection.greeting.seed()));
                Progress::Reply(Reply { status: 0, keep: true, failure: None })
            }
        };
        Fed { consumed, progress }
    }

    #[inline]
    fn feed(&self, connection: &mut Connection, oldest: Payload, bytes: &[u8]) -> Fed {
        self.read(connection, Some(oldest), bytes)
    }

    fn feed_idle(&self, connection: &mut Connection, bytes: &[u8]) -> Fed {
        self.read(connection, None, bytes)
    }

    fn say(&self, connection: &mut Connection, to: &mut Vec<u8>) {
        if let Some(machine) = &mut connection.machine {
            machine.say(to);
        }
    }

    fn closed(&self, connection: &mut Connection, _oldest: Payload) -> Progress {
        Progress::Broken(Failure { kind: ErrorKind::ClosedEarly, detail: connection.place() })
    }

    fn timed_out(&self, connection: &mut Connection, number: u32, _request: Payload) -> Failure {
        // Of the oldest only it is known.
        let detail = if number == connection.ended { connection.place() } else { Detail::BeforeFirstByte as u32 };
        Failure { kind: ErrorKind::ReplyTimeout, detail }
    }

    fn describe(detail: u32) -> Option<&'static str> {
        detail::describe(detail)
    }
}

/// What is wrong with a piece that begins so many bytes into a message.
#[inline]
fn difference(message: &[u8], before: usize, piece: &[u8]) -> Option<u32> {
    let due = message.get(before..).unwrap_or_default();
    let compared = due.len().min(piece.len());
    if due[..compared] != piece[..compared] {
        let same = due.iter().zip(piece).take_while(|(a, b)| a == b).count();
        return Some(detail::of_difference((before + same) as u32));
    }
    (piece.len() > due.len()).then_some(Detail::Longer as u32)
}

/// Nobody asked for it.
fn unasked(consumed: usize) -> Fed {
    broken(consumed, ErrorKind::UnsolicitedReply, Detail::Unasked as u32)
}

fn broken(consumed: usize, kind: ErrorKind, detail: u32) -> Fed {
    Fed { consumed, progress: Progress::Broken(Failure { kind, detail }) }
}
