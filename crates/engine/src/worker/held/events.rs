//! What happens to held connections: made, answered, lost, timed out; each counted where it belongs.

use super::pending::{NOTHING, Pending};
use super::{HoldWorker, State};
use crate::driver::{Driver, Event, Slot};
use crate::errors::{kind_of_errno, of_tls};
use crate::ledger::Stamps;
use model::error_kind::{ErrorExample, ErrorKind, Phase};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use wire::{Failure, Progress, Protocol, Stream};

/// What tells the randomness of greetings from that of messages.
const GREETING_SEED: u64 = 0x6772_6565_7469_6e67;

impl<P: Protocol<Transport = Stream>, D: Driver> HoldWorker<P, D> {
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
                let now_ns = self.driver.now_ns();
                let kind = kind_of_errno(errno, Phase::Connect);
                let why = ErrorExample { errno, ..self.example(slot, kind, Phase::Connect, now_ns) };
                self.on_connect_failed(slot, why);
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

    /// It is there, TLS included; after a TLS handshake, `resumed` says of which kind. What the protocol says first goes
    /// first.
    fn on_connected(&mut self, slot: Slot, resumed: Option<bool>) {
        let now_ns = self.driver.now_ns();
        if let (Some(connect), Some(resumed)) = (self.take_pending(slot), resumed) {
            let Stamps { sent_ns, first_byte_ns, .. } = connect.stamps;
            self.ledger.handshake(resumed, sent_ns, first_byte_ns, now_ns);
        }
        // Of its own seed, so that whether a protocol greets changes nothing in what is drawn for messages.
        let random = SmallRng::seed_from_u64(self.seed ^ (u64::from(slot) << 32) ^ GREETING_SEED).next_u64();
        let origin = self.origin_of(slot);
        self.protocol.greeting(&mut self.talks[slot as usize], origin, random, &mut self.said);
        if self.said.is_empty() {
            return self.on_usable(slot);
        }
        let deadline_ns = now_ns.saturating_add(self.connect_timeout_ns);
        let held = &mut self.held[slot as usize];
        held.pending = self.waiting.push(Pending::connect(slot, now_ns), deadline_ns);
        held.state = State::Greeting;
        self.speak(slot);
    }

    /// It can be used.
    pub(super) fn on_usable(&mut self, slot: Slot) {
        self.connecting -= 1;
        self.driver.rest(slot);
        self.held[slot as usize].state = State::Open;
        self.ledger.opened();
    }

    /// TLS failed, while the connection was being made or later.
    fn on_refused(&mut self, slot: Slot, detail: u32) {
        let now_ns = self.driver.now_ns();
        self.ledger.tell(&mut self.driver);
        let state = self.held[slot as usize].state;
        let message = self.waiting.get_mut(self.held[slot as usize].pending);
        let is_idle = message.is_none();
        let has_begun = message.is_some_and(|message| message.stamps.first_byte_ns > 0);
        let (kind, phase) = of_tls(detail, state == State::Connecting, has_begun);
        let why = ErrorExample { detail, ..self.example(slot, kind, phase, now_ns) };
        if state != State::Open {
            self.driver.close(slot);
            return self.on_connect_failed(slot, why);
        }
        self.ledger.counts().closed_by_us += 1;
        if is_idle {
            self.ledger.connection_error(ErrorExample { phase: Phase::Idle, ..why });
        }
        self.message_failed(slot, why);
        self.lose(slot);
    }

    /// It could not be made: by the kernel's word, by TLS's, by the protocol's, or by our deadline. It has no socket any more.
    pub(super) fn on_connect_failed(&mut self, slot: Slot, why: ErrorExample) {
        self.connecting -= 1;
        self.take_pending(slot);
        self.held[slot as usize].state = State::Gone;
        self.ledger.counts().connect_failed += 1;
        self.ledger.connection_error(why);
        self.something_gave();
    }

    /// The message of a connection has ended well.
    pub(super) fn message_is_done(&mut self, slot: Slot, at_ns: u64) {
        let Some(message) = self.take_pending(slot) else { return };
        self.ledger.succeeded(&message.stamps, at_ns, &self.known_of(slot));
    }

    /// The message of a connection has failed, if there is one.
    pub(super) fn message_failed(&mut self, slot: Slot, why: ErrorExample) {
        let Some(message) = self.take_pending(slot) else { return };
        let unsent_bytes = if why.phase == Phase::FirstByte { self.driver.unsent_bytes(slot) } else { 0 };
        let phase = if unsent_bytes > 0 { Phase::Send } else { why.phase };
        let known = self.known_of(slot);
        if !self.ledger.failed(&message.stamps, ErrorExample { phase, unsent_bytes, ..why }, &known) {
            // Its connection is lost, whatever becomes of the message.
            return self.ledger.connection_error(ErrorExample { phase, ..why });
        }
        self.something_gave();
    }

    /// The peer closed (`errno` 0) or the connection broke.
    fn on_lost(&mut self, slot: Slot, errno: i32) {
        let at_ns = self.driver.now_ns();
        let state = self.held[slot as usize].state;
        if state != State::Open {
            self.driver.close(slot);
            let kind = match (state, errno) {
                (State::Greeting, 0) => ErrorKind::ClosedEarly,
                (State::Greeting, errno) => kind_of_errno(errno, Phase::Connect),
                // While a TLS handshake was under way.
                _ => ErrorKind::TlsHandshake,
            };
            let why = ErrorExample { errno, ..self.example(slot, kind, Phase::Connect, at_ns) };
            return self.on_connect_failed(slot, why);
        }
        let request = self.waiting.get_mut(self.held[slot as usize].pending).and_then(|message| message.request);
        let of_kernel = if errno == 0 { ErrorKind::ClosedEarly } else { kind_of_errno(errno, Phase::Reply) };
        let mut failure = Failure { kind: of_kernel, detail: 0 };
        if errno == 0 && (request.is_some() || P::FRAMED) {
            let talk = &mut self.talks[slot as usize];
            if let Progress::Broken(said) = self.protocol.closed(talk, request.unwrap_or_default()) {
                failure = said;
            }
        }
        self.ledger.counts().closed_by_peer += 1;
        self.end(slot, failure, Phase::FirstByte, errno, at_ns);
    }

    /// An open connection ends with this failure: its message's, or its own where it has none. `phase`: where the message was.
    pub(super) fn end(&mut self, slot: Slot, failure: Failure, phase: Phase, errno: i32, at_ns: u64) {
        let outcome = self.protocol.outcome_of_end(failure);
        if outcome != 0 {
            self.ledger.outcome(outcome);
        }
        let is_idle = self.held[slot as usize].pending == NOTHING;
        let phase = if is_idle { Phase::Idle } else { phase };
        let Failure { kind, detail } = failure;
        let why = ErrorExample { errno, detail, ..self.example(slot, kind, phase, at_ns) };
        if is_idle {
            self.ledger.connection_error(why);
        } else {
            self.message_failed(slot, why);
        }
        self.lose(slot);
        self.something_gave();
    }

    /// Connects, greetings and replies that have taken too long.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((deadline_ns, pending)) = self.waiting.expired(now_ns) {
            let slot = pending.slot;
            // Each enters at its timeout, not at the later moment the worker saw it.
            if let Some(request) = pending.request {
                let failure = self.protocol.timed_out(&mut self.talks[slot as usize], 0, request);
                self.ledger.counts().closed_by_us += 1;
                self.end(slot, failure, Phase::FirstByte, 0, deadline_ns);
            } else {
                self.driver.close(slot);
                let why = self.example(slot, ErrorKind::ConnectTimeout, Phase::Connect, deadline_ns);
                self.on_connect_failed(slot, why);
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

    pub(super) fn take_pending(&mut self, slot: Slot) -> Option<Pending<P::Request>> {
        let place = std::mem::replace(&mut self.held[slot as usize].pending, NOTHING);
        self.waiting.take(place)
    }

    /// Connections were being added to see what gives: this did.
    fn something_gave(&self) {
        if self.until_failure {
            self.ledger.control().end_ramp();
        }
    }

    /// A failure by its kind alone.
    pub(super) fn example(&self, slot: Slot, kind: ErrorKind, phase: Phase, at_ns: u64) -> ErrorExample {
        let origin = self.origin_of(slot);
        ErrorExample { kind, phase, errno: 0, detail: 0, unsent_bytes: 0, at_ns, origin }
    }
}
