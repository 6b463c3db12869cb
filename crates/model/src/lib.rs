//! The data every other crate speaks: scenario, plan, interval, snapshot, event, recording, finding.
//!
//! Data only. No I/O, no clock, no threads, no `unsafe`: what is here can be built, stored, sent and
//! compared without a machine. Behaviour is limited to arithmetic on the data itself (merging two
//! intervals, thinning a timeline, parsing a unit).
#![forbid(unsafe_code)]

pub mod finding;
pub mod limits;
mod load;
mod measured;
pub mod plain;
pub mod recovery;
mod seen;
pub mod slow;
pub mod units;

pub use load::workload::resp;
pub use load::{
    abort, data, expectation, fault, finding_expectation, hide, on_error, payload, phase, plan, rate, replies,
    scenario, secret, template, tls, workload,
};
pub use measured::{
    entries, error_kind, event, histogram, integrity, interval, latency, outcomes, quantile, recording, request,
    run_requests, split, users,
};
pub use seen::{
    bpf, check, courses, exchange, import, metric_kinds, metrics, profile, readings, remote, snapshot, threads, watched,
};

pub use error_kind::{ErrorKind, Phase};
pub use event::Event;
pub use finding::{Finding, Status};
pub use histogram::Histogram;
pub use interval::{Counts, Interval};
pub use latency::{Kind as LatencyKind, LatencySet};
pub use plan::Plan;
pub use recording::{Head, Recording};
pub use request::{Gap, Request};
pub use scenario::Scenario;
pub use secret::Secret;
pub use snapshot::Snapshot;
