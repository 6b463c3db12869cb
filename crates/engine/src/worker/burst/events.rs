//! What happens to the members of a burst: connected, answered, lost, timed out; each counted where it belongs.

use super::{BurstWorker, State};
use crate::driver::{Driver, Event, Slot};
use crate::errors::{kind_of_errno, of_tls};
use model::Request;
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use wire::{Failure, Progress, Protocol, Stream};

impl<P: Protocol<Transport = Stream>, D: Driver> BurstWorker<P, D> {
    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected { slot } => {
                self.count_connect_time(slot);
                self.on_connected(slot, None);
            }
            Event::Handshaking { slot } => self.count_connect_time(slot),
            Event::Secured { slot, resumed, .. } => {
                self.ledger.tell(&mut self.driver);
                self.on_connected(slot, Some(resumed));
            }
            Event::Refused { slot, detail, .. } => self.on_refused(slot, detail),
            Event::Truncated { slot } => self.on_lost(slot, 0),
            Event::Ticket { .. } | Event::Drained { .. } => {}
            Event::ConnectFailed { slot, errno } => {
                self.on_connect_failed(slot, kind_of_errno(errno, Phase::Connect), errno);
            }
            Event::Received { slot, at_ns } => self.on_received(slot, at_ns),
            Event::Closed { slot } => self.on_lost(slot, 0),
            Event::Failed { slot, errno } => self.on_lost(slot, errno),
        }
    }

    /// The connection is there; where there is TLS, its handshake begins.
    fn count_connect_time(&mut self, slot: Slot) {
        let now_ns = self.driver.now_ns();
        let member = &mut self.members[slot as usize];
        self.ledger.connect_time(member.connect_ns, now_ns);
        member.connect_ns = now_ns;
    }

    /// It can be used; after a TLS handshake, `resumed` says of which kind.
    fn on_connected(&mut self, slot: Slot, resumed: Option<bool>) {
        let now_ns = self.driver.now_ns();
        let member = &mut self.members[slot as usize];
        member.state = State::Open;
        self.connecting -= 1;
        self.ledger.opened();
        if let Some(resumed) = resumed {
            self.ledger.handshake(resumed, member.connect_ns, member.connect_ns, now_ns);
        }
        if member.request.is_some_and(|request| request.sent.is_none()) {
            self.send(slot);
        }
    }

    /// TLS failed, while the connection was being made or later.
    fn on_refused(&mut self, slot: Slot, detail: u32) {
        let at_ns = self.driver.now_ns();
        self.ledger.tell(&mut self.driver);
        let member = &self.members[slot as usize];
        let is_early = member.state == State::Connecting;
        let has_begun = member.request.is_some_and(|request| request.stamps.first_byte_ns > 0);
        let (kind, phase) = of_tls(detail, is_early, has_begun);
        let failure = Failure { kind, detail };
        if is_early {
            self.connecting -= 1;
            self.ledger.counts().connect_failed += 1;
        } else {
            self.ledger.counts().closed_by_us += 1;
        }
        if !self.fail(slot, failure, phase, 0, at_ns) {
            let phase = if is_early { phase } else { Phase::Idle };
            self.count_connection_error(kind, phase, 0, slot, at_ns);
        }
        self.close(slot);
    }

    fn on_connect_failed(&mut self, slot: Slot, kind: ErrorKind, errno: i32) {
        let at_ns = self.driver.now_ns();
        self.connecting -= 1;
        self.members[slot as usize].state = State::Down;
        self.ledger.counts().connect_failed += 1;
        if !self.fail(slot, Failure { kind, detail: 0 }, Phase::Connect, errno, at_ns) {
            self.count_connection_error(kind, Phase::Connect, errno, slot, at_ns);
        }
    }

    fn on_received(&mut self, slot: Slot, at_ns: u64) {
        self.ledger.counts().bytes_received += self.driver.bytes().len() as u64;
        if P::FRAMED {
            return self.on_frames(slot, at_ns);
        }
        let member = &mut self.members[slot as usize];
        let Some((drawn, request)) = member.request.as_mut().and_then(|r| Some((r.sent?.1, r))) else {
            return self.on_unsolicited(slot, at_ns);
        };
        if request.stamps.first_byte_ns == 0 {
            request.stamps.first_byte_ns = at_ns;
        }
        match self.protocol.feed(&mut member.protocol, drawn, self.driver.bytes()).progress {
            Progress::Reply(reply) => {
                self.on_reply(slot, reply.status, reply.failure, at_ns);
                if !reply.keep {
                    self.hang_up(slot);
                }
            }
            Progress::Broken(failure) => {
                self.fail(slot, failure, Phase::Reply, 0, at_ns);
                self.hang_up(slot);
            }
            // The others are only of a framed protocol.
            _ => {}
        }
    }

    /// Bytes came on a connection of a framed protocol.
    fn on_frames(&mut self, slot: Slot, at_ns: u64) {
        let mut offset = 0;
        while offset < self.driver.bytes().len() {
            let bytes = &self.driver.bytes()[offset..];
            let member = &mut self.members[slot as usize];
            let sent = member.request.as_ref().and_then(|request| request.sent);
            let fed = match sent {
                Some((_, drawn)) => self.protocol.feed(&mut member.protocol, drawn, bytes),
                None => self.protocol.feed_idle(&mut member.protocol, bytes),
            };
            offset += fed.consumed;
            let (number, reply) = match fed.progress {
                Progress::More => return,
                Progress::Reply(reply) => (sent.map(|(number, _)| number), reply),
                Progress::ReplyTo(number, reply) => (Some(number), reply),
                Progress::Begun(number) => {
                    self.begun(slot, number, at_ns);
                    continue;
                }
                Progress::Say | Progress::Came(_) => {
                    self.say(slot);
                    continue;
                }
                Progress::Ending => {
                    member.ends = true;
                    self.say(slot);
                    if sent.is_none() {
                        return self.hang_up(slot);
                    }
                    continue;
                }
                Progress::Broken(failure) => {
                    self.say(slot);
                    if !self.fail(slot, failure, Phase::Reply, 0, at_ns) {
                        self.count_connection_error(failure.kind, Phase::Idle, 0, slot, at_ns);
                    }
                    return self.hang_up(slot);
                }
            };
            let is_due = sent.is_some_and(|(due, _)| Some(due) == number);
            if !is_due {
                return self.on_unsolicited(slot, at_ns);
            }
            self.begun(slot, number.unwrap_or(0), at_ns);
            self.on_reply(slot, reply.status, reply.failure, at_ns);
            if !reply.keep || self.members[slot as usize].ends {
                return self.hang_up(slot);
            }
        }
    }

    /// The reply to a member's request has begun, at the latest.
    fn begun(&mut self, slot: Slot, number: u32, at_ns: u64) {
        if let Some(request) = &mut self.members[slot as usize].request
            && request.sent.is_some_and(|(due, _)| due == number)
            && request.stamps.first_byte_ns == 0
        {
            request.stamps.first_byte_ns = at_ns;
        }
    }

    /// Sends what the protocol has to say.
    fn say(&mut self, slot: Slot) {
        let mut said = self.driver.lend();
        said.reserve(self.protocol.written_bytes_max());
        self.protocol.say(&mut self.members[slot as usize].protocol, &mut said);
        if !said.is_empty() {
            self.driver.send_bytes(slot, said);
        }
    }

    /// Bytes came that nobody asked for.
    fn on_unsolicited(&mut self, slot: Slot, at_ns: u64) {
        // A plan of bursts has no greeting; what frames say first is a part of none.
        let is_first = !P::FRAMED && self.members[slot as usize].sent == 0;
        let kind = if is_first { ErrorKind::SpokeFirst } else { ErrorKind::UnsolicitedReply };
        self.count_connection_error(kind, Phase::Idle, 0, slot, at_ns);
        self.hang_up(slot);
    }

    /// We close a connection.
    fn hang_up(&mut self, slot: Slot) {
        self.ledger.counts().closed_by_us += 1;
        self.close(slot);
    }

    fn on_reply(&mut self, slot: Slot, status: u16, failure: Option<Failure>, at_ns: u64) {
        if let Some(request) = &self.members[slot as usize].request {
            self.ledger.status(&request.stamps, status);
        }
        if let Some(failure) = failure {
            self.fail(slot, failure, Phase::Reply, 0, at_ns);
            return;
        }
        let Some(request) = self.members[slot as usize].request.take() else { return };
        let known = self.known_of(slot);
        self.ledger.succeeded(&request.stamps, at_ns, &known);
    }

    /// The peer closed (`errno` 0) or the connection broke.
    fn on_lost(&mut self, slot: Slot, errno: i32) {
        let at_ns = self.driver.now_ns();
        if self.members[slot as usize].state == State::Connecting {
            // While a TLS handshake was under way.
            self.driver.close(slot);
            return self.on_connect_failed(slot, ErrorKind::TlsHandshake, errno);
        }
        self.ledger.counts().closed_by_peer += 1;
        let kind = if errno == 0 { ErrorKind::ClosedEarly } else { kind_of_errno(errno, Phase::Reply) };
        let member = &mut self.members[slot as usize];
        match member.request.and_then(|request| request.sent).filter(|_| errno == 0) {
            Some((_, drawn)) => match self.protocol.closed(&mut member.protocol, drawn) {
                Progress::Reply(reply) => self.on_reply(slot, reply.status, reply.failure, at_ns),
                Progress::Broken(failure) => drop(self.fail(slot, failure, Phase::FirstByte, 0, at_ns)),
                _ => drop(self.fail(slot, Failure { kind, detail: 0 }, Phase::FirstByte, 0, at_ns)),
            },
            None => {
                if !self.fail(slot, Failure { kind, detail: 0 }, Phase::FirstByte, errno, at_ns) {
                    self.count_connection_error(kind, Phase::Idle, errno, slot, at_ns);
                }
            }
        }
        self.close(slot);
    }

    /// Connects that have taken too long.
    pub(super) fn give_up_connects(&mut self) {
        for slot in 0..self.members.len() as Slot {
            if self.members[slot as usize].state == State::Connecting {
                self.driver.close(slot);
                self.on_connect_failed(slot, ErrorKind::ConnectTimeout, 0);
            }
        }
    }

    /// Requests whose time is over; after an interrupt they are left without an end.
    pub(super) fn time_out(&mut self, deadline_ns: u64) {
        if self.driver.now_ns() < deadline_ns {
            return;
        }
        for slot in 0..self.members.len() as Slot {
            let member = &mut self.members[slot as usize];
            let Some(request) = member.request else { continue };
            let (failure, phase) = match request.sent {
                Some((number, drawn)) => {
                    (self.protocol.timed_out(&mut member.protocol, number, drawn), Phase::FirstByte)
                }
                None => (Failure { kind: ErrorKind::ConnectTimeout, detail: 0 }, Phase::Connect),
            };
            if member.state == State::Connecting {
                self.connecting -= 1;
                self.ledger.counts().connect_failed += 1;
            } else {
                self.ledger.counts().closed_by_us += 1;
            }
            self.fail(slot, failure, phase, 0, deadline_ns);
            self.close(slot);
        }
    }

    /// What is known of a request beside its moments.
    pub(super) fn known_of(&self, slot: Slot) -> Request {
        let member = &self.members[slot as usize];
        let (connect_ns, origin, ordinal) = (member.connect_ns, member.origin, member.sent);
        Request { connection: slot, connect_ns, origin, ordinal, ..Request::default() }
    }

    /// A member's request has failed; `false`: it had none.
    fn fail(&mut self, slot: Slot, failure: Failure, phase: Phase, errno: i32, at_ns: u64) -> bool {
        let member = &mut self.members[slot as usize];
        let Some(request) = member.request.take() else { return false };
        let Failure { kind, detail } = failure;
        let unsent_bytes = if phase == Phase::FirstByte { self.driver.unsent_bytes(slot) } else { 0 };
        let phase = if unsent_bytes > 0 { Phase::Send } else { phase };
        let example = ErrorExample { kind, phase, errno, detail, unsent_bytes, at_ns, origin: member.origin };
        if request.sent.is_some() {
            let known = self.known_of(slot);
            self.ledger.failed(&request.stamps, example, &known);
        } else {
            self.ledger.dequeued();
            self.ledger.failed_unsent(request.stamps.intended_ns, example);
        }
        true
    }

    pub(super) fn close(&mut self, slot: Slot) {
        self.driver.close(slot);
        let member = &mut self.members[slot as usize];
        if member.state == State::Open {
            self.ledger.closed();
        }
        member.state = State::Down;
    }

    fn count_connection_error(&mut self, kind: ErrorKind, phase: Phase, errno: i32, slot: Slot, at_ns: u64) {
        let origin = self.members[slot as usize].origin;
        self.ledger.connection_error(ErrorExample { kind, phase, errno, detail: 0, unsent_bytes: 0, at_ns, origin });
    }
}
