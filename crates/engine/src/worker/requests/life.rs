//! The life of a request: due, started, answered or failed, counted.

use super::connection::{InFlight, State};
use super::network::Why;
use super::retries::NONE;
use super::seen::Seen;
use super::{Pending, Worker};
use crate::driver::{Driver, Slot, send_request};
use crate::ledger::{OVERDUE_NS_MAX, Stamps};
use crate::pace::think_ns;
use crate::timers::Timer;
use model::Request;
use model::error_kind::{ErrorKind, Phase};
use model::plan::{OnFull, Think};
use rand::{Rng, RngExt};
use wire::{Failure, Progress, Protocol, Stream};

impl<P: Protocol<Transport = Stream>, D: Driver> Worker<P, D> {
    /// Sends the next request on an open connection. `ready_ns`: when the worker took it up.
    #[inline]
    pub(super) fn start(&mut self, slot: Slot, intended_ns: u64, ready_ns: u64, sent_ns: u64) {
        let random = self.random.next_u64();
        let connection = &mut self.connections[slot as usize];
        let request = self.protocol.next_of_user(&mut connection.protocol, connection.origin, random);
        let (driver, protocol, number) = (&mut self.driver, &self.protocol, connection.sent);
        let length = if protocol.written_bytes_max() > 0 && self.gathered.is_on() {
            self.gathered.request(driver, protocol, &mut connection.protocol, slot, number, request)
        } else {
            send_request(driver, protocol, &mut connection.protocol, slot, number, request)
        };
        let was_idle = connection.outstanding.is_empty();
        let stamps = Stamps::sent(intended_ns, ready_ns, sent_ns);
        connection.push(request, length, stamps);
        self.ledger.sent(&stamps);
        if was_idle {
            self.set_deadline(slot, sent_ns.saturating_add(self.reply_timeout_ns));
        }
    }

    /// Whether the protocol writes anything when it is sent. Of one that does not, the compiler knows it.
    #[inline]
    fn writes(&self) -> bool {
        self.protocol.written_bytes_max() > 0
    }

    /// What follows for one connection is sent together, where the protocol writes its requests.
    #[inline]
    fn gather(&mut self, count: u16) {
        if self.writes() {
            self.gathered.begin(count);
        }
    }

    /// Sends what was gathered, and gathers no more.
    #[inline]
    fn end_gathering(&mut self, slot: Slot) {
        if self.writes() {
            self.gathered.end(&mut self.driver, slot);
        }
    }

    /// Counts a request as started.
    #[inline]
    pub(super) fn count_started(&mut self, intended_ns: u64) {
        self.ledger.started(intended_ns);
        if self.ledger.is_measured(intended_ns) {
            self.quota -= 1;
        }
    }

    /// Whether another request may be started at all.
    #[inline]
    pub(super) fn may_start(&self) -> bool {
        self.quota > 0 && !self.ledger.is_load_over() && !self.protocol.is_used_up()
    }

    pub(super) fn on_received(&mut self, slot: Slot, at_ns: u64) {
        self.ledger.counts().bytes_received += self.driver.bytes().len() as u64;
        if self.connections[slot as usize].state == State::Greeting {
            return self.on_greeted(slot, at_ns);
        }
        if P::FRAMED {
            return self.on_frames(slot, at_ns);
        }
        let mut offset = 0;
        let mut answered = 0u16;
        loop {
            let bytes = &self.driver.bytes()[offset..];
            let connection = &mut self.connections[slot as usize];
            let Some(oldest) = connection.outstanding.oldest() else {
                if !bytes.is_empty() {
                    return self.on_unsolicited(slot, answered, at_ns);
                }
                break;
            };
            if bytes.is_empty() {
                break;
            }
            if oldest.stamps.first_byte_ns == 0 {
                oldest.stamps.first_byte_ns = at_ns;
            }
            let fed = self.protocol.feed(&mut connection.protocol, oldest.request, bytes);
            oldest.received = oldest.received.saturating_add(fed.consumed as u32);
            offset += fed.consumed;
            match fed.progress {
                Progress::Reply(reply) => {
                    connection.answered += 1;
                    answered += 1;
                    // A reply to a request that is still being sent: the rest of it would be taken for the next one, so the
                    // connection ends with it (RFC 9112, section 9.5), on every driver.
                    let is_sent = self.oldest_unsent_bytes(slot) == 0;
                    self.on_reply(slot, reply.status, reply.failure, at_ns);
                    if !reply.keep || !is_sent {
                        return self.on_last_reply(slot, answered, at_ns);
                    }
                }
                Progress::Broken(failure) => {
                    self.ledger.counts().closed_by_us += 1;
                    self.fail_oldest(slot, Why::failure(failure, Phase::Reply), at_ns);
                    return self.abandon(slot, answered + 1, ErrorKind::ClosedEarly, at_ns);
                }
                // The others are only of a framed protocol.
                _ => break,
            }
        }
        if answered > 0 {
            self.after_replies(slot, answered, at_ns);
        }
    }

    /// So many requests of a connection have ended: their places are free, or it has done its part.
    #[inline]
    pub(super) fn after_replies(&mut self, slot: Slot, answered: u16, at_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let is_worn = !connection.takes_more();
        if is_worn && connection.outstanding.is_empty() {
            return self.on_last_reply(slot, answered, at_ns);
        }
        // Of the one that is now the oldest: each has the whole of its own time.
        let deadline_ns = match connection.outstanding.oldest() {
            Some(oldest) => oldest.stamps.sent_ns.saturating_add(self.reply_timeout_ns),
            None => u64::MAX,
        };
        self.set_deadline(slot, deadline_ns);
        if is_worn {
            return self.users_think(slot, answered, at_ns);
        }
        self.places_are_free(slot, answered, at_ns);
    }

    /// Bytes of the oldest request, and of what was given before it, that the kernel is not known to have taken.
    #[inline]
    pub(super) fn oldest_unsent_bytes(&mut self, slot: Slot) -> u64 {
        match self.driver.unsent_bytes(slot) {
            0 => 0,
            all => {
                let connection = &mut self.connections[slot as usize];
                let taken = connection.given.saturating_sub(all);
                connection.outstanding.oldest().map_or(0, |oldest| oldest.ends_at.saturating_sub(taken))
            }
        }
    }

    /// Takes the oldest request's reply into the figures.
    #[inline]
    pub(super) fn on_reply(&mut self, slot: Slot, status: u16, failure: Option<Failure>, at_ns: u64) {
        if let Some(request) = self.connections[slot as usize].outstanding.pop() {
            self.count_reply(slot, &request, status, failure, at_ns);
        }
    }

    /// Takes the reply to a request that is outstanding no more into the figures.
    #[inline]
    pub(super) fn count_reply(
        &mut self,
        slot: Slot,
        request: &InFlight<P::Request>,
        status: u16,
        failure: Option<Failure>,
        at_ns: u64,
    ) {
        self.ledger.status(&request.stamps, status);
        match failure {
            None => {
                let seen =
                    Seen::of(&self.driver, &self.protocol, &self.connections, &self.origins, slot, request, status);
                self.ledger.succeeded(&request.stamps, at_ns, &seen);
            }
            Some(Failure { kind, detail }) => {
                let why = Why::failure(Failure { kind, detail }, Phase::Reply);
                if self.retries.is_on() && self.try_again(slot, request, why, at_ns) {
                    self.connections[slot as usize].before_ns = at_ns.saturating_sub(request.stamps.sent_ns);
                    return;
                }
                let seen =
                    Seen::of(&self.driver, &self.protocol, &self.connections, &self.origins, slot, request, status);
                let example = Self::example(why, self.connections[slot as usize].origin, at_ns);
                self.ledger.failed(&request.stamps, example, &seen);
            }
        }
        let connection = &mut self.connections[slot as usize];
        connection.tally.replied(at_ns);
        connection.before_ns = at_ns.saturating_sub(request.stamps.sent_ns);
    }

    /// The oldest request failed.
    pub(super) fn fail_oldest(&mut self, slot: Slot, why: Why, at_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let origin = connection.origin;
        let Some(request) = connection.outstanding.pop() else { return };
        if self.retries.is_on() && self.try_again(slot, &request, why, at_ns) {
            return;
        }
        let seen = Seen::of(&self.driver, &self.protocol, &self.connections, &self.origins, slot, &request, 0);
        self.ledger.failed(&request.stamps, Self::example(why, origin, at_ns), &seen);
    }

    /// A request that never got a connection failed.
    pub(super) fn fail_unsent(&mut self, origin: u16, intended_ns: u64, why: Why, at_ns: u64) {
        self.ledger.failed_unsent(intended_ns, Self::example(why, origin, at_ns));
    }

    /// `count` places on an open connection can take a request each.
    pub(super) fn places_are_free(&mut self, slot: Slot, count: u16, at_ns: u64) {
        let count = self.without_held_back(count);
        if self.is_open_pace {
            for _ in 0..count {
                self.take_from_queue(slot);
            }
        } else if self.think == Think::None {
            self.gather(count);
            for _ in 0..count {
                if !self.may_start() {
                    break;
                }
                let now_ns = if self.reply_stamps_serve { at_ns } else { self.driver.now_ns() };
                self.count_started(now_ns);
                self.start(slot, now_ns, now_ns, now_ns);
            }
            self.end_gathering(slot);
        } else {
            self.users_think(slot, count, at_ns);
        }
    }

    /// Of so many users whose request has ended those that are free: the others' is to be tried again.
    #[inline]
    fn without_held_back(&mut self, count: u16) -> u16 {
        if self.held_back == 0 { count } else { count.saturating_sub(std::mem::take(&mut self.held_back)) }
    }

    /// Closed pace: users begin to think before their next request; without think time they are due at once.
    pub(super) fn users_think(&mut self, slot: Slot, count: u16, from_ns: u64) {
        let count = self.without_held_back(count);
        if self.is_open_pace || self.ledger.is_load_over() {
            return;
        }
        for _ in 0..count {
            let think_ns = think_ns(self.think, &mut self.random);
            if think_ns == 0 {
                self.user_is_due(slot, from_ns, from_ns);
            } else {
                self.timers.push(from_ns.saturating_add(think_ns), slot, Timer::Think);
            }
        }
    }

    /// Closed pace: a user's request is due now.
    pub(super) fn user_is_due(&mut self, slot: Slot, due_ns: u64, now_ns: u64) {
        if self.handshake_only {
            return self.handshake_is_due(slot, due_ns, now_ns);
        }
        if !self.may_start() {
            return;
        }
        let connection = &mut self.connections[slot as usize];
        if connection.state == State::Open && connection.takes_more() {
            self.ledger.lag(due_ns, now_ns);
            self.count_started(due_ns);
            self.start(slot, due_ns, now_ns, now_ns);
        } else {
            if connection.waiting == 0 {
                connection.waiting_since_ns = due_ns;
            }
            connection.waiting += 1;
        }
    }

    /// Closed pace: the connection is there, users that waited for it send.
    pub(super) fn waiting_users_start(&mut self, slot: Slot, now_ns: u64) {
        if self.retries.len() > 0 {
            self.due_retries_start(slot, now_ns);
        }
        let connection = &mut self.connections[slot as usize];
        // Whoever looked out for the target may be there before the next attempt of these was due.
        let (waiting, since_ns) = (connection.waiting, connection.waiting_since_ns.min(now_ns));
        let room = connection.limit.saturating_sub(connection.sent).min(u32::from(waiting)) as u16;
        connection.waiting -= room;
        self.gather(room);
        for _ in 0..room {
            if !self.may_start() {
                break;
            }
            self.count_started(since_ns);
            self.start(slot, since_ns, since_ns, now_ns);
        }
        self.end_gathering(slot);
    }

    /// Closed pace: users that waited for a connection that cannot be had: their requests have failed.
    pub(super) fn waiting_users_fail(&mut self, slot: Slot, why: Why, now_ns: u64) {
        if self.retries.is_on() {
            self.due_retries_fail(slot, why, now_ns);
            if self.retries.waits() {
                return;
            }
        }
        let connection = &mut self.connections[slot as usize];
        let (waiting, since_ns, origin) = (connection.waiting, connection.waiting_since_ns, connection.origin);
        for _ in 0..waiting {
            if !self.may_start() {
                break;
            }
            self.count_started(since_ns);
            let pending = Pending { intended_ns: since_ns, ready_ns: since_ns, retry: NONE };
            if !self.first_attempt_failed(slot, pending, origin, why, now_ns) {
                self.connections[slot as usize].waiting -= 1;
            }
        }
    }

    /// Closed pace, the load ends: users that wait for a connection have a request under way. It is sent as soon as the connection
    /// is there, as others are answered then; where none is being made, it has no end.
    pub(super) fn waiting_users_are_the_last(&mut self, slot: Slot, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let since_ns = connection.waiting_since_ns;
        // Those that back off after a failure are not due yet.
        let are_due = self.ledger.is_measured(since_ns) && since_ns <= now_ns && !self.protocol.is_used_up();
        connection.waiting = if are_due { u64::from(connection.waiting).min(self.quota) as u16 } else { 0 };
        self.quota -= u64::from(connection.waiting);
        for _ in 0..connection.waiting {
            self.ledger.started(since_ns);
            self.ledger.enqueued();
        }
        if self.handshake_only || !connection.state.is_being_made() {
            self.waiting_users_are_unfinished(slot, now_ns);
        }
    }

    /// Closed pace, after the end of the load: the connection is there for those that had waited for it then.
    pub(super) fn last_users_start(&mut self, slot: Slot, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let since_ns = connection.waiting_since_ns.min(now_ns);
        let room = connection.limit.saturating_sub(connection.sent).min(u32::from(connection.waiting)) as u16;
        for _ in 0..room {
            if self.protocol.is_used_up() {
                return;
            }
            self.connections[slot as usize].waiting -= 1;
            self.ledger.dequeued();
            self.start(slot, since_ns, since_ns, now_ns);
        }
    }

    /// Closed pace, after the end of the load: the connection cannot be had for those that had waited for it then.
    pub(super) fn last_users_fail(&mut self, slot: Slot, why: Why, now_ns: u64) {
        if self.retries.waits() {
            return self.waiting_users_are_unfinished(slot, now_ns);
        }
        let connection = &mut self.connections[slot as usize];
        let (since_ns, origin) = (connection.waiting_since_ns, connection.origin);
        for _ in 0..std::mem::take(&mut connection.waiting) {
            self.ledger.dequeued();
            self.fail_unsent(origin, since_ns, why, now_ns);
        }
    }

    /// Closed pace, after the end of the load: users that wait for a connection will not have one.
    pub(super) fn waiting_users_are_unfinished(&mut self, slot: Slot, now_ns: u64) {
        let connection = &mut self.connections[slot as usize];
        let since_ns = connection.waiting_since_ns;
        let known = Request { origin: connection.origin, ..Request::default() };
        for _ in 0..std::mem::take(&mut connection.waiting) {
            self.ledger.dequeued();
            self.ledger.unfinished_unsent(since_ns, since_ns, now_ns, &known);
            connection.tally.waits_for(since_ns);
        }
    }

    /// Open pace: releases every request that is due, at most `most` of them.
    pub(super) fn release_due(&mut self, mut now_ns: u64, most: usize) {
        for _ in 0..most {
            if !self.may_start() {
                self.next_due_ns = u64::MAX;
                return;
            }
            if self.next_due_ns > now_ns || self.next_due_ns >= self.load_end_ns {
                return;
            }
            let intended_ns = self.take_due();
            self.release(intended_ns, now_ns);
            now_ns = self.driver.now_ns();
        }
    }

    /// Open pace: the load ends now. What is a little overdue is still released; what is more so the worker has not come
    /// to in time, and that is said.
    pub(super) fn release_the_last(&mut self, now_ns: u64) {
        while self.may_start() && self.next_due_ns < self.load_end_ns.min(now_ns) {
            let intended_ns = self.take_due();
            if intended_ns.saturating_add(OVERDUE_NS_MAX) >= now_ns {
                self.release(intended_ns, now_ns);
            } else {
                self.ledger.never_taken_up(intended_ns, now_ns);
                self.quota -= u64::from(self.ledger.is_measured(intended_ns));
            }
        }
    }

    /// Open pace: what is due next is due by the rate that is wanted now.
    #[inline]
    pub(super) fn follow_rate(&mut self) {
        let Some((from_ns, factor)) = self.ledger.control().rate() else { return };
        let changed = self.schedule.as_mut().and_then(|schedule| schedule.change(from_ns, factor));
        // Where no more may be started, none is due.
        if let Some(due_ns) = changed.filter(|_| self.next_due_ns != u64::MAX) {
            self.next_due_ns = due_ns;
        }
    }

    /// The moment that is due next; the one after it takes its place.
    fn take_due(&mut self) -> u64 {
        let next_ns = match &mut self.schedule {
            Some(schedule) => schedule.next(&mut self.random),
            None => u64::MAX,
        };
        std::mem::replace(&mut self.next_due_ns, next_ns)
    }

    /// A due request is taken up: it is sent, waits for a connection, or is dropped.
    fn release(&mut self, intended_ns: u64, now_ns: u64) {
        self.ledger.lag(intended_ns, now_ns);
        let origin = self.draw_origin();
        if let Some(slot) = self.take_free(origin) {
            self.count_started(intended_ns);
            self.take_up(slot, intended_ns, now_ns, now_ns);
        } else if self.on_full == OnFull::Drop || self.origins[origin].pending.len() >= self.queue_capacity {
            self.ledger.dropped(intended_ns);
        } else {
            self.count_started(intended_ns);
            self.origins[origin].pending.push_back(Pending { intended_ns, ready_ns: now_ns, retry: NONE });
            self.ledger.enqueued();
        }
    }

    /// Open pace: a place is there for what is due.
    #[inline]
    fn take_up(&mut self, slot: Slot, intended_ns: u64, ready_ns: u64, now_ns: u64) {
        if self.handshake_only {
            self.begin_handshake(slot, intended_ns, ready_ns, now_ns);
        } else {
            self.start(slot, intended_ns, ready_ns, now_ns);
        }
    }

    /// An origin that this worker has connections to, by its share.
    fn draw_origin(&mut self) -> usize {
        if self.origins.len() == 1 {
            return 0;
        }
        let total: f64 = self.origins.iter().map(|origin| origin.weight).sum();
        let mut at = self.random.random::<f64>() * total;
        let mut drawn = 0;
        for (i, origin) in self.origins.iter().enumerate() {
            if origin.weight <= 0.0 {
                continue;
            }
            drawn = i;
            at -= origin.weight;
            if at < 0.0 {
                break;
            }
        }
        drawn
    }

    /// Open pace: a connection of the origin that can take a request. Places of closed connections are void.
    pub(super) fn take_free(&mut self, origin: usize) -> Option<Slot> {
        while let Some((slot, life)) = self.origins[origin].free.pop_front() {
            let connection = &self.connections[slot as usize];
            let wanted = if self.handshake_only { State::Down } else { State::Open };
            if connection.life == life && connection.state == wanted && connection.takes_more() {
                return Some(slot);
            }
        }
        None
    }

    /// Open pace: gives a free place to the oldest request that waits, or to nobody yet.
    pub(super) fn take_from_queue(&mut self, slot: Slot) {
        let connection = &self.connections[slot as usize];
        let (origin, life) = (usize::from(connection.origin), connection.life);
        // What waits when all that requests are made of is used up has no end: see `is_over`.
        if !connection.takes_more() || self.protocol.is_used_up() {
            return;
        }
        match self.origins[origin].pending.pop_front() {
            Some(pending) => {
                self.ledger.dequeued();
                let now_ns = self.driver.now_ns();
                if pending.retry != NONE {
                    return self.send_again(slot, pending.retry, now_ns);
                }
                self.take_up(slot, pending.intended_ns, pending.ready_ns, now_ns);
            }
            None => self.origins[origin].free.push_back((slot, life)),
        }
    }

    /// Open pace: requests that have waited for a connection as long as for a reply have failed.
    pub(super) fn expire_queued(&mut self, now_ns: u64) {
        if self.retries.waits() {
            return;
        }
        for origin in 0..self.origins.len() {
            while let Some(pending) = self.origins[origin].pending.front().copied() {
                if pending.ready_ns.saturating_add(self.reply_timeout_ns) > now_ns {
                    break;
                }
                self.origins[origin].pending.pop_front();
                self.ledger.dequeued();
                let at_ns = pending.ready_ns.saturating_add(self.reply_timeout_ns);
                let why = Why::kind(ErrorKind::QueueTimeout, Phase::Queue);
                self.forget_retry(pending.retry);
                self.fail_unsent(origin as u16, pending.intended_ns, why, at_ns);
            }
        }
    }

    /// Open pace: the oldest waiting request of an origin that cannot be connected to has failed.
    pub(super) fn fail_one_queued(&mut self, origin: u16, why: Why, now_ns: u64) {
        if self.retries.waits() {
            return;
        }
        if let Some(pending) = self.origins[usize::from(origin)].pending.pop_front() {
            self.ledger.dequeued();
            if pending.retry != NONE {
                return self.retry_failed_unsent(pending.retry, why, now_ns);
            }
            self.first_attempt_failed(0, pending, origin, why, now_ns);
        }
    }
}
