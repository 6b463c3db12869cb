//! One run: from a scenario to a plan, and (with engine, observe and store) from a plan to a recording.
//!
//! `resolve` is pure but for what it asks of its `Host`.
#![forbid(unsafe_code)]

pub mod resolve;
