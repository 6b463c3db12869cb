//! Faults, what is done of them, and that all is undone.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod beside;
mod given;
mod isolate;
mod namespaces;
mod recovery;
mod state;
