//! What was measured: intervals with their counts and histograms, events, and all of a run in a recording.
//!
//! Its modules are reached from the root of the crate.

pub mod entries;
pub mod error_kind;
pub mod event;
pub mod histogram;
pub mod integrity;
pub mod interval;
pub mod latency;
pub mod outcomes;
pub mod quantile;
pub mod recording;
pub mod request;
pub mod run_requests;
pub mod split;
pub mod users;
