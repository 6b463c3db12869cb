//! What happens to the members of a burst: connected, answered, lost, timed out; each counted where it belongs.

use super::{BurstWorker, State};
use crate::driver::{Driver, Event, Slot};
use crate::errors::kind_of_errno;
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use wire::{Failure, Progress, Protocol};

impl<P: Protocol, D: Driver> BurstWorker<P, D> {
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
        if member.request.is_some_and(|request| request.payload.is_none()) {
            self.send(slot);
        }
    }

    /// TLS failed, while the connection was being made or later.
    fn on_refused(&mut self, slot: Slot, detail: u32) {
        let at_ns = self.driver.now_ns();
        self.ledger.tell(&mut self.driver);
        let failure = Failure { kind: ErrorKind::TlsHandshake, detail };
        if self.members[slot as usize].state == State::Connecting {
            self.connecting -= 1;
            self.ledger.counts().connect_failed += 1;
        } else {
            self.ledger.counts().closed_by_us += 1;
        }
        if !self.fail(slot, failure, Phase::Tls, 0, at_ns) {
            self.count_connection_error(failure.kind, 0, slot, at_ns);
        }
        self.close(slot);
    }

    fn on_connect_failed(&mut self, slot: Slot, kind: ErrorKind, errno: i32) {
        let at_ns = self.driver.now_ns();
        self.connecting -= 1;
        self.members[slot as usize].state = State::Down;
        self.ledger.counts().connect_failed += 1;
        if !self.fail(slot, Failure { kind, detail: 0 }, Phase::Connect, errno, at_ns) {
            self.count_connection_error(kind, errno, slot, at_ns);
        }
    }

    fn on_received(&mut self, slot: Slot, at_ns: u64) {
        self.ledger.counts().bytes_received += self.driver.bytes().len() as u64;
        let member = &mut self.members[slot as usize];
        let Some((payload, request)) = member.request.as_mut().and_then(|r| Some((r.payload?, r))) else {
            self.ledger.counts().closed_by_us += 1;
            self.count_connection_error(ErrorKind::UnsolicitedReply, 0, slot, at_ns);
            return self.close(slot);
        };
        if request.stamps.first_byte_ns == 0 {
            request.stamps.first_byte_ns = at_ns;
        }
        match self.protocol.feed(&mut member.protocol, payload, self.driver.bytes()).progress {
            Progress::More => {}
            Progress::Reply(reply) => {
                self.on_reply(slot, reply.status, reply.failure, at_ns);
                if !reply.keep {
                    self.ledger.counts().closed_by_us += 1;
                    self.close(slot);
                }
            }
            Progress::Broken(failure) => {
                self.fail(slot, failure, Phase::Reply, 0, at_ns);
                self.ledger.counts().closed_by_us += 1;
                self.close(slot);
            }
        }
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
        self.ledger.succeeded(&request.stamps, at_ns);
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
        match member.request.and_then(|request| request.payload).filter(|_| errno == 0) {
            Some(payload) => match self.protocol.closed(&mut member.protocol, payload) {
                Progress::Reply(reply) => self.on_reply(slot, reply.status, reply.failure, at_ns),
                Progress::Broken(failure) => drop(self.fail(slot, failure, Phase::FirstByte, 0, at_ns)),
                Progress::More => drop(self.fail(slot, Failure { kind, detail: 0 }, Phase::FirstByte, 0, at_ns)),
            },
            None => {
                if !self.fail(slot, Failure { kind, detail: 0 }, Phase::FirstByte, errno, at_ns) {
                    self.count_connection_error(kind, errno, slot, at_ns);
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
            let (failure, phase) = match request.payload {
                Some(payload) => (self.protocol.timed_out(&mut member.protocol, payload), Phase::FirstByte),
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

    /// A member's request has failed; `false`: it had none.
    fn fail(&mut self, slot: Slot, failure: Failure, phase: Phase, errno: i32, at_ns: u64) -> bool {
        let member = &mut self.members[slot as usize];
        let Some(request) = member.request.take() else { return false };
        let Failure { kind, detail } = failure;
        let example = ErrorExample { kind, phase, errno, detail, at_ns, origin: member.origin };
        if request.payload.is_some() {
            self.ledger.failed(&request.stamps, example);
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

    fn count_connection_error(&mut self, kind: ErrorKind, errno: i32, slot: Slot, at_ns: u64) {
        let origin = self.members[slot as usize].origin;
        let phase = Phase::Connect;
        self.ledger.connection_error(ErrorExample { kind, phase, errno, detail: 0, at_ns, origin });
    }
}
