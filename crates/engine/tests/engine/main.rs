//! The engine against services good and bad, on epoll, io_uring and the simulated network.
//! One program, since each that drives the engine has most of it compiled once more. Apart are those that count allocations and
//! limits of the whole process.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up is a test that fails")]

#[path = "../common/mod.rs"]
mod common;

mod burst;
mod descriptors;
mod drivers;
mod drivers_unix;
mod hold;
mod hold_websocket;
mod keyed;
mod multiplexed;
mod resp;
mod sending;
mod sim;
mod templates;
mod tls;
mod websocket;
