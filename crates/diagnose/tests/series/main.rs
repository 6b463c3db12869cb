//! What is read out of many: histories, segments, joined requests, comparisons, experiments, series of runs, any recording at all.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod any_recording;
mod comparisons;
mod experiments;
mod history;
mod saved_history;
mod segments;
mod split;
mod trend;
