//! What is made of recordings: kept, merged, imported, drawn, judged, confirmed, watched.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod confirm;
mod diagnose;
mod experiment;
mod html;
mod import;
mod merge;
mod recordings;
mod watch;
