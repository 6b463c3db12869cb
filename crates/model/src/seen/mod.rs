//! What was read of the machine and of the target: snapshots, counts of the kernel, stacks, limits and settings.
//!
//! Its modules are reached from the root of the crate.

pub mod bpf;
pub mod check;
pub mod courses;
pub mod exchange;
pub mod import;
pub mod metric_kinds;
pub mod metrics;
pub mod profile;
pub mod readings;
pub mod remote;
pub mod snapshot;
pub mod threads;
pub mod watched;
