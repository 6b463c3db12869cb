//! Loads of the program, against servers that the tests start.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod expect;
mod first_lines;
mod load;
mod names;
mod requests;
mod resp;
mod run;
mod target;
mod tls;
mod together;
mod unread;
mod websocket;
