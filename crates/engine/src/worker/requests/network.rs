//! The life of a connection: connect, lose, back off, connect again; deadlines.

use super::Worker;
use super::connection::State;
use crate::driver::{Driver, Slot};
use crate::errors::kind_of_errno;
use crate::ledger::Ledger;
use crate::timers::Timer;
use model::error_kind::{ErrorKind, Phase};
use model::limits::LOOKOUT_NS;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use wire::tls::Fault;
use wire::{Failure, Progress, Protocol, Stream};

/// What tells the randomness of greetings from that of requests.
const GREETING_SEED: u64 = 0x6772_6565_7469_6e67;

/// The connection that looks out for a target that is gone.
const LOOKOUT: Slot = 0;

/// Why a connection could not be had, as facts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Why {
    pub kind: ErrorKind,
    pub phase: Phase,
    pub errno: i32,
    pub detail: u32,
    /// Bytes of the request that had not been sent.
    pub unsent_bytes: u64,
}

impl Why {
    /// By the kernel's word.
    pub fn errno(errno: i32, phase: Phase) -> Self {
        Why { kind: kind_of_errno(errno, phase), phase, errno, detail: 0, unsent_bytes: 0 }
    }

    /// By the protocol's word.
    pub fn failure(failure: Failure, phase: Phase) -> Self {
        Why { kind: failure.kind, phase, errno: 0, detail: failure.detail, unsent_bytes: 0 }
    }

    /// By its kind alone.
    pub fn kind(kind: ErrorKind, phase: Phase) -> Self {
        Why { kind, phase, errno: 0, detail: 0, unsent_bytes: 0 }
    }

    /// A request of which so much had not been sent was still being sent, whatever it waited for else.
    pub fn with_unsent(self, unsent_bytes: u64) -> Self {
        match unsent_bytes {
            0 => self,
            _ => Why { phase: Phase::Send, unsent_bytes, ..self },
        }
    }
}

impl<P: Protocol<Transport = Stream>, D: Driver> Worker<P, D> {
    /// Begins to connect.
    pub(super) fn connect(&mut self, slot: Slot, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let (first, count) = self.origins[usize::from(connection.origin)].addresses;
        let address = first + (connection.address_turn % count) as usize;
        connection.state = State::Connecting;
        connection.connect_ns = now_ns;
        let protocol = self.protocol.renewed(&mut connection.protocol);
        connection.begin_life(protocol, self.requests_per_connection);
        self.connecting += 1;
        self.set_deadline(slot, now_ns.saturating_add(self.connect_timeout_ns));
        self.driver.connect(slot, address);
    }

    pub(super) fn on_connected(&mut self, slot: Slot) {
        let now_ns = self.driver.now_ns();
        self.ledger.connect_time(self.connections[slot as usize].connect_ns, now_ns);
        self.on_open(slot, now_ns);
    }

    /// The connection is there, TLS included: requests follow, or first a greeting.
    pub(super) fn on_open(&mut self, slot: Slot, now_ns: u64) {
        if !self.handshake_only {
            let connection = &mut self.connections[slot as usize];
            // Of its own seed, so that whether a protocol greets changes nothing in what is drawn for requests.
            let seed = self.seed ^ (u64::from(slot) << 32) ^ u64::from(connection.life) ^ GREETING_SEED;
            let random = SmallRng::seed_from_u64(seed).next_u64();
            let said = self.gathered.with_room();
            self.protocol.greeting(&mut connection.protocol, connection.origin, random, said);
            if !said.is_empty() {
                connection.state = State::Greeting;
                connection.given += said.len() as u64;
                self.gathered.send(&mut self.driver, slot);
                return self.set_deadline(slot, now_ns.saturating_add(self.connect_timeout_ns));
            }
        }
        self.on_usable(slot, now_ns);
    }

    /// Bytes came that answer the greeting.
    #[cold]
    pub(super) fn on_greeted(&mut self, slot: Slot, at_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let bytes = self.driver.bytes();
        let fed = self.protocol.greeted(&mut connection.protocol, connection.origin, bytes);
        let has_more = fed.consumed < bytes.len();
        match fed.progress {
            Progress::Reply(_) if has_more && !P::FRAMED => {
                self.refuse(slot, Why::kind(ErrorKind::UnsolicitedReply, Phase::Connect));
            }
            Progress::Reply(_) if has_more => {
                // Read before the first request leaves: none of it can be a reply.
                match self.on_frames_of_greeting(slot, fed.consumed) {
                    Ok(()) => self.on_usable(slot, at_ns),
                    Err(why) => self.refuse(slot, why),
                }
            }
            Progress::Reply(_) => self.on_usable(slot, at_ns),
            Progress::Broken(failure) => self.refuse(slot, Why::failure(failure, Phase::Connect)),
            // The others are of what follows a greeting.
            _ => {}
        }
    }

    /// A connection that is there cannot be used.
    fn refuse(&mut self, slot: Slot, why: Why) {
        self.driver.close(slot);
        self.on_connect_failed(slot, why);
    }

    /// The connection can take requests.
    fn on_usable(&mut self, slot: Slot, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        connection.state = State::Open;
        connection.life = connection.life.wrapping_add(1);
        self.connecting -= 1;
        self.ledger.opened();
        self.set_deadline(slot, u64::MAX);
        if self.handshake_only {
            return;
        }
        if self.is_open_pace {
            self.places_are_free(slot, self.pipeline, now_ns);
        } else if self.ledger.is_load_over() {
            self.last_users_start(slot, now_ns);
        } else {
            self.waiting_users_start(slot, now_ns);
        }
    }

    /// A connect failed: by the kernel's word, by TLS's, or by our deadline.
    pub(super) fn on_connect_failed(&mut self, slot: Slot, why: Why) {
        let now_ns = self.driver.now_ns();
        if slot == LOOKOUT && now_ns < self.lookout_until_ns {
            return self.look_out(now_ns);
        }
        let connection = &mut self.connections[slot as usize];
        let origin = connection.origin;
        let addresses = self.origins[usize::from(origin)].addresses.1;
        connection.state = State::Down;
        connection.failures = connection.failures.saturating_add(1);
        self.connecting -= 1;
        // A name with several addresses: the next one is tried at once, and only when all have failed has the request.
        connection.address_turn = connection.address_turn.wrapping_add(1);
        let all_failed = connection.failures.is_multiple_of(addresses);
        self.ledger.counts().connect_failed += 1;
        self.set_deadline(slot, u64::MAX);
        if !all_failed {
            self.count_connection_error(why, origin, now_ns);
            if !self.ledger.is_load_over() || self.connections[slot as usize].waiting > 0 {
                self.connect(slot, now_ns);
            }
            return;
        }
        let requests_ended = |ledger: &mut Ledger| ledger.counts().failed + ledger.counts().warmup;
        let ended_before = requests_ended(&mut self.ledger);
        if self.handshake_only {
            self.fail_oldest(slot, why, now_ns);
        } else if self.is_open_pace {
            self.fail_one_queued(origin, why, now_ns);
        } else if self.ledger.is_load_over() {
            self.last_users_fail(slot, why, now_ns);
        } else {
            self.waiting_users_fail(slot, why, now_ns);
        }
        if requests_ended(&mut self.ledger) == ended_before {
            self.count_connection_error(why, origin, now_ns);
        }
        self.connect_later(slot, now_ns);
    }

    /// The peer closed its side; `truncated`: without TLS's word that this was all.
    pub(super) fn on_closed(&mut self, slot: Slot, truncated: bool) {
        let at_ns = self.driver.now_ns();
        if self.handshake_only {
            self.ledger.counts().closed_by_peer += 1;
            return self.close_handshake(slot, at_ns);
        }
        if self.connections[slot as usize].state == State::Greeting {
            let kind = ErrorKind::ClosedEarly;
            return self.refuse(slot, Why::kind(kind, Phase::Connect));
        }
        let connection = &mut self.connections[slot as usize];
        self.ledger.counts().closed_by_peer += 1;
        let Some(oldest) = connection.outstanding.oldest() else {
            return self.abandon(slot, 0, ErrorKind::ClosedEarly, at_ns);
        };
        let (request, phase) = (oldest.request, oldest.stamps.phase());
        let ended = match self.protocol.closed(&mut connection.protocol, request) {
            Progress::Reply(_) if truncated => {
                // Only the close could have said that the reply was whole, and this one does not.
                let failure = Failure { kind: ErrorKind::ClosedEarly, detail: Fault::Truncated.number() };
                self.fail_oldest(slot, Why::failure(failure, Phase::Reply), at_ns);
                1
            }
            Progress::Reply(reply) => {
                connection.answered += 1;
                self.on_reply(slot, reply.status, reply.failure, at_ns);
                1
            }
            Progress::Broken(failure) => {
                let why = Why::failure(failure, phase).with_unsent(self.oldest_unsent_bytes(slot));
                self.fail_oldest(slot, why, at_ns);
                1
            }
            _ => 0,
        };
        self.abandon(slot, ended, ErrorKind::ClosedEarly, at_ns);
    }

    /// The connection broke.
    pub(super) fn on_broken(&mut self, slot: Slot, errno: i32) {
        let at_ns = self.driver.now_ns();
        let connection = &mut self.connections[slot as usize];
        match connection.state {
            State::Securing => return self.refuse(slot, Why::errno(errno, Phase::Tls)),
            State::Greeting => return self.refuse(slot, Why::errno(errno, Phase::Connect)),
            State::Down | State::Connecting | State::Open => {}
        }
        self.ledger.counts().closed_by_peer += 1;
        if self.handshake_only {
            return self.close_handshake(slot, at_ns);
        }
        let phase = connection.outstanding.oldest().map_or(Phase::FirstByte, |oldest| oldest.stamps.phase());
        let ended = u16::from(!connection.outstanding.is_empty());
        let why = Why::errno(errno, phase).with_unsent(self.oldest_unsent_bytes(slot));
        self.fail_oldest(slot, why, at_ns);
        self.abandon_with(slot, ended, why.kind, errno, at_ns);
    }

    /// Bytes came that nobody asked for.
    pub(super) fn on_unsolicited(&mut self, slot: Slot, answered: u16, at_ns: u64) {
        let connection = &self.connections[slot as usize];
        let origin = connection.origin;
        let kind = if connection.given == 0 { ErrorKind::SpokeFirst } else { ErrorKind::UnsolicitedReply };
        // Behind a reply in the same read, or later, when nothing was asked.
        let phase = if answered > 0 { Phase::Reply } else { Phase::Idle };
        self.count_connection_error(Why::kind(kind, phase), origin, at_ns);
        self.ledger.counts().closed_by_us += 1;
        self.abandon(slot, answered, kind, at_ns);
    }

    /// The connection has given its last reply: by the peer's word or by our limit.
    pub(super) fn on_last_reply(&mut self, slot: Slot, answered: u16, at_ns: u64) {
        self.ledger.counts().closed_by_us += 1;
        self.abandon(slot, answered, ErrorKind::ClosedEarly, at_ns);
    }

    /// Gives a connection up; `ended` users of it had their request end already, the others' fail with `kind`.
    pub(super) fn abandon(&mut self, slot: Slot, ended: u16, kind: ErrorKind, at_ns: u64) {
        self.abandon_with(slot, ended, kind, 0, at_ns);
    }

    fn abandon_with(&mut self, slot: Slot, mut ended: u16, kind: ErrorKind, errno: i32, at_ns: u64) {
        self.driver.close(slot);
        while let Some(oldest) = self.connections[slot as usize].outstanding.oldest() {
            let why = Why { kind, phase: oldest.stamps.phase(), errno, detail: 0, unsent_bytes: 0 };
            self.fail_oldest(slot, why, at_ns);
            ended += 1;
        }
        let connection = &mut self.connections[slot as usize];
        match connection.state {
            State::Open => self.ledger.closed(),
            State::Connecting | State::Securing | State::Greeting => self.connecting -= 1,
            State::Down => {}
        }
        connection.state = State::Down;
        connection.life = connection.life.wrapping_add(1);
        // A life in which nothing was even asked is a failure to connect in all but name: back off, or we would spin. Else
        // the next one begins at once, as a user's would, however this one ended.
        connection.failures = if connection.sent > 0 { 0 } else { connection.failures.saturating_add(1) };
        let failures = connection.failures;
        self.set_deadline(slot, u64::MAX);
        self.users_think(slot, ended, at_ns);
        if failures == 0 {
            let has_load = self.quota > 0 || self.ledger.queued() > 0 || self.retries.len() > 0;
            let is_wanted =
                if self.ledger.is_load_over() { self.connections[slot as usize].waiting > 0 } else { has_load };
            if is_wanted {
                let now_ns = self.driver.now_ns();
                self.connect(slot, now_ns);
            }
        } else if self.ledger.is_load_over() {
            self.waiting_users_are_unfinished(slot, at_ns);
        } else {
            self.connect_later(slot, at_ns);
        }
    }

    /// Connects after a backoff that doubles with each failure in a row.
    fn connect_later(&mut self, slot: Slot, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let rounds = connection.failures / self.origins[usize::from(connection.origin)].addresses.1;
        let doublings = rounds.saturating_sub(1).min(32);
        let wait_ns = self.backoff_first_ns.saturating_mul(1 << doublings).min(self.backoff_max_ns);
        let at_ns = now_ns.saturating_add(wait_ns);
        if connection.waiting > 0 && !self.retries.waits() {
            // Their requests have just failed; the next ones are due when there is another attempt.
            connection.waiting_since_ns = connection.waiting_since_ns.max(at_ns);
        }
        // Where nothing is left, nobody would know when the target is back but to within the backoff.
        let is_lookout = slot == LOOKOUT && self.looks_out && self.ledger.open() == 0 && self.ledger.last_end_ns() > 0;
        if slot == LOOKOUT {
            self.lookout_until_ns = if is_lookout { at_ns } else { 0 };
        }
        let at_ns = if is_lookout { at_ns.min(now_ns.saturating_add(LOOKOUT_NS)) } else { at_ns };
        self.timers.push(at_ns, slot, Timer::Connect);
    }

    /// The connection that looks out for the target was refused before it was due to try for its users: their requests do not
    /// fail by it, and it counts as no attempt of theirs.
    #[cold]
    fn look_out(&mut self, now_ns: u64) {
        let connection = &mut self.connections[LOOKOUT as usize];
        connection.state = State::Down;
        connection.address_turn = connection.address_turn.wrapping_add(1);
        self.connecting -= 1;
        self.set_deadline(LOOKOUT, u64::MAX);
        let at_ns = self.lookout_until_ns.min(now_ns.saturating_add(LOOKOUT_NS));
        self.timers.push(at_ns, LOOKOUT, Timer::Connect);
    }

    /// Sets when the connection will have taken too long.
    #[inline]
    pub(super) fn set_deadline(&mut self, slot: Slot, deadline_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        connection.deadline_ns = deadline_ns;
        if deadline_ns < connection.timer_ns {
            connection.timer_ns = deadline_ns;
            self.timers.push(deadline_ns, slot, Timer::Deadline);
        }
    }

    pub(super) fn on_deadline(&mut self, slot: Slot, due_ns: u64, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        if connection.timer_ns != due_ns {
            return;
        }
        connection.timer_ns = u64::MAX;
        let deadline_ns = connection.deadline_ns;
        if deadline_ns == u64::MAX {
            return;
        }
        if deadline_ns > now_ns {
            return self.set_deadline(slot, deadline_ns);
        }
        match connection.state {
            State::Connecting | State::Greeting => {
                let kind = ErrorKind::ConnectTimeout;
                self.refuse(slot, Why::kind(kind, Phase::Connect));
            }
            State::Securing => {
                self.driver.close(slot);
                self.on_connect_failed(slot, Self::handshake_timed_out());
            }
            State::Open if self.handshake_only => self.on_no_ticket(slot, now_ns),
            State::Open => {
                let Some(oldest) = connection.outstanding.oldest() else { return };
                let (request, number, stamps) = (oldest.request, oldest.number, oldest.stamps);
                let failure = self.protocol.timed_out(&mut connection.protocol, number, request);
                // One that has brought nothing since is as good as gone, whatever the protocol.
                let may_go_on = P::FRAMED && connection.heard_ns > stamps.sent_ns;
                let goes_on = may_go_on && self.protocol.gives_up(&mut connection.protocol, number);
                // It enters at its timeout, not at the later moment the worker saw it.
                let why = Why::failure(failure, stamps.phase()).with_unsent(self.oldest_unsent_bytes(slot));
                self.fail_oldest(slot, why, deadline_ns);
                if goes_on {
                    return self.go_on_without(slot, now_ns);
                }
                self.ledger.counts().closed_by_us += 1;
                self.abandon(slot, 1, ErrorKind::ReplyTimeout, now_ns);
            }
            State::Down => {}
        }
    }

    /// Counts what befell a connection while no request was its to fail.
    pub(super) fn count_connection_error(&mut self, why: Why, origin: u16, at_ns: u64) {
        self.ledger.connection_error(Self::example(why, origin, at_ns));
    }
}
