//! Tests that wait for time to pass rather than use a CPU: of searches, live pages, servers that plimsoll brings and their defects.
//!
//! One program, so that they wait at the same time; `scripts/run-test.sh` runs more of them at once than of others. Whoever
//! needs a generator that is never kept from running does not belong here.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod capacity;
mod defects;
mod live;
mod serve;
mod ui;
