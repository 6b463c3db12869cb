//! Every form of report, over recordings built by hand: one program, for the tests of one fill what another waits for.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

mod capacity;
mod check;
mod common;
mod comparison;
mod flame;
mod html;
mod html_answers;
mod reports;
mod terminal;
mod together;
