//! Whole runs on the simulated network: one, several together, those of several generators made one.
//! One program, as most of each is the engine on that network, compiled once more.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "in a test, a panic is the report")]

#[path = "../common/mod.rs"]
mod common;

mod generators;
mod hands;
mod simulated;
mod together;
