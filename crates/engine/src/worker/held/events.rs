//! What happens to held connections: made, answered, lost, timed out; each counted where it belongs.

use super::pending::{NOTHING, Pending};
use super::{Held, HoldWorker, State};
use crate::driver::{Driver, Event, Slot};
use crate::errors::{kind_of_errno, of_tls};
use crate::ledger::Stamps;
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use wire::{Failure, Progress, Protocol};

impl<D: Driver> HoldWorker<D> {
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
                let kind = kind_of_errno(errno, Phase::Connect);
                let now_ns = self.driver.now_ns();
                self.on_connect_failed(slot, kind, errno, now_ns);
            }
            Event::Received { slot, at_ns } => self.on_received(slot, at_ns),
            Event::Closed { slot } => self.on_lost(slot, 0),
            Event::Failed { slot, errno } => self.on_lost(slot, errno),
        }
    }

    /// The connection is there; where there is TLS, its handshake begins.
    fn count_connect_time(&mut self, slot: Slot) {
        let now_ns = self.driver.now_ns();
        if let Some(connect) = self.waiting.get_mut(self.held[slot as usize].pending) {
            connect.stamps.first_byte_ns = now_ns;
            self.ledger.connect_time(connect.stamps.sent_ns, now_ns);
        }
    }

    /// It can be used; after a TLS handshake, `resumed` says of which kind.
    fn on_connected(&mut self, slot: Slot, resumed: Option<bool>) {
        let now_ns = self.driver.now_ns();
        self.connecting -= 1;
        if let (Some(connect), Some(resumed)) = (self.take_pending(slot), resumed) {
            let Stamps { sent_ns, first_byte_ns, .. } = connect.stamps;
            self.ledger.handshake(resumed, sent_ns, first_byte_ns, now_ns);
        }
        self.driver.rest(slot);
        self.held[slot as usize].state = State::Open;
        self.ledger.opened();
    }

    /// TLS failed, while the connection was being made or later.
    fn on_refused(&mut self, slot: Slot, detail: u32) {
        let now_ns = self.driver.now_ns();
        self.ledger.tell(&mut self.driver);
        let is_early = self.held[slot as usize].state == State::Connecting;
        let message = self.waiting.get_mut(self.held[slot as usize].pending);
        let is_idle = message.is_none();
        let has_begun = message.is_some_and(|message| message.stamps.first_byte_ns > 0);
        let (kind, phase) = of_tls(detail, is_early, has_begun);
        if is_early {
            self.driver.close(slot);
            self.on_connect_failed(slot, kind, 0, now_ns);
            self.explain(kind, phase, detail);
        } else {
            self.ledger.counts().closed_by_us += 1;
            if is_idle {
                self.count_connection_error(kind, Phase::Idle, 0, now_ns);
                self.explain(kind, Phase::Idle, detail);
            }
            self.message_failed(slot, Failure { kind, detail }, phase, 0, now_ns);
            self.lose(slot);
        }
    }

    /// Says of the first failure of a kind what it was.
    fn explain(&mut self, kind: ErrorKind, phase: Phase, detail: u32) {
        if let Some(example) = self.ledger.example_mut(kind)
            && example.detail == 0
        {
            (example.phase, example.detail) = (phase, detail);
        }
    }

    fn on_connect_failed(&mut self, slot: Slot, kind: ErrorKind, errno: i32, now_ns: u64) {
        self.connecting -= 1;
        self.take_pending(slot);
        self.held[slot as usize].state = State::Gone;
        self.ledger.counts().connect_failed += 1;
        self.count_connection_error(kind, Phase::Connect, errno, now_ns);
        self.something_gave();
    }

    fn on_received(&mut self, slot: Slot, at_ns: u64) {
        let length = self.driver.bytes().len();
        let place = self.held[slot as usize].pending;
        let Some(message) = self.waiting.get_mut(place) else {
            self.ledger.counts().bytes_received += length as u64;
            if self.is_echoed {
                // Nobody asked for these.
                self.ledger.counts().closed_by_us += 1;
                self.count_connection_error(ErrorKind::UnsolicitedReply, Phase::Idle, 0, at_ns);
                self.lose(slot);
            }
            return;
        };
        if self.ledger.is_measured(message.stamps.intended_ns) {
            self.ledger.counts().bytes_received += length as u64;
        }
        let (Some(payload), Some(reply)) = (message.payload, &mut message.reply) else { return };
        if message.stamps.first_byte_ns == 0 {
            message.stamps.first_byte_ns = at_ns;
        }
        match self.protocol.feed(reply, payload, self.driver.bytes()).progress {
            Progress::Reply(_) => {
                self.driver.rest(slot);
                self.message_is_done(slot, at_ns);
            }
            Progress::Broken(failure) => {
                self.ledger.counts().closed_by_us += 1;
                self.message_failed(slot, failure, Phase::Reply, 0, at_ns);
                self.lose(slot);
            }
            // An echo is nothing else.
            _ => {}
        }
    }

    /// The message of a connection has ended well.
    pub(super) fn message_is_done(&mut self, slot: Slot, at_ns: u64) {
        let Some(message) = self.take_pending(slot) else { return };
        self.ledger.succeeded(&message.stamps, at_ns);
    }

    fn message_failed(&mut self, slot: Slot, failure: Failure, phase: Phase, errno: i32, at_ns: u64) {
        let Some(message) = self.take_pending(slot) else { return };
        let Failure { kind, detail } = failure;
        let unsent_bytes = if phase == Phase::FirstByte { self.driver.unsent_bytes(slot) } else { 0 };
        let phase = if unsent_bytes > 0 { Phase::Send } else { phase };
        if !self
            .ledger
            .failed(&message.stamps, ErrorExample { kind, phase, errno, detail, unsent_bytes, at_ns, origin: 0 })
        {
            // Its connection is lost, whatever becomes of the message.
            return self.count_connection_error(kind, phase, errno, at_ns);
        }
        self.something_gave();
    }

    /// The peer closed (`errno` 0) or the connection broke.
    fn on_lost(&mut self, slot: Slot, errno: i32) {
        let at_ns = self.driver.now_ns();
        if self.held[slot as usize].state == State::Connecting {
            // While a TLS handshake was under way.
            self.driver.close(slot);
            return self.on_connect_failed(slot, ErrorKind::TlsHandshake, errno, at_ns);
        }
        self.ledger.counts().closed_by_peer += 1;
        let kind = if errno == 0 { ErrorKind::ClosedEarly } else { kind_of_errno(errno, Phase::Reply) };
        match self.waiting.get_mut(self.held[slot as usize].pending) {
            Some(Pending { payload: Some(payload), reply: Some(reply), .. }) if errno == 0 => {
                let failure = match self.protocol.closed(reply, *payload) {
                    Progress::Broken(failure) => failure,
                    _ => Failure { kind, detail: 0 },
                };
                self.message_failed(slot, failure, Phase::FirstByte, 0, at_ns);
            }
            Some(_) => self.message_failed(slot, Failure { kind, detail: 0 }, Phase::FirstByte, errno, at_ns),
            None => self.count_connection_error(kind, Phase::Idle, errno, at_ns),
        }
        self.lose(slot);
        self.something_gave();
    }

    /// Connects and replies that have taken too long.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((deadline_ns, pending)) = self.waiting.expired(now_ns) {
            let slot = pending.slot;
            match (pending.payload, pending.reply) {
                (Some(payload), Some(mut reply)) => {
                    let failure = self.protocol.timed_out(&mut reply, 0, payload);
                    // It enters at its timeout, not at the later moment the worker saw it.
                    self.message_failed(slot, failure, Phase::FirstByte, 0, deadline_ns);
                    self.ledger.counts().closed_by_us += 1;
                    self.lose(slot);
                }
                _ => {
                    self.driver.close(slot);
                    self.on_connect_failed(slot, ErrorKind::ConnectTimeout, 0, deadline_ns);
                }
            }
        }
        self.waiting.tidy();
    }

    /// Closes a connection that was open; it stays gone.
    fn lose(&mut self, slot: Slot) {
        self.driver.close(slot);
        let held = &mut self.held[slot as usize];
        if held.state == State::Open {
            self.ledger.closed();
        }
        held.state = State::Gone;
    }

    fn take_pending(&mut self, slot: Slot) -> Option<Pending> {
        let held: &mut Held = &mut self.held[slot as usize];
        let place = std::mem::replace(&mut held.pending, NOTHING);
        self.waiting.take(place)
    }

    /// Connections were being added to see what gives: this did.
    fn something_gave(&self) {
        if self.until_failure {
            self.ledger.control().end_ramp();
        }
    }

    fn count_connection_error(&mut self, kind: ErrorKind, phase: Phase, errno: i32, at_ns: u64) {
        self.ledger.connection_error(ErrorExample { kind, phase, errno, detail: 0, unsent_bytes: 0, at_ns, origin: 0 });
    }
}
