//! Files of recordings: cut, damaged, hostile, killed in the midst, merged, joined. Not how much memory they take, which is
//! counted in a program of its own (`round_trip`).
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]
#![allow(clippy::print_stdout, reason = "a victim says what it has kept, and a test why it skips")]

#[path = "../common/mod.rs"]
mod common;

mod cut;
mod damage;
mod hostile;
mod index;
mod joining;
mod kill;
mod merging;
mod profiles;
