//! The data every other crate speaks: scenario, plan, interval, snapshot, event, recording, finding.
//!
//! Data only. No I/O, no clock, no threads, no `unsafe`: what is here can be built, stored, sent and
//! compared without a machine. Behaviour is limited to arithmetic on the data itself (merging two
//! intervals, thinning a timeline, parsing a unit).
#![forbid(unsafe_code)]

pub mod bpf;
pub mod check;
pub mod error_kind;
pub mod event;
pub mod finding;
pub mod hide;
pub mod histogram;
pub mod import;
pub mod interval;
pub mod latency;
pub mod limits;
pub mod metrics;
pub mod plain;
pub mod plan;
pub mod profile;
pub mod readings;
pub mod recording;
pub mod remote;
pub mod resp;
pub mod scenario;
pub mod secret;
pub mod snapshot;
pub mod tls;
pub mod units;
pub mod users;

pub use error_kind::{ErrorKind, Phase};
pub use event::Event;
pub use finding::{Finding, Status};
pub use histogram::Histogram;
pub use interval::{Counts, Interval};
pub use latency::{Kind as LatencyKind, LatencySet};
pub use plan::Plan;
pub use recording::Recording;
pub use scenario::Scenario;
pub use secret::Secret;
pub use snapshot::Snapshot;
