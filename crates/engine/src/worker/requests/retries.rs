//! What becomes of a request after an attempt at it failed, where the plan says more than "it has failed" (`--on-error`).
//!
//! A retried request is one request: its moment stays, it is started once and ends once, and each further attempt is counted
//! apart. Between two attempts it is not in flight and not ended. In a closed pace it belongs to its user, who asks for nothing else
//! meanwhile, and to that user's connection; in an open pace to its origin, and waits with those that are due where no
//! connection is free. Under `wait` nothing that has no connection fails.
//!
//! Memory for all of them is taken at the start: one for each place on a connection, and in an open pace as many more as may
//! wait for one; where there is none left, the request fails, as it does without a budget for it. Without a policy nothing
//! here is touched, but for one flag where something has failed.

use super::connection::{InFlight, State};
use super::network::Why;
use super::{Pending, Worker};
use crate::driver::{Driver, Slot, send_request};
use crate::ledger::Stamps;
use crate::timers::Timer;
use model::Request;
use model::error_kind::{ErrorKind, FailureClass};
use model::on_error::OnError;
use model::plan::Plan;
use rand::RngExt;
use wire::{Protocol, Stream};

/// No retry, where the place of one is meant.
pub(super) const NONE: u32 = u32::MAX;

/// A request between two attempts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry<R> {
    /// What was sent; `None`: it never was.
    pub request: Option<R>,
    pub intended_ns: u64,
    pub ready_ns: u64,
    /// Attempts that failed.
    pub failed: u32,
    /// Closed pace: its user's connection.
    pub slot: Slot,
    pub origin: u16,
    /// The next one that is due on the same connection.
    next: u32,
    is_used: bool,
}

/// The requests of a worker that are between two attempts.
#[derive(Debug)]
pub(super) struct Retries<R> {
    policy: OnError,
    all: Vec<Retry<R>>,
    free: Vec<u32>,
    /// Retries that the budget was used for.
    spent: f64,
}

impl<R: Copy> Retries<R> {
    /// Memory for what a plan's policy may need.
    pub fn new(plan: &Plan, connections: usize, is_open_pace: bool) -> Self {
        let policy = if plan.is_handshake_only() { OnError::FailFast } else { plan.on_error };
        let places = connections * usize::from(plan.pipeline);
        let room = match policy {
            OnError::FailFast => 0,
            _ if is_open_pace => places + plan.queue_capacity as usize,
            _ => places,
        };
        let none = Retry {
            request: None,
            intended_ns: 0,
            ready_ns: 0,
            failed: 0,
            slot: 0,
            origin: 0,
            next: NONE,
            is_used: false,
        };
        Retries { policy, all: vec![none; room], free: (0..room as u32).rev().collect(), spent: 0.0 }
    }

    /// How many there can be.
    pub fn room(&self) -> usize {
        self.all.len()
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Whether an attempt that failed may be followed by another at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.policy.is_fail_fast()
    }

    /// Whether requests without a connection wait for one.
    #[inline]
    pub fn waits(&self) -> bool {
        self.policy == OnError::Wait
    }

    fn take(&mut self, at: u32) -> Option<Retry<R>> {
        let place = self.all.get_mut(at as usize).filter(|place| place.is_used)?;
        place.is_used = false;
        self.free.push(at);
        Some(*place)
    }

    fn put(&mut self, retry: Retry<R>) -> Option<u32> {
        let at = self.free.pop()?;
        if let Some(place) = self.all.get_mut(at as usize) {
            *place = Retry { next: NONE, is_used: true, ..retry };
        }
        Some(at)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Retry<R>> {
        self.all.iter().filter(|retry| retry.is_used)
    }
}

impl<P: Protocol<Transport = Stream>, D: Driver> Worker<P, D> {
    /// Whether a request of which so many attempts have failed, the last for this reason, gets another one.
    fn may_retry(&mut self, failed: u32, kind: ErrorKind, intended_ns: u64) -> bool {
        // What is lost is not there at the next attempt either.
        let is_final = kind == ErrorKind::LostWrite;
        if is_final || self.ledger.is_load_over() || self.retries.len() == self.retries.room() {
            return false;
        }
        match self.retries.policy {
            OnError::FailFast => false,
            OnError::Wait => matches!(kind.class(), FailureClass::Refused | FailureClass::Aborted),
            OnError::Retry { times, .. } if failed > times => false,
            OnError::Retry { budget: None, .. } => true,
            OnError::Retry { budget: Some(share), .. } => {
                let started = self.quota_at_first.saturating_sub(self.quota) as f64;
                let is_allowed = self.retries.spent + 1.0 <= share * started;
                if is_allowed {
                    self.retries.spent += 1.0;
                } else {
                    self.ledger.retry_denied(intended_ns);
                }
                is_allowed
            }
        }
    }

    /// An attempt at a request that was sent has failed: whether there is to be another. If so it is no end of the request.
    #[cold]
    pub(super) fn try_again(&mut self, slot: Slot, request: &InFlight<P::Request>, why: Why, at_ns: u64) -> bool {
        let failed = request.failed.saturating_add(1);
        let Stamps { intended_ns, ready_ns, .. } = request.stamps;
        if !self.may_retry(failed, why.kind, intended_ns) {
            return false;
        }
        let connection = &self.connections[slot as usize];
        let origin = connection.origin;
        self.ledger.attempt_failed(at_ns);
        let retry = Retry {
            request: Some(request.request),
            intended_ns,
            ready_ns,
            failed,
            slot,
            origin,
            next: NONE,
            is_used: true,
        };
        self.wait_for_another(retry, at_ns);
        if !self.is_open_pace {
            self.held_back += 1;
        }
        true
    }

    /// A request that was started has failed for want of a connection, at its first attempt or a later one: whether there is
    /// to be another.
    fn try_again_unsent(&mut self, retry: Retry<P::Request>, why: Why, at_ns: u64) -> bool {
        if !self.may_retry(retry.failed, why.kind, retry.intended_ns) {
            return false;
        }
        self.ledger.attempt_failed_unsent(at_ns);
        self.wait_for_another(retry, at_ns);
        true
    }

    /// The request waits as long as the policy says, from now on.
    fn wait_for_another(&mut self, retry: Retry<P::Request>, at_ns: u64) {
        let drawn = self.random.random::<f64>();
        let wait_ns = self.retries.policy.wait_ns(retry.failed, drawn);
        let Some(at) = self.retries.put(retry) else { return };
        if self.retries.waits() && !self.is_open_pace {
            return self.link(at);
        }
        self.timers.push(at_ns.saturating_add(wait_ns), at, Timer::Retry);
    }

    /// A retry is due: it is sent, or waits for a connection.
    pub(super) fn retry_is_due(&mut self, at: u32, now_ns: u64) {
        if self.ledger.is_load_over() {
            // It has no end: see `finish`.
            return;
        }
        let Some(retry) = self.retries.all.get(at as usize).filter(|retry| retry.is_used).copied() else { return };
        if !self.is_open_pace {
            let connection = &self.connections[retry.slot as usize];
            if connection.state == State::Open && connection.takes_more() {
                self.send_again(retry.slot, at, now_ns);
            } else {
                self.link(at);
            }
            return;
        }
        let origin = usize::from(retry.origin);
        if let Some(slot) = self.take_free(origin) {
            self.send_again(slot, at, now_ns);
        } else if self.origins[origin].pending.len() < self.queue_capacity {
            let Retry { intended_ns, .. } = retry;
            self.origins[origin].pending.push_back(Pending { intended_ns, ready_ns: now_ns, retry: at });
            self.ledger.enqueued();
        } else {
            self.retries.take(at);
            let why = Why::kind(ErrorKind::QueueTimeout, model::Phase::Queue);
            self.fail_unsent(retry.origin, retry.intended_ns, why, now_ns);
        }
    }

    /// Sends a request again, on a connection that is open and takes it.
    pub(super) fn send_again(&mut self, slot: Slot, at: u32, now_ns: u64) {
        let Some(retry) = self.retries.take(at) else { return };
        let random = self.random.random::<u64>();
        let connection = &mut self.connections[slot as usize];
        let request = match retry.request {
            Some(request) => request,
            None => self.protocol.next_of_user(&mut connection.protocol, connection.origin, random),
        };
        let number = connection.sent;
        let length = send_request(&mut self.driver, &self.protocol, &mut connection.protocol, slot, number, request);
        let was_idle = connection.outstanding.is_empty();
        let stamps = Stamps::sent(retry.intended_ns, retry.ready_ns, now_ns);
        connection.push_again(request, length, stamps, retry.failed);
        self.ledger.sent_again(&stamps);
        if was_idle {
            self.set_deadline(slot, now_ns.saturating_add(self.reply_timeout_ns));
        }
    }

    /// Closed pace: what is due on a connection is sent, as it is there.
    pub(super) fn due_retries_start(&mut self, slot: Slot, now_ns: u64) {
        loop {
            let connection = &mut self.connections[slot as usize];
            let at = connection.retry;
            if at == NONE || connection.state != State::Open || !connection.takes_more() || self.ledger.is_load_over() {
                return;
            }
            connection.retry = self.retries.all.get(at as usize).map_or(NONE, |retry| retry.next);
            self.send_again(slot, at, now_ns);
        }
    }

    /// Closed pace: a connection could not be had for what is due on it. Under `wait` that is no failure.
    pub(super) fn due_retries_fail(&mut self, slot: Slot, why: Why, now_ns: u64) {
        if self.retries.waits() {
            return;
        }
        let mut at = std::mem::replace(&mut self.connections[slot as usize].retry, NONE);
        while at != NONE {
            let next = self.retries.all.get(at as usize).map_or(NONE, |retry| retry.next);
            self.retry_failed_unsent(at, why, now_ns);
            at = next;
        }
    }

    /// A further attempt had no connection.
    pub(super) fn retry_failed_unsent(&mut self, at: u32, why: Why, now_ns: u64) {
        let Some(retry) = self.retries.take(at) else { return };
        self.ledger.retried(retry.intended_ns);
        let retry = Retry { failed: retry.failed.saturating_add(1), ..retry };
        if !self.try_again_unsent(retry, why, now_ns) {
            self.fail_unsent(retry.origin, retry.intended_ns, why, now_ns);
            if !self.is_open_pace {
                self.users_think(retry.slot, 1, now_ns);
            }
        }
    }

    /// A request that was started, and had no connection at its first attempt. Fails it, or has it wait for another. Whether it
    /// failed.
    pub(super) fn first_attempt_failed(
        &mut self,
        slot: Slot,
        pending: Pending,
        origin: u16,
        why: Why,
        at_ns: u64,
    ) -> bool {
        let Pending { intended_ns, ready_ns, .. } = pending;
        if self.retries.is_on() {
            let retry =
                Retry { request: None, intended_ns, ready_ns, failed: 1, slot, origin, next: NONE, is_used: true };
            if self.try_again_unsent(retry, why, at_ns) {
                return false;
            }
        }
        self.fail_unsent(origin, intended_ns, why, at_ns);
        true
    }

    /// A request that waited for a connection for another attempt has failed.
    pub(super) fn forget_retry(&mut self, at: u32) {
        if at != NONE {
            self.retries.take(at);
        }
    }

    /// At the end: requests between two attempts have none.
    pub(super) fn retries_are_unfinished(&mut self, now_ns: u64) {
        for retry in self.retries.iter() {
            let known = Request { origin: retry.origin, ..Request::default() };
            self.ledger.unfinished_between(retry.intended_ns, retry.ready_ns, now_ns, &known);
            if !self.is_open_pace && self.ledger.is_measured(retry.intended_ns) {
                self.connections[retry.slot as usize].tally.waits_for(retry.intended_ns);
            }
        }
    }

    /// Closed pace: the retry waits for its user's connection.
    fn link(&mut self, at: u32) {
        let Some(retry) = self.retries.all.get_mut(at as usize) else { return };
        let connection = &mut self.connections[retry.slot as usize];
        retry.next = connection.retry;
        connection.retry = at;
    }
}
