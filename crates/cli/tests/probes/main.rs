//! Probes in the kernel, beside loads.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod events;
mod profiles;
mod waits;
