//! TLS as the worker sees it: a stretch of a connection's life between TCP and its first request, with its own figures
//! and its own ways to fail; and the pace of runs that ask for nothing but handshakes.
//!
//! There a unit of load is connect, handshake, close. It is taken up like any request, is outstanding on its slot from
//! the connect on, and ends well when the handshake is done. With resumption the connection is kept a moment longer,
//! for the ticket that a later one needs (TLS 1.3 brings it after the handshake); that wait is in no figure.

use super::Worker;
use super::connection::State;
use super::network::Why;
use crate::driver::{Driver, Slot};
use crate::errors::of_tls;
use crate::ledger::Stamps;
use model::error_kind::{ErrorKind, Phase};
use model::plan::Think;
use wire::tls::Fault;
use wire::{Failure, Protocol, Stream};

/// How long a ticket is waited for after a handshake, nanoseconds. A server that sends any sends them at once.
const TICKET_WAIT_NS: u64 = 200_000_000;

impl<P: Protocol<Transport = Stream>, D: Driver> Worker<P, D> {
    /// TCP is there, the handshake has begun.
    pub(super) fn on_handshaking(&mut self, slot: Slot) {
        let now_ns = self.driver.now_ns();
        let connection = &mut self.connections[slot as usize];
        connection.state = State::Securing;
        connection.tcp_ns = now_ns;
        self.ledger.connect_time(connection.connect_ns, now_ns);
    }

    /// The handshake is done.
    pub(super) fn on_secured(&mut self, slot: Slot, resumed: bool, ticket_follows: bool) {
        self.ledger.tell(&mut self.driver);
        let now_ns = self.driver.now_ns();
        let connection = &self.connections[slot as usize];
        self.ledger.handshake(resumed, connection.connect_ns, connection.tcp_ns, now_ns);
        self.on_open(slot, now_ns);
        if self.handshake_only {
            self.on_handshake_done(slot, ticket_follows, now_ns);
        }
    }

    /// TLS failed, in the handshake or after it.
    pub(super) fn on_refused(&mut self, slot: Slot, detail: u32, in_handshake: bool) {
        self.ledger.tell(&mut self.driver);
        let at_ns = self.driver.now_ns();
        let connection = &mut self.connections[slot as usize];
        let begun = connection.outstanding.oldest().is_some_and(|oldest| oldest.stamps.first_byte_ns > 0);
        let (kind, phase) = of_tls(detail, in_handshake, begun);
        let why = Why::failure(Failure { kind, detail }, phase);
        if connection.state != State::Open {
            self.driver.close(slot);
            return self.on_connect_failed(slot, why);
        }
        self.ledger.counts().closed_by_peer += 1;
        let origin = connection.origin;
        let ended = u16::from(!connection.outstanding.is_empty());
        if ended == 0 {
            self.count_connection_error(Why { phase: Phase::Idle, ..why }, origin, at_ns);
        }
        if self.handshake_only {
            return self.close_handshake(slot, at_ns);
        }
        self.fail_oldest(slot, why, at_ns);
        self.abandon(slot, ended, kind, at_ns);
    }

    /// A ticket came: the connection has done all it was kept for.
    pub(super) fn on_ticket(&mut self, slot: Slot) {
        if self.handshake_only && self.connections[slot as usize].state == State::Open {
            self.tickets_come = Some(true);
            let now_ns = self.driver.now_ns();
            self.ledger.counts().closed_by_us += 1;
            self.close_handshake(slot, now_ns);
        }
    }

    /// No ticket came: where none ever did, none is waited for again.
    pub(super) fn on_no_ticket(&mut self, slot: Slot, now_ns: u64) {
        self.tickets_come.get_or_insert(false);
        self.ledger.counts().closed_by_us += 1;
        self.close_handshake(slot, now_ns);
    }

    /// Begins a unit of load: `ready_ns` is when the worker took it up.
    pub(super) fn begin_handshake(&mut self, slot: Slot, intended_ns: u64, ready_ns: u64, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let stamps = Stamps::sent(intended_ns, ready_ns, now_ns);
        connection.await_handshake(stamps);
        self.ledger.sent(&stamps);
        self.connect(slot, now_ns);
    }

    fn on_handshake_done(&mut self, slot: Slot, ticket_follows: bool, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        connection.failures = 0;
        if let Some(unit) = connection.outstanding.oldest() {
            unit.stamps.first_byte_ns = now_ns;
        }
        self.on_reply(slot, 0, None, now_ns);
        if ticket_follows && self.tickets_come != Some(false) && !self.ledger.is_load_over() {
            return self.set_deadline(slot, now_ns.saturating_add(TICKET_WAIT_NS));
        }
        self.ledger.counts().closed_by_us += 1;
        self.close_handshake(slot, now_ns);
    }

    /// Closes what has done its handshake; the slot can take the next.
    pub(super) fn close_handshake(&mut self, slot: Slot, now_ns: u64) {
        self.driver.close(slot);
        let connection = &mut self.connections[slot as usize];
        connection.state = State::Down;
        connection.life = connection.life.wrapping_add(1);
        self.ledger.closed();
        self.set_deadline(slot, u64::MAX);
        self.slot_is_free(slot, now_ns);
    }

    /// A slot without a connection can take the next unit of load.
    pub(super) fn slot_is_free(&mut self, slot: Slot, at_ns: u64) {
        if self.is_open_pace {
            self.take_from_queue(slot);
        } else {
            self.users_think(slot, 1, at_ns);
        }
    }

    /// Closed pace: the next handshake of a slot is due.
    pub(super) fn handshake_is_due(&mut self, slot: Slot, due_ns: u64, now_ns: u64) {
        if !self.may_start() {
            return;
        }
        if self.think != Think::None {
            self.ledger.lag(due_ns, now_ns);
        }
        self.count_started(due_ns);
        self.begin_handshake(slot, due_ns, due_ns.max(now_ns), now_ns);
    }

    /// Why a handshake that took too long failed.
    pub(super) fn handshake_timed_out() -> Why {
        Why::failure(Failure { kind: ErrorKind::TlsHandshake, detail: Fault::TimedOut.number() }, Phase::Tls)
    }
}
