//! Single requests and gaps, as the document has them.

use crate::figures::{common_gaps, s, us};
use model::Recording;
use model::request::{Gap, Request};
use schemars::JsonSchema;
use serde::Serialize;

/// So many of each are in the document; all that are kept are in the CSV.
const SHOWN: usize = 20;

/// Single requests that were kept of all that were made, and the longest pauses.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SingleRequests {
    /// Requests that ended, of which the sample was drawn.
    pub drawn_from: u64,
    /// Requests in the uniform sample (`plimsoll report RUN --requests FILE` writes them).
    pub sampled: u64,
    /// The slowest successes, the slowest first; at most twenty.
    pub slowest: Vec<SingleRequest>,
    /// Requests without the reply that was due, oldest first; a sample, at most twenty.
    pub failed: Vec<SingleRequest>,
    /// Spans in which no request ended on any worker though each had some under way, from 5 ms on, the longest first; at most
    /// twenty.
    pub gaps: Vec<SingleGap>,
}

/// One request. Moments are seconds since the run's start.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SingleRequest {
    /// When it was due.
    pub due_s: f64,
    /// From when it was due to its end, microseconds.
    pub response_us: f64,
    /// From when it was due until the worker took it up: the generator's own, microseconds.
    pub lag_us: f64,
    /// Waiting for a free connection, microseconds; null: it never was sent.
    pub queue_us: Option<f64>,
    /// From when it was sent to the first byte of its reply, microseconds; null: none came.
    pub first_byte_us: Option<f64>,
    /// From when it was sent to its end, microseconds; null: it never was sent.
    pub service_us: Option<f64>,
    /// Service time of the request before it on its connection, microseconds; null: it was the first.
    pub before_us: Option<f64>,
    /// When its connection was begun.
    pub connect_s: f64,
    /// Its worker.
    pub worker: u16,
    /// The place of its connection at that worker.
    pub connection: u32,
    /// Which connection of that place: a number that changes with each new one.
    pub life: u32,
    /// Which request of its connection, from 1 on.
    pub ordinal: u32,
    /// Its origin, by its place in the plan.
    pub origin: u16,
    /// Which of the origin's addresses, from 0 on.
    pub address: u16,
    /// Which URL or command, by its place in the plan.
    pub entry: u16,
    /// Bytes sent.
    pub sent_bytes: u32,
    /// Bytes received.
    pub received_bytes: u32,
    /// The outcome that its reply stated, such as a status; 0: none.
    pub outcome: u16,
    /// `ok`, `unfinished`, or the kind of failure.
    pub end: &'static str,
}

/// A pause of all replies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SingleGap {
    /// When it began, seconds since the run's start.
    pub from_s: f64,
    /// How long it was, microseconds.
    pub length_us: f64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Connections they were on.
    pub connections: u64,
    /// Connections established.
    pub open: u64,
    /// How much of it a worker may have caused itself, by waiting for a CPU or waking late, microseconds: at most.
    pub own_us_max: f64,
}

impl SingleRequests {
    /// Those of a recording.
    pub fn of(recording: &Recording) -> Self {
        let requests = &recording.requests;
        let mut slowest: Vec<&Request> = requests.slowest().collect();
        slowest.sort_by_key(|request| (std::cmp::Reverse(request.response_ns()), request.intended_ns));
        SingleRequests {
            drawn_from: requests.drawn_from(),
            sampled: requests.sampled().count() as u64,
            slowest: slowest.into_iter().take(SHOWN).map(SingleRequest::of).collect(),
            failed: requests.failed().take(SHOWN).map(SingleRequest::of).collect(),
            gaps: common_gaps(recording).iter().take(SHOWN).map(SingleGap::of).collect(),
        }
    }
}

impl SingleRequest {
    /// One that was kept.
    pub fn of(request: &Request) -> Self {
        let sent = |ns: u64| (request.sent_ns > 0).then(|| us(ns));
        SingleRequest {
            due_s: s(request.intended_ns),
            response_us: us(request.response_ns()),
            lag_us: us(request.ready_ns.saturating_sub(request.intended_ns)),
            queue_us: sent(request.sent_ns.saturating_sub(request.ready_ns)),
            first_byte_us: (request.first_byte_ns > 0)
                .then(|| us(request.first_byte_ns.saturating_sub(request.sent_ns))),
            service_us: request.service_ns().map(us),
            before_us: request.before_ns.map(us),
            connect_s: s(request.connect_ns),
            worker: request.worker,
            connection: request.connection,
            life: request.life,
            ordinal: request.ordinal,
            origin: request.origin,
            address: request.address,
            entry: request.entry,
            sent_bytes: request.sent_bytes,
            received_bytes: request.received_bytes,
            outcome: request.outcome,
            end: request.end.name(),
        }
    }
}

impl SingleGap {
    fn of(gap: &Gap) -> Self {
        SingleGap {
            from_s: s(gap.from_ns),
            length_us: us(gap.length_ns()),
            in_flight: gap.in_flight,
            connections: gap.connections,
            open: gap.open,
            own_us_max: us(gap.own_ns_max),
        }
    }
}
