//! Puts load: pace × source × machine × driver × stop.
//!
//! A worker per thread, each with its own driver, connections, timers, histograms and seed; nothing is shared. Workers
//! hand full intervals to the session and get empty ones back ([`link`]). What this crate does not do: resolve names,
//! read the host, write to disk, draw.

pub mod burst;
pub mod driver;
pub mod errors;
pub mod fleet;
pub mod hold;
pub mod link;
pub mod pace;
mod seat;
pub mod share;
pub mod timers;
pub mod tls;
pub mod worker;

pub use fleet::{Fleet, StartError};
pub use link::{Control, Finished, Message};
