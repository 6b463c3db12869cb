//! What is asked for: scenario and plan, their parts, and what of them is secret.
//!
//! Its modules are reached from the root of the crate.

pub mod data;
pub mod expectation;
pub mod fault;
pub mod hide;
pub mod on_error;
pub mod payload;
pub mod phase;
pub mod plan;
pub mod rate;
pub mod replies;
pub mod scenario;
pub mod secret;
pub mod template;
pub mod tls;
pub mod workload;

pub use expectation::{abort, finding_expectation};
