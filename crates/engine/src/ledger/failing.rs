//! Requests that end without the reply that was due, attempts at them that are not their end, and those without an end.

use super::{Ledger, Stamps};
use crate::ledger::picking::Witness;
use model::LatencyKind;
use model::error_kind::ErrorExample;
use model::request::{Request, RequestEnd};

impl Ledger {
    /// A request that was sent failed. Whether it was a measured one.
    pub fn failed(&mut self, stamps: &Stamps, example: ErrorExample, witness: &impl Witness) -> bool {
        self.look_for_gap(example.at_ns, witness);
        self.outages.failed(self.last_end_ns, example.at_ns);
        let is_measured = self.ended(stamps.intended_ns, example.at_ns, false);
        if is_measured {
            self.count_failure(stamps, example, witness);
        }
        is_measured
    }

    /// A request that was started and never got a connection failed.
    pub fn failed_unsent(&mut self, intended_ns: u64, example: ErrorExample) {
        // It was never in flight: put there, so that it leaves by the same door.
        self.in_flight += 1;
        self.outages.failed(self.last_end_ns, example.at_ns);
        if self.ended(intended_ns, example.at_ns, false) {
            let stamps = Stamps { intended_ns, ready_ns: intended_ns, ..Stamps::default() };
            self.count_failure(&stamps, example, &Request { origin: example.origin, ..Request::default() });
        }
    }

    /// An attempt at a request that was sent failed, and is not its end: another is to follow.
    pub fn attempt_failed(&mut self, at_ns: u64) {
        self.outages.failed(self.last_end_ns, at_ns);
        self.in_flight -= 1;
    }

    /// The same of an attempt that had no connection.
    pub fn attempt_failed_unsent(&mut self, at_ns: u64) {
        self.outages.failed(self.last_end_ns, at_ns);
    }

    /// A further attempt at a started request is on its way.
    pub fn sent_again(&mut self, stamps: &Stamps) {
        if self.in_flight == 0 {
            self.picking.first_in_flight(stamps.sent_ns);
        }
        self.in_flight += 1;
        self.retried(stamps.intended_ns);
    }

    /// There was a further attempt at a started request.
    pub fn retried(&mut self, intended_ns: u64) {
        self.interval.counts.retries += u64::from(self.is_measured(intended_ns));
    }

    /// There would have been one, had the budget allowed it.
    pub fn retry_denied(&mut self, intended_ns: u64) {
        self.interval.counts.retries_denied += u64::from(self.is_measured(intended_ns));
    }

    /// At the end: a request that was started is between two attempts.
    pub fn unfinished_between(&mut self, intended_ns: u64, ready_ns: u64, now_ns: u64, known: &Request) {
        if self.is_measured(intended_ns) {
            let stamps = Stamps { intended_ns, ready_ns, ..Stamps::default() };
            self.picking.failed(&mut self.interval.requests, &stamps, now_ns, RequestEnd::Unfinished, known);
            let latency = &mut self.interval.latency;
            latency.record(LatencyKind::ResponseCensored, now_ns.saturating_sub(intended_ns));
        }
    }

    fn count_failure(&mut self, stamps: &Stamps, example: ErrorExample, witness: &impl Witness) {
        self.interval.latency.record(LatencyKind::Failed, example.at_ns.saturating_sub(stamps.intended_ns));
        self.interval.counts.failed += 1;
        if self.interval.entries.is_on() {
            self.interval.entries.failed(witness.entry(), example.kind);
        }
        let end = RequestEnd::Failed(example.kind);
        self.picking.failed(&mut self.interval.requests, stamps, example.at_ns, end, witness);
        self.interval.record_error(example);
    }

    /// At the end: a request that was sent has no end yet.
    pub fn unfinished(&mut self, stamps: &Stamps, now_ns: u64, witness: &impl Witness) {
        if self.is_measured(stamps.intended_ns) {
            self.picking.failed(&mut self.interval.requests, stamps, now_ns, RequestEnd::Unfinished, witness);
            let latency = &mut self.interval.latency;
            latency.record(LatencyKind::ResponseCensored, now_ns.saturating_sub(stamps.intended_ns));
            latency.record(LatencyKind::ServiceCensored, now_ns.saturating_sub(stamps.sent_ns));
        }
    }

    /// At the end: a request that was started still waits for a connection.
    pub fn unfinished_unsent(&mut self, intended_ns: u64, ready_ns: u64, now_ns: u64, known: &Request) {
        if self.is_measured(intended_ns) {
            let stamps = Stamps { intended_ns, ready_ns, ..Stamps::default() };
            self.picking.failed(&mut self.interval.requests, &stamps, now_ns, RequestEnd::Unfinished, known);
            let latency = &mut self.interval.latency;
            latency.record(LatencyKind::ResponseCensored, now_ns.saturating_sub(intended_ns));
            latency.record(LatencyKind::QueueCensored, now_ns.saturating_sub(ready_ns));
        }
    }
}
