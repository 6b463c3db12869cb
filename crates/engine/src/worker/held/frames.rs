//! What comes on held connections: the answer to what the protocol said first, replies, and what nobody asked for.
//!
//! Of a protocol that is not framed all bytes are replies, and nobody asked for any other. A framed one says what each piece
//! is: a held connection has one message under way at most, so a reply needs no number. What it has to say to the peer
//! leaves with one send after each read. A peer that makes us talk and does not listen is hung up on.

use super::pending::{NOTHING, Pending};
use super::{HoldWorker, State};
use crate::driver::{Driver, Slot};
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use wire::{Failure, Progress, Protocol, Stream};

/// So many bytes are said at once.
pub(super) const SAID_AT_ONCE: usize = 16 * 1024;
/// A connection is given up when it has so many bytes unsent and more is to be said on it.
const UNSENT_BYTES_MAX: u64 = 64 * 1024;

impl<P: Protocol<Transport = Stream>, D: Driver> HoldWorker<P, D> {
    pub(super) fn on_received(&mut self, slot: Slot, at_ns: u64) {
        let length = self.driver.bytes().len() as u64;
        let held = self.held[slot as usize];
        let of_message = self.waiting.get_mut(held.pending).filter(|pending| pending.request.is_some());
        if self.ledger.is_measured(of_message.map_or(at_ns, |message| message.stamps.intended_ns)) {
            self.ledger.counts().bytes_received += length;
        }
        match held.state {
            State::Greeting => self.on_greeted(slot, at_ns),
            _ => self.read(slot, 0, at_ns),
        }
    }

    /// Bytes came that answer the greeting.
    fn on_greeted(&mut self, slot: Slot, at_ns: u64) {
        let origin = self.origin_of(slot);
        let fed = self.protocol.greeted(&mut self.talks[slot as usize], origin, self.driver.bytes());
        match fed.progress {
            Progress::Reply(_) => {
                self.take_pending(slot);
                self.on_usable(slot);
                self.read(slot, fed.consumed, at_ns);
            }
            Progress::Broken(Failure { kind, detail }) => {
                self.driver.close(slot);
                let why = ErrorExample { detail, ..self.example(slot, kind, Phase::Connect, at_ns) };
                self.on_connect_failed(slot, why);
            }
            // The others are of what follows a greeting.
            _ => {}
        }
    }

    /// Reads what came on an open connection, from `offset` on.
    fn read(&mut self, slot: Slot, mut offset: usize, at_ns: u64) {
        loop {
            let bytes = &self.driver.bytes()[offset..];
            if bytes.is_empty() {
                break;
            }
            let talk = &mut self.talks[slot as usize];
            let message = self.waiting.get_mut(self.held[slot as usize].pending);
            let fed = match message {
                Some(Pending { request: Some(request), stamps, .. }) => {
                    if !P::FRAMED && stamps.first_byte_ns == 0 {
                        stamps.first_byte_ns = at_ns;
                    }
                    self.protocol.feed(talk, *request, bytes)
                }
                // Of messages that are only sent nobody reads what they are answered with.
                _ if !self.is_awaited => return,
                _ => self.protocol.feed_idle(talk, bytes),
            };
            offset += fed.consumed;
            match fed.progress {
                Progress::More => break,
                Progress::Begun(_) => self.has_begun(slot, at_ns),
                Progress::Reply(reply) | Progress::ReplyTo(_, reply) => {
                    self.has_begun(slot, at_ns);
                    let is_due = self.held[slot as usize].pending != NOTHING;
                    match reply.failure {
                        _ if !is_due => return self.on_broken(slot, unasked(), at_ns),
                        Some(failure) => return self.on_broken(slot, failure, at_ns),
                        None if !reply.keep => return self.on_last_reply(slot, at_ns),
                        None => self.message_is_done(slot, at_ns),
                    }
                }
                Progress::Say => self.say(slot),
                Progress::Came(outcome) => {
                    self.ledger.outcome(outcome);
                    self.say(slot);
                }
                Progress::Ending => {
                    self.say(slot);
                    return self.on_broken(slot, Failure { kind: ErrorKind::ClosedEarly, detail: 0 }, at_ns);
                }
                Progress::Broken(failure) => {
                    self.say(slot);
                    return self.on_broken(slot, self.as_heard(failure), at_ns);
                }
            }
            if self.said.len() > SAID_AT_ONCE && !self.speak(slot) {
                return self.on_broken(slot, unasked(), at_ns);
            }
        }
        if !self.speak(slot) {
            return self.on_broken(slot, unasked(), at_ns);
        }
        if self.held[slot as usize].pending == NOTHING {
            self.driver.rest(slot);
        }
    }

    /// Where connections are only held, with nothing sent on any, what was not asked for is the server's first word.
    fn as_heard(&self, failure: Failure) -> Failure {
        let is_silent = !P::FRAMED && self.message_step_ns.is_none() && self.probe_due_ns == u64::MAX;
        match failure.kind {
            ErrorKind::UnsolicitedReply if is_silent => Failure { kind: ErrorKind::SpokeFirst, ..failure },
            _ => failure,
        }
    }

    /// The reply to a connection's message has begun, at the latest.
    fn has_begun(&mut self, slot: Slot, at_ns: u64) {
        if let Some(message) = self.waiting.get_mut(self.held[slot as usize].pending)
            && message.stamps.first_byte_ns == 0
        {
            message.stamps.first_byte_ns = at_ns;
        }
    }

    /// An open connection is of no use any more, by what came on it.
    fn on_broken(&mut self, slot: Slot, failure: Failure, at_ns: u64) {
        self.speak(slot);
        // A close that the protocol has a word for is the peer's; anything else we do not stand.
        let is_closed = failure.kind == ErrorKind::ClosedEarly;
        let counts = self.ledger.counts();
        *(if is_closed { &mut counts.closed_by_peer } else { &mut counts.closed_by_us }) += 1;
        self.end(slot, failure, if is_closed { Phase::FirstByte } else { Phase::Reply }, 0, at_ns);
    }

    /// A good reply came, and the peer takes no further message behind it.
    fn on_last_reply(&mut self, slot: Slot, at_ns: u64) {
        self.message_is_done(slot, at_ns);
        self.on_broken(slot, Failure { kind: ErrorKind::ClosedEarly, detail: 0 }, at_ns);
    }

    /// Takes what the protocol has to say to what is sent next.
    fn say(&mut self, slot: Slot) {
        self.protocol.say(&mut self.talks[slot as usize], &mut self.said);
    }

    /// Sends what is to be said. `false`: too much of it waits.
    pub(super) fn speak(&mut self, slot: Slot) -> bool {
        if self.said.is_empty() {
            return true;
        }
        let has_room = self.driver.unsent_bytes(slot) <= UNSENT_BYTES_MAX;
        if has_room {
            let mut bytes = self.driver.lend();
            bytes.extend_from_slice(&self.said);
            self.driver.send_bytes(slot, bytes);
        }
        self.said.clear();
        has_room
    }
}

/// Nobody asked for it.
fn unasked() -> Failure {
    Failure { kind: ErrorKind::UnsolicitedReply, detail: 0 }
}
