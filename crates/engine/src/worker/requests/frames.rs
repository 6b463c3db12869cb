//! What comes on a connection of a framed protocol: replies in any order, and frames that want an answer of their own.
//!
//! Apart from `life`, so that protocols whose replies come in order pay nothing for it. A reply names its request by the
//! number it was sent with; one that names none that is outstanding ends the connection, as bytes nobody asked for do. What
//! the protocol says beside its requests leaves with one send after each read. A peer that makes us talk and does not
//! listen is hung up on, so what waits to be sent is bounded.

use super::Worker;
use super::network::Why;
use crate::driver::{Driver, Slot};
use model::error_kind::{ErrorKind, Phase};
use wire::{Failure, Progress, Protocol, Stream};

/// A connection is given up when it may have so many bytes unsent that are no request's.
const SAID_BYTES_MAX: usize = 256 * 1024;
/// What a send that waits costs beside its bytes, as bytes: its buffer's place, and the allocator's part.
const SEND_BYTES: usize = 64;

impl<P: Protocol<Transport = Stream>, D: Driver> Worker<P, D> {
    /// Bytes came.
    pub(super) fn on_frames(&mut self, slot: Slot, at_ns: u64) {
        self.connections[slot as usize].heard_ns = at_ns;
        let (mut offset, mut answered) = (0, 0u16);
        loop {
            let bytes = &self.driver.bytes()[offset..];
            if bytes.is_empty() {
                break;
            }
            let connection = &mut self.connections[slot as usize];
            let fed = match connection.outstanding.oldest() {
                Some(oldest) => self.protocol.feed(&mut connection.protocol, oldest.request, bytes),
                None => self.protocol.feed_idle(&mut connection.protocol, bytes),
            };
            offset += fed.consumed;
            let (request, reply) = match fed.progress {
                Progress::More => break,
                Progress::Reply(reply) => (connection.outstanding.pop(), reply),
                Progress::ReplyTo(number, reply) => (connection.outstanding.take(number), reply),
                Progress::Begun(number) => {
                    if let Some(request) = connection.outstanding.of_number(number)
                        && request.stamps.first_byte_ns == 0
                    {
                        request.stamps.first_byte_ns = at_ns;
                    }
                    continue;
                }
                Progress::Ending => {
                    connection.limit = connection.sent;
                    self.say(slot);
                    continue;
                }
                Progress::Say | Progress::Came(_) => {
                    self.say(slot);
                    if self.gathered.is_full() && !self.speak(slot) {
                        return self.on_unsolicited(slot, answered, at_ns);
                    }
                    continue;
                }
                Progress::Broken(failure) => {
                    self.say(slot);
                    self.speak(slot);
                    return self.on_broken_frames(slot, failure, answered, at_ns);
                }
            };
            let Some(mut request) = request else {
                self.speak(slot);
                return self.on_unsolicited(slot, answered, at_ns);
            };
            if request.stamps.first_byte_ns == 0 {
                request.stamps.first_byte_ns = at_ns;
            }
            if !reply.keep {
                connection.limit = connection.sent;
            }
            connection.answered += 1;
            answered += 1;
            // Replies may come in pieces among others': known is what this one ended with.
            request.received = request.received.saturating_add(fed.consumed as u32);
            self.count_reply(slot, &request, reply.status, reply.failure, at_ns);
        }
        if !self.speak(slot) {
            return self.on_unsolicited(slot, answered, at_ns);
        }
        let connection = &self.connections[slot as usize];
        if answered > 0 {
            self.after_replies(slot, answered, at_ns);
        } else if !connection.takes_more() && connection.outstanding.is_empty() {
            self.on_last_reply(slot, 0, at_ns);
        }
    }

    /// Bytes of the peer's own came behind the answer to the greeting, before any request was sent. Why the connection cannot
    /// be used, if it cannot.
    pub(super) fn on_frames_of_greeting(&mut self, slot: Slot, mut offset: usize) -> Result<(), Why> {
        loop {
            let bytes = &self.driver.bytes()[offset..];
            if bytes.is_empty() {
                break;
            }
            let fed = self.protocol.feed_idle(&mut self.connections[slot as usize].protocol, bytes);
            offset += fed.consumed;
            match fed.progress {
                Progress::More => break,
                Progress::Say | Progress::Came(_) => {
                    self.say(slot);
                    if self.gathered.is_full() && !self.speak(slot) {
                        return Err(Why::kind(ErrorKind::UnsolicitedReply, Phase::Connect));
                    }
                }
                Progress::Broken(failure) => {
                    self.say(slot);
                    self.speak(slot);
                    return Err(Why::failure(failure, Phase::Connect));
                }
                Progress::Ending => {
                    self.say(slot);
                    self.speak(slot);
                    return Err(Why::kind(ErrorKind::ClosedEarly, Phase::Connect));
                }
                Progress::Reply(_) | Progress::ReplyTo(..) | Progress::Begun(_) => {
                    return Err(Why::kind(ErrorKind::UnsolicitedReply, Phase::Connect));
                }
            }
        }
        if self.speak(slot) { Ok(()) } else { Err(Why::kind(ErrorKind::UnsolicitedReply, Phase::Connect)) }
    }

    /// The connection goes on without the reply to a request that has just timed out.
    pub(super) fn go_on_without(&mut self, slot: Slot, now_ns: u64) {
        self.say(slot);
        if self.speak(slot) {
            self.after_replies(slot, 1, now_ns);
        } else {
            self.on_unsolicited(slot, 1, now_ns);
        }
    }

    /// Takes what the protocol has to say to what is sent next.
    fn say(&mut self, slot: Slot) {
        self.protocol.say(&mut self.connections[slot as usize].protocol, self.gathered.with_room());
    }

    /// Sends what was said. `false`: too much of it waits.
    fn speak(&mut self, slot: Slot) -> bool {
        let said = self.gathered.len();
        if said == 0 {
            return true;
        }
        let connection = &mut self.connections[slot as usize];
        let taken = connection.given.saturating_sub(self.driver.unsent_bytes(slot));
        connection.given += said as u64;
        let waiting = connection.said.add(said + SEND_BYTES, connection.given, taken);
        self.gathered.send_said(&mut self.driver, slot);
        waiting <= SAID_BYTES_MAX
    }

    /// The bytes are not the protocol.
    fn on_broken_frames(&mut self, slot: Slot, failure: Failure, answered: u16, at_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let origin = connection.origin;
        self.ledger.counts().closed_by_us += 1;
        let ended = match connection.outstanding.oldest() {
            Some(oldest) => {
                let why = Why::failure(failure, oldest.stamps.phase());
                self.fail_oldest(slot, why, at_ns);
                1
            }
            None => {
                let phase = if answered > 0 { Phase::Reply } else { Phase::Idle };
                self.count_connection_error(Why::failure(failure, phase), origin, at_ns);
                0
            }
        };
        self.abandon(slot, answered + ended, ErrorKind::ClosedEarly, at_ns);
    }
}
